//! Storage engines. No engine sees plaintext, and every engine passes the same conformance suite.

pub mod claims;
mod health;
mod migrations;
mod policy_turns;
pub mod postgres;
pub mod sealed_columns;
mod shared;
mod sql;
pub mod sqlite;
#[cfg(test)]
mod statement_files;
mod stores;
pub mod tables;
pub mod transfer;

pub use crate::{
    postgres::PostgresStore,
    sqlite::{PageMode, SqliteStore},
};
