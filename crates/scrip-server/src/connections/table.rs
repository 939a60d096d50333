//! Table of open connections, with a total limit and a limit per client network.
//!
//! When the table is full, a new connection replaces the one that has been idle for longest. A
//! connection with a request in progress is not evicted, unless the server has waited for its
//! client too long.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use scrip_core::policy::rate_limit::ClientNetwork;
use tokio::{
    sync::Notify,
    time::{sleep, timeout},
};

use crate::{
    clock::ticks,
    connections::{CloseReason, STALLED_AFTER},
};

/// Interval at which a waiting connection checks the table again. A connection that becomes idle
/// does not notify the table.
const RECHECK_EVERY: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(crate) struct ConnectionTable {
    connections_max: usize,
    network_max: usize,
    entries: Mutex<ConnectionEntries>,
    slot_freed: Notify,
}

/// Time of the last known activity, and the id of the connection.
type IdleRank = (u64, u64);

#[derive(Debug, Default)]
struct ConnectionEntries {
    next_id: u64,
    by_id: HashMap<u64, ConnectionEntry>,
    /// The idlest first. A rank may be older than the last activity of its connection, never newer.
    by_rank: BTreeSet<IdleRank>,
    by_network: HashMap<ClientNetwork, BTreeSet<IdleRank>>,
}

#[derive(Debug)]
struct ConnectionEntry {
    /// `None` for a trusted proxy, which forwards many clients.
    network: Option<ClientNetwork>,
    ranked_at: u64,
    activity: Arc<Activity>,
    evicted: Arc<Notify>,
}

/// A connection's slot in the table, released on drop.
#[derive(Debug)]
pub(crate) struct ConnectionSlot {
    table: Arc<ConnectionTable>,
    id: u64,
    /// Notified when another connection took the slot.
    pub(crate) evicted: Arc<Notify>,
}

/// Outcome for a new connection.
#[derive(Debug)]
pub(crate) enum Admission {
    Admitted(ConnectionSlot, Eviction),
    /// All slots of the client's network are in use.
    NetworkFull,
}

/// Which connection was evicted for a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Eviction {
    None,
    /// A connection of the same network, because the network reached its limit.
    FromNetwork,
    /// The idlest connection of all.
    FromAll,
}

impl ConnectionTable {
    pub(crate) fn new(connections_max: usize, network_max: usize) -> Arc<Self> {
        let (entries, slot_freed) = (Mutex::default(), Notify::new());
        Arc::new(Self { connections_max, network_max, entries, slot_freed })
    }

    /// Reserves a slot. Waits while every connection has a request in progress. `network` is `None`
    /// if no network limit applies.
    pub(crate) async fn admit(
        self: &Arc<Self>,
        network: Option<ClientNetwork>,
        activity: &Arc<Activity>,
    ) -> Admission {
        loop {
            match self.try_admit(network, activity) {
                Some(admission) => return admission,
                None => drop(timeout(RECHECK_EVERY, self.slot_freed.notified()).await),
            }
        }
    }

    /// Closes the idlest connection without replacement and waits briefly until its descriptor is
    /// closed. Returns false if each connection has a request in progress.
    pub(crate) async fn evict_idlest(&self) -> bool {
        let is_evicted = self.lock().evict_idlest(None);
        drop(timeout(RECHECK_EVERY, self.slot_freed.notified()).await);
        is_evicted
    }

    /// Returns `None` while every connection has a request in progress.
    fn try_admit(
        self: &Arc<Self>,
        network: Option<ClientNetwork>,
        activity: &Arc<Activity>,
    ) -> Option<Admission> {
        let mut entries = self.lock();
        let mut eviction = Eviction::None;
        if network.is_some_and(|it| entries.count(it) >= self.network_max) {
            if !entries.evict_idlest(network) {
                return Some(Admission::NetworkFull);
            }
            eviction = Eviction::FromNetwork;
        }
        if entries.by_id.len() >= self.connections_max {
            if !entries.evict_idlest(None) {
                return None;
            }
            eviction = Eviction::FromAll;
        }
        let (id, evicted) = entries.insert(network, Arc::clone(activity));
        let slot = ConnectionSlot { table: Arc::clone(self), id, evicted };
        Some(Admission::Admitted(slot, eviction))
    }

