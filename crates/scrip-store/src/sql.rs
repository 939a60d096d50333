//! What both engines have in common when they run a statement: parameters, columns, and the traits
//! by which shared code reads and writes.
//!
//! A statement that both engines take is written once, with `$1`, `$2` and so on as its parameters.
//! PostgreSQL numbers them so. SQLite takes them for names and numbers these by their first
//! appearance: so they appear in order, which `sqlite/engine/statement.rs` checks.

mod column;
mod dialect;
mod parameter;
mod statements;

pub(crate) use crate::sql::{
    column::{ColumnReader, MISSING_COLUMNS, optional, required},
    dialect::{DeleteSome, Outcome, delete_some, for_both_engines},
    parameter::{Parameter, parameters},
    statements::{Execute, NO_LAST_EVENT, Statements, WriteTransaction, run_ready},
};
