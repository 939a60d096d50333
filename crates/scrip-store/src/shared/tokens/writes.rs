//! Rules of token writes for both engines: duplicates, conflicts, and what a write counts. An engine
//! looks up tokens and writes rows.

use std::{cmp::Reverse, collections::HashMap};

use scrip_core::{
    Timestamp,
    audit::AuditRecord,
    card::TokenType,
    change::ChangeOutcome,
    disclosure::{Deduplicate, DuplicateLookup},
    read_log::active_month,
    threeds::sign_conversion,
    token::{StoredToken, TokenRecord},
    token_batch::{
        BatchOutcome, CvcChange, DeleteToken, InsertToken, TokenBatch, TokenWrite, UpdateToken,
        WriteConflict, WriteOutcome,
    },
    types::{
        Operation, StoreError,
        id::{TenantId, TokenId, TokenIntentId},
        time::Month,
    },
};

use scrip_seal::Sealed;

use crate::{
    shared::{
        session_cards::{convert_card, is_used_by_threeds_session},
        tokens::rows::{NumberedToken, decode_numbered_token},
    },
    sql::{Statements, WriteTransaction, parameters},
};

/// Token lookups and writes in a transaction of one tenant. No other transaction of the tenant
/// writes at the same time.
pub(crate) trait TokenTransaction: WriteTransaction {
    /// Statement that finds a token by tenant and id that is live at the given time.
    const FIND_TOKEN: &'static str;

    /// Finds live tokens with a key of the lookup, except the token with the given id. Returns at
    /// least the preferred token of each key.
    async fn find_duplicates(
        &self,
        tenant: TenantId,
        lookup: &DuplicateLookup,
        now: Timestamp,
        excluded_id: &str,
    ) -> Result<Vec<NumberedToken>, StoreError>;

    /// Inserts the row with its CVC and index entries, and counts it. Inserts nothing if another
    /// token, live or expired, has the id.
    async fn insert_token(
        &mut self,
        tenant: TenantId,
        token: &StoredToken,
    ) -> Result<Option<i64>, StoreError>;

    /// Updates the row, and its CVC and index entries if they changed.
    async fn replace_token(
        &self,
        tenant: TenantId,
        previous: &NumberedToken,
        updated: &TokenRecord,
        cvc: &CvcChange,
    ) -> Result<(), StoreError>;

    /// Deletes the row with all dependent rows, and counts the deletion.
    async fn remove_token(
        &mut self,
        tenant: TenantId,
        number: i64,
        record: &TokenRecord,
    ) -> Result<(), StoreError>;

    /// Returns the earlier of the given time and the clock that all nodes share, if there is one.
    async fn cap_at_shared_clock(&self, at: Timestamp) -> Result<Timestamp, StoreError>;
}

/// The outcome of a batch, and the numbers of the tokens that it created or found.
pub(crate) struct BatchAttempt {
    pub(crate) outcome: BatchOutcome,
    pub(crate) numbers: Vec<i64>,
}

/// The outcome of one write, and the number of its token.
type WriteAttempt = Result<(WriteOutcome, i64), WriteConflict>;

/// Writes a batch. After a conflict the remaining writes are still tried, so that all conflicts are
/// reported together. The caller rolls back a rejected batch.
pub(crate) async fn write_tokens<T: TokenTransaction>(
    transaction: &mut T,
    tenant: TenantId,
    writes: &[TokenWrite],
) -> Result<BatchAttempt, StoreError> {
    let values: Vec<_> = writes.iter().map(sealed_body).collect();
    transaction.check_sealed(tenant, &values).await?;
    let (mut outcomes, mut numbers) = (Vec::new(), Vec::new());
    let mut conflicts = Vec::new();
    for (index, write) in writes.iter().enumerate() {
        let attempt = match write {
            TokenWrite::Insert(insert) => insert_token(transaction, tenant, insert).await?,
            TokenWrite::Update(update) => update_token(transaction, tenant, update).await?,
        };
        match attempt {
            Ok((outcome, number)) => {
                if let Some(intent) = write.intent() {
                    convert_card(transaction, &sign_conversion(write, intent, &outcome)).await?;
                }
                transaction.insert_deliveries(&write.deliveries(&outcome)).await?;
                outcomes.push(outcome);
                numbers.push(number);
            }
            Err(conflict) => conflicts.push((index, conflict)),
        }
    }
    let outcome = match conflicts.is_empty() {
        true => BatchOutcome::Written(outcomes),
        false => BatchOutcome::Rejected(conflicts),
    };
    Ok(BatchAttempt { outcome, numbers })
}

