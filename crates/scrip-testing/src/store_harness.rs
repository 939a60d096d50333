//! The methods of a store with default arguments for most tests.

pub mod deliveries;
pub mod sessions;

use std::{sync::Arc, time::Duration};

use scrip_core::{
    Timestamp,
    audit::AuditRecord,
    card::TokenType,
    change::ChangeOutcome,
    disclosure::Deduplicate,
    equality::Comparison,
    events::ExpiryEvents,
    idempotency::{ClaimOutcome, IdempotencyLookup, IdempotencyRecord, ResponseTokenData},
    listing::{Facet, SearchFacet},
    policy::{Caller, LookupPermit, Permit, TenantSettings},
    store::{ExpiringEntity, Store},
    token::{CvcRecord, ExpressionProvenance, StoredToken, TokenModification, TokenRecord},
    token_batch::{
        self, BatchOutcome, BuildIdempotencyRecord, CvcChange, DeleteToken, TokenBatch,
        TokenEvents, TokenWrite, WriteConflict, WriteOutcome,
    },
    types::{
        Operation, Permission, StoreError,
        id::ApplicationId,
        time::{Clock, Month},
    },
};
use scrip_seal::{Fingerprint, Sealed};
use uuid::Uuid;

use crate::{
    clock::START,
    policy::{TOKENS, access_without_rules},
    vault_harness::{Engine, VaultHarness, containers, token_id},
};

pub const DAY: Duration = Duration::from_secs(24 * 60 * 60);

#[derive(Debug)]
pub struct StoreHarness {
    pub caller: Caller,
    /// A caller of another tenant.
    pub stranger: Caller,
    pub vault_harness: VaultHarness,
}

/// A batch of one insert.
pub struct SingleInsert {
    pub token: StoredToken,
    pub deduplicate: Deduplicate,
    pub audit: AuditRecord,
    pub build_record: Option<BuildIdempotencyRecord>,
}

/// A batch of one update.
pub struct SingleUpdate {
    pub token: TokenRecord,
    pub cvc: CvcChange,
    pub deduplicate: Deduplicate,
    pub audit: AuditRecord,
    pub build_record: Option<BuildIdempotencyRecord>,
}

/// The outcome of one insert.
#[derive(Debug, PartialEq, Eq)]
pub enum InsertOutcome {
    New,
    Existing(Box<StoredToken>),
    IdTaken,
}

/// The outcome of one update.
#[derive(Debug, PartialEq, Eq)]
pub enum UpdateOutcome {
    Done,
    Duplicate(Box<StoredToken>),
    Stale,
}

pub fn insert_outcome(
    batch_outcome: Result<BatchOutcome, StoreError>,
) -> Result<InsertOutcome, StoreError> {
    Ok(match single_outcome(batch_outcome?) {
        Ok(WriteOutcome::New) => InsertOutcome::New,
        Ok(WriteOutcome::Existing(existing)) => InsertOutcome::Existing(existing),
        Err(WriteConflict::IdTaken) => InsertOutcome::IdTaken,
        Err(WriteConflict::Duplicate(existing)) => InsertOutcome::Existing(existing),
        outcome => panic!("not an outcome of an insert: {outcome:?}"),
    })
}

pub fn update_outcome(
    batch_outcome: Result<BatchOutcome, StoreError>,
) -> Result<UpdateOutcome, StoreError> {
    Ok(match single_outcome(batch_outcome?) {
        Ok(WriteOutcome::Updated) => UpdateOutcome::Done,
        Ok(WriteOutcome::Existing(existing)) => UpdateOutcome::Duplicate(existing),
        Err(WriteConflict::Stale) => UpdateOutcome::Stale,
        outcome => panic!("not an outcome of an update: {outcome:?}"),
    })
}

fn single_outcome(batch_outcome: BatchOutcome) -> Result<WriteOutcome, WriteConflict> {
    match batch_outcome {
        BatchOutcome::Written(mut outcomes) if outcomes.len() == 1 => Ok(outcomes.remove(0)),
        BatchOutcome::Rejected(mut conflicts) if conflicts.len() == 1 => Err(conflicts.remove(0).1),
        outcome @ (BatchOutcome::Written(_) | BatchOutcome::Rejected(_)) => {
            panic!("not one outcome: {outcome:?}")
        }
    }
}

impl StoreHarness {
    pub async fn open(engine: Engine) -> Self {
        let harness = VaultHarness::open(engine).await;
        let tenant = harness.tenant(TenantSettings::default()).await;
        let other_tenant = harness.tenant(TenantSettings::default()).await;
        let caller = harness.caller(&tenant, access_without_rules(TOKENS)).await;
        let stranger = harness.caller(&other_tenant, access_without_rules(TOKENS)).await;
        Self { caller, stranger, vault_harness: harness }
    }

