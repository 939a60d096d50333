//! The vault: its domain types and operations, independent of HTTP and of the storage engine.
//!
//! Architecture invariant: no HTTP, no SQL, no algorithm, no ambient time or randomness in this
//! crate.

/// Declares an enum with a text for each value, as in requests, responses, rows and metrics. Append
/// new values at the end: some files store the index in `ALL`.
macro_rules! words {
    (
        $(#[$meta:meta])*
        pub enum $Name:ident { $($(#[$about:meta])* $Variant:ident = $word:expr,)* }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $Name { $($(#[$about])* $Variant,)* }

        impl $Name {
            pub const ALL: [Self; [$($Name::$Variant,)*].len()] = [$(Self::$Variant,)*];

            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$Variant => $word,)* }
            }

            #[must_use]
            pub fn parse(text: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|it| it.as_str() == text)
            }
        }
    };
}

pub mod audit;
pub mod card;
pub mod error;
pub mod id;
pub mod idempotency;
pub mod listing;
pub mod metrics;
pub mod operations;
pub mod policy;
pub mod store;
pub mod threeds;
pub mod time;
pub mod token;
pub mod vault;

pub use self::{
    audit::event,
    error::{Error, FieldError},
    policy::{proxy, tenant::key_rotation, webhook},
    time::Timestamp,
    vault::Vault,
};
