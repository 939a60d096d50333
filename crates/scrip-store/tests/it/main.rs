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
        mod memory {
            $(#[tokio::test]
            async fn $name() {
                let engine = scrip_testing::vault_harness::Engine::Memory;
                super::$name(super::$harness::open(engine).await).await;
            })*
        }

        mod sqlite {
            $(#[tokio::test]
            async fn $name() {
                let engine = scrip_testing::vault_harness::Engine::Sqlite;
                super::$name(super::$harness::open(engine).await).await;
            })*
        }

        mod postgres {
            $(#[tokio::test]
            async fn $name() {
                let engine = scrip_testing::vault_harness::Engine::Postgres;
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
