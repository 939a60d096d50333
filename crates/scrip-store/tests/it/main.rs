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
                let opened = super::$opened::open(scrip_testing::vault_harness::Engine::Memory).await;
                super::$name(opened).await;
            })*
        }

        mod sqlite {
            $(#[tokio::test]
            async fn $name() {
                let opened = super::$opened::open(scrip_testing::vault_harness::Engine::Sqlite).await;
                super::$name(opened).await;
            })*
        }

        mod postgres {
            $(#[tokio::test]
            async fn $name() {
                let opened = super::$opened::open(scrip_testing::vault_harness::Engine::Postgres).await;
                super::$name(opened).await;
            })*
        }
    };
}

mod audit;
mod listing;
mod operations;
mod policy;
mod postgres;
mod sessions;
mod sqlite;
mod tokens;
mod transfer;
