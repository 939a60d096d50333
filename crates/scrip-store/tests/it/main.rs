//! Every engine keeps the same promises: one suite, run against the model and the embedded engine.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "clippy.toml exempts #[test] functions but not the helpers of a test crate"
)]

/// Runs each of these functions on a fresh desk of each engine.
macro_rules! on_both_engines {
    ($($name:ident)*) => {
        mod memory {
            use crate::{desk::Desk, world::Engine};

            $(#[tokio::test]
            async fn $name() {
                super::$name(Desk::open(Engine::Memory).await).await;
            })*
        }

        mod sqlite {
            use crate::{desk::Desk, world::Engine};

            $(#[tokio::test]
            async fn $name() {
                super::$name(Desk::open(Engine::Sqlite).await).await;
            })*
        }
    };
}

mod conformance_answers;
mod conformance_directory;
mod conformance_duplicates;
mod conformance_tokens;
mod desk;
mod random;
mod sqlite;
mod sqlite_altered;
mod world;
