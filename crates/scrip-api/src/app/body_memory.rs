//! Memory for request bodies and for the values parsed from them: a pool with a share for each
//! client network.
//!
//! A body is counted as its bytes arrive, whatever length it announces: an announcement alone
//! reserves nothing. When parsing starts, [`PARSED_FACTOR`] times the length is counted in
//! addition.

use std::{
    collections::{HashMap, hash_map::Entry},
    hash::{DefaultHasher, Hash, Hasher},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use scrip_core::policy::rate_limit::ClientNetwork;

use crate::metrics::MemoryRejection;

/// The memory for the parsed form of a body, as a multiple of the body's length.
pub(crate) const PARSED_FACTOR: usize = 16;

/// Incoming bodies without a key may use at most this fraction (1/n) of the pool per client
/// network: anyone can send them, and the client decides how long they take.
const KEYLESS_INCOMING_SHARE: usize = 64;

/// The first bytes of a body without a key are not counted. Notifications are shorter, so they are
/// accepted even if the pool is full. The connection limit bounds this memory.
const KEYLESS_UNCOUNTED_BYTES: usize = 4096;

#[derive(Debug)]
pub struct BodyMemory {
    pool: MemoryPool,
    network_bytes_max: usize,
    keyless_incoming_bytes_max: usize,
}

/// The memory that one request has reserved. Dropping it returns the memory to the pool.
#[derive(Debug)]
pub struct BodyReservation {
    memory: Arc<BodyMemory>,
    network: ClientNetwork,
    bytes: usize,
    /// The maximum for all incoming bodies of the network.
    incoming_bytes_max: usize,
    /// The first bytes of the body that are not counted, and how many of them have not arrived.
    uncounted_bytes: usize,
    uncounted_bytes_left: usize,
}

impl BodyMemory {
    /// A network may use 1/`network_share` of the pool.
    pub fn new(bytes_max: usize, network_share: usize) -> Arc<Self> {
        Self::with_body_size(0, bytes_max, network_share)
    }

    /// Like [`BodyMemory::new`], but pool and share are large enough for one body of the maximum
    /// size.
    pub fn with_body_size(
        body_bytes_max: usize,
        bytes_max: usize,
        network_share: usize,
    ) -> Arc<Self> {
        let minimum = body_bytes_max.saturating_mul(PARSED_FACTOR.saturating_add(1));
        let bytes_max = bytes_max.max(minimum);
        let network_bytes_max = bytes_max.checked_div(network_share).unwrap_or(bytes_max);
        let network_bytes_max = network_bytes_max.max(minimum);
        let incoming_bytes_max = bytes_max.checked_div(KEYLESS_INCOMING_SHARE).unwrap_or(bytes_max);
        Arc::new(Self {
            pool: MemoryPool::new(bytes_max),
            network_bytes_max,
            keyless_incoming_bytes_max: incoming_bytes_max
                .max(body_bytes_max)
                .min(network_bytes_max),
        })
    }

    /// Returns an empty reservation, which grows as the body arrives.
    pub fn start_reservation(self: &Arc<Self>, network: ClientNetwork) -> BodyReservation {
        BodyReservation {
            memory: Arc::clone(self),
            network,
            bytes: 0,
            incoming_bytes_max: self.network_bytes_max,
            uncounted_bytes: 0,
            uncounted_bytes_left: 0,
        }
    }

    /// Like [`BodyMemory::start_reservation`], for a request that needs no key: the share is
    /// smaller while the body arrives, and the first bytes are not counted.
    pub(crate) fn start_keyless_reservation(
        self: &Arc<Self>,
        network: ClientNetwork,
    ) -> BodyReservation {
        let mut reservation = self.start_reservation(network);
        reservation.incoming_bytes_max = self.keyless_incoming_bytes_max;
        reservation.uncounted_bytes = KEYLESS_UNCOUNTED_BYTES;
        reservation.uncounted_bytes_left = KEYLESS_UNCOUNTED_BYTES;
        reservation
    }

    pub fn free_bytes(&self) -> usize {
        self.pool.free_bytes()
    }
}

impl BodyReservation {
    /// Counts bytes of the body that have arrived. On failure nothing is counted.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), MemoryRejection> {
        let counted_bytes = bytes.saturating_sub(self.uncounted_bytes_left);
        self.reserve(counted_bytes, self.incoming_bytes_max)?;
        self.uncounted_bytes_left = self.uncounted_bytes_left.saturating_sub(bytes);
        Ok(())
    }

    /// Counts the memory for parsing a body of this length.
    pub(crate) fn grow_for_parsing(&mut self, body_bytes: usize) -> Result<(), MemoryRejection> {
        let counted_bytes = body_bytes.saturating_sub(self.uncounted_bytes);
        self.reserve(counted_bytes.saturating_mul(PARSED_FACTOR), self.memory.network_bytes_max)
    }

    /// Counts bytes of the answer to a proxied call, while the answer is collected.
    pub(crate) fn grow_for_answer(&mut self, bytes: usize) -> Result<(), MemoryRejection> {
        self.reserve(bytes, self.memory.network_bytes_max)
    }

    /// Releases the memory for parsing a body of this length, when the parsed form is gone.
    pub(crate) fn release_parsed(&mut self, body_bytes: usize) {
        let counted_bytes = body_bytes.saturating_sub(self.uncounted_bytes);
        let released = self.bytes.saturating_sub(counted_bytes);
        if released > 0 {
            self.memory.pool.release(Some(self.network), released);
            self.bytes = counted_bytes;
        }
    }

    fn reserve(&mut self, bytes: usize, network_bytes: usize) -> Result<(), MemoryRejection> {
        if bytes == 0 {
            return Ok(());
        }
        let pool = &self.memory.pool;
        let bounds = PoolBounds { pool_bytes: pool.bytes_max, network_bytes };
        pool.reserve(Some(self.network), bytes, bounds)?;
        self.bytes = self.bytes.saturating_add(bytes);
        Ok(())
    }
}

