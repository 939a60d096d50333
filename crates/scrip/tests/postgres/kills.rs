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
    Length,
    deeds::{self, Deed},
    nodes::{Vault, eventually},
    tally::{Finding, Tally},
};

const CLIENTS: usize = 16;

/// A vault and all that was ever done to it.
struct Loaded {
    vault: Vault,
    places: AtomicU64,
    deeds: Vec<Deed>,
    tally: Tally,
}

impl Loaded {
    fn new(cluster: Cluster) -> Self {
        let (places, deeds, tally) = Default::default();
        Self { vault: Vault::found(cluster), places, deeds, tally }
    }

    /// Somebody dies under load; the clients go on until they know the outcome of all they asked for.
    fn round(&mut self, die: impl FnOnce(&mut Vault, &AtomicU64)) {
        let (vault, places, stop) = (&mut self.vault, &self.places, AtomicBool::new(false));
        let door = vault.door.clone();
        let first_new = self.deeds.len();
        thread::scope(|scope| {
            let client = |at| {
                let (door, stop) = (&door, &stop);
                scope.spawn(move || deeds::work(door, at, places, stop))
            };
            let clients: Vec<_> = (0..CLIENTS).map(client).collect();
            thread::sleep(random_duration(200..1000));
            await_deeds(places);
            die(vault, places);
            thread::sleep(random_duration(50..300));
            stop.store(true, Ordering::Relaxed);
            for client in clients {
                let (done, counted) = client.join().expect("a client does not panic");
                self.deeds.extend(done);
                self.tally.merge(&counted);
            }
        });
        self.tally.add("rounds");
        let new = self.deeds.get(first_new..).expect("deeds only grow");
        deeds::check(&self.vault.door, new, &mut self.tally);
        deeds::check_rows(&self.vault, &self.deeds, &mut self.tally);
    }

    /// Once more from the first round on: later deaths must not have harmed earlier tokens. Clean
    /// means little unless somebody died while others waited for an answer.
    fn end(mut self) -> (Tally, bool) {
        deeds::check(&self.vault.door, &self.deeds, &mut self.tally);
        let failures = self.tally.count("503") + self.tally.count("broken");
        let passed = self.tally.is_clean() && failures > 0;
        (self.tally, passed)
    }

    /// For one that may lose what it acknowledged.
    fn end_with_loss(self) -> (Tally, bool) {
        let passed = self.tally.has(Finding::Lost);
        (self.tally, passed)
    }
}

/// However slow the machine is: until every client has done something that it began after this.
fn await_deeds(places: &AtomicU64) {
    let more = u64::try_from(2 * CLIENTS).expect("a number");
    let enough = places.load(Ordering::Relaxed) + more;
    assert!(eventually(|| places.load(Ordering::Relaxed) >= enough), "there is no load");
}

/// It comes back in its directory, and the nodes find it without being started again.
fn kill_and_revive(vault: &mut Vault, _: &AtomicU64) {
    vault.cluster.kill();
    vault.cluster.revive();
}

pub(crate) fn of_postgres(length: Length) -> (Tally, bool) {
    let mut loaded = Loaded::new(Cluster::start(&[]));
    for _ in 0..length.postgres_kills {
        loaded.round(kill_and_revive);
    }
    loaded.end()
}

/// The control: this one says that it has committed before anything is on disk.
pub(crate) fn of_lax_postgres(_: Length) -> (Tally, bool) {
    let lax = ["synchronous_commit=off", "wal_writer_delay=10s", "wal_writer_flush_after=1GB"];
    let mut loaded = Loaded::new(Cluster::start(&lax));
    // The vault itself must not be what is lost.
    loaded.vault.cluster.query("CHECKPOINT");
    // What fills a page of the log is written out, so it is only the last page that gets lost.
    for _ in 0..20 {
        loaded.round(kill_and_revive);
        if loaded.tally.has(Finding::Lost) {
            break;
        }
    }
    loaded.end_with_loss()
}

pub(crate) fn of_nodes(length: Length) -> (Tally, bool) {
    let mut loaded = Loaded::new(Cluster::start(&[]));
    for round in 0..length.node_kills {
        loaded.round(|vault, _| {
            vault.kill(round % 2);
            thread::sleep(random_duration(50..500));
            vault.start(round % 2);
        });
    }
    loaded.end()
}

pub(crate) fn failover(length: Length) -> (Tally, bool) {
    let mut loaded = Loaded::new(Cluster::start(&[]));
    for _ in 0..length.failovers {
        loaded.vault.cluster.add_standby(Replication::Synchronous);
        loaded.round(|vault, _| vault.cluster.fail_over());
    }
    loaded.end()
}

/// The control: nobody waits for this standby, and it gets nothing of the last part of the load.
pub(crate) fn failover_to_one_behind(_: Length) -> (Tally, bool) {
    let mut loaded = Loaded::new(Cluster::start(&[]));
    loaded.vault.cluster.add_standby(Replication::Asynchronous);
    loaded.round(|vault, places| {
        vault.cluster.cut_off_standby();
        await_deeds(places);
        vault.cluster.fail_over();
    });
    loaded.end_with_loss()
}
