//! Fault injection: stores and directory servers that do what a test decides.

pub mod intercepted_store;
pub mod schedule;
pub mod store_fault;
