//! Memory for request bodies and for the values parsed from them: a pool with a share for each
//! client network.
//!
//! A body is counted as its bytes arrive, whatever length it announces, so that an announcement
//! alone reserves nothing. Once parsing begins, [`PARSED_FACTOR`] times its length is counted in
//! addition.

use std::{
    collections::{HashMap, hash_map::Entry},
    hash::{DefaultHasher, Hash, Hasher},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use scrip_core::rate_limit::Network;

/// What the parsed form of a body may take, in lengths of the body.
pub const PARSED_FACTOR: usize = 16;

/// So that requests of different networks rarely wait for the same lock.
const SHARDS: usize = 16;

#[derive(Debug)]
pub struct BodyMemory {
    bytes_max: usize,
    network_bytes_max: usize,
    used: AtomicUsize,
    networks: [Mutex<HashMap<Network, usize>>; SHARDS],
}

/// Why a body finds no memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exhausted {
    Pool,
    NetworkShare,
}

/// What one request has of the pool, until it is dropped.
#[derive(Debug)]
pub struct BodyReservation {
    memory: Arc<BodyMemory>,
    network: Network,
    bytes: usize,
}

impl BodyMemory {
    /// A network may use one part in `network_share` of the pool.
    #[must_use]
    pub fn new(bytes_max: usize, network_share: usize) -> Arc<Self> {
        Self::for_bodies_of(0, bytes_max, network_share)
    }

    /// The same, where both are at least what one body of the largest size needs.
    #[must_use]
    pub fn for_bodies_of(
        body_bytes_max: usize,
        bytes_max: usize,
        network_share: usize,
    ) -> Arc<Self> {
        let least = body_bytes_max.saturating_mul(PARSED_FACTOR.saturating_add(1));
        let bytes_max = bytes_max.max(least);
        let network_bytes_max = bytes_max.checked_div(network_share).unwrap_or(bytes_max);
        Arc::new(Self {
            bytes_max,
            network_bytes_max: network_bytes_max.max(least),
            used: AtomicUsize::new(0),
            networks: std::array::from_fn(|_| Mutex::default()),
        })
    }

    /// Nothing is reserved yet.
    #[must_use]
    pub fn begin(self: &Arc<Self>, network: Network) -> BodyReservation {
        BodyReservation { memory: Arc::clone(self), network, bytes: 0 }
    }

    #[must_use]
    pub fn free_bytes(&self) -> usize {
        self.bytes_max.saturating_sub(self.used.load(Ordering::Relaxed))
    }

    fn shard(&self, network: Network) -> Option<&Mutex<HashMap<Network, usize>>> {
        let mut hasher = DefaultHasher::new();
        network.hash(&mut hasher);
        let [first, ..] = hasher.finish().to_le_bytes();
        self.networks.get(usize::from(first) % SHARDS)
    }

    fn take(&self, network: Network, bytes: usize) -> Result<(), Exhausted> {
        let more = |used: usize| used.checked_add(bytes).filter(|it| *it <= self.bytes_max);
        let taken = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        taken.map_err(|_| Exhausted::Pool)?;
        let Some(shard) = self.shard(network) else { return Ok(()) };
        let mut networks = shard.lock().unwrap_or_else(PoisonError::into_inner);
        let used = networks.entry(network).or_default();
        let more = used.saturating_add(bytes);
        if more <= self.network_bytes_max {
            *used = more;
            return Ok(());
        }
        if *used == 0 {
            networks.remove(&network);
        }
        drop(networks);
        self.used.fetch_sub(bytes, Ordering::Relaxed);
        Err(Exhausted::NetworkShare)
    }

    fn give_back(&self, network: Network, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
        let Some(shard) = self.shard(network) else { return };
        let mut networks = shard.lock().unwrap_or_else(PoisonError::into_inner);
        if let Entry::Occupied(mut entry) = networks.entry(network) {
            let rest = entry.get().saturating_sub(bytes);
            if rest == 0 {
                entry.remove();
            } else {
                entry.insert(rest);
            }
        }
    }
}

impl BodyReservation {
    /// All of it, or nothing more than before.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), Exhausted> {
        self.memory.take(self.network, bytes)?;
        self.bytes = self.bytes.saturating_add(bytes);
        Ok(())
    }

    /// Counts what parsing a body of this length takes.
    pub(crate) fn grow_for_parsing(&mut self, body_bytes: usize) -> Result<(), Exhausted> {
        self.grow(body_bytes.saturating_mul(PARSED_FACTOR))
    }
}

impl Drop for BodyReservation {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.memory.give_back(self.network, self.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(last: u8) -> Network {
        Network::of([192, 0, 2, last].into())
    }

    #[test]
    fn pool_and_network_share_bound_reservations_and_get_them_back() {
        let memory = BodyMemory::new(100, 2);
        let mut first = memory.begin(network(1));
        assert_eq!(memory.free_bytes(), 100);
        first.grow(30).unwrap();
        let mut same = memory.begin(network(1));
        assert_eq!(same.grow(21), Err(Exhausted::NetworkShare));
        same.grow(20).unwrap();
        let mut other = memory.begin(network(2));
        assert_eq!(other.grow(51), Err(Exhausted::Pool));
        other.grow(50).unwrap();
        assert_eq!(memory.free_bytes(), 0);
        assert_eq!(memory.begin(network(3)).grow(1), Err(Exhausted::Pool));
        drop(first);
        same.grow(30).unwrap();
        drop((same, other));
        assert_eq!(memory.free_bytes(), 100);
        let kept: usize = memory.networks.iter().map(|it| it.lock().unwrap().len()).sum();
        assert_eq!(kept, 0);
    }

    #[test]
    fn largest_body_fits_whatever_the_settings() {
        let memory = BodyMemory::for_bodies_of(1000, 1, 64);
        let mut reservation = memory.begin(network(1));
        reservation.grow(1000).unwrap();
        reservation.grow_for_parsing(1000).unwrap();
        assert!(reservation.grow(1).is_err());
    }
}
