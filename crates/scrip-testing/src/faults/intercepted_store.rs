//! An engine with some of its calls replaced.

use std::sync::Arc;

use scrip_core::{
    Error, Timestamp,
    approval::{ApprovalChange, StoredApprovals},
    audit::{
        AuditRecord, Chain, ChainHead, Checkpoint, DeletedTenant, LogKind, LogRecord, PruneChain,
        ResignChain, ScanRecords, ScannedRecords, SignedWatermark,
    },
    change::{ChangeOutcome, CommitExtras, DecidePolicyRestore, LoadedPolicy, PolicyEdit},
    equality::{GuessBucket, GuessRecord, GuessStore},
    events::{
        AttemptResult, ClaimedDelivery, DeliveryRecord, ExpiryEvents, NewDelivery, WebhookKey,
    },
    idempotency::{CallRecordKey, ClaimOutcome, IdempotencyLookup, IdempotencyRecord},
    keys::{
        MethodRemoval, RotatedTable, RowKey, SealedRows, UnlockRemoval, VaultKeyRotation,
        key_rotation::{KeyRotation, VersionCount},
    },
    listing::{NewestTokens, NewestTokensScan, ScannedTokens, TokenScan},
    policy::{
        AccessSessionId, AccessSessionRecord, DirectoryRecords, LookupPermit, Permit, PolicyPermit,
        PolicyRecords, SignedRow, SystemKeys, TenantDeletion,
    },
    read_log::ReadLogBatch,
    store::{
        AccessSessionStore, ApprovalStore, AuditStore, DeliveryStore, DigestChanges,
        DirectoryStore, ExpiringEntity, FinishedPass, IdempotencyStore, KeyRotationStore,
        ListingStore, Maintenance, PolicyStore, RotationLease, RotationMark, RotationStep, Store,
        StoreCondition, StoreStatus, TenantUsage, ThreeDsSessionStore, TokenIntentStore,
        TokenStore, UnlockStore, UsageStore, VersionPage,
        deliveries::{
            DeliveryBounds, DeliveryClaim, DeliveryReplay, ReplayedDeliveries, TrimmedDeliveries,
        },
    },
    threeds::{ThreeDsSessionRecord, ThreeDsSessionWrite},
    token::{StoredToken, StoredTokenIntent},
    token_batch::{BatchOutcome, DeleteToken, TokenBatch},
    types::{
        StoreFuture,
        id::{EventId, TenantId, ThreeDsSessionId, TokenId, TokenIntentId, UnlockId, WebhookId},
        metrics::StoreMetrics,
        time::Month,
    },
    unlock::{UnlockRecord, VaultIdentity, VaultUnlocks},
};
use scrip_seal::Sealed;

macro_rules! call_engine {
    ($($name:ident($($argument:ident: $Type:ty),*) -> $Out:ty;)*) => {
        $(fn $name<'a>(
            &'a self,
            engine: &'a Arc<dyn Store>,
            $($argument: $Type),*
        ) -> StoreFuture<'a, $Out> {
            engine.$name($($argument),*)
        })*
    };
}

/// Replaces calls of an engine. A method that is not overridden calls the engine.
pub trait Interceptor: Send + Sync {
    call_engine! {
        write_tokens(lookup: LookupPermit, batch: TokenBatch) -> BatchOutcome;
        insert_threeds_session(lookup: LookupPermit, write: ThreeDsSessionWrite) -> ();
        update_threeds_session(write: ThreeDsSessionWrite) -> ChangeOutcome;
        insert_call_record(permit: &'a LookupPermit, record: IdempotencyRecord, entries: ReadLogBatch) -> ();
        claim_idempotency_key(lookup: IdempotencyLookup) -> ClaimOutcome;
        append_read_log(batch: ReadLogBatch) -> ();
        list_sealed_rows(tenant: TenantId, table: RotatedTable, after: Option<RowKey>, rows_max: usize) -> SealedRows;
        count_key_versions(tenant: TenantId, table: RotatedTable, after: Option<RowKey>, rows_max: usize) -> VersionPage;
    }
}

/// An engine with all calls passed through an interceptor.
pub struct InterceptedStore<I> {
    pub engine: Arc<dyn Store>,
    pub interceptor: I,
}

macro_rules! forward {
    ($($name:ident($($argument:ident: $Type:ty),*) -> $Out:ty;)*) => {
        $(fn $name<'a>(&'a self, $($argument: $Type),*) -> StoreFuture<'a, $Out> {
            self.engine.$name($($argument),*)
        })*
    };
}

