//! The interface through real sockets, one file per operation.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::expect_used,
    reason = "clippy.toml exempts #[test] functions but not the helpers of a test crate"
)]

mod access;
mod access_sessions;
mod api_keys;
mod applications;
mod audit;
mod authority;
mod calls;
mod card_details;
mod contract;
mod coverage;
mod create_token;
mod deduplication;
mod delete_token;
mod deprecations;
mod detokenize;
mod expire_token;
mod expressions;
mod get_token;
mod idempotency;
mod late_bodies;
mod list_applications;
mod list_connection_formulas;
mod list_logs;
mod list_tokens;
mod openapi;
mod permissions;
mod pipeline;
mod replays;
mod search_tokens;
mod server;
mod session_rights;
mod silence;
mod simulated_clock;
mod tenant;
mod token_intents;
mod tokenize;
mod tokenize_duplicates;
mod tokenize_replays;
mod update_token;
mod usage;
