//! Stored responses and claims, as an engine gives them back.

use std::any::Any;

use scrip_seal::Sealed;

use crate::{
    id::{TenantId, TokenId},
    idempotency::IdempotencyDigests,
    time::Timestamp,
    token::Containers,
};

/// Which answer is asked for.
#[derive(Debug, Clone, Copy)]
pub struct IdempotencyLookup {
    pub tenant: TenantId,
    pub digest: [u8; 32],
    pub now: Timestamp,
    /// Answers from before this are forgotten.
    pub since: Timestamp,
}

#[derive(Debug)]
pub enum ClaimOutcome {
    /// Nobody has answered; the claim keeps others from it until it is dropped.
    Claimed(IdempotencyClaim),
    Completed(StoredResponse),
    InFlight,
}

/// An answer that was found, with those parts whose tokens are still there.
#[derive(Debug)]
pub struct StoredResponse {
    pub digest: [u8; 32],
    pub created_at: Timestamp,
    pub head: Sealed,
    pub token_data: Vec<StoredTokenData>,
}

/// What an answer shows of one token.
#[derive(Debug)]
pub struct StoredTokenData {
    /// Which of the writes it came from.
    pub write_index: usize,
    pub token: TokenId,
    /// Where its token is now.
    pub containers: Containers,
    pub sealed: Sealed,
}

/// Held while a request with an idempotency key is in flight.
#[derive(Debug)]
pub struct IdempotencyClaim {
    pub digests: IdempotencyDigests,
    _guard: Box<dyn Any + Send + Sync>,
}

impl IdempotencyClaim {
    /// `held` is whatever ends the engine's claim when it is dropped.
    #[must_use]
    pub fn new(digest: [u8; 32], guard: Box<dyn Any + Send + Sync>) -> Self {
        Self { digests: IdempotencyDigests { key: digest, request: None }, _guard: guard }
    }
}
