//! What the vault needs kept. Engines implement this; they are not trusted with plaintext.

mod access_sessions;
mod answers;
mod audit;
pub mod commit_extras;
mod directory;
pub mod error;
mod events;
pub mod guesses;
mod listing;
mod maintenance;
mod policy;
mod sessions;
mod token_intents;
mod tokens;
mod usage;

pub use self::commit_extras::{Beside, Changed};
pub use self::guesses::GuessStore;
pub use self::{
    access_sessions::AccessSessionStore, answers::AnswerStore, audit::AuditStore,
    directory::DirectoryStore, events::EventStore, listing::ListingStore, maintenance::Maintenance,
    policy::PolicyStore, sessions::SessionStore, token_intents::TokenIntentStore,
    tokens::TokenStore, usage::UsageStore,
};

pub(crate) use self::error::IN_FLIGHT;
pub use self::error::{StoreError, StoreFuture};

pub use self::maintenance::{Ending, StoreStatus};

/// All of these concerns together.
macro_rules! store {
    ($($concern:ident)+) => {
        /// All that the vault stores. An engine implements the traits of the concerns, each in a
        /// file of its own.
        pub trait Store: $($concern +)+ {}

        impl<T: $($concern +)+> Store for T {}
    };
}

store! {
    TokenStore ListingStore TokenIntentStore AnswerStore DirectoryStore PolicyStore
    AccessSessionStore SessionStore EventStore AuditStore UsageStore Maintenance GuessStore
}
