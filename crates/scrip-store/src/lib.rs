//! Storage engines. None of them sees plaintext; all of them pass one conformance suite.

mod claims;
mod facets;
pub mod memory;
pub mod postgres;
mod shared;
mod sql;
pub mod sqlite;
pub mod transfer;
mod uses;

pub use crate::{
    memory::{MemorySnapshot, MemoryStore},
    postgres::PostgresStore,
    sqlite::{Pages, SqliteStore},
};
