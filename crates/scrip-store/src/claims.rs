//! Requests with an idempotency key that are in flight in this process. A crash ends them all.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
};

use scrip_core::{
    idempotency::{AskedAnswer, Claim, Claimed, StoredAnswer},
    store::{StoreError, StoreFuture},
};

#[derive(Debug, Default, Clone)]
pub struct Claims(Arc<Mutex<HashSet<[u8; 32]>>>);

/// Ends its claim when dropped.
struct Held {
    claims: Claims,
    digest: [u8; 32],
}

impl Claims {
    /// Nothing when somebody else holds it.
    ///
    /// The claim comes before the look for an answer, and ends after the commit of one. So
    /// whoever gets a claim and finds no answer is the only one to make it.
    pub fn take(&self, digest: [u8; 32]) -> Option<Claim> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let claimed = held.insert(digest);
        claimed.then(|| Claim::new(digest, Box::new(Held { claims: self.clone(), digest })))
    }

    /// The right to answer a request, or its answer, which `find` looks for.
    pub(crate) async fn claim<'a>(
        &self,
        asked: AskedAnswer,
        find: impl FnOnce(AskedAnswer) -> StoreFuture<'a, Option<StoredAnswer>>,
    ) -> Result<Claimed, StoreError> {
        let Some(claim) = self.take(asked.digest) else { return Ok(Claimed::InFlight) };
        let found = find(asked).await?;
        Ok(found.map_or(Claimed::Claim(claim), Claimed::Answered))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.claims.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.digest);
    }
}
