//! Two vaults that differ only in hidden data give the same responses to callers without a reveal
//! right.
//!
//! A seeded generator drives both vaults with the same requests. Decision 0045 explains the method.
//! A failure prints its seed and the shortest sequence that still differs. `SCRIP_TEST_SEED` starts
//! with that seed, `SCRIP_TEST_LONG` runs a million sequences, and `SCRIP_TEST_SEQUENCES` another number.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::expect_used,
    clippy::panic,
    reason = "clippy.toml exempts #[test] functions but not the helpers of a test crate"
)]
#![expect(clippy::print_stderr, reason = "a control reports how many sequences it took")]

mod controls;
mod destination;
mod directory_server;
mod engines;
mod generator;
mod grammar;
mod in_process_vault;
mod observation;
mod random;
mod route_coverage;
mod secrets;
mod sequence_run;
mod shrink;
mod step;

use std::{env, ops::Range, thread};

use scrip_core::types::DisclosureRules;
use tokio::runtime::{Builder, Runtime};

use crate::{generator::generate, sequence_run::TwinVaults, shrink::shrink};

const THREADS: u64 = 2;
/// New vaults are created after this many sequences, because each sequence advances the clock.
const SEQUENCES_PER_VAULTS: u64 = 2_500;
const SEQUENCES_PER_ENGINE: u64 = 500;

fn sequence_count() -> u64 {
    if let Some(count) = env::var_os("SCRIP_TEST_SEQUENCES") {
        return count.to_str().and_then(|it| it.parse().ok()).expect("a number");
    }
    if env::var_os("SCRIP_TEST_LONG").is_some() { 1_000_000 } else { 10_000 }
}

fn first_seed() -> u64 {
    let seed_text = env::var_os("SCRIP_TEST_SEED");
    seed_text.map_or(0, |it| it.to_str().and_then(|it| it.parse().ok()).expect("a number"))
}

/// Builds a runtime that runs the vaults on the thread of the test, because the randomness of the
/// vaults is thread-local.
fn build_runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// # Panics
/// If a response differs between the vaults.
async fn expect_equal_responses(vaults: &TwinVaults, seeds: Range<u64>) {
    for seed in seeds {
        let sequence = generate(seed, &vaults.plans);
        let Some(difference) = vaults.run(&sequence).await else { continue };
        if !vaults.restore_snapshots() {
            // A repeated sequence draws random values that the engine has stored already.
            panic!("hidden data changes a response.\n{sequence}{difference}");
        }
        let sequence = shrink(vaults, sequence).await;
        let difference = vaults.run(&sequence).await;
        let difference = difference.map(|it| it.to_string()).unwrap_or_default();
        panic!("hidden data changes a response.\n{sequence}{difference}");
    }
}

#[test]
fn hidden_data_does_not_change_responses_in_memory() {
    let (first, count) = (first_seed(), sequence_count());
    let run_thread = |thread: u64| {
        let seeds = first + count * thread / THREADS..first + count * (thread + 1) / THREADS;
        let mut start = seeds.start;
        while start < seeds.end {
            let end = seeds.end.min(start + SEQUENCES_PER_VAULTS);
            build_runtime().block_on(async {
                let vaults = TwinVaults::in_memory(DisclosureRules::default()).await;
                expect_equal_responses(&vaults, start..end).await;
            });
            start = end;
        }
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|it| scope.spawn(move || run_thread(it))).collect();
        for thread in threads {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
    });
}

#[test]
fn hidden_data_does_not_change_responses_on_sqlite() {
    let folder = engines::create_temporary_folder();
    build_runtime().block_on(async {
        let vaults = engines::open_sqlite_vaults(folder.path()).await;
        let first = first_seed();
        expect_equal_responses(&vaults, first..first + SEQUENCES_PER_ENGINE).await;
    });
}

#[test]
fn hidden_data_does_not_change_responses_on_postgres() {
    build_runtime().block_on(async {
        let (vaults, _databases) = engines::open_postgres_vaults().await;
        let first = first_seed();
        expect_equal_responses(&vaults, first..first + SEQUENCES_PER_ENGINE).await;
    });
}
