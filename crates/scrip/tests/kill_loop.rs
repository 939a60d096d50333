//! Kills the server repeatedly under load. Afterwards acknowledged writes must still exist, and no
//! request may have taken effect twice.
//!
//! Some of the scenarios run a store with a known fault. They pass when the fault is detected. An
//! argument selects scenarios by name.

#![expect(
    clippy::indexing_slicing,
    reason = "indexing a JSON value yields null for an absent member"
)]
#![expect(clippy::print_stdout, reason = "a test without a harness prints its report")]

#[path = "kill_loop/database_rows.rs"]
mod database_rows;
#[path = "kill_loop/faulty_server.rs"]
mod faulty_server;
#[path = "kill_loop/key_rotation.rs"]
mod key_rotation;
#[path = "kill_loop/proxied_calls.rs"]
mod proxied_calls;
#[path = "kill_loop/token_histories.rs"]
mod token_histories;
#[path = "kill_loop/webhook_deliveries.rs"]
mod webhook_deliveries;

use std::{
    collections::BTreeMap,
    path::Path,
    process::{Command, ExitCode, Stdio},
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::Duration,
};

use scrip_testing::{
    faults::store_fault::StoreFault,
    process::{ServerProcess, scrip_dev_command},
    random::random_duration,
};

use crate::token_histories::TokenHistory;

/// The program under test.
const SCRIP: &str = env!("CARGO_BIN_EXE_scrip");

const CLIENTS: usize = 16;
/// The argument that starts this program as a server.
const SERVE: &str = "serve";
/// A scenario ends earlier when it has seen what it looks for. On a busy machine, most kills come
/// before the first commit.
const ROUNDS_MAX: usize = 60;

/// A violated guarantee.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum DurabilityViolation {
    /// The token was acknowledged before the kill and is missing after it.
    Lost,
    /// The token was acknowledged after the restart and is missing.
    LostAfterRestart,
    /// The token differs from the written data.
    WrongContent,
    /// The token was deleted and is still present.
    DeleteUndone,
    /// One request with an unknown outcome has two rows.
    CreatedTwiceAfterUnknownOutcome,
    /// One request that had a response has two rows.
    CreatedTwiceAfterResponse,
    /// The same idempotency key got a different response.
    ResponseChanged,
    /// The rows differ from the tokens that the clients know.
    UnknownRows,
    /// A token was read before the kill, but the read has no record after the kill.
    ReadNotRecorded,
    /// The audit chain is invalid.
    AuditChainBroken,
    /// The audit log has a different number of creations than the clients sent.
    CreateNotRecorded,
    /// The usage counters differ from the number of tokens.
    UsageMiscounted,
    DatabaseCorrupt,
    /// A response with an unexpected status.
    UnexpectedStatus,
}

/// The counts and violations of a scenario.
#[derive(Debug, Default)]
struct RunReport {
    counts: BTreeMap<&'static str, usize>,
    violations: BTreeMap<DurabilityViolation, usize>,
}

impl RunReport {
    fn add(&mut self, counter: &'static str) {
        *self.counts.entry(counter).or_default() += 1;
    }

    fn add_violation(&mut self, violation: DurabilityViolation) {
        *self.violations.entry(violation).or_default() += 1;
    }

    fn expect_status(&mut self, status: u16, expected: u16) {
        if status != expected {
            self.add_violation(DurabilityViolation::UnexpectedStatus);
        }
    }

    fn merge(&mut self, other: &Self) {
        for (what, count) in &other.counts {
            *self.counts.entry(what).or_default() += count;
        }
        for (finding, count) in &other.violations {
            *self.violations.entry(*finding).or_default() += count;
        }
    }

    fn has_violation(&self, violation: DurabilityViolation) -> bool {
        self.violations.contains_key(&violation)
    }
}

/// One of the runs of this program.
struct Scenario {
    name: &'static str,
    /// Returns whether the scenario passed.
    run: Box<dyn FnOnce(&str) -> bool>,
}

impl Scenario {
    fn new(name: &'static str, run: impl FnOnce(&str) -> bool + 'static) -> Self {
        Self { name, run: Box::new(run) }
    }

