//! Storage engines. None of them sees plaintext; all of them pass one conformance suite.

pub mod claims;
mod facets;
pub mod postgres;
mod rules;
mod sql;
pub mod sqlite;
mod stores;
pub mod transfer;
mod uses;

pub use crate::{
    postgres::PostgresStore,
    sqlite::{Pages, SqliteStore},
};
