//! Two vaults that differ in hidden data only give the same answers to callers without a reveal right.
//!
//! A seeded generator drives both with the same requests. `SCRIP_TEST_SEED` starts at another seed,
//! `SCRIP_TEST_LONG` runs a million sequences.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::expect_used,
    reason = "clippy.toml exempts #[test] functions but not the helpers of a test crate"
)]

mod directory_server;
mod generate;
mod grammar;
mod observe;
mod random;
mod run;
mod secrets;
mod shrink;
mod step;
mod world;

use std::sync::Arc;

use scrip_store::MemoryStore;
use tokio::runtime::{Builder, Runtime};

use crate::{generate::generate, run::VaultPair, shrink::shrink, world::Storage};

/// A vault runs on the thread that drives it.
fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Worlds are made anew now and then, because the clock of one goes on with every sequence.
const SEQUENCES_PER_WORLD: u64 = 2000;

async fn memory_pair() -> VaultPair {
    let memory = || Storage::Memory(Arc::new(MemoryStore::default()));
    VaultPair::new(memory(), memory()).await
}

#[test]
fn survey() {
    let runtime = runtime();
    let started = scrip_server::clock::ticks();
    let count: u64 = std::env::var_os("COUNT").map_or(2000, |it| it.into_string().unwrap().parse().unwrap());
    let mut found = 0;
    let mut steps = 0;
    runtime.block_on(async {
        let pair = memory_pair().await;
        eprintln!("world {:?}", scrip_server::clock::ticks() - started);
        for seed in 0..count {
            let sequence = generate(seed, pair.tenants());
            steps += sequence.steps.len();
            if let Some(_) = pair.run(&sequence).await {
                found += 1;
                if found < 12 {
                    let sequence = shrink(&pair, sequence).await;
                    let difference = pair.run(&sequence).await.unwrap();
                    eprintln!("---- {sequence}{difference}");
                }
            }
        }
    });
    eprintln!("found {found} of {count}, {steps} steps, {:?}", scrip_server::clock::ticks() - started);
}
