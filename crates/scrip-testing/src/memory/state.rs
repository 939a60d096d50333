//! The rows of a store.

mod delivery_row;
mod log_chains;
mod usage_counts;

use scrip_core::{
    Timestamp,
    approval::StoredApprovals,
    audit::{DeletedTenant, SignedWatermark},
    equality::GuessRecord,
    idempotency::IdempotencyRecord,
    keys::key_rotation::KeyRotation,
    policy::{AccessSessionRecord, DirectoryRecords, SignedRow},
    threeds::ThreeDsSessionRecord,
    token::{StoredToken, StoredTokenIntent},
    types::id::{TenantId, TokenId},
};
use scrip_seal::Sealed;
use uuid::Uuid;

pub(super) use self::{
    delivery_row::DeliveryRow, log_chains::LogChains, usage_counts::UsageCounts,
};

#[derive(Debug, Default, Clone)]
pub(super) struct MemoryStoreState {
    /// In the order of creation.
    pub(super) tokens: Vec<TokenRow>,
    /// The last token number, if numbers are never reused.
    pub(super) last_number: Option<i64>,
    pub(super) intents: Vec<(TenantId, StoredTokenIntent)>,
    pub(super) idempotency_records: Vec<MemoryIdempotencyRecord>,
    pub(super) audit: LogChains,
    pub(super) read_log: LogChains,
    pub(super) directory: DirectoryRecords,
    pub(super) access_sessions: Vec<SignedRow<AccessSessionRecord>>,
    pub(super) threeds_sessions: Vec<ThreeDsSessionRecord>,
    pub(super) deliveries: Vec<DeliveryRow>,
    pub(super) webhook_signing_key: Option<Sealed>,
    pub(super) deleted_tenants: Vec<DeletedTenant>,
    pub(super) clock_watermark: Option<SignedWatermark>,
    pub(super) usage: UsageCounts,
    pub(super) guesses: Vec<(TenantId, GuessRecord)>,
    pub(super) key_rotations: Vec<MemoryKeyRotation>,
    pub(super) approvals: StoredApprovals,
}

#[derive(Debug, Clone)]
pub(super) struct TokenRow {
    pub(super) number: i64,
    pub(super) tenant: TenantId,
    pub(super) token: StoredToken,
}

impl TokenRow {
    pub(super) fn creation_order(&self) -> (Timestamp, i64) {
        (self.token.record.created_at, self.number)
    }
}

/// An idempotency record, and the token of each entry of its token data.
#[derive(Debug, Clone)]
pub(super) struct MemoryIdempotencyRecord {
    pub(super) tenant: TenantId,
    pub(super) record: IdempotencyRecord,
    pub(super) tokens: Vec<TokenId>,
}

/// A rotation, and the lease of its node.
#[derive(Debug, Clone)]
pub(super) struct MemoryKeyRotation {
    pub(super) rotation: KeyRotation,
    pub(super) lease: Option<(Uuid, Timestamp)>,
}
