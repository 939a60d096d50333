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
mod snapshot;
mod threeds_sessions;
mod tokens;
mod usage;

use std::sync::{Mutex, MutexGuard, PoisonError};

use scrip_core::{
    audit::{DeletedTenant, SignedWatermark},
    id::TenantId,
    policy::{
        AccessSessionRecord, DirectoryRecords, SignedRow, approval::StoredApprovals,
        guessing_budget::GuessRecord,
    },
    store::{StoreError, StoreFuture},
    threeds::ThreeDsSessionRecord,
    time::Timestamp,
    token::{StoredToken, StoredTokenIntent},
};
use scrip_seal::Sealed;
use scrip_store::claims::InFlightClaims;

use crate::memory::{
    deliveries::DeliveryRow, idempotency::MemoryIdempotencyRecord,
    key_rotations::MemoryKeyRotation, logs::LogChains, usage::UsageCounts,
};

pub use self::snapshot::MemorySnapshot;

#[derive(Debug, Default)]
pub struct MemoryStore {
    state: Mutex<MemoryStoreState>,
    claims: InFlightClaims,
}

#[derive(Debug, Default, Clone)]
struct MemoryStoreState {
    /// In the order of creation.
    tokens: Vec<TokenRow>,
    /// The last token number, if numbers are never reused.
    last_number: Option<i64>,
    intents: Vec<(TenantId, StoredTokenIntent)>,
    idempotency_records: Vec<MemoryIdempotencyRecord>,
    audit: LogChains,
    read_log: LogChains,
    directory: DirectoryRecords,
    access_sessions: Vec<SignedRow<AccessSessionRecord>>,
    threeds_sessions: Vec<ThreeDsSessionRecord>,
    deliveries: Vec<DeliveryRow>,
    webhook_signing_key: Option<Sealed>,
    deleted_tenants: Vec<DeletedTenant>,
    clock_watermark: Option<SignedWatermark>,
    usage: UsageCounts,
    guesses: Vec<(TenantId, GuessRecord)>,
    key_rotations: Vec<MemoryKeyRotation>,
    approvals: StoredApprovals,
}

#[derive(Debug, Clone)]
struct TokenRow {
    number: i64,
    tenant: TenantId,
    token: StoredToken,
}

impl TokenRow {
    fn creation_order(&self) -> (Timestamp, i64) {
        (self.token.record.created_at, self.number)
    }
}

impl MemoryStore {
    /// A model of PostgreSQL, which never reuses the number of a deleted token. The default is a
    /// model of SQLite, which reuses the highest number.
    #[must_use]
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
