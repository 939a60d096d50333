//! The storage traits. Engines implement them; they never see plaintext.

mod access_sessions;
mod audit;
pub mod commit_extras;
pub mod deliveries;
mod directory;
pub mod error;
pub mod guesses;
mod idempotency;
mod listing;
mod maintenance;
mod policy;
mod threeds_sessions;
mod token_intents;
mod tokens;
mod usage;

pub use self::commit_extras::{ChangeOutcome, CommitExtras};
pub use self::deliveries::DeliveryStore;
pub use self::guesses::GuessStore;
pub use self::{
    access_sessions::AccessSessionStore,
    audit::AuditStore,
    directory::{DirectoryStore, approvals::ApprovalStore, unlocks::UnlockStore},
    idempotency::IdempotencyStore,
    listing::ListingStore,
    maintenance::Maintenance,
    policy::{PolicyStore, key_rotations, key_rotations::KeyRotationStore},
    threeds_sessions::ThreeDsSessionStore,
    token_intents::TokenIntentStore,
    tokens::TokenStore,
    usage::UsageStore,
};

pub(crate) use self::error::IN_FLIGHT;
pub use self::error::{StoreError, StoreFuture};

pub use self::maintenance::{ExpiringEntity, StoreCondition, StoreStatus};

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