    fn lock(&self) -> MutexGuard<'_, ConnectionEntries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConnectionEntries {
    fn count(&self, network: ClientNetwork) -> usize {
        self.by_network.get(&network).map_or(0, BTreeSet::len)
    }

    fn insert(
        &mut self,
        network: Option<ClientNetwork>,
        activity: Arc<Activity>,
    ) -> (u64, Arc<Notify>) {
        let id = self.next_id;
        self.next_id = id.saturating_add(1);
        let ranked_at = now_micros();
        let evicted = Arc::new(Notify::new());
        let entry = ConnectionEntry { network, ranked_at, activity, evicted: Arc::clone(&evicted) };
        self.rank(network, (ranked_at, id));
        self.by_id.insert(id, entry);
        (id, evicted)
    }

    fn rank(&mut self, network: Option<ClientNetwork>, rank: IdleRank) {
        self.by_rank.insert(rank);
        if let Some(network) = network {
            self.by_network.entry(network).or_default().insert(rank);
        }
    }

    fn unrank(&mut self, network: Option<ClientNetwork>, rank: IdleRank) {
        self.by_rank.remove(&rank);
        let Some(network) = network else { return };
        if let Some(ranks) = self.by_network.get_mut(&network) {
            ranks.remove(&rank);
            if ranks.is_empty() {
                self.by_network.remove(&network);
            }
        }
    }

    fn remove(&mut self, id: u64) -> Option<ConnectionEntry> {
        let entry = self.by_id.remove(&id)?;
        self.unrank(entry.network, (entry.ranked_at, id));
        Some(entry)
    }

    /// Evicts the idlest connection of a network or of all. Returns false if each has a request in
    /// progress.
    fn evict_idlest(&mut self, network: Option<ClientNetwork>) -> bool {
        let Some(id) = self.find_idlest(network) else { return false };
        let Some(entry) = self.remove(id) else { return false };
        entry.evicted.notify_one();
        true
    }

    /// Returns the id of the idlest connection. Ranks are updated only here, so that requests need
    /// not do it. The first entry with a correct rank is the idlest; each outdated rank costs one
    /// step.
    fn find_idlest(&mut self, network: Option<ClientNetwork>) -> Option<u64> {
        let count = match network {
            Some(network) => self.count(network),
            None => self.by_rank.len(),
        };
        let now = now_micros();
        for _ in 0..count.saturating_mul(2) {
            let first = match network {
                Some(network) => self.by_network.get(&network)?.first(),
                None => self.by_rank.first(),
            };
            let (ranked_at, id) = *first?;
            let entry = self.by_id.get_mut(&id)?;
            // A connection with a request in progress is ranked as of now.
            let idle_since = entry.activity.idle_since();
            let current_rank = idle_since.unwrap_or(now).max(ranked_at);
            if idle_since.is_some() && current_rank == ranked_at {
                return Some(id);
            }
            if idle_since.is_none() && ranked_at >= now {
                // All others have later ranks and were busy when they were checked.
                return None;
            }
            entry.ranked_at = current_rank;
            let entry_network = entry.network;
            self.unrank(entry_network, (ranked_at, id));
            self.rank(entry_network, (current_rank, id));
        }
        None
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        // `None` if another connection took the slot.
        drop(self.table.lock().remove(self.id));
        self.table.slot_freed.notify_one();
    }
}

/// Activity of a connection, shared by its stream, its requests and the connection table.
#[derive(Debug)]
pub(crate) struct Activity {
    requests_started: AtomicU64,
    requests_finished: AtomicU64,
    /// Requests that wait for bytes of their bodies.
    waiting_for_body: AtomicU64,
    /// Time when the connection was accepted, a request last started or ended, or a body last made
    /// progress, in microseconds.
    changed_at: AtomicU64,
    /// Time since when the client reads nothing of a response, in microseconds; zero while it
    /// reads.
    write_blocked_since: AtomicU64,
    /// Time without progress, in microseconds, after which a connection that waits for its client
    /// counts as idle.
    stalled_after: u64,
    close_reason: OnceLock<CloseReason>,
}

