//! One conformance suite for all engines: the in-memory model, SQLite and PostgreSQL.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "clippy.toml exempts #[test] functions but not the helpers of a test crate"
)]

/// Runs each of these functions once per engine, with a newly opened harness.
macro_rules! on_every_engine {
    ($harness:ident; $($name:ident)*) => {
        on_engine! { memory Memory $harness; $($name)* }
        on_engine! { sqlite Sqlite $harness; $($name)* }
        on_engine! { postgres Postgres $harness; $($name)* }
    };
}

macro_rules! on_engine {
    ($module:ident $engine:ident $harness:ident; $($name:ident)*) => {
        mod $module {
            $(#[tokio::test]
            async fn $name() {
                let engine = scrip_testing::vault_harness::Engine::$engine;
                super::$name(super::$harness::open(engine).await).await;
            })*
        }
    };
}

mod audit;
mod deliveries;
mod key_rotation;
mod listing;
mod migrations;
mod operations;
mod policy;
mod postgres;
mod sessions;
mod sqlite;
mod tokens;
mod transfer;
