//! Stored responses and claims as an engine returns them.

use std::any::Any;

use scrip_seal::Sealed;

use crate::{
    Timestamp,
    idempotency::IdempotencyDigests,
    types::{
        Containers,
        id::{TenantId, TokenId},
    },
};

/// The lookup of a stored response.
#[derive(Debug, Clone, Copy)]
pub struct IdempotencyLookup {
    pub tenant: TenantId,
    pub digest: [u8; 32],
    pub now: Timestamp,
    /// Older responses have expired.
    pub since: Timestamp,
}

#[derive(Debug)]
pub enum ClaimOutcome {
    /// There is no response yet; the claim blocks other requests until it is dropped.
    Claimed(IdempotencyClaim),
    Completed(StoredResponse),
    InFlight,
}

/// A stored response, with the data of tokens that still exist.
#[derive(Debug)]
pub struct StoredResponse {
    pub digest: [u8; 32],
    pub created_at: Timestamp,
    pub head: Sealed,
    pub token_data: Vec<StoredTokenData>,
}

/// The data of one token in a response.
#[derive(Debug)]
pub struct StoredTokenData {
    /// The index of the write.
    pub write_index: usize,
    pub token: TokenId,
    /// The current containers of the token.
    pub containers: Containers,
    pub sealed: Sealed,
}

/// Locks an idempotency key while a request is in flight.
#[derive(Debug)]
pub struct IdempotencyClaim {
    pub digests: IdempotencyDigests,
    _guard: Box<dyn Any + Send + Sync>,
}

impl IdempotencyClaim {
    /// `guard` releases the engine's claim when it is dropped.
    pub fn new(digest: [u8; 32], guard: Box<dyn Any + Send + Sync>) -> Self {
        Self { digests: IdempotencyDigests { key: digest, request: None }, _guard: guard }
    }
}
