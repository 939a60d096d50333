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
mod audit_of_vault;
mod authenticate_session;
mod authority;
mod calls;
mod card_details;
mod contract;
mod conversion_rights;
mod coverage;
mod create_session;
mod create_token;
mod deduplication;
mod delete_token;
mod deprecations;
mod detokenize;
mod directory_servers;
mod disclosure;
mod engine;
mod epoch_keys;
mod epoch_keys_redis;
mod evaluation_cost;
mod expire_token;
mod expressions;
mod get_challenge_result;
mod get_session;
mod get_token;
mod guessing_budget;
mod guessing_budget_open_data;
mod hostile_clients;
mod idempotency;
mod idempotency_public;
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
mod notify_challenge;
mod notify_method;
mod openapi;
mod pages;
mod permissions;
mod pipeline;
mod planted_tokens;
#[path = "../support/prometheus.rs"]
mod prometheus;
mod receive_result;
#[path = "../support/redis.rs"]
mod redis;
mod replays;
mod search_budget;
mod search_tokens;
mod server;
mod session_containers;
mod session_number_writes;
mod session_numbers;
mod session_rights;
mod session_rules;
mod silence;
mod simulated_clock;
mod slow_bodies;
mod stalled_clients;
mod tenant;
mod threeds;
mod token_intents;
mod tokenize;
mod tokenize_duplicates;
mod tokenize_replays;
mod update_session;
mod update_token;
mod usage;