    /// `cargo test` passes its filter to every program.
    fn is_selected(&self, filter: &str) -> bool {
        format!("kill_loop {}", self.name).contains(filter)
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if let [SERVE, fault, data] = arguments.as_slice() {
        faulty_server::run(StoreFault::parse(fault), Path::new(data), None);
        return ExitCode::SUCCESS;
    }
    let filter = arguments.into_iter().find(|it| !it.starts_with('-')).unwrap_or_default();
    let is_long = std::env::var_os("SCRIP_TEST_LONG").is_some();
    let mut scenarios = token_scenarios(is_long);
    scenarios.extend(proxied_calls::scenarios(is_long));
    scenarios.extend(webhook_deliveries::scenarios(is_long));
    scenarios.extend(key_rotation::scenarios(is_long));
    let selected = scenarios.into_iter().filter(|it| it.is_selected(filter));
    let outcomes: Vec<bool> = selected.map(|it| (it.run)(it.name)).collect();
    let failed = outcomes.iter().filter(|outcome| !**outcome).count();
    println!("kill_loop: {} passed, {failed} failed", outcomes.len() - failed);
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn token_scenarios(is_long: bool) -> Vec<Scenario> {
    let rounds = if is_long { 100 } else { 10 };
    let scenario = |name,
                    fault,
                    rounds,
                    is_finished: fn(&RunReport) -> bool,
                    is_passed: fn(&RunReport) -> bool| {
        Scenario::new(name, move |name| run_scenario(name, fault, rounds, is_finished, is_passed))
    };
    vec![
        scenario(
            "honest",
            None,
            rounds,
            |it| it.has_violation(DurabilityViolation::UnexpectedStatus),
            is_clean,
        ),
        scenario(
            "late_response",
            Some(StoreFault::LateResponse),
            ROUNDS_MAX,
            |it| !is_clean(it) || is_clean_with_replays(it) && it.counts["rounds"] >= 3,
            is_clean_with_replays,
        ),
        scenario(
            "early_response",
            Some(StoreFault::EarlyResponse),
            ROUNDS_MAX,
            found_lost_write,
            found_lost_write,
        ),
        scenario(
            "lost_idempotency_record",
            Some(StoreFault::LostIdempotencyRecord),
            ROUNDS_MAX,
            found_second_effect,
            found_second_effect,
        ),
        scenario(
            "unrecorded_read",
            Some(StoreFault::UnrecordedRead),
            ROUNDS_MAX,
            found_unrecorded_read,
            found_unrecorded_read,
        ),
    ]
}

fn is_clean(report: &RunReport) -> bool {
    report.violations.is_empty()
}

/// A clean run proves little unless a kill happened between a commit and its response.
fn is_clean_with_replays(report: &RunReport) -> bool {
    is_clean(report) && report.counts.contains_key("replayed")
}

fn found_lost_write(report: &RunReport) -> bool {
    report.has_violation(DurabilityViolation::Lost)
}

fn found_unrecorded_read(report: &RunReport) -> bool {
    report.has_violation(DurabilityViolation::ReadNotRecorded)
        && !report.has_violation(DurabilityViolation::AuditChainBroken)
}

/// The fault is visible in two ways: in the rows after an unknown outcome, and in the changed
/// response to an acknowledged request.
fn found_second_effect(report: &RunReport) -> bool {
    report.has_violation(DurabilityViolation::CreatedTwiceAfterUnknownOutcome)
        && report.has_violation(DurabilityViolation::ResponseChanged)
}

/// Runs rounds on one data directory until `is_finished`, or all of them.
fn run_scenario(
    name: &str,
    fault: Option<StoreFault>,
    rounds: usize,
    is_finished: fn(&RunReport) -> bool,
    is_passed: fn(&RunReport) -> bool,
) -> bool {
    let folder = tempfile::tempdir().expect("create a temporary folder");
    let data = folder.path().join("data");
    // The first start creates the keys that a faulty server needs.
    drop(ServerProcess::start(&mut scrip_dev_command(SCRIP, &data)));
    let (next_number, mut histories, mut report) =
        (AtomicU64::new(0), Vec::new(), RunReport::default());
    for _ in 0..rounds {
        round(fault, &data, &next_number, &mut histories, &mut report);
        report.add("rounds");
        if is_finished(&report) {
            break;
        }
    }
    if fault.is_none() {
        // Check all rounds again: later kills must not have damaged earlier tokens.
        let server = ServerProcess::start(&mut scrip_dev_command(SCRIP, &data));
        token_histories::check_tokens(&server.server_address, &mut histories, &mut report);
    }
    let passed = is_passed(&report);
    let word = if passed { "ok" } else { "FAILED" };
    println!("kill_loop {name} ... {word}  {:?}  found {:?}", report.counts, report.violations);
    passed
}

fn round(
    fault: Option<StoreFault>,
    data: &Path,
    next_number: &AtomicU64,
    histories: &mut Vec<TokenHistory>,
    report: &mut RunReport,
) {
    let first_new = histories.len();
    let mut server = ServerProcess::start(&mut server_command(fault, data));
    let address = server.server_address.clone();
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| scope.spawn(|| token_histories::run_client(&address, next_number)))
            .collect();
        let read_before = token_histories::READS.load(Ordering::Relaxed);
        thread::sleep(random_duration(50..400));
        if fault == Some(StoreFault::UnrecordedRead) {
            // Wait on a slow machine: only a completed read can lack its record.
            let mut waits = 0..400;
            while token_histories::READS.load(Ordering::Relaxed) == read_before
                && waits.next().is_some()
            {
                thread::sleep(Duration::from_millis(50));
            }
        }
        server.child.kill().expect("kill the server");
        for client in clients {
            let (client_histories, client_report) =
                client.join().expect("a client thread panicked");
            histories.extend(client_histories);
            report.merge(&client_report);
        }
    });
    drop(server);

    let server = ServerProcess::start(&mut server_command(fault, data));
    let new_histories = histories.get_mut(first_new..).expect("histories are never removed");
    token_histories::retry_requests(&server.server_address, new_histories, report);
    token_histories::check_tokens(&server.server_address, new_histories, report);
    drop(server);
    database_rows::check_rows(&data.join("scrip.db"), histories, report);
    database_rows::check_read_log(&data.join("read_log.db"), histories, report);
    if !is_audit_chain_valid(data) {
        report.add_violation(DurabilityViolation::AuditChainBroken);
    }
}

/// Runs `scrip audit verify`, which checks every record.
fn is_audit_chain_valid(data: &Path) -> bool {
    let mut command = Command::new(SCRIP);
    command.args(["audit", "verify", "--json", "--data-dir"]).arg(data);
    let verified = command.output().expect("run scrip");
    verified.status.success()
}

/// Returns the command of the shipped program, or of this program with a fault.
fn server_command(fault: Option<StoreFault>, data: &Path) -> Command {
    let Some(fault) = fault else { return scrip_dev_command(SCRIP, data) };
    let mut command = Command::new(std::env::current_exe().expect("the path of this program"));
    command.args([SERVE, fault.name()]).arg(data).stderr(Stdio::null());
    command
}
