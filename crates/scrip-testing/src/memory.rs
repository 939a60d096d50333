//! The model engine: obviously correct, and what the other engines are compared with.

mod access_sessions;
mod answers;
mod batch;
mod guesses;
mod intents;
mod listing;
mod logs;
mod maintenance;
mod policy;
mod sessions;
mod snapshot;
mod tokens;
mod usage;

use std::sync::{Mutex, MutexGuard, PoisonError};

use scrip_core::{
    audit::{DeletedTenant, NotedTime},
    id::TenantId,
    policy::{AccessSessionRecord, DirectoryRecords, Signed, guessing_budget::GuessRecord},
    store::{StoreError, StoreFuture},
    threeds::{EventRecord, SessionRecord},
    time::Timestamp,
    token::{StoredToken, StoredTokenIntent},
};
use scrip_store::claims::Claims;

use crate::memory::{answers::Answer, logs::Chains, usage::Counted};

pub use self::snapshot::MemorySnapshot;

#[derive(Debug, Default)]
pub struct MemoryStore {
    state: Mutex<State>,
    claims: Claims,
}

#[derive(Debug, Default, Clone)]
struct State {
    /// In the order of their making.
    tokens: Vec<Row>,
    /// The last number of a token, where numbers are never reused.
    last_number: Option<i64>,
    intents: Vec<(TenantId, StoredTokenIntent)>,
    answers: Vec<Answer>,
    audit: Chains,
    access: Chains,
    directory: DirectoryRecords,
    access_sessions: Vec<Signed<AccessSessionRecord>>,
    sessions: Vec<SessionRecord>,
    /// Each with its number, of which none is given twice.
    events: Vec<(i64, EventRecord)>,
    last_event: i64,
    deleted_tenants: Vec<DeletedTenant>,
    known_time: Option<NotedTime>,
    counted: Counted,
    guesses: Vec<(TenantId, GuessRecord)>,
}

#[derive(Debug, Clone)]
struct Row {
    number: i64,
    tenant: TenantId,
    token: StoredToken,
}

impl Row {
    fn age(&self) -> (Timestamp, i64) {
        (self.token.record.created_at, self.number)
    }
}

impl MemoryStore {
    /// A model of PostgreSQL, which never reuses the number of a deleted token. The default is a
    /// model of SQLite, which reuses the highest number.
    #[must_use]
    pub fn with_unique_token_numbers() -> Self {
        let state = State { last_number: Some(0), ..State::default() };
        Self { state: Mutex::new(state), claims: Claims::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<'a, T: Send + 'a>(
        &'a self,
        work: impl FnOnce(&mut State) -> T + Send + 'a,
    ) -> StoreFuture<'a, T> {
        Box::pin(async move { Ok(work(&mut self.lock())) })
    }

    /// Work that fails takes back what it did.
    fn attempt<'a, T: Send + 'a>(
        &'a self,
        work: impl FnOnce(&mut State) -> Result<T, StoreError> + Send + 'a,
    ) -> StoreFuture<'a, T> {
        self.attempt_if(work, |_| true)
    }

    /// The same, where some outcomes take it back too.
    fn attempt_if<'a, T: Send + 'a>(
        &'a self,
        work: impl FnOnce(&mut State) -> Result<T, StoreError> + Send + 'a,
        keeps: fn(&T) -> bool,
    ) -> StoreFuture<'a, T> {
        Box::pin(async move {
            let mut state = self.lock();
            let mut after = state.clone();
            let outcome = work(&mut after)?;
            if keeps(&outcome) {
                *state = after;
            }
            Ok(outcome)
        })
    }
}
