//! The embedded engine: one SQLite file with one writer and concurrent readers.

mod audit;
mod engine;
pub(crate) mod maintenance;
mod opening;
pub(crate) mod policy;
mod store;
pub(crate) mod tokens;
pub mod transfer;

pub use crate::sqlite::{
    audit::verify, engine::connection::PageMode, maintenance::backup, store::SqliteStore,
};
