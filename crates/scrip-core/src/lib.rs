//! What the vault does, without saying how it is reached or where it keeps things.
//!
//! Architecture invariant: no HTTP, no SQL, no algorithm, no ambient time or randomness in this
//! crate.

pub mod audit;
pub mod card;
pub mod error;
pub mod id;
pub mod idempotency;
pub mod listing;
pub mod measure;
pub mod operations;
pub mod policy;
pub mod store;
pub mod threeds;
pub mod time;
pub mod token;
pub mod vault;
mod words;

pub use self::{
    error::{Error, FieldError},
    time::Timestamp,
    vault::Vault,
};