/// The sealed body of a write.
pub(crate) fn sealed_body(write: &TokenWrite) -> &Sealed {
    match write {
        TokenWrite::Insert(it) => &it.token.record.body,
        TokenWrite::Update(it) => &it.token.body,
    }
}

async fn insert_token<T: TokenTransaction>(
    transaction: &mut T,
    tenant: TenantId,
    insert: &InsertToken,
) -> Result<WriteAttempt, StoreError> {
    let InsertToken { permit, token, intent, deduplicate, audit, events: _ } = insert;
    check_permit(permit.tenant().id, tenant)?;
    if !convert_intent(transaction, tenant, *intent, audit).await? {
        return Ok(Err(WriteConflict::IntentMissing));
    }
    let record = &token.record;
    let duplicate = find_duplicate(transaction, tenant, record, *deduplicate, audit.at, "").await?;
    if let Some(duplicate) = duplicate {
        return resolve_duplicate(transaction, tenant, *deduplicate, duplicate, audit).await;
    }
    let Some(number) = insert_or_replace_expired(transaction, tenant, insert).await? else {
        return Ok(Err(WriteConflict::IdTaken));
    };
    transaction.append_audit_record(tenant, audit, record.id.as_str(), "created").await?;
    Ok(Ok((WriteOutcome::New, number)))
}

async fn update_token<T: TokenTransaction>(
    transaction: &mut T,
    tenant: TenantId,
    update: &UpdateToken,
) -> Result<WriteAttempt, StoreError> {
    let UpdateToken {
        permit,
        token,
        cvc,
        intent,
        deduplicate,
        reject_if_in_session_at,
        audit,
        events: _,
    } = update;
    check_permit(permit.tenant().id, tenant)?;
    if !convert_intent(transaction, tenant, *intent, audit).await? {
        return Ok(Err(WriteConflict::IntentMissing));
    }
    let current = find_token(transaction, T::FIND_TOKEN, tenant, &token.id, audit.at).await?;
    let is_previous_revision =
        |it: &NumberedToken| it.token.record.revision.saturating_add(1) == token.revision;
    let Some(previous) = current.filter(is_previous_revision) else {
        return Ok(Err(WriteConflict::Stale));
    };
    if let Some(now) = reject_if_in_session_at
        && is_used_by_threeds_session(transaction, tenant, &token.id, *now).await?
    {
        return Ok(Err(WriteConflict::UsedBySession));
    }
    let token_id = token.id.as_str();
    let duplicate =
        find_duplicate(transaction, tenant, token, *deduplicate, audit.at, token_id).await?;
    if let Some(duplicate) = duplicate {
        if !matches!(deduplicate, Deduplicate::ReportExisting(_)) {
            transaction.append_audit_record(tenant, audit, token_id, "deduplicated").await?;
        }
        // The response contains the existing token.
        return resolve_duplicate(transaction, tenant, *deduplicate, duplicate, audit).await;
    }
    transaction.replace_token(tenant, &previous, token, cvc).await?;
    transaction.append_audit_record(tenant, audit, token_id, "updated").await?;
    Ok(Ok((WriteOutcome::Updated, previous.number)))
}

/// Handles an equal token that exists: depending on `Deduplicate`, it is the result or a conflict.
async fn resolve_duplicate<T: TokenTransaction>(
    transaction: &mut T,
    tenant: TenantId,
    deduplicate: Deduplicate,
    duplicate: NumberedToken,
    audit: &AuditRecord,
) -> Result<WriteAttempt, StoreError> {
    let NumberedToken { number, token } = duplicate;
    if matches!(deduplicate, Deduplicate::ReportExisting(_)) {
        return Ok(Err(WriteConflict::Duplicate(Box::new(token))));
    }
    transaction
        .append_audit_record(tenant, audit, token.record.id.as_str(), "deduplicated")
        .await?;
    Ok(Ok((WriteOutcome::Existing(Box::new(token)), number)))
}

/// Consumes the intent of a write. Returns whether it still existed.
async fn convert_intent<T: TokenTransaction>(
    transaction: &mut T,
    tenant: TenantId,
    intent: Option<TokenIntentId>,
    audit: &AuditRecord,
) -> Result<bool, StoreError> {
    let Some(intent) = intent else { return Ok(true) };
    let audit = audit.with_operation(Operation::ConvertTokenIntent);
    let outcome = consume_token_intent(transaction, tenant, intent, &audit, "converted").await?;
    Ok(outcome == ChangeOutcome::Done)
}

pub(crate) fn check_permit(permitted_tenant: TenantId, tenant: TenantId) -> Result<(), StoreError> {
    if permitted_tenant == tenant {
        return Ok(());
    }
    Err(StoreError::Corrupt("a batch can write for one tenant only"))
}

