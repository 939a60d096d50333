//! Tests of the HTTP API through real sockets.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::expect_used,
    reason = "clippy.toml exempts #[test] functions but not the helpers of a test crate"
)]

mod abusive_clients;
mod access;
mod audit;
mod disclosure;
mod epoch_keys;
mod harness;
mod idempotency;
mod limits;
mod metrics;
mod openapi;
mod proxy;
mod threeds_sessions;
mod tokens;
mod webhooks;