    /// The harness with the two callers swapped.
    pub fn with_callers_swapped(self) -> Self {
        Self { caller: self.stranger, stranger: self.caller, vault_harness: self.vault_harness }
    }

    pub fn store(&self) -> &dyn Store {
        &*self.vault_harness.vault.store
    }

    pub fn now(&self) -> Timestamp {
        self.vault_harness.clock.now()
    }

    pub fn advance(&self, duration: Duration) {
        self.vault_harness.clock.advance(duration);
    }

    pub fn permit(&self, permission: Permission) -> Permit {
        self.caller.permit(permission, &containers(&["/"])).unwrap()
    }

    pub fn audit(&self, operation: Operation) -> AuditRecord {
        AuditRecord::new(operation, &self.caller, self.now())
    }

    pub fn new_insert(&self, token: StoredToken, deduplicate: Deduplicate) -> SingleInsert {
        let audit = self.audit(Operation::CreateToken);
        SingleInsert { token, deduplicate, audit, build_record: None }
    }

    pub fn lookup_permit(&self) -> LookupPermit {
        self.caller.permit_lookup(Permission::TokenCreate).unwrap()
    }

    /// The arguments of `write_tokens` for an insert.
    pub fn insert_batch(&self, insert: SingleInsert) -> (LookupPermit, TokenBatch) {
        let SingleInsert { token, deduplicate, audit, build_record } = insert;
        let permit = self.permit(Permission::TokenCreate);
        let events = no_events();
        let insert =
            token_batch::InsertToken { permit, token, intent: None, deduplicate, audit, events };
        (
            self.lookup_permit(),
            TokenBatch { writes: vec![TokenWrite::Insert(insert)], build_record },
        )
    }

    pub async fn insert_token(&self, insert: SingleInsert) -> Result<InsertOutcome, StoreError> {
        let (lookup, batch) = self.insert_batch(insert);
        insert_outcome(self.store().write_tokens(lookup, batch).await)
    }

    pub async fn insert(&self, record: TokenRecord) -> InsertOutcome {
        self.insert_token(self.new_insert(without_cvc(record), Deduplicate::No)).await.unwrap()
    }

    pub async fn insert_deduplicated(&self, record: TokenRecord) -> InsertOutcome {
        self.insert_token(self.new_insert(without_cvc(record), DEDUPLICATE)).await.unwrap()
    }

    pub async fn insert_with_record(
        &self,
        token: StoredToken,
        build_record: BuildIdempotencyRecord,
    ) -> Result<InsertOutcome, StoreError> {
        let insert = self.new_insert(token, DEDUPLICATE);
        self.insert_token(SingleInsert { build_record: Some(build_record), ..insert }).await
    }

    pub async fn find(&self, id: &str) -> Option<StoredToken> {
        let lookup = self.caller.permit_lookup(Permission::TokenRead).unwrap();
        self.store().find_token(lookup, &token_id(id), self.now()).await.unwrap()
    }

    pub fn new_update(&self, token: TokenRecord, deduplicate: Deduplicate) -> SingleUpdate {
        let audit = self.audit(Operation::UpdateToken);
        SingleUpdate { token, cvc: CvcChange::Keep, deduplicate, audit, build_record: None }
    }

    pub async fn update_token(&self, update: SingleUpdate) -> Result<UpdateOutcome, StoreError> {
        let SingleUpdate { token, cvc, deduplicate, audit, build_record } = update;
        let permit = self.permit(Permission::TokenUpdate);
        let update = token_batch::UpdateToken {
            permit,
            token,
            cvc,
            intent: None,
            deduplicate,
            reject_if_in_session_at: None,
            audit,
            events: no_events(),
        };
        let batch = TokenBatch { writes: vec![TokenWrite::Update(update)], build_record };
        update_outcome(self.store().write_tokens(self.lookup_permit(), batch).await)
    }

    pub async fn update(&self, update: SingleUpdate) -> UpdateOutcome {
        self.update_token(update).await.unwrap()
    }

    /// Replaces a token without deduplication.
    pub async fn revise(&self, token: TokenRecord) -> UpdateOutcome {
        self.update(self.new_update(token, Deduplicate::No)).await
    }

    pub async fn delete(&self, id: &str, revision: i64) -> ChangeOutcome {
        let audit = self.audit(Operation::DeleteToken);
        let delete = DeleteToken { id: token_id(id), revision, audit, deliveries: Vec::new() };
        self.store().delete_token(self.permit(Permission::TokenDelete), delete).await.unwrap()
    }

    /// Deletes all expired tokens in as many steps as necessary. Returns the number of tokens.
    pub async fn delete_expired_tokens(&self, cutoff: Timestamp) -> usize {
        self.delete_expired(ExpiringEntity::Token, Operation::ExpireToken, cutoff).await
    }

