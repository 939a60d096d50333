//! Nodes on a PostgreSQL that is killed, frozen and replaced under them, and nodes that are killed
//! themselves, while clients ask: nothing that was acknowledged may be lost, and nothing done twice.
//!
//! Some scenarios run a PostgreSQL that may lose what it acknowledged; they pass when that is found.
//! With `SCRIP_TEST_LONG` they run whole, else a tenth. An argument chooses scenarios by name.

#![expect(clippy::indexing_slicing, reason = "an absent member of a JSON value reads as null")]
#![expect(clippy::print_stdout, reason = "the report of a test without a harness")]

mod contention;
mod kills;
mod nodes;
mod outage;
mod report;
mod token_histories;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    process::ExitCode,
    time::Instant,
};

use crate::report::RunReport;

/// The program under test.
pub(crate) const SCRIP: &str = env!("CARGO_BIN_EXE_scrip");

/// How much of each there is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunLength {
    postgres_kills: usize,
    node_kills: usize,
    failovers: usize,
    operations: usize,
}

const FULL_RUN: RunLength =
    RunLength { postgres_kills: 30, node_kills: 50, failovers: 10, operations: 100_000 };
const SHORT_RUN: RunLength =
    RunLength { postgres_kills: 3, node_kills: 5, failovers: 1, operations: 10_000 };

/// What a scenario counted, and whether that is as it should be.
type Scenario = fn(RunLength) -> (RunReport, bool);

const SCENARIOS: &[(&str, Scenario)] = &[
    ("postgres_outage", outage::nodes_recover_after_outage),
    ("postgres_collide", contention::two_nodes_under_contention),
    ("postgres_kill", kills::kill_postgres),
    ("postgres_kill_lax", kills::kill_lax_postgres),
    ("postgres_node_kill", kills::kill_nodes),
    ("postgres_failover", kills::failover),
    ("postgres_failover_behind", kills::failover_to_lagging_standby),
];

#[expect(clippy::disallowed_methods, reason = "a length to report, not one to fail by")]
fn main() -> ExitCode {
    let length = if std::env::var_os("SCRIP_TEST_LONG").is_some() { FULL_RUN } else { SHORT_RUN };
    // `cargo test` passes its filter to every program.
    let filter = std::env::args().skip(1).find(|it| !it.starts_with('-')).unwrap_or_default();
    let mut failed = 0;
    for (name, scenario) in SCENARIOS.iter().filter(|(name, _)| name.contains(&filter)) {
        let started = Instant::now();
        let run = catch_unwind(AssertUnwindSafe(|| scenario(length)));
        let passed = run.as_ref().is_ok_and(|(_, passed)| *passed);
        failed += usize::from(!passed);
        let word = if passed { "ok" } else { "FAILED" };
        let seconds = started.elapsed().as_secs();
        println!("{name} ... {word} in {seconds} s");
        if let Ok((RunReport { counts, violations: findings, unexpected_statuses: refusals }, _)) =
            run
        {
            println!("  counted {counts:?}  found {findings:?}  refused {refusals:?}");
        }
    }
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
