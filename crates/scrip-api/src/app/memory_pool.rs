//! A memory counter: a pool with a share for each client network.

use std::{
    collections::{HashMap, hash_map::Entry},
    hash::{DefaultHasher, Hash, Hasher},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use scrip_core::policy::rate_limit::ClientNetwork;

use crate::metrics::MemoryRejection;

/// Shards reduce lock contention between requests of different networks.
const SHARDS: usize = 16;

#[derive(Debug)]
pub(crate) struct MemoryPool {
    bytes_max: usize,
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

    pub(crate) fn bytes_max(&self) -> usize {
        self.bytes_max
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
