//! The in-memory model: simple enough to be obviously correct. The other engines are compared with
//! it.

mod access_sessions;
mod batch;
mod deliveries;
mod guesses;
mod idempotency;
mod intents;
mod key_rotations;
mod listing;
mod logs;
mod maintenance;
mod policy;
mod state;
mod threeds_sessions;
mod tokens;
mod usage;

use std::sync::{Mutex, MutexGuard, PoisonError};

use scrip_core::types::{StoreError, StoreFuture};
use scrip_store::claims::InFlightClaims;

use crate::memory::state::MemoryStoreState;

#[derive(Debug, Default)]
pub struct MemoryStore {
    state: Mutex<MemoryStoreState>,
    claims: InFlightClaims,
}

impl MemoryStore {
    /// A model of PostgreSQL, which never reuses the number of a deleted token. The default is a
    /// model of SQLite, which reuses the highest number.
    pub fn with_unique_token_numbers() -> Self {
        let state = MemoryStoreState { last_number: Some(0), ..MemoryStoreState::default() };
        Self { state: Mutex::new(state), claims: InFlightClaims::default() }
    }

    fn lock(&self) -> MutexGuard<'_, MemoryStoreState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<'a, T: Send + 'a>(
        &'a self,
        work: impl FnOnce(&mut MemoryStoreState) -> T + Send + 'a,
    ) -> StoreFuture<'a, T> {
        Box::pin(async move { Ok(work(&mut self.lock())) })
    }

    /// Calls `work`. If it fails, its changes are rolled back.
    fn attempt<'a, T: Send + 'a>(
        &'a self,
        work: impl FnOnce(&mut MemoryStoreState) -> Result<T, StoreError> + Send + 'a,
    ) -> StoreFuture<'a, T> {
        self.attempt_if(work, |_| true)
    }

    /// Calls `work`. If it fails or `should_keep` rejects its outcome, its changes are rolled back.
    fn attempt_if<'a, T: Send + 'a>(
        &'a self,
        work: impl FnOnce(&mut MemoryStoreState) -> Result<T, StoreError> + Send + 'a,
        should_keep: fn(&T) -> bool,
    ) -> StoreFuture<'a, T> {
        Box::pin(async move {
            let mut state = self.lock();
            let mut changed_state = state.clone();
            let outcome = work(&mut changed_state)?;
            if should_keep(&outcome) {
                *state = changed_state;
            }
            Ok(outcome)
        })
    }
}

/// A copy of the state of a store. Tests restore it to run thousands of short sequences of requests
/// from the same state.
#[derive(Debug)]
pub struct MemorySnapshot(MemoryStoreState);

impl MemoryStore {
    pub fn snapshot(&self) -> MemorySnapshot {
        MemorySnapshot(self.lock().clone())
    }

    pub fn restore(&self, snapshot: &MemorySnapshot) {
        self.lock().clone_from(&snapshot.0);
    }
}
