//! The table of open connections: a cap for all of them, and one for each client network.
//!
//! When the table is full, a new connection takes the place of the one that has been idle for
//! longest. A connection with a request in progress keeps its place, unless the server has waited
//! for its client too long.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use scrip_core::policy::rate_limit::ClientNetwork;
use tokio::{sync::Notify, time::timeout};

use crate::listen::connection::{Activity, now_micros};

/// A connection that ends its request keeps its slot, and nothing tells that it is idle now.
const RECHECK_EVERY: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(crate) struct ConnectionTable {
    connections_max: usize,
    network_max: usize,
    entries: Mutex<ConnectionEntries>,
    slot_freed: Notify,
}

/// When it was last known to do something, and which one.
type IdleRank = (u64, u64);

#[derive(Debug, Default)]
struct ConnectionEntries {
    next_id: u64,
    by_id: HashMap<u64, ConnectionEntry>,
    /// The idlest first. A rank may be older than what its connection did last, never newer.
    by_rank: BTreeSet<IdleRank>,
    by_network: HashMap<ClientNetwork, BTreeSet<IdleRank>>,
}

#[derive(Debug)]
struct ConnectionEntry {
    /// None for a trusted proxy, which speaks for many clients.
    network: Option<ClientNetwork>,
    ranked_at: u64,
    activity: Arc<Activity>,
    evicted: Arc<Notify>,
}

/// A connection's place in the table, until it is dropped.
#[derive(Debug)]
pub(crate) struct ConnectionSlot {
    table: Arc<ConnectionTable>,
    id: u64,
    /// Ready when another connection has taken the place.
    pub(crate) evicted: Arc<Notify>,
}

/// What becomes of a new connection.
#[derive(Debug)]
pub(crate) enum Admission {
    Admitted(ConnectionSlot, Eviction),
    /// The client's network has all its slots in use.
    NetworkFull,
}

/// Whose place a new connection has taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Eviction {
    None,
    /// One of the same network, at the network's cap.
    FromNetwork,
    /// The idlest of all.
    FromAll,
}

impl ConnectionTable {
    pub(crate) fn new(connections_max: usize, network_max: usize) -> Arc<Self> {
        let (entries, freed) = (Mutex::default(), Notify::new());
        Arc::new(Self { connections_max, network_max, entries, slot_freed: freed })
    }

    /// Waits while every connection has a request in progress. A network is None when no cap
    /// applies.
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

    /// Ends the idlest connection without a new one in its place, and waits until it has closed its
    /// descriptor or for a moment; false when each has a request in progress.
    pub(crate) async fn evict_idlest(&self) -> bool {
        let is_evicted = self.lock().evict_idlest(None);
        drop(timeout(RECHECK_EVERY, self.slot_freed.notified()).await);
        is_evicted
    }

    /// None while every connection has a request in progress.
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

    /// Ends the idlest connection, of a network or of all; false when each has a request in
    /// progress.
    fn evict_idlest(&mut self, network: Option<ClientNetwork>) -> bool {
        let Some(id) = self.find_idlest(network) else { return false };
        let Some(entry) = self.remove(id) else { return false };
        entry.evicted.notify_one();
        true
    }

    /// Ranks are brought up to date only here, so that requests need not do it. The first one whose
    /// rank is right is the idlest; each of the others costs one step.
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
            // Whatever is in progress ends later than now.
            let idle_since = entry.activity.idle_since();
            let right = idle_since.unwrap_or(now).max(ranked_at);
            if idle_since.is_some() && right == ranked_at {
                return Some(id);
            }
            if idle_since.is_none() && ranked_at >= now {
                // All others are ranked later, and were busy when they were looked at.
                return None;
            }
            entry.ranked_at = right;
            let of_network = entry.network;
            self.unrank(of_network, (ranked_at, id));
            self.rank(of_network, (right, id));
        }
        None
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        // None when another connection has taken the place.
        drop(self.table.lock().remove(self.id));
        self.table.slot_freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(last: u8) -> Option<ClientNetwork> {
        Some(ClientNetwork::from_address([192, 0, 2, last].into()))
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
    fn open(
        table: &Arc<ConnectionTable>,
        network: Option<ClientNetwork>,
    ) -> (OpenConnection, Eviction) {
        // Microseconds tell the order of connections.
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
        let (first, _) = open(&table, network(1));
        let (second, _) = open(&table, network(2));
        let (third, eviction) = open(&table, network(3));
        assert_eq!(eviction, Eviction::None);
        // The oldest has just ended a request, the next one has one in progress.
        first.activity.start_request();
        first.activity.finish_request();
        second.activity.start_request();
        let (_fourth, eviction) = open(&table, network(4));
        assert_eq!(eviction, Eviction::FromAll);
        assert!(third.is_evicted().await);
        assert!(!first.is_evicted().await && !second.is_evicted().await);
        let (_fifth, _) = open(&table, network(5));
        assert!(first.is_evicted().await && !second.is_evicted().await);
    }

    #[tokio::test]
    async fn full_table_waits_while_every_connection_has_a_request() {
        let table = ConnectionTable::new(1, 1);
        let (only, _) = open(&table, None);
        only.activity.start_request();
        let activity = Arc::new(Activity::new());
        let waits = timeout(Duration::from_millis(10), table.admit(network(1), &activity)).await;
        assert!(waits.is_err());
        only.activity.finish_request();
        let admitted = table.admit(network(1), &activity).await;
        assert!(matches!(admitted, Admission::Admitted(_, Eviction::FromAll)));
        assert!(only.is_evicted().await);
    }

    #[tokio::test]
    async fn network_at_its_cap_replaces_only_its_own_idle_connections() {
        let table = ConnectionTable::new(10, 2);
        let (other, _) = open(&table, network(2));
        let (first, _) = open(&table, network(1));
        let (second, _) = open(&table, network(1));
        let (third, eviction) = open(&table, network(1));
        assert_eq!(eviction, Eviction::FromNetwork);
        assert!(first.is_evicted().await && !other.is_evicted().await);
        second.activity.start_request();
        third.activity.start_request();
        let activity = Arc::new(Activity::new());
        let rejected = table.try_admit(network(1), &activity);
        assert!(matches!(rejected, Some(Admission::NetworkFull)));
        // A trusted proxy has no cap.
        let (_proxy, eviction) = open(&table, None);
        assert_eq!(eviction, Eviction::None);
        drop(second);
        let (_fourth, eviction) = open(&table, network(1));
        assert_eq!(eviction, Eviction::None);
    }

    #[test]
    fn closed_connections_leave_nothing_in_the_table() {
        let table = ConnectionTable::new(4, 1);
        for round in 0..100 {
            let (opened, _) = open(&table, network(round));
            opened.activity.start_request();
            opened.activity.finish_request();
        }
        let entries = table.lock();
        assert!(entries.by_id.is_empty() && entries.by_rank.is_empty());
        assert!(entries.by_network.is_empty());
    }
}