macro_rules! intercept {
    ($($name:ident($($argument:ident: $Type:ty),*) -> $Out:ty;)*) => {
        $(fn $name<'a>(&'a self, $($argument: $Type),*) -> StoreFuture<'a, $Out> {
            self.interceptor.$name(&self.engine, $($argument),*)
        })*
    };
}

impl<I: Interceptor> GuessStore for InterceptedStore<I> {
    forward! {
        find_guesses(tenant: TenantId, buckets: &'a [GuessBucket], now: Timestamp) -> Vec<GuessRecord>;
        insert_guesses(tenant: TenantId, records: Vec<GuessRecord>) -> ();
        delete_expired_guesses(cutoff: Timestamp) -> usize;
    }
}

impl<I: Interceptor> KeyRotationStore for InterceptedStore<I> {
    intercept! {
        list_sealed_rows(tenant: TenantId, table: RotatedTable, after: Option<RowKey>, rows_max: usize) -> SealedRows;
        count_key_versions(tenant: TenantId, table: RotatedTable, after: Option<RowKey>, rows_max: usize) -> VersionPage;
    }

    forward! {
        list_key_rotations() -> Vec<KeyRotation>;
        insert_key_rotation(rotation: KeyRotation) -> ChangeOutcome;
        mark_key_rotation(tenant: TenantId, mark: RotationMark) -> ChangeOutcome;
        claim_key_rotation(tenant: TenantId, lease: RotationLease) -> ChangeOutcome;
        advance_key_rotation(step: RotationStep) -> ChangeOutcome;
        replace_digests(changes: DigestChanges) -> ();
        count_other_key_versions(tenant: TenantId) -> Vec<VersionCount>;
    }
}

impl<I: Interceptor> TokenStore for InterceptedStore<I> {
    intercept! {
        write_tokens(lookup: LookupPermit, batch: TokenBatch) -> BatchOutcome;
    }

