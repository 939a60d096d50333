//! Store traits with the same implementation for both engines, and the statements that only they need.

/// Implements a store trait for both engines with the same methods. They call engine methods with
/// the same names, such as `for_tenant` and `write`.
macro_rules! for_both_engines {
    (impl $store:ident { $($methods:tt)* }) => {
        impl $store for $crate::sqlite::SqliteStore { $($methods)* }

        impl $store for $crate::postgres::PostgresStore { $($methods)* }
    };
}

pub(crate) mod access_sessions;
mod approvals;
mod deliveries;
mod idempotency;
mod key_rotations;
mod listing;
mod logs;
mod policy;
mod threeds_sessions;
mod token_intents;
mod unlocks;
mod usage;
