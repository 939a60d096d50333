//! Fault injection: stores and directory servers controlled by a test.

pub mod intercepted_store;
pub mod schedule;
pub mod store_fault;
