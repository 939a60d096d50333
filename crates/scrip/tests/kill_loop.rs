//! Kills the server in the middle of its work, again and again, and asks whether anything that a
//! client was told is no longer so, or anything was done twice.
//!
//! Three of the scenarios run a store with a known fault; they pass when the fault is found.

#![expect(clippy::indexing_slicing, reason = "an absent member of a JSON value reads as null")]
#![expect(clippy::print_stdout, reason = "the report of a test without a harness")]

#[path = "kill_loop/deeds.rs"]
mod deeds;
#[path = "kill_loop/faulty.rs"]
mod faulty;
#[path = "kill_loop/rows.rs"]
mod rows;

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
    process::{ServerProcess, scrip_dev},
    random::random_duration,
};

use crate::deeds::Deed;

/// The program under test.
const SCRIP: &str = env!("CARGO_BIN_EXE_scrip");

const CLIENTS: usize = 16;
/// The argument that makes this program a server.
const SERVE: &str = "serve";

/// What must not be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Finding {
    /// Acknowledged before the kill, and not there after it.
    Lost,
    /// Acknowledged after the restart, and not there.
    Vanished,
    /// Not what was written.
    Altered,
    /// Changed, and there.
    Undead,
    /// Two rows of one request whose outcome was unknown.
    Redone,
    /// Two rows of one request that had been answered.
    Doubled,
    /// The same idempotency key got another answer.
    Forgotten,
    /// The rows are not the tokens that the clients know.
    Strange,
    /// Shown before the kill, and no record of it after.
    Unseen,
    /// The trail is not whole.
    Broken,
    /// The audit has another number of creations than there were.
    Unrecorded,
    /// The counts of tokens are not how many there are.
    Miscounted,
    Corrupt,
    /// An answer with a status that this request cannot have.
    Refused,
}

/// What was counted and what was found.
#[derive(Debug, Default)]
struct Tally {
    counts: BTreeMap<&'static str, usize>,
    findings: BTreeMap<Finding, usize>,
}

impl Tally {
    fn add(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    fn note(&mut self, finding: Finding) {
        *self.findings.entry(finding).or_default() += 1;
    }

    fn expect(&mut self, status: u16, expected: u16) {
        if status != expected {
            self.note(Finding::Refused);
        }
    }

    fn merge(&mut self, other: &Self) {
        for (what, count) in &other.counts {
            *self.counts.entry(what).or_default() += count;
        }
        for (finding, count) in &other.findings {
            *self.findings.entry(*finding).or_default() += count;
        }
    }

    fn has(&self, finding: Finding) -> bool {
        self.findings.contains_key(&finding)
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        [SERVE, fault, data] => {
            faulty::run(StoreFault::parse(fault), Path::new(data));
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
        scenario("honest", None, rounds, |it| it.has(Finding::Refused), clean),
        scenario("late", Some(StoreFault::Late), 3, |_| false, clean_and_replayed),
        scenario("early", Some(StoreFault::Early), 5, found_loss, found_loss),
        scenario("forgetful", Some(StoreFault::Forgetful), 5, found_second, found_second),
        scenario("unseen", Some(StoreFault::Unseen), 5, found_unseen, found_unseen),
    ];
    let failed = outcomes.iter().filter(|passed| !**passed).count();
    println!("kill_loop: {} passed, {failed} failed", outcomes.len() - failed);
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn clean(tally: &Tally) -> bool {
    tally.findings.is_empty()
}

/// Clean means little unless a kill has come between a commit and its answer.
fn clean_and_replayed(tally: &Tally) -> bool {
    clean(tally) && tally.counts.contains_key("replayed")
}

fn found_loss(tally: &Tally) -> bool {
    tally.has(Finding::Lost)
}

fn found_unseen(tally: &Tally) -> bool {
    tally.has(Finding::Unseen) && !tally.has(Finding::Broken)
}

/// Both ways to see it: in the rows after an unknown outcome, and in the answer to a known one.
fn found_second(tally: &Tally) -> bool {
    tally.has(Finding::Redone) && tally.has(Finding::Forgotten)
}

/// Rounds on one data directory, until `enough` or the last.
fn scenario(
    name: &str,
    fault: Option<StoreFault>,
    rounds: usize,
    enough: fn(&Tally) -> bool,
    pass: fn(&Tally) -> bool,
) -> bool {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = folder.path().join("data");
    // The first start makes the keys that a faulty server then finds.
    drop(ServerProcess::start(&mut scrip_dev(SCRIP, &data)));
    let (places, mut deeds, mut tally) = (AtomicU64::new(0), Vec::new(), Tally::default());
    for _ in 0..rounds {
        round(fault, &data, &places, &mut deeds, &mut tally);
        tally.add("rounds");
        if enough(&tally) {
            break;
        }
    }
    if fault.is_none() {
        // Once more from the first round on: later kills must not have harmed earlier tokens.
        let server = ServerProcess::start(&mut scrip_dev(SCRIP, &data));
        deeds::check(&server.access, &mut deeds, &mut tally);
    }
    let passed = pass(&tally);
    let word = if passed { "ok" } else { "FAILED" };
    println!("kill_loop {name} ... {word}  {:?}  found {:?}", tally.counts, tally.findings);
    passed
}

fn round(
    fault: Option<StoreFault>,
    data: &Path,
    places: &AtomicU64,
    deeds: &mut Vec<Deed>,
    tally: &mut Tally,
) {
    let first_new = deeds.len();
    let mut server = ServerProcess::start(&mut command(fault, data));
    let access = server.access.clone();
    thread::scope(|scope| {
        let clients: Vec<_> =
            (0..CLIENTS).map(|_| scope.spawn(|| deeds::work(&access, places))).collect();
        let read_before = deeds::READS.load(Ordering::Relaxed);
        thread::sleep(random_duration(50..400));
        if fault == Some(StoreFault::Unseen) {
            // However slow the machine is: only a read that was answered can have gone unseen.
            let mut waits = 0..400;
            while deeds::READS.load(Ordering::Relaxed) == read_before && waits.next().is_some() {
                thread::sleep(Duration::from_millis(50));
            }
        }
        server.child.kill().expect("the server was running");
        for client in clients {
            let (done, counted) = client.join().expect("a client does not panic");
            deeds.extend(done);
            tally.merge(&counted);
        }
    });
    drop(server);

    let server = ServerProcess::start(&mut command(fault, data));
    let new = deeds.get_mut(first_new..).expect("deeds only grow");
    deeds::repeat(&server.access, new, tally);
    deeds::check(&server.access, new, tally);
    drop(server);
    rows::check(&data.join("scrip.db"), deeds, tally);
    rows::check_reads(&data.join("access.db"), deeds, tally);
    if !is_trail_whole(data) {
        tally.note(Finding::Broken);
    }
}

/// By the program as shipped, which goes through every record.
fn is_trail_whole(data: &Path) -> bool {
    let mut command = Command::new(SCRIP);
    command.args(["audit", "verify", "--json", "--data-dir"]).arg(data);
    let verified = command.output().expect("scrip runs");
    verified.status.success()
}

/// The program as shipped, or this one with a fault.
fn command(fault: Option<StoreFault>, data: &Path) -> Command {
    let Some(fault) = fault else { return scrip_dev(SCRIP, data) };
    let mut command = Command::new(std::env::current_exe().expect("this program has a path"));
    command.args([SERVE, fault.name()]).arg(data).stderr(Stdio::null());
    command
}
