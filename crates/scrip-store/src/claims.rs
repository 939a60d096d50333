//! Requests with an idempotency key that are in flight in this process. A crash ends them all.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
};

use scrip_core::idempotency::Claim;

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
}

impl Drop for Held {
    fn drop(&mut self) {
        self.claims.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.digest);
    }
}
