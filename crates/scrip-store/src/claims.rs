//! Requests with an idempotency key that are in flight in this process. The claims are in memory
//! only.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
};

use scrip_core::idempotency::IdempotencyClaim;

/// Digests of the idempotency keys that requests have claimed.
#[derive(Debug, Default, Clone)]
pub struct InFlightClaims(Arc<Mutex<HashSet<[u8; 32]>>>);

/// Releases the claim on drop.
struct ClaimGuard {
    claims: InFlightClaims,
    digest: [u8; 32],
}

impl InFlightClaims {
    /// Returns `None` if another request has claimed the key.
    ///
    /// The claim begins before the lookup of a stored response and ends after the commit of the new
    /// one. So a request that holds the claim and finds no stored response is the only one that
    /// creates it.
    pub fn try_claim(&self, digest: [u8; 32]) -> Option<IdempotencyClaim> {
        let mut digests = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = digests.insert(digest);
        is_new.then(|| {
            IdempotencyClaim::new(digest, Box::new(ClaimGuard { claims: self.clone(), digest }))
        })
    }
}

impl Drop for ClaimGuard {
    fn drop(&mut self) {
        self.claims.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.digest);
    }
}
