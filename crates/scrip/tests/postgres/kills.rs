//! Load, a failure during the load, and a check of the remaining data.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
};

use scrip_testing::{
    postgres::cluster::{Cluster, Replication},
    random::random_duration,
};

use crate::{
    RunLength,
    nodes::{TwoNodeVault, eventually},
    report::{ConsistencyViolation, RunReport},
    token_histories::{self, TokenHistory},
};

const CLIENTS: usize = 16;

/// A vault and the history of all operations on it.
struct LoadTest {
    vault: TwoNodeVault,
    next_number: AtomicU64,
    histories: Vec<TokenHistory>,
    report: RunReport,
}

impl LoadTest {
    fn new(cluster: Cluster) -> Self {
        let (next_number, histories, report) = Default::default();
        Self { vault: TwoNodeVault::create(cluster), next_number, histories, report }
    }

    /// Runs a failure under load. The clients continue until they know the outcome of every
    /// request.
    fn run_round(&mut self, cause_failure: impl FnOnce(&mut TwoNodeVault, &AtomicU64)) {
        let (vault, next_number, stop) =
            (&mut self.vault, &self.next_number, AtomicBool::new(false));
        let nodes = vault.nodes_access.clone();
        let first_new = self.histories.len();
        thread::scope(|scope| {
            let client = |index| {
                let (nodes, stop) = (&nodes, &stop);
                scope.spawn(move || token_histories::run_client(nodes, index, next_number, stop))
            };
            let clients: Vec<_> = (0..CLIENTS).map(client).collect();
            thread::sleep(random_duration(200..1000));
            wait_for_load(next_number);
            cause_failure(vault, next_number);
            thread::sleep(random_duration(50..300));
            stop.store(true, Ordering::Relaxed);
            for client in clients {
                let (client_histories, client_report) =
                    client.join().expect("a client thread panicked");
                self.histories.extend(client_histories);
                self.report.merge(&client_report);
            }
        });
        self.report.add("rounds");
        let new_histories = self.histories.get(first_new..).expect("histories are never removed");
        token_histories::check_tokens(&self.vault.nodes_access, new_histories, &mut self.report);
        token_histories::check_rows(&self.vault, &self.histories, &mut self.report);
    }

    /// Checks all rounds again: later failures must not have damaged earlier tokens. A clean run
    /// proves little unless clients waited for a response during a failure.
    fn finish(mut self) -> (RunReport, bool) {
        token_histories::check_tokens(&self.vault.nodes_access, &self.histories, &mut self.report);
        let failures = self.report.count("503") + self.report.count("broken");
        let passed = self.report.is_clean() && failures > 0;
        (self.report, passed)
    }

    /// Ends a scenario on a PostgreSQL that may lose acknowledged writes. The scenario passes if a
    /// loss was detected.
    fn finish_expecting_loss(self) -> (RunReport, bool) {
        let passed = self.report.has_violation(ConsistencyViolation::Lost);
        (self.report, passed)
    }
}

/// Waits until every client has completed an operation that it started after this call.
fn wait_for_load(next_number: &AtomicU64) {
    let additional_requests = u64::try_from(2 * CLIENTS).expect("a number");
    let target = next_number.load(Ordering::Relaxed) + additional_requests;
    let is_busy = eventually(|| next_number.load(Ordering::Relaxed) >= target);
    assert!(is_busy, "the clients do not produce load");
}

/// Restarts PostgreSQL in its directory. The nodes reconnect without a restart.
fn restart_postgres(vault: &mut TwoNodeVault, _: &AtomicU64) {
    vault.cluster.kill_primary();
    vault.cluster.restart_primary();
}

pub(crate) fn kill_postgres(length: RunLength) -> (RunReport, bool) {
    let mut load_test = LoadTest::new(Cluster::start(&[]));
    for _ in 0..length.postgres_kills {
        load_test.run_round(restart_postgres);
    }
    load_test.finish()
}

/// Negative control: this PostgreSQL acknowledges commits before they are on disk.
pub(crate) fn kill_lax_postgres(_: RunLength) -> (RunReport, bool) {
    let unsafe_settings =
        ["synchronous_commit=off", "wal_writer_delay=10s", "wal_writer_flush_after=1GB"];
    let mut load_test = LoadTest::new(Cluster::start(&unsafe_settings));
    // The vault itself must not be lost.
    load_test.vault.cluster.query_primary("CHECKPOINT");
    // PostgreSQL writes full WAL pages, so only the last page can be lost.
    for _ in 0..20 {
        load_test.run_round(restart_postgres);
        if load_test.report.has_violation(ConsistencyViolation::Lost) {
            break;
        }
    }
    load_test.finish_expecting_loss()
}

pub(crate) fn kill_nodes(length: RunLength) -> (RunReport, bool) {
    let mut load_test = LoadTest::new(Cluster::start(&[]));
    for round in 0..length.node_kills {
        load_test.run_round(|vault, _| {
            vault.kill(round % 2);
            thread::sleep(random_duration(50..500));
            vault.start(round % 2);
        });
    }
    load_test.finish()
}

pub(crate) fn failover(length: RunLength) -> (RunReport, bool) {
    let mut load_test = LoadTest::new(Cluster::start(&[]));
    for _ in 0..length.failovers {
        load_test.vault.cluster.add_standby(Replication::Synchronous);
        load_test.run_round(|vault, _| vault.cluster.fail_over());
    }
    load_test.finish()
}

/// Negative control: the primary does not wait for this standby, which misses the last part of the
/// load.
pub(crate) fn failover_to_lagging_standby(_: RunLength) -> (RunReport, bool) {
    let mut load_test = LoadTest::new(Cluster::start(&[]));
    load_test.vault.cluster.add_standby(Replication::Asynchronous);
    load_test.run_round(|vault, next_number| {
        vault.cluster.disconnect_standby();
        wait_for_load(next_number);
        vault.cluster.fail_over();
    });
    load_test.finish_expecting_loss()
}
