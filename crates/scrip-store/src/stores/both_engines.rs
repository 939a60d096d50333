//! One implementation of a store trait for both engines.

/// Implements a store trait for both engines with the same methods. They call engine methods with
/// the same names, such as `for_tenant` and `write`.
macro_rules! for_both_engines {
    (impl $store:ident { $($methods:tt)* }) => {
        impl $store for $crate::sqlite::SqliteStore { $($methods)* }

        impl $store for $crate::postgres::PostgresStore { $($methods)* }
    };
}
pub(crate) use for_both_engines;
