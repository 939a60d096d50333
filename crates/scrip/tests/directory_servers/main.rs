//! The client of directory servers, against real ones: through sockets, with certificates on both
//! sides.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test says what it expects by failing"
)]

mod card_ranges;
mod failover;
mod harness;
mod requests;
mod tenant_kinds;
