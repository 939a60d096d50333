//! Memory for large responses until their clients have read them: a pool with a share for each
//! client network.
//!
//! A response is counted as long as its bytes exist, also in the buffers of the HTTP library. A
//! client that requests much and reads nothing uses up its share.

use std::sync::Arc;

use bytes::Bytes;
use scrip_core::policy::rate_limit::ClientNetwork;

use crate::{
    app::body_memory::{MemoryPool, PoolBounds},
    metrics::MemoryRejection,
};

#[derive(Debug)]
pub struct ResponseMemory {
    pool: MemoryPool,
    network_bytes_max: usize,
}

/// The bytes of a response, which return their memory to the pool when they are dropped.
struct CountedResponse {
    memory: Arc<ResponseMemory>,
    network: Option<ClientNetwork>,
    bytes: Bytes,
}

impl ResponseMemory {
    /// A network may use 1/`network_share` of the pool.
    pub fn new(bytes_max: usize, network_share: usize) -> Arc<Self> {
        let network_bytes_max = bytes_max.checked_div(network_share).unwrap_or(bytes_max);
        Arc::new(Self { pool: MemoryPool::new(bytes_max), network_bytes_max })
    }

    pub fn free_bytes(&self) -> usize {
        self.pool.free_bytes()
    }

    /// Fails if the client's network has used up its share. Called before a request is processed. A
    /// full pool is not a failure here, because most responses are too small to be counted.
    /// `network` is `None` if no share applies.
    pub(crate) fn check(&self, network: Option<ClientNetwork>) -> Result<(), MemoryRejection> {
        match network.map(|it| self.pool.used_by(it)) {
            Some(used) if used >= self.network_bytes_max => Err(MemoryRejection::NetworkShare),
            Some(_) | None => Ok(()),
        }
    }

    /// Returns the same bytes, counted until all copies are dropped. A response larger than a bound
    /// is accepted if it is the only one; otherwise it could never be sent.
    pub(crate) fn count(
        self: &Arc<Self>,
        network: Option<ClientNetwork>,
        bytes: Bytes,
    ) -> Result<Bytes, MemoryRejection> {
        let bounds = PoolBounds {
            pool_bytes: self.pool.bytes_max.max(bytes.len()),
            network_bytes: self.network_bytes_max.max(bytes.len()),
        };
        self.count_within(bounds, network, bytes)
    }

    /// Counts without bounds: for the response to a write that has already taken effect.
    pub(crate) fn count_always(
        self: &Arc<Self>,
        network: Option<ClientNetwork>,
        bytes: Bytes,
    ) -> Bytes {
        self.count_within(PoolBounds::UNBOUNDED, network, bytes.clone()).unwrap_or(bytes)
    }

    fn count_within(
        self: &Arc<Self>,
        bounds: PoolBounds,
        network: Option<ClientNetwork>,
        bytes: Bytes,
    ) -> Result<Bytes, MemoryRejection> {
        self.pool.reserve(network, bytes.len(), bounds)?;
        Ok(Bytes::from_owner(CountedResponse { memory: Arc::clone(self), network, bytes }))
    }
}

impl AsRef<[u8]> for CountedResponse {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for CountedResponse {
    fn drop(&mut self) {
        self.memory.pool.release(self.network, self.bytes.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(last_byte: u8) -> Option<ClientNetwork> {
        Some(ClientNetwork::from_address([192, 0, 2, last_byte].into()))
    }

    fn response(bytes: usize) -> Bytes {
        Bytes::from(vec![7; bytes])
    }

    #[test]
    fn responses_are_counted_until_their_last_copy_is_dropped() {
        let memory = ResponseMemory::new(100, 2);
        let mut response_bytes = memory.count(network(1), response(40)).unwrap();
        assert_eq!((response_bytes.len(), memory.free_bytes()), (40, 60));
        let part = response_bytes.split_to(1);
        drop(response_bytes);
        assert_eq!(memory.free_bytes(), 60);
        drop(part);
        assert_eq!(memory.free_bytes(), 100);
        assert_eq!(memory.pool.networks_in_use(), 0);
    }

    #[test]
    fn pool_and_network_share_limit_responses() {
        let memory = ResponseMemory::new(100, 2);
        let first_response = memory.count(network(1), response(40)).unwrap();
        assert_eq!(memory.count(network(1), response(11)), Err(MemoryRejection::NetworkShare));
        let second_response = memory.count(network(1), response(10)).unwrap();
        assert_eq!(memory.check(network(1)), Err(MemoryRejection::NetworkShare));
        assert_eq!(memory.check(network(2)), Ok(()));
        // A trusted proxy has no share.
        let proxied_response = memory.count(None, response(50)).unwrap();
        assert_eq!(memory.check(network(2)), Ok(()));
        assert_eq!(memory.count(network(2), response(1)), Err(MemoryRejection::Pool));
        let write_response = memory.count_always(network(2), response(30));
        drop((first_response, second_response, proxied_response));
        assert_eq!(memory.free_bytes(), 70);
        drop(write_response);
        assert_eq!(memory.free_bytes(), 100);
    }

    #[test]
    fn response_larger_than_its_share_is_sent_when_it_is_the_only_one() {
        let memory = ResponseMemory::new(100, 4);
        let large_response = memory.count(network(1), response(200)).unwrap();
        assert_eq!(memory.count(network(1), response(1)), Err(MemoryRejection::Pool));
        drop(large_response);
        assert!(memory.count(network(1), response(1)).is_ok());
    }
}
