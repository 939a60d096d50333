//! Requests with an idempotency key that are in flight in this process. A crash ends them all.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
};

use scrip_core::idempotency::IdempotencyClaim;

#[derive(Debug, Default, Clone)]
pub struct InFlightClaims(Arc<Mutex<HashSet<[u8; 32]>>>);

/// Ends its claim when dropped.
struct ClaimGuard {
    claims: InFlightClaims,
    digest: [u8; 32],
}

impl InFlightClaims {
    /// Nothing when somebody else holds it.
    ///
    /// The claim comes before the look for an answer, and ends after the commit of one. So
    /// whoever gets a claim and finds no answer is the only one to make it.
    pub fn try_claim(&self, digest: [u8; 32]) -> Option<IdempotencyClaim> {
        let mut digests = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let claimed = digests.insert(digest);
        claimed.then(|| {
            IdempotencyClaim::new(digest, Box::new(ClaimGuard { claims: self.clone(), digest }))
        })
    }
}

impl Drop for ClaimGuard {
    fn drop(&mut self) {
        self.claims.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.digest);
    }
}
