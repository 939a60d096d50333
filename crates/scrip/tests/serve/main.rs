//! `scrip serve` and the operator commands, tested through the real program and real sockets.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a failed expectation fails the test"
)]

mod audit;
mod keys;
mod network;
mod operator;
mod process;
#[cfg(target_os = "linux")]
mod storage;
mod telemetry;
mod terminal;
mod threeds_sessions;
mod upgrade;

/// The program under test.
pub(crate) const SCRIP: &str = env!("CARGO_BIN_EXE_scrip");