/// Finds a live token other than this one that counts as its duplicate.
async fn find_duplicate<T: TokenTransaction>(
    transaction: &T,
    tenant: TenantId,
    token: &TokenRecord,
    deduplicate: Deduplicate,
    now: Timestamp,
    excluded_id: &str,
) -> Result<Option<NumberedToken>, StoreError> {
    let Some(lookup) = DuplicateLookup::for_write(token, deduplicate) else { return Ok(None) };
    let duplicates = transaction.find_duplicates(tenant, &lookup, now, excluded_id).await?;
    if !duplicates.iter().all(|it| lookup.matches(&it.token.record)) {
        return Err(StoreError::Corrupt("a token's duplicate key is invalid"));
    }
    Ok(duplicates.into_iter().min_by_key(preference_key))
}

/// Sort key of the preferred duplicate: the latest expiry, then the earliest creation.
fn preference_key(duplicate: &NumberedToken) -> (Reverse<i64>, i64, i64) {
    let record = &duplicate.token.record;
    let expires_at_ms = record.expires_at.map_or(i64::MAX, |it| it.unix_ms);
    (Reverse(expires_at_ms), record.created_at.unix_ms, duplicate.number)
}

/// Inserts a token; `None` if a live token has the id. An expired token with the id is deleted with
/// an audit record and the deliveries of its expiry.
async fn insert_or_replace_expired<T: TokenTransaction>(
    transaction: &mut T,
    tenant: TenantId,
    insert: &InsertToken,
) -> Result<Option<i64>, StoreError> {
    let InsertToken { token, audit, .. } = insert;
    if let Some(number) = transaction.insert_token(tenant, token).await? {
        return Ok(Some(number));
    }
    // Finds the token with the id, live or expired.
    let any_time = Timestamp { unix_ms: i64::MIN };
    let existing_token =
        find_token(transaction, T::FIND_TOKEN, tenant, &token.record.id, any_time).await?;
    let Some(NumberedToken { number, token: StoredToken { record, .. } }) = existing_token else {
        return Ok(None);
    };
    // The clock of this node may be ahead while other nodes still serve the token.
    if record.is_live(audit.at) || record.is_live(transaction.cap_at_shared_clock(audit.at).await?)
    {
        return Ok(None);
    }
    transaction.remove_token(tenant, number, &record).await?;
    let expiry_audit = audit.to_vault_record(Operation::ExpireToken);
    transaction.append_audit_record(tenant, &expiry_audit, record.id.as_str(), "expired").await?;
    transaction.insert_deliveries(&insert.expiry_deliveries(&record.id)).await?;
    transaction.insert_token(tenant, token).await
}

pub(crate) async fn delete_token<T: TokenTransaction>(
    transaction: &mut T,
    tenant: TenantId,
    delete: &DeleteToken,
) -> Result<ChangeOutcome, StoreError> {
    let DeleteToken { id, revision, audit, deliveries } = delete;
    let stored_token = find_token(transaction, T::FIND_TOKEN, tenant, id, audit.at).await?;
    let stored_token = stored_token.filter(|it| it.token.record.revision == *revision);
    let Some(NumberedToken { number, token }) = stored_token else {
        return Ok(ChangeOutcome::Stale);
    };
    transaction.remove_token(tenant, number, &token.record).await?;
    transaction.append_audit_record(tenant, audit, id.as_str(), "deleted").await?;
    transaction.insert_deliveries(deliveries).await?;
    Ok(ChangeOutcome::Done)
}

/// Finds a token with the statement of the engine.
pub(crate) async fn find_token(
    client: &impl Statements,
    sql: &str,
    tenant: TenantId,
    id: &TokenId,
    now: Timestamp,
) -> Result<Option<NumberedToken>, StoreError> {
    client.find(sql, &parameters![tenant, id, now], decode_numbered_token).await
}

const DELETE_TOKEN_INTENT: &str = "
-- delete_token_intent
DELETE FROM token_intents WHERE tenant = $1 AND id = $2 AND expires_at > $3";

/// Deletes an intent. A conversion to a token calls this function in its transaction. A second
/// request does not find the intent.
pub(crate) async fn consume_token_intent<T: WriteTransaction>(
    transaction: &mut T,
    tenant: TenantId,
    id: TokenIntentId,
    audit: &AuditRecord,
    outcome: &'static str,
) -> Result<ChangeOutcome, StoreError> {
    let key = parameters![tenant, id, audit.at];
    if transaction.execute(DELETE_TOKEN_INTENT, &key).await? == 0 {
        return Ok(ChangeOutcome::Stale);
    }
    transaction.append_audit_record(tenant, audit, &id.to_string(), outcome).await?;
    Ok(ChangeOutcome::Done)
}

