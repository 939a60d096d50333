//! What tests and the bench share: the in-memory model of a store, clocks, fault injection, harnesses,
//! and real PostgreSQL and Redis servers. No part of the program depends on this crate.

#![expect(
    missing_debug_implementations,
    reason = "harnesses hold closures and engines, which nobody prints"
)]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot be set up fails, and the panic says why"
)]

pub mod clock;
pub mod contract;
pub mod directory_server;
pub mod faults;
pub mod memory;
pub mod policy;
pub mod postgres;
pub mod process;
pub mod random;
pub mod redis;
pub mod requests;
pub mod store_harness;
pub mod vault;
pub mod vault_harness;

pub use crate::memory::{MemorySnapshot, MemoryStore};
