//! Load, a death in the midst of it, and then the question what is left.

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

/// A vault and all that was ever done to it.
struct LoadTest {
    vault: TwoNodeVault,
    next_number: AtomicU64,
    histories: Vec<TokenHistory>,
    report: RunReport,
}

impl LoadTest {
    fn new(cluster: Cluster) -> Self {
        let (places, histories, report) = Default::default();
        Self { vault: TwoNodeVault::create(cluster), next_number: places, histories, report }
    }

    /// Somebody dies under load; the clients go on until they know the outcome of all they asked for.
    fn run_round(&mut self, fail: impl FnOnce(&mut TwoNodeVault, &AtomicU64)) {
        let (vault, places, stop) = (&mut self.vault, &self.next_number, AtomicBool::new(false));
        let door = vault.nodes_access.clone();
        let first_new = self.histories.len();
        thread::scope(|scope| {
            let client = |at| {
                let (door, stop) = (&door, &stop);
                scope.spawn(move || token_histories::run_client(door, at, places, stop))
            };
            let clients: Vec<_> = (0..CLIENTS).map(client).collect();
            thread::sleep(random_duration(200..1000));
            wait_for_load(places);
            fail(vault, places);
            thread::sleep(random_duration(50..300));
            stop.store(true, Ordering::Relaxed);
            for client in clients {
                let (done, counted) = client.join().expect("a client does not panic");
                self.histories.extend(done);
                self.report.merge(&counted);
            }
        });
        self.report.add("rounds");
        let new = self.histories.get(first_new..).expect("deeds only grow");
        token_histories::check_tokens(&self.vault.nodes_access, new, &mut self.report);
        token_histories::check_rows(&self.vault, &self.histories, &mut self.report);
    }

    /// Once more from the first round on: later deaths must not have harmed earlier tokens. Clean
    /// means little unless somebody died while others waited for an answer.
    fn finish(mut self) -> (RunReport, bool) {
        token_histories::check_tokens(&self.vault.nodes_access, &self.histories, &mut self.report);
        let failures = self.report.count("503") + self.report.count("broken");
        let passed = self.report.is_clean() && failures > 0;
        (self.report, passed)
    }

    /// For one that may lose what it acknowledged.
    fn finish_expecting_loss(self) -> (RunReport, bool) {
        let passed = self.report.has_violation(ConsistencyViolation::Lost);
        (self.report, passed)
    }
}

/// However slow the machine is: until every client has done something that it began after this.
fn wait_for_load(next_number: &AtomicU64) {
    let more = u64::try_from(2 * CLIENTS).expect("a number");
    let enough = next_number.load(Ordering::Relaxed) + more;
    assert!(eventually(|| next_number.load(Ordering::Relaxed) >= enough), "there is no load");
}

/// It comes back in its directory, and the nodes find it without being started again.
fn restart_postgres(vault: &mut TwoNodeVault, _: &AtomicU64) {
    vault.cluster.kill_primary();
    vault.cluster.restart_primary();
}

pub(crate) fn kill_postgres(length: RunLength) -> (RunReport, bool) {
    let mut loaded = LoadTest::new(Cluster::start(&[]));
    for _ in 0..length.postgres_kills {
        loaded.run_round(restart_postgres);
    }
    loaded.finish()
}

/// The control: this one says that it has committed before anything is on disk.
pub(crate) fn kill_lax_postgres(_: RunLength) -> (RunReport, bool) {
    let lax = ["synchronous_commit=off", "wal_writer_delay=10s", "wal_writer_flush_after=1GB"];
    let mut loaded = LoadTest::new(Cluster::start(&lax));
    // The vault itself must not be what is lost.
    loaded.vault.cluster.query_primary("CHECKPOINT");
    // What fills a page of the log is written out, so it is only the last page that gets lost.
    for _ in 0..20 {
        loaded.run_round(restart_postgres);
        if loaded.report.has_violation(ConsistencyViolation::Lost) {
            break;
        }
    }
    loaded.finish_expecting_loss()
}

pub(crate) fn kill_nodes(length: RunLength) -> (RunReport, bool) {
    let mut loaded = LoadTest::new(Cluster::start(&[]));
    for round in 0..length.node_kills {
        loaded.run_round(|vault, _| {
            vault.kill(round % 2);
            thread::sleep(random_duration(50..500));
            vault.start(round % 2);
        });
    }
    loaded.finish()
}

pub(crate) fn failover(length: RunLength) -> (RunReport, bool) {
    let mut loaded = LoadTest::new(Cluster::start(&[]));
    for _ in 0..length.failovers {
        loaded.vault.cluster.add_standby(Replication::Synchronous);
        loaded.run_round(|vault, _| vault.cluster.fail_over());
    }
    loaded.finish()
}

/// The control: nobody waits for this standby, and it gets nothing of the last part of the load.
pub(crate) fn failover_to_lagging_standby(_: RunLength) -> (RunReport, bool) {
    let mut loaded = LoadTest::new(Cluster::start(&[]));
    loaded.vault.cluster.add_standby(Replication::Asynchronous);
    loaded.run_round(|vault, places| {
        vault.cluster.disconnect_standby();
        wait_for_load(places);
        vault.cluster.fail_over();
    });
    loaded.finish_expecting_loss()
}
