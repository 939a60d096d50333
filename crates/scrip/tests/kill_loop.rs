//! Kills the server in the middle of its work, again and again, and asks whether anything that a
//! client was told is no longer so, or anything was done twice.
//!
//! Three of the scenarios run a store with a known fault; they pass when the fault is found.

#![expect(clippy::indexing_slicing, reason = "an absent member of a JSON value reads as null")]
#![expect(clippy::print_stdout, reason = "the report of a test without a harness")]

#[path = "kill_loop/database_rows.rs"]
mod database_rows;
#[path = "kill_loop/faulty_server.rs"]
mod faulty_server;
#[path = "kill_loop/token_histories.rs"]
mod token_histories;

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
/// The argument that makes this program a server.
const SERVE: &str = "serve";

/// What must not be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum DurabilityViolation {
    /// Acknowledged before the kill, and not there after it.
    Lost,
    /// Acknowledged after the restart, and not there.
    LostAfterRestart,
    /// Not what was written.
    WrongContent,
    /// Changed, and there.
    DeleteUndone,
    /// Two rows of one request whose outcome was unknown.
    CreatedTwiceAfterUnknownOutcome,
    /// Two rows of one request that had been answered.
    CreatedTwiceAfterResponse,
    /// The same idempotency key got another answer.
    ResponseChanged,
    /// The rows are not the tokens that the clients know.
    UnknownRows,
    /// Shown before the kill, and no record of it after.
    ReadNotRecorded,
    /// The trail is not whole.
    AuditChainBroken,
    /// The audit has another number of creations than there were.
    CreateNotRecorded,
    /// The counts of tokens are not how many there are.
    UsageMiscounted,
    DatabaseCorrupt,
    /// An answer with a status that this request cannot have.
    UnexpectedStatus,
}

/// What was counted and what was found.
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

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        [SERVE, fault, data] => {
            faulty_server::run(StoreFault::parse(fault), Path::new(data));
            return ExitCode::SUCCESS;
        }
        // `cargo test` passes its filter to every program.
        [filter, ..] if !filter.starts_with('-') && !"kill_loop".contains(filter) => {
            return ExitCode::SUCCESS;
        }
        _ => (),
    }
    let rounds = if std::env::var_os("SCRIP_TEST_LONG").is_some() { 100 } else { 10 };
    let outcomes = [
        scenario(
            "honest",
            None,
            rounds,
            |it| it.has_violation(DurabilityViolation::UnexpectedStatus),
            is_clean,
        ),
        scenario("late", Some(StoreFault::LateResponse), 3, |_| false, is_clean_with_replays),
        scenario("early", Some(StoreFault::EarlyResponse), 5, found_lost_write, found_lost_write),
        scenario(
            "forgetful",
            Some(StoreFault::LostIdempotencyRecord),
            5,
            found_second_effect,
            found_second_effect,
        ),
        scenario(
            "unseen",
            Some(StoreFault::UnrecordedRead),
            5,
            found_unrecorded_read,
            found_unrecorded_read,
        ),
    ];
    let failed = outcomes.iter().filter(|passed| !**passed).count();
    println!("kill_loop: {} passed, {failed} failed", outcomes.len() - failed);
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn is_clean(report: &RunReport) -> bool {
    report.violations.is_empty()
}

/// Clean means little unless a kill has come between a commit and its answer.
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

/// Both ways to see it: in the rows after an unknown outcome, and in the answer to a known one.
fn found_second_effect(report: &RunReport) -> bool {
    report.has_violation(DurabilityViolation::CreatedTwiceAfterUnknownOutcome)
        && report.has_violation(DurabilityViolation::ResponseChanged)
}

/// Rounds on one data directory, until `enough` or the last.
fn scenario(
    name: &str,
    fault: Option<StoreFault>,
    rounds: usize,
    is_finished: fn(&RunReport) -> bool,
    is_passed: fn(&RunReport) -> bool,
) -> bool {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = folder.path().join("data");
    // The first start makes the keys that a faulty server then finds.
    drop(ServerProcess::start(&mut scrip_dev_command(SCRIP, &data)));
    let (places, mut histories, mut report) = (AtomicU64::new(0), Vec::new(), RunReport::default());
    for _ in 0..rounds {
        round(fault, &data, &places, &mut histories, &mut report);
        report.add("rounds");
        if is_finished(&report) {
            break;
        }
    }
    if fault.is_none() {
        // Once more from the first round on: later kills must not have harmed earlier tokens.
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
    let access = server.server_address.clone();
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| scope.spawn(|| token_histories::run_client(&access, next_number)))
            .collect();
        let read_before = token_histories::READS.load(Ordering::Relaxed);
        thread::sleep(random_duration(50..400));
        if fault == Some(StoreFault::UnrecordedRead) {
            // However slow the machine is: only a read that was answered can have gone unseen.
            let mut waits = 0..400;
            while token_histories::READS.load(Ordering::Relaxed) == read_before
                && waits.next().is_some()
            {
                thread::sleep(Duration::from_millis(50));
            }
        }
        server.child.kill().expect("the server was running");
        for client in clients {
            let (done, counted) = client.join().expect("a client does not panic");
            histories.extend(done);
            report.merge(&counted);
        }
    });
    drop(server);

    let server = ServerProcess::start(&mut server_command(fault, data));
    let new = histories.get_mut(first_new..).expect("deeds only grow");
    token_histories::retry_requests(&server.server_address, new, report);
    token_histories::check_tokens(&server.server_address, new, report);
    drop(server);
    database_rows::check_rows(&data.join("scrip.db"), histories, report);
    database_rows::check_read_log(&data.join("access.db"), histories, report);
    if !is_audit_chain_valid(data) {
        report.add_violation(DurabilityViolation::AuditChainBroken);
    }
}

/// By the program as shipped, which goes through every record.
fn is_audit_chain_valid(data: &Path) -> bool {
    let mut command = Command::new(SCRIP);
    command.args(["audit", "verify", "--json", "--data-dir"]).arg(data);
    let verified = command.output().expect("scrip runs");
    verified.status.success()
}

/// The program as shipped, or this one with a fault.
fn server_command(fault: Option<StoreFault>, data: &Path) -> Command {
    let Some(fault) = fault else { return scrip_dev_command(SCRIP, data) };
    let mut command = Command::new(std::env::current_exe().expect("this program has a path"));
    command.args([SERVE, fault.name()]).arg(data).stderr(Stdio::null());
    command
}
