//! Tests the simulator through real sockets. The tests act as the 3DS server.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "clippy.toml exempts #[test] functions but not the helpers of a test crate"
)]

mod app;
mod behavior;
mod bounds;
mod cards;
mod challenge;
mod decoupled;
mod harness;
mod messages;
mod method;
mod ranges;
mod timers;
mod tls;
mod untrusted_input;
