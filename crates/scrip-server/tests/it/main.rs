//! The interface through real sockets, one file per operation.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::expect_used,
    reason = "clippy.toml exempts #[test] functions but not the helpers of a test crate"
)]

mod access;
mod authority;
mod calls;
mod coverage;
mod create_token;
mod deduplication;
mod delete_token;
mod get_token;
mod idempotency;
mod pipeline;
mod server;
mod silence;
mod update_token;
