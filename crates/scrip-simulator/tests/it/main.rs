//! The simulator through real sockets, with a 3DS server played by these tests.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "clippy.toml exempts #[test] functions but not the helpers of a test crate"
)]

mod app;
mod bounds;
mod cards;
mod challenge;
mod decoupled;
mod hostile;
mod knobs;
mod messages;
mod method;
mod ranges;
mod stage;
mod timers;
mod tls;
