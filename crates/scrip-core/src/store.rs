//! The storage traits. Engines implement them; they never see plaintext.

mod access_sessions;
mod audit;
pub mod deliveries;
mod directory;
mod idempotency;
mod maintenance;
mod policy;
mod threeds_sessions;
mod tokens;
mod usage;

pub use self::{
    access_sessions::AccessSessionStore,
    audit::AuditStore,
    deliveries::DeliveryStore,
    directory::{ApprovalStore, DirectoryStore, UnlockStore, open_directory},
    idempotency::IdempotencyStore,
    maintenance::{ExpiringEntity, Maintenance, StoreCondition, StoreStatus},
    policy::{
        PolicyStore,
        key_rotations::{
            DigestChanges, FinishedPass, KeyRotationStore, RotationLease, RotationMark,
            RotationStep, VersionPage,
        },
    },
    threeds_sessions::ThreeDsSessionStore,
    tokens::{ListingStore, TokenIntentStore, TokenStore},
    usage::{TenantUsage, TokenTypeUsage, UsageStore},
};

use crate::equality::GuessStore;

/// All storage traits together.
macro_rules! store {
    ($($concern:ident)+) => {
        /// Everything that the vault stores. An engine implements each trait in its own file.
        pub trait Store: $($concern +)+ {}

        impl<T: $($concern +)+> Store for T {}
    };
}

store! {
    TokenStore ListingStore TokenIntentStore IdempotencyStore DirectoryStore PolicyStore
    AccessSessionStore ThreeDsSessionStore DeliveryStore AuditStore UsageStore Maintenance GuessStore
    KeyRotationStore UnlockStore ApprovalStore
}
