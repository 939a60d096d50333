//! `scrip serve` and what belongs to it, through the real program and real sockets.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test says what it expects by failing"
)]

mod audit;
mod network;
mod operator;
mod process;
mod telemetry;
mod threeds_sessions;

/// The program under test.
pub(crate) const SCRIP: &str = env!("CARGO_BIN_EXE_scrip");
