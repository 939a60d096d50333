//! The vault: its domain types and operations, independent of HTTP and of the storage engine.
//!
//! Architecture invariant: no HTTP, no SQL, no algorithm, no ambient time or randomness in this
//! crate.
//!
//! The modules import each other in one direction. Bottom first:
//!
//! - Values: [`types`], [`card`], [`work_meter`], [`unlock`], [`approval`].
//! - Rules: [`policy`], [`equality`], [`token`], [`expression`], [`disclosure`].
//! - Records: [`audit`], [`events`], [`read_log`], [`idempotency`], [`listing`], [`token_batch`],
//!   [`threeds`], [`change`], [`keys`].
//! - Storage: [`store`] with the traits that engines implement, [`log_tasks`], and [`vault`] with all
//!   dependencies of an operation.
//! - Operations: [`recording`], `reveal`, `writes`, `policy_change`, `threeds_session`, and
//!   [`operations`] with one file for each.

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

            pub fn as_str(self) -> &'static str {
                match self { $(Self::$Variant => $word,)* }
            }

            pub fn parse(text: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|it| it.as_str() == text)
            }
        }
    };
}

/// `Debug` prints the name of these types and nothing of their content, which is confidential.
macro_rules! hide_in_debug {
    ($($Name:ident),+) => { $(
        impl std::fmt::Debug for $Name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(stringify!($Name))
            }
        }
    )+ };
}

pub mod approval;
pub mod audit;
pub mod card;
pub mod change;
pub mod disclosure;
pub mod equality;
pub mod events;
pub mod expression;
pub mod idempotency;
pub mod keys;
pub mod listing;
pub mod log_tasks;
pub mod operations;
pub mod policy;
pub(crate) mod policy_change;
pub mod read_log;
pub mod recording;
pub(crate) mod reveal;
pub mod store;
pub mod threeds;
pub(crate) mod threeds_session;
pub mod token;
pub mod token_batch;
pub mod types;
pub mod unlock;
pub mod vault;
pub mod work_meter;
pub(crate) mod writes;

pub use self::{
    types::{error::Error, time::Timestamp},
    vault::Vault,
};
pub use crate::types::attribute_path::FieldError;
