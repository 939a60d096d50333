//! What both engines need to run statements: parameters, columns, and the traits that shared code
//! uses to read and write.
//!
//! A statement for both engines is written once, with the parameters `$1`, `$2` and so on.
//! PostgreSQL reads them as numbers. SQLite reads them as names and numbers them by first
//! appearance, so they must appear in order; `sqlite/engine/statement.rs` checks that.

mod column;
mod dialect;
mod key_versions;
mod parameter;
mod statements;

pub(crate) use crate::sql::{
    column::{ColumnReader, EntityColumns, MISSING_COLUMNS, read_optional, read_required},
    dialect::{BatchDelete, Outcome},
    key_versions::{KeyVersions, SealedAge},
    parameter::{Parameter, parameters},
    statements::{Execute, Statements, WriteTransaction, run_sync_future},
};
