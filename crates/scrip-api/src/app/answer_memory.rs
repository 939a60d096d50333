//! Memory for large answers until their clients have read them: a pool with a share for each client
//! network.
//!
//! An answer is counted as long as its bytes exist, in the HTTP library's buffers too. A client that
//! asks for much and reads nothing finds its share in use.

use std::sync::Arc;

use bytes::Bytes;
use scrip_core::policy::rate_limit::Network;

use crate::app::memory_pool::{Bounds, Exhausted, MemoryPool};

#[derive(Debug)]
pub struct AnswerMemory {
    pool: MemoryPool,
    network_bytes_max: usize,
}

/// The bytes of an answer, and their part of the pool.
struct CountedAnswer {
    memory: Arc<AnswerMemory>,
    network: Option<Network>,
    bytes: Bytes,
}

impl AnswerMemory {
    /// A network may use one part in `network_share` of the pool.
    #[must_use]
    pub fn new(bytes_max: usize, network_share: usize) -> Arc<Self> {
        let network_bytes_max = bytes_max.checked_div(network_share).unwrap_or(bytes_max);
        Arc::new(Self { pool: MemoryPool::new(bytes_max), network_bytes_max })
    }

    #[must_use]
    pub fn free_bytes(&self) -> usize {
        self.pool.free_bytes()
    }

    /// Before anything is done for a request: fails when the client's network has used up its share.
    /// A full pool is no reason here, since most answers are too small to be counted. A network is
    /// None where no share applies.
    pub(crate) fn check(&self, network: Option<Network>) -> Result<(), Exhausted> {
        match network.map(|it| self.pool.used_by(it)) {
            Some(used) if used >= self.network_bytes_max => Err(Exhausted::NetworkShare),
            Some(_) | None => Ok(()),
        }
    }

    /// The same bytes, counted until all copies of them are dropped. An answer above a bound is
    /// counted when there is no other: otherwise it could never be given.
    pub(crate) fn count(
        self: &Arc<Self>,
        network: Option<Network>,
        bytes: Bytes,
    ) -> Result<Bytes, Exhausted> {
        let bounds = Bounds {
            pool_bytes: self.pool.bytes_max().max(bytes.len()),
            network_bytes: self.network_bytes_max.max(bytes.len()),
        };
        self.count_within(bounds, network, bytes)
    }

    /// The same past the bounds: for the answer to a write, which has taken effect.
    pub(crate) fn count_always(self: &Arc<Self>, network: Option<Network>, bytes: Bytes) -> Bytes {
        self.count_within(Bounds::NONE, network, bytes.clone()).unwrap_or(bytes)
    }

    fn count_within(
        self: &Arc<Self>,
        bounds: Bounds,
        network: Option<Network>,
        bytes: Bytes,
    ) -> Result<Bytes, Exhausted> {
        self.pool.take(network, bytes.len(), bounds)?;
        Ok(Bytes::from_owner(CountedAnswer { memory: Arc::clone(self), network, bytes }))
    }
}

impl AsRef<[u8]> for CountedAnswer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for CountedAnswer {
    fn drop(&mut self) {
        self.memory.pool.give_back(self.network, self.bytes.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(last: u8) -> Option<Network> {
        Some(Network::of([192, 0, 2, last].into()))
    }

    fn answer(bytes: usize) -> Bytes {
        Bytes::from(vec![7; bytes])
    }

    #[test]
    fn answers_are_counted_until_their_last_copy_is_dropped() {
        let memory = AnswerMemory::new(100, 2);
        let mut first = memory.count(network(1), answer(40)).unwrap();
        assert_eq!((first.len(), memory.free_bytes()), (40, 60));
        let piece = first.split_to(1);
        drop(first);
        assert_eq!(memory.free_bytes(), 60);
        drop(piece);
        assert_eq!(memory.free_bytes(), 100);
        assert_eq!(memory.pool.networks_in_use(), 0);
    }

    #[test]
    fn pool_and_network_share_bound_answers() {
        let memory = AnswerMemory::new(100, 2);
        let first = memory.count(network(1), answer(40)).unwrap();
        assert_eq!(memory.count(network(1), answer(11)), Err(Exhausted::NetworkShare));
        let rest = memory.count(network(1), answer(10)).unwrap();
        assert_eq!(memory.check(network(1)), Err(Exhausted::NetworkShare));
        assert_eq!(memory.check(network(2)), Ok(()));
        // A trusted proxy has no share.
        let of_proxy = memory.count(None, answer(50)).unwrap();
        assert_eq!(memory.check(network(2)), Ok(()));
        assert_eq!(memory.count(network(2), answer(1)), Err(Exhausted::Pool));
        let written = memory.count_always(network(2), answer(30));
        drop((first, rest, of_proxy));
        assert_eq!(memory.free_bytes(), 70);
        drop(written);
        assert_eq!(memory.free_bytes(), 100);
    }

    #[test]
    fn answer_above_the_share_is_given_when_it_is_the_only_one() {
        let memory = AnswerMemory::new(100, 4);
        let large = memory.count(network(1), answer(200)).unwrap();
        assert_eq!(memory.count(network(1), answer(1)), Err(Exhausted::Pool));
        drop(large);
        assert!(memory.count(network(1), answer(1)).is_ok());
    }
}
