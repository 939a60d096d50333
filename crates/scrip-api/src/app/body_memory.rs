//! Memory for request bodies and for the values parsed from them: a pool with a share for each
//! client network.
//!
//! A body is counted as its bytes arrive, whatever length it announces, so that an announcement
//! alone reserves nothing. Once parsing begins, [`PARSED_FACTOR`] times its length is counted in
//! addition.

use std::sync::Arc;

use scrip_core::policy::rate_limit::ClientNetwork;

use crate::app::memory_pool::{MemoryExhausted, MemoryPool, PoolBounds};

/// What the parsed form of a body may take, in lengths of the body.
pub const PARSED_FACTOR: usize = 16;

/// What arrives of bodies without a key may take one part in so many of the pool for each client
/// network: anybody can send them, and a client decides how long they take to arrive.
const KEYLESS_INCOMING_SHARE: usize = 64;

/// So much of a body without a key is not counted. Notifications are shorter, and are read however
/// full the pool is. The cap on connections bounds what this takes.
const KEYLESS_UNCOUNTED_BYTES: usize = 4096;

#[derive(Debug)]
pub struct BodyMemory {
    pool: MemoryPool,
    network_bytes_max: usize,
    keyless_incoming_bytes_max: usize,
}

/// What one request has of the pool, until it is dropped.
#[derive(Debug)]
pub struct BodyReservation {
    memory: Arc<BodyMemory>,
    network: ClientNetwork,
    bytes: usize,
    /// What bodies of the network that still arrive may take.
    incoming_bytes_max: usize,
    /// How much of the body is not counted, and how much of that has not arrived.
    uncounted_bytes: usize,
    uncounted_bytes_left: usize,
}

impl BodyMemory {
    /// A network may use one part in `network_share` of the pool.
    #[must_use]
    pub fn new(bytes_max: usize, network_share: usize) -> Arc<Self> {
        Self::with_body_size(0, bytes_max, network_share)
    }

    /// The same, where both are at least what one body of the largest size needs.
    #[must_use]
    pub fn with_body_size(
        body_bytes_max: usize,
        bytes_max: usize,
        network_share: usize,
    ) -> Arc<Self> {
        let minimum = body_bytes_max.saturating_mul(PARSED_FACTOR.saturating_add(1));
        let bytes_max = bytes_max.max(minimum);
        let network_bytes_max = bytes_max.checked_div(network_share).unwrap_or(bytes_max);
        let network_bytes_max = network_bytes_max.max(minimum);
        let arriving = bytes_max.checked_div(KEYLESS_INCOMING_SHARE).unwrap_or(bytes_max);
        Arc::new(Self {
            pool: MemoryPool::new(bytes_max),
            network_bytes_max,
            keyless_incoming_bytes_max: arriving.max(body_bytes_max).min(network_bytes_max),
        })
    }

    /// Nothing is reserved yet.
    #[must_use]
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

    /// The same for a request that needs no key: with a smaller share while its body arrives, and
    /// without counting its beginning.
    #[must_use]
    pub fn start_keyless_reservation(self: &Arc<Self>, network: ClientNetwork) -> BodyReservation {
        let mut reservation = self.start_reservation(network);
        reservation.incoming_bytes_max = self.keyless_incoming_bytes_max;
        reservation.uncounted_bytes = KEYLESS_UNCOUNTED_BYTES;
        reservation.uncounted_bytes_left = KEYLESS_UNCOUNTED_BYTES;
        reservation
    }

    #[must_use]
    pub fn free_bytes(&self) -> usize {
        self.pool.free_bytes()
    }
}

impl BodyReservation {
    /// Counts bytes of the body that have arrived: all of them, or nothing more than before.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), MemoryExhausted> {
        let counted = bytes.saturating_sub(self.uncounted_bytes_left);
        self.reserve(counted, self.incoming_bytes_max)?;
        self.uncounted_bytes_left = self.uncounted_bytes_left.saturating_sub(bytes);
        Ok(())
    }

    /// Counts what parsing a body of this length takes.
    pub(crate) fn grow_for_parsing(&mut self, body_bytes: usize) -> Result<(), MemoryExhausted> {
        let counted = body_bytes.saturating_sub(self.uncounted_bytes);
        self.reserve(counted.saturating_mul(PARSED_FACTOR), self.memory.network_bytes_max)
    }

    fn reserve(&mut self, bytes: usize, network_bytes: usize) -> Result<(), MemoryExhausted> {
        if bytes == 0 {
            return Ok(());
        }
        let pool = &self.memory.pool;
        let bounds = PoolBounds { pool_bytes: pool.bytes_max(), network_bytes };
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

#[cfg(test)]
mod tests {
    use super::*;

    fn network(last: u8) -> ClientNetwork {
        ClientNetwork::from_address([192, 0, 2, last].into())
    }

    #[test]
    fn pool_and_network_share_limit_reservations_until_they_are_dropped() {
        let memory = BodyMemory::new(100, 2);
        let mut first = memory.start_reservation(network(1));
        assert_eq!(memory.free_bytes(), 100);
        first.grow(30).unwrap();
        let mut same = memory.start_reservation(network(1));
        assert_eq!(same.grow(21), Err(MemoryExhausted::NetworkShare));
        same.grow(20).unwrap();
        let mut other = memory.start_reservation(network(2));
        assert_eq!(other.grow(51), Err(MemoryExhausted::Pool));
        other.grow(50).unwrap();
        assert_eq!(memory.free_bytes(), 0);
        assert_eq!(memory.start_reservation(network(3)).grow(1), Err(MemoryExhausted::Pool));
        drop(first);
        same.grow(30).unwrap();
        drop((same, other));
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
        let mut others = Vec::new();
        let rejected = loop {
            let mut other = memory.start_keyless_reservation(network(1));
            if let Err(exhausted) = other.grow(65_536) {
                break exhausted;
            }
            others.push(other);
        };
        assert_eq!((rejected, others.len()), (MemoryExhausted::NetworkShare, 3));
        // A notification is read all the same, and the largest body can be parsed.
        let mut notification = memory.start_keyless_reservation(network(1));
        notification.grow(4_096).unwrap();
        notification.grow_for_parsing(4_096).unwrap();
        first.grow_for_parsing(65_536).unwrap();
        drop((first, others, notification));
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
