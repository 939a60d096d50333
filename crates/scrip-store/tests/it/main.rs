//! Every engine keeps the same promises: one suite, run against the model, the embedded engine and
//! PostgreSQL.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "clippy.toml exempts #[test] functions but not the helpers of a test crate"
)]

/// Runs each of these functions on what was opened afresh, once on each engine.
macro_rules! on_every_engine {
    ($opened:ident; $($name:ident)*) => {
        mod memory {
            $(#[tokio::test]
            async fn $name() {
                let opened = super::$opened::open(crate::world::Engine::Memory).await;
                super::$name(opened).await;
            })*
        }

        mod sqlite {
            $(#[tokio::test]
            async fn $name() {
                let opened = super::$opened::open(crate::world::Engine::Sqlite).await;
                super::$name(opened).await;
            })*
        }

        mod postgres {
            $(#[tokio::test]
            async fn $name() {
                let opened = super::$opened::open(crate::world::Engine::Postgres).await;
                super::$name(opened).await;
            })*
        }
    };
}

mod conformance_answers;
mod conformance_batch;
mod conformance_directory;
mod conformance_duplicates;
mod conformance_guesses;
mod conformance_logs;
mod conformance_sessions;
mod conformance_sweeps;
mod conformance_tokens;
mod conformance_usage;
mod cvc_unrecoverable;
mod desk;
mod listing_desk;
mod listing_logs;
mod listing_paging;
mod listing_plans;
mod listing_rights;
mod operations_card_number;
mod operations_cvc;
mod operations_duplicates;
mod operations_intents;
mod operations_replay;
mod operations_rights;
mod operations_tokenize;
mod policy_altered;
mod policy_rows;
mod policy_scene;
mod policy_sessions;
mod postgres_altered;
mod postgres_clock;
mod postgres_groups;
mod postgres_hosts;
mod postgres_lanes;
mod postgres_nodes;
mod postgres_policy;
mod postgres_silence;
mod postgres_trips;
mod postgres_walls;
mod random;
mod requests;
mod sessions_altered;
mod sessions_authenticate;
mod sessions_messages;
mod sessions_model;
mod sessions_play;
mod sessions_random;
mod sessions_stage;
mod sqlite;
mod sqlite_altered;
mod sqlite_backup;
mod sqlite_beside;
mod sqlite_destroyed;
mod sqlite_groups;
mod sqlite_measures;
mod sqlite_sweeps;
mod timing;
mod trail;
mod trail_damaged;
mod trail_kept;
mod transfer_broken;
mod transfer_file;
mod transfer_moves;
mod transfer_scene;
mod world;