    /// Deletes all expired entities of a kind in as many steps as necessary.
    pub async fn delete_expired(
        &self,
        entity: ExpiringEntity,
        operation: Operation,
        cutoff: Timestamp,
    ) -> usize {
        repeat_until_zero(async || {
            let events = self.expiry_events(operation).await;
            let audit = events.audit.clone();
            self.store().delete_expired(entity, cutoff, audit, events).await.unwrap()
        })
        .await
    }

    /// The events of expiries, with the webhooks that the tenants have now.
    pub async fn expiry_events(&self, operation: Operation) -> ExpiryEvents {
        let VaultHarness { vault, .. } = &self.vault_harness;
        let audit = vault.audit_trail.record_for_vault(operation, self.now()).unwrap();
        let directory = Arc::new(self.vault_harness.directory().await);
        ExpiryEvents { directory, audit, fill_random: vault.fill_random }
    }

    pub async fn erase_expired_cvcs(&self, cutoff: Timestamp) -> usize {
        repeat_until_zero(async || {
            let events = self.expiry_events(Operation::ExpireToken).await;
            self.store().erase_expired_cvcs(cutoff, events).await.unwrap()
        })
        .await
    }

    pub async fn delete_old_usage(&self, month: Month) -> usize {
        repeat_until_zero(async || self.store().delete_old_usage(month).await.unwrap()).await
    }

    /// The numbers of tokens, CVCs and audit records.
    pub async fn row_counts(&self) -> [u64; 3] {
        let status = self.store().status().await.unwrap();
        ["tokens", "verification_codes", "audit_records"]
            .map(|name| status.counts.iter().find(|(it, _)| *it == name).unwrap().1)
    }

    pub async fn claim_digest(&self, digest: [u8; 32]) -> ClaimOutcome {
        let now = self.now();
        let tenant = self.caller.tenant().id;
        let lookup = IdempotencyLookup { tenant, digest, now, since: now.minus(DAY) };
        self.store().claim_idempotency_key(lookup).await.unwrap()
    }

    pub fn idempotency_record(&self, digest: [u8; 32]) -> IdempotencyRecord {
        IdempotencyRecord {
            digest,
            created_at: self.now(),
            head: Sealed::from_stored(b"head".to_vec()),
            token_data: vec![ResponseTokenData {
                write_index: 0,
                sealed: Sealed::from_stored(b"data".to_vec()),
            }],
        }
    }
}

/// Repeats a step until it returns zero. Returns the sum.
async fn repeat_until_zero(step: impl AsyncFn() -> usize) -> usize {
    let mut total = 0;
    while let count @ 1.. = step().await {
        total += count;
    }
    total
}

/// Uses an existing token.
pub const DEDUPLICATE: Deduplicate = Deduplicate::Yes(Comparison::assumed_for_store_test());
/// Reports an existing token.
pub const REPORT_EXISTING: Deduplicate =
    Deduplicate::ReportExisting(Comparison::assumed_for_store_test());

/// A facet as a search has it after it was counted.
pub fn counted_facet(facet: Facet) -> SearchFacet {
    SearchFacet::with_comparison(facet, Comparison::assumed_for_store_test())
}

/// The events of a token write that no webhook wants.
pub fn no_events() -> TokenEvents {
    TokenEvents { written: Vec::new(), fill_random: |_| () }
}

/// A sample token record. Samples differ only in their id and in their body, which is the id.
pub fn token_record(id: &str) -> TokenRecord {
    TokenRecord {
        id: token_id(id),
        token_type: TokenType::Token,
        fingerprint: Some(Fingerprint([7; 32])),
        expressions: ExpressionProvenance::default(),
        containers: containers(&["/b/", "/a/"]),
        created_by: ApplicationId(Uuid::from_bytes([3; 16])),
        created_at: START,
        modified: None,
        expires_at: None,
        revision: 0,
        indexes: vec![],
        body: Sealed::from_stored(id.as_bytes().to_vec()),
    }
}

/// The record after an update.
pub fn revised_record(record: &TokenRecord) -> TokenRecord {
    let application = ApplicationId(Uuid::from_bytes([4; 16]));
    TokenRecord {
        modified: Some(TokenModification {
            by: application,
            at: START.plus(Duration::from_secs(1)),
        }),
        revision: record.revision + 1,
        body: Sealed::from_stored(b"revised".to_vec()),
        ..record.clone()
    }
}

pub fn without_cvc(record: TokenRecord) -> StoredToken {
    StoredToken { record, cvc: None }
}

pub fn cvc_record(text: &str) -> CvcRecord {
    let sealed = Sealed::from_stored(text.as_bytes().to_vec());
    CvcRecord { expires_at: START.plus(Duration::from_secs(60)), sealed }
}
