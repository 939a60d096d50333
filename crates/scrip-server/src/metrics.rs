//! The metrics page: metrics, access control, and its listener.

mod collect;
pub mod endpoint;
pub mod listener;
mod page;
mod table;
