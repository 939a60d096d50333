//! Storage engines. None of them sees plaintext; all of them pass one conformance suite.

mod claims;
pub mod memory;
pub mod sqlite;

pub use crate::{
    memory::MemoryStore,
    sqlite::{Pages, SqliteStore},
};
