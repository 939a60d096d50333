//! What the vault does, without saying how it is reached or where it keeps things.
//!
//! Architecture invariant: no HTTP, no SQL, no algorithm, no ambient time or randomness in this
//! crate.

/// An enumeration with the word of each value, as requests, responses, rows and metrics have it.
/// New values go to the end: some files store the place of a value in `ALL`.
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
    error::{Error, FieldError},
    time::Timestamp,
    vault::Vault,
};