/// Microseconds of the monotonic clock.
pub(crate) fn now_micros() -> u64 {
    to_micros(ticks())
}

fn to_micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl Activity {
    pub(crate) fn new() -> Self {
        Self::with_stall_time(STALLED_AFTER)
    }

    /// A connection that waits for its client counts as idle after `stall_time` without progress.
    pub(crate) fn with_stall_time(stall_time: Duration) -> Self {
        Self {
            requests_started: AtomicU64::new(0),
            requests_finished: AtomicU64::new(0),
            waiting_for_body: AtomicU64::new(0),
            changed_at: AtomicU64::new(now_micros()),
            write_blocked_since: AtomicU64::new(0),
            stalled_after: to_micros(stall_time),
            close_reason: OnceLock::new(),
        }
    }

    /// Completes after the connection had no request for `idle_time`. Hyper has such a timeout for
    /// HTTP/1.1 only.
    pub(crate) async fn wait_until_idle(self: Arc<Self>, idle_time: Duration) {
        loop {
            let started_before = self.requests_started.load(Ordering::Relaxed);
            sleep(idle_time).await;
            let counts = [&self.requests_started, &self.requests_finished]
                .map(|it| it.load(Ordering::Relaxed));
            if counts == [started_before, started_before] {
                return;
            }
        }
    }

    pub(crate) fn start_request(&self) {
        self.requests_started.fetch_add(1, Ordering::Relaxed);
        self.record_progress();
    }

    pub(crate) fn finish_request(&self) {
        self.record_progress();
        self.requests_finished.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn record_progress(&self) {
        self.changed_at.store(now_micros(), Ordering::Relaxed);
    }

    /// Records that a request waits for bytes of its body, until [`Self::stop_waiting`].
    pub(crate) fn start_waiting(&self) {
        self.waiting_for_body.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn stop_waiting(&self) {
        self.waiting_for_body.fetch_sub(1, Ordering::Relaxed);
    }

    /// Time since when the connection is idle. `None` while the server works on a request, or while
    /// the client made progress recently.
    pub(crate) fn idle_since(&self) -> Option<u64> {
        let counts = [&self.requests_started, &self.requests_finished, &self.waiting_for_body]
            .map(|it| it.load(Ordering::Relaxed));
        let [started, finished, waiting] = counts;
        let in_progress = started.saturating_sub(finished);
        if in_progress > waiting {
            return None;
        }
        let changed_at = self.changed_at.load(Ordering::Relaxed);
        let blocked_since = self.write_blocked_since.load(Ordering::Relaxed);
        if in_progress == 0 && blocked_since == 0 {
            return Some(changed_at);
        }
        let since = if in_progress == 0 { blocked_since } else { changed_at.max(blocked_since) };
        Some(since).filter(|it| now_micros().saturating_sub(*it) >= self.stalled_after)
    }

    /// Records that the client reads nothing of a response, until [`Self::stop_write_blocked`].
    pub(crate) fn start_write_blocked(&self) {
        let since = &self.write_blocked_since;
        if since.load(Ordering::Relaxed) == 0 {
            since.store(now_micros().max(1), Ordering::Relaxed);
        }
    }

    pub(crate) fn stop_write_blocked(&self) {
        self.write_blocked_since.store(0, Ordering::Relaxed);
    }

    /// Records why the server closes the connection. The first reason counts.
    pub(crate) fn set_close_reason(&self, reason: CloseReason) {
        self.close_reason.get_or_init(|| reason);
    }

    pub(crate) fn close_reason(&self) -> Option<CloseReason> {
        self.close_reason.get().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(last_byte: u8) -> Option<ClientNetwork> {
        Some(ClientNetwork::from_address([192, 0, 2, last_byte].into()))
    }

    struct OpenConnection {
        slot: ConnectionSlot,
        activity: Arc<Activity>,
    }

    impl OpenConnection {
        async fn is_evicted(&self) -> bool {
            timeout(Duration::ZERO, self.slot.evicted.notified()).await.is_ok()
        }
    }

    #[track_caller]
    fn open_connection(
        table: &Arc<ConnectionTable>,
        network: Option<ClientNetwork>,
    ) -> (OpenConnection, Eviction) {
        // The order of connections has microsecond resolution.
        std::thread::sleep(Duration::from_micros(5));
        let activity = Arc::new(Activity::new());
        match table.try_admit(network, &activity) {
            Some(Admission::Admitted(slot, eviction)) => {
                (OpenConnection { slot, activity }, eviction)
            }
            Some(Admission::NetworkFull) => panic!("the network is full"),
            None => panic!("the table is full"),
        }
    }

    #[tokio::test]
    async fn full_table_evicts_the_idlest_connection() {
        let table = ConnectionTable::new(3, 3);
        let (first, _) = open_connection(&table, network(1));
        let (second, _) = open_connection(&table, network(2));
        let (third, eviction) = open_connection(&table, network(3));
        assert_eq!(eviction, Eviction::None);
        // The first has just finished a request; the second has a request in progress.
        first.activity.start_request();
        first.activity.finish_request();
        second.activity.start_request();
        let (_fourth, eviction) = open_connection(&table, network(4));
        assert_eq!(eviction, Eviction::FromAll);
        assert!(third.is_evicted().await);
        assert!(!first.is_evicted().await && !second.is_evicted().await);
        let (_fifth, _) = open_connection(&table, network(5));
        assert!(first.is_evicted().await && !second.is_evicted().await);
    }

    #[tokio::test]
    async fn full_table_waits_while_every_connection_has_a_request() {
        let table = ConnectionTable::new(1, 1);
        let (busy_connection, _) = open_connection(&table, None);
        busy_connection.activity.start_request();
        let activity = Arc::new(Activity::new());
        let admission =
            timeout(Duration::from_millis(10), table.admit(network(1), &activity)).await;
        assert!(admission.is_err());
        busy_connection.activity.finish_request();
        let admitted = table.admit(network(1), &activity).await;
        assert!(matches!(admitted, Admission::Admitted(_, Eviction::FromAll)));
        assert!(busy_connection.is_evicted().await);
    }

    #[tokio::test]
    async fn network_at_its_limit_replaces_only_its_own_idle_connections() {
        let table = ConnectionTable::new(10, 2);
        let (other_network_connection, _) = open_connection(&table, network(2));
        let (first, _) = open_connection(&table, network(1));
        let (second, _) = open_connection(&table, network(1));
        let (third, eviction) = open_connection(&table, network(1));
        assert_eq!(eviction, Eviction::FromNetwork);
        assert!(first.is_evicted().await && !other_network_connection.is_evicted().await);
        second.activity.start_request();
        third.activity.start_request();
        let activity = Arc::new(Activity::new());
        let admission = table.try_admit(network(1), &activity);
        assert!(matches!(admission, Some(Admission::NetworkFull)));
        // A trusted proxy has no network limit.
        let (_proxy, eviction) = open_connection(&table, None);
        assert_eq!(eviction, Eviction::None);
        drop(second);
        let (_fourth, eviction) = open_connection(&table, network(1));
        assert_eq!(eviction, Eviction::None);
    }

    #[test]
    fn closed_connections_leave_nothing_in_the_table() {
        let table = ConnectionTable::new(4, 1);
        for round in 0..100 {
            let (connection, _) = open_connection(&table, network(round));
            connection.activity.start_request();
            connection.activity.finish_request();
        }
        let entries = table.lock();
        assert!(entries.by_id.is_empty() && entries.by_rank.is_empty());
        assert!(entries.by_network.is_empty());
    }
}
