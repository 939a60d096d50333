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

use tokio::runtime::{Builder, Runtime};

use crate::{generate::generate, run::World, shrink::shrink};

/// A vault runs on the thread that drives it.
fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Worlds are made anew now and then, because the clock of one goes on with every sequence.
const SEQUENCES_PER_WORLD: u64 = 2000;

#[test]
fn survey() {
    let runtime = runtime();
    let started = scrip_server::clock::ticks();
    let number = |name: &str, default: u64| {
        std::env::var_os(name).map_or(default, |it| it.into_string().unwrap().parse().unwrap())
    };
    let (count, shown) = (number("COUNT", 2000), number("SHOWN", 0));
    let from = number("FROM", 0);
    let mut found = std::collections::BTreeMap::<&str, Vec<u64>>::new();
    let mut steps = 0;
    runtime.block_on(async {
        let world = World::in_memory().await;
        eprintln!("world {:?}", scrip_server::clock::ticks() - started);
        for seed in from..from + count {
            let sequence = generate(seed, world.tenants);
            steps += sequence.steps.len();
            if world.run(&sequence).await.is_some() {
                let sequence = shrink(&world, sequence).await;
                let text = sequence.to_string();
                let class = if text.contains("/own/") {
                    "own container"
                } else if text.contains("pin:") && text.contains("PATCH") {
                    "partial patch"
                } else if text.contains("user-") {
                    "predictable id"
                } else if text.contains("token_intent_id") {
                    "conversion"
                } else if text.contains("PATCH") {
                    "patch"
                } else {
                    "other"
                };
                let seeds = found.entry(class).or_default();
                seeds.push(seed);
                if u64::try_from(seeds.len()).unwrap() <= shown {
                    let difference = world.run(&sequence).await.unwrap();
                    eprintln!("---- {class}: {sequence}{difference}");
                }
            }
        }
    });
    for (class, seeds) in &found {
        eprintln!("{class}: {} {:?}", seeds.len(), &seeds[..seeds.len().min(12)]);
    }
    eprintln!("{count} sequences, {steps} steps, {:?}", scrip_server::clock::ticks() - started);
}
