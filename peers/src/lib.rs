//! Real programs that tests and the bench talk to, started for them and gone with them. No part of
//! the program.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "whoever starts a peer that does not start has nothing better to do than to say so"
)]

pub mod cluster;
pub mod contract;
pub mod http1;
pub mod look;
pub mod postgres;
pub mod recorder;
