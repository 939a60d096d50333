//! Clients send requests while PostgreSQL is killed, frozen and replaced, and while nodes are
//! killed. No acknowledged write and no event may be lost, and no request may take effect twice.
//!
//! Some scenarios run a PostgreSQL that may lose acknowledged writes or events. They pass when the
//! loss is detected. `SCRIP_TEST_LONG` runs the scenarios at full length, otherwise at a tenth. An argument
//! selects scenarios by name.

#![expect(
    clippy::indexing_slicing,
    reason = "indexing a JSON value yields null for an absent member"
)]
#![expect(clippy::print_stdout, reason = "a test without a harness prints its report")]

mod contention;
#[path = "../kill_loop/faulty_server.rs"]
mod faulty_server;
mod key_rotation;
mod kills;
mod nodes;
mod outage;
mod report;
mod token_histories;
mod webhook_deliveries;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    process::ExitCode,
    time::Instant,
};

use scrip_testing::faults::store_fault::StoreFault;

use crate::report::RunReport;

/// The program under test.
pub(crate) const SCRIP: &str = env!("CARGO_BIN_EXE_scrip");

/// The argument that starts this program as a server.
pub(crate) const SERVE: &str = "serve";

/// The length of the scenarios.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunLength {
    is_full: bool,
    postgres_kills: usize,
    node_kills: usize,
    failovers: usize,
    operations: usize,
    /// Rounds that kill nodes while they deliver events.
    delivery_kills: usize,
    /// Kills of nodes between the first and the last row of a key rotation.
    rotation_kills: usize,
}

const FULL_RUN: RunLength = RunLength {
    is_full: true,
    postgres_kills: 30,
    node_kills: 50,
    failovers: 10,
    operations: 100_000,
    delivery_kills: 100,
    rotation_kills: 100,
};
const SHORT_RUN: RunLength = RunLength {
    is_full: false,
    postgres_kills: 3,
    node_kills: 5,
    failovers: 1,
    operations: 10_000,
    delivery_kills: 10,
    rotation_kills: 10,
};

/// Runs a scenario. Returns its report and whether it passed.
type Scenario = fn(RunLength) -> (RunReport, bool);

const SCENARIOS: &[(&str, Scenario)] = &[
    ("postgres_outage", outage::nodes_recover_after_outage),
    ("postgres_contention", contention::two_nodes_under_contention),
    ("postgres_kill", kills::kill_postgres),
    ("postgres_kill_lax", kills::kill_lax_postgres),
    ("postgres_node_kill", kills::kill_nodes),
    ("postgres_failover", kills::failover),
    ("postgres_failover_lagging", kills::failover_to_lagging_standby),
    ("postgres_webhook_deliveries", webhook_deliveries::kill_delivering_nodes),
    ("postgres_webhook_loss", webhook_deliveries::lose_unclaimed_deliveries),
    ("postgres_key_rotation", key_rotation::kill_rotating_nodes),
    ("postgres_suspended_node", key_rotation::suspend_node_during_rotation),
    ("postgres_early_key_destruction", key_rotation::destroy_key_too_early),
];

#[expect(clippy::disallowed_methods, reason = "the duration is only reported")]
fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [SERVE, fault, data, url] = &*arguments.iter().map(String::as_str).collect::<Vec<_>>() {
        faulty_server::run(StoreFault::parse(fault), Path::new(data), Some(url));
        return ExitCode::SUCCESS;
    }
    let length = if std::env::var_os("SCRIP_TEST_LONG").is_some() { FULL_RUN } else { SHORT_RUN };
    // `cargo test` passes its filter to every program.
    let filter = arguments.into_iter().find(|it| !it.starts_with('-')).unwrap_or_default();
    let mut failed = 0;
    for (name, scenario) in SCENARIOS.iter().filter(|(name, _)| name.contains(&filter)) {
        let start_time = Instant::now();
        let result = catch_unwind(AssertUnwindSafe(|| scenario(length)));
        let passed = result.as_ref().is_ok_and(|(_, passed)| *passed);
        failed += usize::from(!passed);
        let word = if passed { "ok" } else { "FAILED" };
        let seconds = start_time.elapsed().as_secs();
        println!("{name} ... {word} in {seconds} s");
        if let Ok((RunReport { counts, violations, unexpected_statuses }, _)) = result {
            println!(
                "  counted {counts:?}  violations {violations:?}  unexpected statuses {unexpected_statuses:?}"
            );
        }
    }
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
