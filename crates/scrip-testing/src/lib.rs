//! Shared test and bench support: the in-memory model of a store, clocks, fault injection,
//! harnesses, and real PostgreSQL and Redis servers. The program does not depend on this crate.

#![expect(
    missing_debug_implementations,
    reason = "harnesses contain closures and engines and are never printed"
)]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a failed setup fails the test with a panic message"
)]

pub mod clock;
pub mod contract;
pub mod destination;
pub mod directory_server;
pub mod faults;
pub mod memory;
pub mod policy;
pub mod postgres;
pub mod process;
pub mod random;
pub mod requests;
pub mod store_harness;
pub mod vault;
pub mod vault_harness;

pub use crate::memory::{MemorySnapshot, MemoryStore};
