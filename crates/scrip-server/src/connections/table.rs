//! Table of open connections, with a total limit and a limit per client network.
//!
//! When the table is full, a new connection replaces the one that has been idle for longest. A
//! connection with a request in progress is not evicted, unless the server has waited for its
//! client too long.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use scrip_core::policy::rate_limit::ClientNetwork;
use tokio::{sync::Notify, time::timeout};

use crate::connections::activity::{Activity, now_micros};

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