    forward! {
        find_token(lookup: LookupPermit, id: &'a TokenId, now: Timestamp) -> Option<StoredToken>;
        find_tokens(lookup: LookupPermit, ids: &'a [TokenId], now: Timestamp)
            -> Vec<Option<StoredToken>>;
        delete_token(permit: Permit, delete: DeleteToken) -> ChangeOutcome;
    }
}

impl<I: Interceptor> ListingStore for InterceptedStore<I> {
    forward! {
        scan_tokens(lookup: LookupPermit, scan: TokenScan) -> ScannedTokens;
        find_newest_tokens(lookup: LookupPermit, scan: NewestTokensScan) -> NewestTokens;
    }
}

impl<I: Interceptor> TokenIntentStore for InterceptedStore<I> {
    forward! {
        insert_token_intent(lookup: LookupPermit, intent: StoredTokenIntent, extras: CommitExtras) -> ();
        find_token_intent(lookup: LookupPermit, id: TokenIntentId, now: Timestamp)
            -> Option<StoredTokenIntent>;
        delete_token_intent(lookup: LookupPermit, id: TokenIntentId, audit: AuditRecord, deliveries: Vec<NewDelivery>)
            -> ChangeOutcome;
    }
}

impl<I: Interceptor> IdempotencyStore for InterceptedStore<I> {
    intercept! {
        insert_call_record(permit: &'a LookupPermit, record: IdempotencyRecord, entries: ReadLogBatch) -> ();
        claim_idempotency_key(lookup: IdempotencyLookup) -> ClaimOutcome;
    }

    forward! {
        replace_call_record(permit: &'a LookupPermit, record: IdempotencyRecord, entries: ReadLogBatch) -> ChangeOutcome;
        delete_call_record(permit: &'a LookupPermit, key: CallRecordKey, entries: ReadLogBatch) -> ChangeOutcome;
        delete_expired_responses(cutoff: Timestamp) -> usize;
    }
}

impl<I: Interceptor> DirectoryStore for InterceptedStore<I> {
    forward! {
        load_directory() -> DirectoryRecords;
        directory_version() -> i64;
        insert_system_keys(keys: SystemKeys) -> ();
        find_webhook_signing_key() -> Option<Sealed>;
        insert_webhook_signing_key(wrapped: Sealed) -> Sealed;
    }
}

impl<I: Interceptor> UnlockStore for InterceptedStore<I> {
    forward! {
        insert_vault(keys: SystemKeys, identity: VaultIdentity, method: UnlockRecord) -> ();
        load_unlocks() -> VaultUnlocks;
        adopt_vault(identity: VaultIdentity, method: UnlockRecord) -> ChangeOutcome;
        insert_unlock(method: UnlockRecord) -> ChangeOutcome;
        activate_unlock(method: UnlockRecord) -> ChangeOutcome;
        delete_unlock(removal: MethodRemoval) -> UnlockRemoval;
        save_unlock_check(id: UnlockId, at: Timestamp) -> ();
        replace_audit_key(before: Sealed, after: Sealed) -> ChangeOutcome;
        rotate_vault_key(rotation: VaultKeyRotation) -> Result<(), Error>;
    }
}

impl<I: Interceptor> ApprovalStore for InterceptedStore<I> {
    forward! {
        load_approvals() -> StoredApprovals;
        change_approvals(change: ApprovalChange) -> ChangeOutcome;
    }
}

impl<I: Interceptor> PolicyStore for InterceptedStore<I> {
    forward! {
        insert_tenant(records: PolicyRecords, audit: AuditRecord) -> ();
        load_policy(permit: &'a PolicyPermit) -> Result<LoadedPolicy, Error>;
        change_policy(permit: PolicyPermit, edit: PolicyEdit) -> Result<ChangeOutcome, Error>;
        destroy_sealing_keys(permit: PolicyPermit, finished: Option<FinishedPass>, edit: PolicyEdit)
            -> Result<ChangeOutcome, Error>;
        restore_policy(permit: PolicyPermit, decide: DecidePolicyRestore) -> Result<(), Error>;
        delete_tenant(deletion: TenantDeletion, audit: AuditRecord) -> Result<ChangeOutcome, Error>;
        list_deleted_tenants() -> Vec<DeletedTenant>;
        purge_tenants(tenants: Vec<TenantId>, now: Timestamp) -> usize;
    }
}

impl<I: Interceptor> AccessSessionStore for InterceptedStore<I> {
    forward! {
        find_access_session_by_nonce(permit: &'a PolicyPermit, nonce: [u8; 32])
            -> Option<SignedRow<AccessSessionRecord>>;
        list_access_sessions(permit: &'a PolicyPermit, now: Timestamp, sessions_max: usize)
            -> Vec<SignedRow<AccessSessionRecord>>;
        insert_access_session(
            permit: PolicyPermit, session: SignedRow<AccessSessionRecord>, extras: CommitExtras) -> ();
        find_access_session(id: AccessSessionId) -> Option<SignedRow<AccessSessionRecord>>;
        authorize_access_session(
            permit: PolicyPermit, session: SignedRow<AccessSessionRecord>, extras: CommitExtras) -> ChangeOutcome;
        delete_expired_access_sessions(cutoff: Timestamp) -> usize;
        revoke_access_session(permit: PolicyPermit, id: AccessSessionId, extras: CommitExtras) -> ChangeOutcome;
    }
}

impl<I: Interceptor> ThreeDsSessionStore for InterceptedStore<I> {
    intercept! {
        insert_threeds_session(lookup: LookupPermit, write: ThreeDsSessionWrite) -> ();
        update_threeds_session(write: ThreeDsSessionWrite) -> ChangeOutcome;
    }

    forward! {
        is_used_by_threeds_session(lookup: LookupPermit, token: &'a TokenId, now: Timestamp) -> bool;
        find_threeds_session(lookup: LookupPermit, id: ThreeDsSessionId, now: Timestamp) -> Option<ThreeDsSessionRecord>;
        find_notified_threeds_session(id: ThreeDsSessionId, now: Timestamp) -> Option<ThreeDsSessionRecord>;
    }
}

impl<I: Interceptor> DeliveryStore for InterceptedStore<I> {
    forward! {
        list_due_webhooks(now: Timestamp) -> Vec<WebhookKey>;
        claim_deliveries(webhook: WebhookKey, claim: DeliveryClaim) -> Vec<ClaimedDelivery>;
        finish_deliveries(webhook: WebhookKey, results: Vec<AttemptResult>) -> usize;
        move_read_deliveries() -> usize;
        has_delivered_since(webhook: WebhookKey, since: Timestamp) -> bool;
        list_deliveries(permit: &'a PolicyPermit, webhook: WebhookId, before: Option<EventId>, deliveries_max: usize)
            -> Vec<DeliveryRecord>;
        insert_deliveries(permit: PolicyPermit, extras: CommitExtras) -> ();
        replay_deliveries(permit: PolicyPermit, replay: DeliveryReplay, extras: Option<CommitExtras>)
            -> ReplayedDeliveries;
        list_webhooks_with_deliveries() -> Vec<WebhookKey>;
        trim_deliveries(webhook: WebhookKey, bounds: DeliveryBounds, audit: AuditRecord) -> TrimmedDeliveries;
        delete_orphan_deliveries(webhook: WebhookKey) -> usize;
        count_pending_deliveries() -> (u64, Option<Timestamp>);
    }
}

impl<I: Interceptor> AuditStore for InterceptedStore<I> {
    intercept! {
        append_read_log(batch: ReadLogBatch) -> ();
    }

    forward! {
        list_heads(log: LogKind) -> Vec<ChainHead>;
        list_chains(log: LogKind) -> Vec<Chain>;
        list_records(log: LogKind, tenant: TenantId, after: i64, records_max: usize) -> Vec<LogRecord>;
        find_checkpoint(log: LogKind, tenant: TenantId) -> Option<Checkpoint>;
        scan_records(lookup: LookupPermit, scan: ScanRecords) -> ScannedRecords;
        prune_chain(prune: PruneChain) -> usize;
        resign_chain(resign: ResignChain) -> ();
    }
}

impl<I: Interceptor> UsageStore for InterceptedStore<I> {
    forward! {
        find_usage(permit: &'a PolicyPermit, month: Month) -> TenantUsage;
        delete_old_usage(month: Month) -> usize;
    }
}

impl<I: Interceptor> Maintenance for InterceptedStore<I> {
    fn metrics(&self) -> StoreMetrics {
        self.engine.metrics()
    }

    fn condition(&self) -> StoreCondition {
        self.engine.condition()
    }

    forward! {
        probe() -> ();
        delete_expired(entity: ExpiringEntity, cutoff: Timestamp, audit: AuditRecord, events: ExpiryEvents) -> usize;
        erase_expired_cvcs(cutoff: Timestamp, events: ExpiryEvents) -> usize;
        cap_at_shared_clock(at: Timestamp) -> Timestamp;
        save_watermark(watermark: SignedWatermark) -> ();
        load_watermark() -> Option<SignedWatermark>;
        check_ready() -> ();
        status() -> StoreStatus;
    }
}
