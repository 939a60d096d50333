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
mod limits;
mod limits_addresses;
mod limits_model;
mod limits_scene;
mod limits_shared;
mod list_applications;
mod list_connection_formulas;
mod list_logs;
mod list_tokens;
mod metrics;
mod metrics_documented;
mod openapi;
mod pages;
mod permissions;
mod pipeline;
#[path = "../support/prometheus.rs"]
mod prometheus;
mod redis;
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