impl Drop for BodyReservation {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.memory.pool.release(Some(self.network), self.bytes);
        }
    }
}

/// Shards reduce lock contention between requests of different networks.
const SHARDS: usize = 16;

#[derive(Debug)]
pub(crate) struct MemoryPool {
    pub(crate) bytes_max: usize,
    used_bytes: AtomicUsize,
    bytes_by_network: [Mutex<HashMap<ClientNetwork, usize>>; SHARDS],
}

/// The maximum memory in use after a reservation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PoolBounds {
    pub(crate) pool_bytes: usize,
    pub(crate) network_bytes: usize,
}

impl PoolBounds {
    pub(crate) const UNBOUNDED: Self = Self { pool_bytes: usize::MAX, network_bytes: usize::MAX };
}

impl MemoryPool {
    pub(crate) fn new(bytes_max: usize) -> Self {
        let networks = std::array::from_fn(|_| Mutex::default());
        Self { bytes_max, used_bytes: AtomicUsize::new(0), bytes_by_network: networks }
    }

    pub(crate) fn free_bytes(&self) -> usize {
        self.bytes_max.saturating_sub(self.used_bytes.load(Ordering::Relaxed))
    }

    pub(crate) fn used_by(&self, network: ClientNetwork) -> usize {
        let Some(shard) = self.shard(network) else { return 0 };
        let networks = shard.lock().unwrap_or_else(PoisonError::into_inner);
        networks.get(&network).copied().unwrap_or(0)
    }

    fn shard(&self, network: ClientNetwork) -> Option<&Mutex<HashMap<ClientNetwork, usize>>> {
        let mut hasher = DefaultHasher::new();
        network.hash(&mut hasher);
        let [first_byte, ..] = hasher.finish().to_le_bytes();
        self.bytes_by_network.get(usize::from(first_byte) % SHARDS)
    }

    /// Reserves all bytes or nothing. `network` is `None` if no share applies.
    pub(crate) fn reserve(
        &self,
        network: Option<ClientNetwork>,
        bytes: usize,
        bounds: PoolBounds,
    ) -> Result<(), MemoryRejection> {
        let add = |used: usize| used.checked_add(bytes).filter(|it| *it <= bounds.pool_bytes);
        let result = self.used_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        result.map_err(|_| MemoryRejection::Pool)?;
        let Some(network) = network else { return Ok(()) };
        let Some(shard) = self.shard(network) else { return Ok(()) };
        let mut networks = shard.lock().unwrap_or_else(PoisonError::into_inner);
        let used = networks.entry(network).or_default();
        let total = used.saturating_add(bytes);
        if total <= bounds.network_bytes {
            *used = total;
            return Ok(());
        }
        if *used == 0 {
            networks.remove(&network);
        }
        drop(networks);
        self.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
        Err(MemoryRejection::NetworkShare)
    }

