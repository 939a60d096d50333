//! Memory that is counted: a pool with a share for each client network.

use std::{
    collections::{HashMap, hash_map::Entry},
    hash::{DefaultHasher, Hash, Hasher},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use scrip_core::policy::rate_limit::ClientNetwork;

/// So that requests of different networks rarely wait for the same lock.
const SHARDS: usize = 16;

#[derive(Debug)]
pub(crate) struct MemoryPool {
    bytes_max: usize,
    used_bytes: AtomicUsize,
    bytes_by_network: [Mutex<HashMap<ClientNetwork, usize>>; SHARDS],
}

/// Why there is no memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryExhausted {
    Pool,
    NetworkShare,
}

/// How much of the pool may be in use once more is taken.
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
        let [first, ..] = hasher.finish().to_le_bytes();
        self.bytes_by_network.get(usize::from(first) % SHARDS)
    }

    /// All of it or nothing. A network is None where no share applies.
    pub(crate) fn reserve(
        &self,
        network: Option<ClientNetwork>,
        bytes: usize,
        bounds: PoolBounds,
    ) -> Result<(), MemoryExhausted> {
        let more = |used: usize| used.checked_add(bytes).filter(|it| *it <= bounds.pool_bytes);
        let taken = self.used_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        taken.map_err(|_| MemoryExhausted::Pool)?;
        let Some(network) = network else { return Ok(()) };
        let Some(shard) = self.shard(network) else { return Ok(()) };
        let mut networks = shard.lock().unwrap_or_else(PoisonError::into_inner);
        let used = networks.entry(network).or_default();
        let more = used.saturating_add(bytes);
        if more <= bounds.network_bytes {
            *used = more;
            return Ok(());
        }
        if *used == 0 {
            networks.remove(&network);
        }
        drop(networks);
        self.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
        Err(MemoryExhausted::NetworkShare)
    }

    pub(crate) fn release(&self, network: Option<ClientNetwork>, bytes: usize) {
        self.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
        let Some(network) = network else { return };
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

    #[cfg(test)]
    pub(crate) fn networks_in_use(&self) -> usize {
        self.bytes_by_network.iter().map(|it| it.lock().map_or(0, |it| it.len())).sum()
    }
}
