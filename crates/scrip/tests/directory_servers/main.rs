//! The directory server client against real sockets with mutual TLS.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a failed expectation fails the test"
)]

mod card_ranges;
mod failover;
mod harness;
mod requests;
mod tenant_kinds;