    pub(crate) fn release(&self, network: Option<ClientNetwork>, bytes: usize) {
        self.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
        let Some(network) = network else { return };
        let Some(shard) = self.shard(network) else { return };
        let mut networks = shard.lock().unwrap_or_else(PoisonError::into_inner);
        if let Entry::Occupied(mut entry) = networks.entry(network) {
            let remaining = entry.get().saturating_sub(bytes);
            if remaining == 0 {
                entry.remove();
            } else {
                entry.insert(remaining);
            }
        }
    }

    #[cfg(test)]
    pub(crate) fn networks_in_use(&self) -> usize {
        self.bytes_by_network.iter().map(|it| it.lock().map_or(0, |it| it.len())).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(last_byte: u8) -> ClientNetwork {
        ClientNetwork::from_address([192, 0, 2, last_byte].into())
    }

    #[test]
    fn pool_and_network_share_limit_reservations_until_they_are_dropped() {
        let memory = BodyMemory::new(100, 2);
        let mut first = memory.start_reservation(network(1));
        assert_eq!(memory.free_bytes(), 100);
        first.grow(30).unwrap();
        let mut same_network = memory.start_reservation(network(1));
        assert_eq!(same_network.grow(21), Err(MemoryRejection::NetworkShare));
        same_network.grow(20).unwrap();
        let mut other_network = memory.start_reservation(network(2));
        assert_eq!(other_network.grow(51), Err(MemoryRejection::Pool));
        other_network.grow(50).unwrap();
        assert_eq!(memory.free_bytes(), 0);
        assert_eq!(memory.start_reservation(network(3)).grow(1), Err(MemoryRejection::Pool));
        drop(first);
        same_network.grow(30).unwrap();
        same_network.release_parsed(50);
        assert_eq!(memory.free_bytes(), 0);
        same_network.release_parsed(20);
        assert_eq!(memory.free_bytes(), 30);
        drop((same_network, other_network));
        assert_eq!(memory.free_bytes(), 100);
        assert_eq!(memory.pool.networks_in_use(), 0);
    }

    #[test]
    fn largest_body_fits_with_any_settings() {
        let memory = BodyMemory::with_body_size(1000, 1, 64);
        let mut reservation = memory.start_reservation(network(1));
        reservation.grow(1000).unwrap();
        reservation.grow_for_parsing(1000).unwrap();
        assert!(reservation.grow(1).is_err());
    }

    #[test]
    fn keyless_bodies_have_a_small_share_and_uncounted_first_bytes() {
        let memory = BodyMemory::with_body_size(65_536, 16 * 1024 * 1024, 4);
        let mut first = memory.start_keyless_reservation(network(1));
        first.grow(4_000).unwrap();
        assert_eq!(memory.free_bytes(), 16 * 1024 * 1024);
        first.grow(61_536).unwrap();
        assert_eq!(memory.free_bytes(), 16 * 1024 * 1024 - 61_440);
        let mut reservations = Vec::new();
        let exhausted = loop {
            let mut reservation = memory.start_keyless_reservation(network(1));
            if let Err(exhausted) = reservation.grow(65_536) {
                break exhausted;
            }
            reservations.push(reservation);
        };
        assert_eq!((exhausted, reservations.len()), (MemoryRejection::NetworkShare, 3));
        // A notification is still accepted, and the largest body can be parsed.
        let mut notification = memory.start_keyless_reservation(network(1));
        notification.grow(4_096).unwrap();
        notification.grow_for_parsing(4_096).unwrap();
        first.grow_for_parsing(65_536).unwrap();
        drop((first, reservations, notification));
        assert_eq!(memory.free_bytes(), 16 * 1024 * 1024);
    }

    #[test]
    fn largest_keyless_body_fits_with_any_settings() {
        let memory = BodyMemory::with_body_size(100_000, 1, 64);
        let mut reservation = memory.start_keyless_reservation(network(1));
        reservation.grow(100_000).unwrap();
        reservation.grow_for_parsing(100_000).unwrap();
    }
}
