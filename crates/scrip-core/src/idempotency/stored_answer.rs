//! Stored responses and claims, as an engine gives them back.

use std::any::Any;

use scrip_seal::Sealed;

use crate::{
    id::{TenantId, TokenId},
    idempotency::AnswerKey,
    time::Timestamp,
    token::Containers,
};

/// Which answer is asked for.
#[derive(Debug, Clone, Copy)]
pub struct AskedAnswer {
    pub tenant: TenantId,
    pub digest: [u8; 32],
    pub now: Timestamp,
    /// Answers from before this are forgotten.
    pub since: Timestamp,
}

#[derive(Debug)]
pub enum Claimed {
    /// Nobody has answered; the claim keeps others from it until it is dropped.
    Claim(Claim),
    Answered(StoredAnswer),
    InFlight,
}

/// An answer that was found, with those parts whose tokens are still there.
#[derive(Debug)]
pub struct StoredAnswer {
    pub digest: [u8; 32],
    pub created_at: Timestamp,
    pub head: Sealed,
    pub parts: Vec<StoredPart>,
}

/// What an answer shows of one token.
#[derive(Debug)]
pub struct StoredPart {
    /// Which of the writes it came from.
    pub at: usize,
    pub token: TokenId,
    /// Where its token is now.
    pub containers: Containers,
    pub sealed: Sealed,
}

/// Held while a request with an idempotency key is in flight.
#[derive(Debug)]
pub struct Claim {
    pub digest: AnswerKey,
    _held: Box<dyn Any + Send + Sync>,
}

impl Claim {
    /// `held` is whatever ends the engine's claim when it is dropped.
    #[must_use]
    pub fn new(digest: [u8; 32], held: Box<dyn Any + Send + Sync>) -> Self {
        Self { digest: AnswerKey { digest, request: None }, _held: held }
    }
}
