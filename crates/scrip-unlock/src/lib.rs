//! The unlock sources: services and devices that wrap the vault key.
//!
//! A source receives the vault key and returns bytes that only the same source can turn back into
//! the vault key. The crate knows how to ask each source. It does not know which sources a vault
//! uses, and it stores nothing.

mod source;

pub use crate::source::{UnlockContext, UnlockError, UnlockFuture, UnlockSource};