/// The changes of the usage counters in a transaction, in order, so that a savepoint can roll back
/// the latest ones. They are collected until the commit, because most of them have the same tenant,
/// type and month.
#[derive(Debug, Default)]
pub(crate) struct UsageDelta {
    changes: Vec<UsageChange>,
}

#[derive(Debug, Clone, Copy)]
enum UsageChange {
    Created(TenantId, TokenType, Timestamp),
    Removed(TenantId, TokenType),
    /// The tenant's counters were deleted; earlier changes do not restore them.
    TenantRemoved(TenantId),
}

/// The sums of the changes, which a commit writes.
#[derive(Debug, Default)]
pub(crate) struct UsageTotals {
    pub(crate) types: HashMap<(TenantId, TokenType), TypeTotals>,
    pub(crate) months: HashMap<(Month, TenantId), i64>,
}

/// Totals of one token type.
#[derive(Debug, Default)]
pub(crate) struct TypeTotals {
    pub(crate) created: i64,
    pub(crate) removed: i64,
    pub(crate) last_created_ms: i64,
}

impl UsageDelta {
    pub(crate) fn count_created(&mut self, tenant: TenantId, token_type: TokenType, at: Timestamp) {
        self.changes.push(UsageChange::Created(tenant, token_type, at));
    }

    pub(crate) fn count_removed(&mut self, tenant: TenantId, token_type: TokenType) {
        self.changes.push(UsageChange::Removed(tenant, token_type));
    }

    pub(crate) fn drop_tenant(&mut self, tenant: TenantId) {
        self.changes.push(UsageChange::TenantRemoved(tenant));
    }

    /// Returns the number of changes, to which a savepoint can roll back.
    pub(crate) fn change_count(&self) -> usize {
        self.changes.len()
    }

    pub(crate) fn truncate(&mut self, change_count: usize) {
        self.changes.truncate(change_count);
    }

    pub(crate) fn totals(&self) -> UsageTotals {
        let UsageTotals { mut types, mut months } = UsageTotals::default();
        for change in &self.changes {
            match *change {
                UsageChange::Created(tenant, token_type, at) => {
                    let type_totals: &mut TypeTotals =
                        types.entry((tenant, token_type)).or_default();
                    type_totals.created = type_totals.created.saturating_add(1);
                    type_totals.last_created_ms = type_totals.last_created_ms.max(at.unix_ms);
                    let month_total: &mut i64 =
                        months.entry((Month::from_timestamp(at), tenant)).or_default();
                    *month_total = month_total.saturating_add(1);
                }
                UsageChange::Removed(tenant, token_type) => {
                    let type_totals = types.entry((tenant, token_type)).or_default();
                    type_totals.removed = type_totals.removed.saturating_add(1);
                }
                UsageChange::TenantRemoved(tenant) => {
                    types.retain(|(it, _), _| *it != tenant);
                    months.retain(|(_, it), _| *it != tenant);
                }
            }
        }
        UsageTotals { types, months }
    }
}

/// Creation time and time of use of each token of a batch, for the count of active tokens. A token created before the month of its
/// use is active in that month.
pub(crate) struct TokenActivity(Vec<(TokenId, Timestamp, Timestamp)>);

impl TokenActivity {
    pub(crate) fn from_batch(batch: &TokenBatch) -> Self {
        let read_activity = |it: &TokenWrite| {
            let (record, audit) = match it {
                TokenWrite::Insert(it) => (&it.token.record, &it.audit),
                TokenWrite::Update(it) => (&it.token, &it.audit),
            };
            (record.id.clone(), record.created_at, audit.at)
        };
        Self(batch.writes.iter().map(read_activity).collect())
    }

    /// Returns the tokens that became active. Depends on the outcome, because an existing duplicate
    /// may replace a new token.
    pub(crate) fn active_tokens(self, outcome: &BatchOutcome) -> Vec<(Month, TokenId)> {
        let BatchOutcome::Written(outcomes) = outcome else { return Vec::new() };
        let activities = self.0.into_iter().zip(outcomes);
        let active = activities.filter_map(|((id, created_at, at), outcome)| match outcome {
            WriteOutcome::New | WriteOutcome::Updated => Some((active_month(created_at, at)?, id)),
            WriteOutcome::Existing(it) => {
                Some((active_month(it.record.created_at, at)?, it.record.id.clone()))
            }
        });
        active.collect()
    }
}
