//! The rules of a write of tokens, for both engines: which duplicate answers, and what stands in the
//! way. An engine says what is there and puts the rows.

use std::cmp::Reverse;

use scrip_core::{
    audit::{AuditRecord, Operation},
    id::{TenantId, TokenId, TokenIntentId},
    store::{ChangeOutcome, StoreError},
    time::Timestamp,
    token::{
        BatchOutcome, CvcChange, Deduplicate, DeleteToken, InsertToken, StoredToken, TokenRecord,
        TokenWrite, UpdateToken, WriteConflict, WriteOutcome, disclosure::DuplicateLookup,
    },
};

use crate::{
    shared::{
        session_cards::{convert_card, is_used_by_threeds_session},
        tokens::{
            intents::consume_token_intent,
            rows::{NumberedToken, decode_numbered_token},
        },
    },
    sql::{Statements, WriteTransaction, parameters},
};

/// What an engine knows of tokens, and does with them, inside a transaction of one tenant. No other
/// transaction of the tenant writes at the same time.
pub(crate) trait TokenTransaction: WriteTransaction {
    /// Finds a token by tenant and id that is live at a time.
    const FIND_TOKEN: &'static str;

    /// Tokens that are live and have a key of the lookup, without the one that has this id: at least
    /// the one of each key that comes first.
    async fn find_duplicates(
        &self,
        tenant: TenantId,
        lookup: &DuplicateLookup,
        now: Timestamp,
        own_id: &str,
    ) -> Result<Vec<NumberedToken>, StoreError>;

    /// Puts the row with its code and its entries, and counts it. Nothing of it where another token
    /// has the id, whether or not that is live.
    async fn insert_token(
        &mut self,
        tenant: TenantId,
        token: &StoredToken,
    ) -> Result<Option<i64>, StoreError>;

    /// Replaces the row, and what changes of its code and its entries.
    async fn replace_token(
        &self,
        tenant: TenantId,
        before: &NumberedToken,
        after: &TokenRecord,
        cvc: &CvcChange,
    ) -> Result<(), StoreError>;

    /// Removes the row with all that belongs to it, and counts that.
    async fn remove_token(
        &mut self,
        tenant: TenantId,
        number: i64,
        record: &TokenRecord,
    ) -> Result<(), StoreError>;

    /// The earlier of this time and that of a clock which all nodes share, if there is one.
    async fn cap_at_shared_clock(&self, at: Timestamp) -> Result<Timestamp, StoreError>;
}

/// What became of a batch, and the numbers of the tokens that it made or met.
pub(crate) struct BatchAttempt {
    pub(crate) outcome: BatchOutcome,
    pub(crate) numbers: Vec<i64>,
}

/// What one write did, and the number of its token.
type WriteAttempt = Result<(WriteOutcome, i64), WriteConflict>;

/// A batch that is refused has still been tried to its end, so that all that stands in its way is
/// told at once. Whoever calls takes back what it did.
pub(crate) async fn write_tokens<T: TokenTransaction>(
    transaction: &mut T,
    tenant: TenantId,
    writes: &[TokenWrite],
) -> Result<BatchAttempt, StoreError> {
    let (mut outcomes, mut numbers) = (Vec::new(), Vec::new());
    let mut conflicts = Vec::new();
    for (at, write) in writes.iter().enumerate() {
        let attempt = match write {
            TokenWrite::Insert(insert) => insert_token(transaction, tenant, insert).await?,
            TokenWrite::Update(update) => update_token(transaction, tenant, update).await?,
        };
        match attempt {
            Ok((outcome, number)) => {
                if let Some(conversion) = write.conversion() {
                    convert_card(transaction, &conversion.sign(&outcome)).await?;
                }
                outcomes.push(outcome);
                numbers.push(number);
            }
            Err(obstacle) => conflicts.push((at, obstacle)),
        }
    }
    let batched = match conflicts.is_empty() {
        true => BatchOutcome::Written(outcomes),
        false => BatchOutcome::Rejected(conflicts),
    };
    Ok(BatchAttempt { outcome: batched, numbers })
}

async fn insert_token<T: TokenTransaction>(
    transaction: &mut T,
    tenant: TenantId,
    insert: &InsertToken,
) -> Result<WriteAttempt, StoreError> {
    let InsertToken { permit, token, intent, deduplicate, audit } = insert;
    check_permit(permit.tenant().id, tenant)?;
    if !convert_intent(transaction, tenant, *intent, audit).await? {
        return Ok(Err(WriteConflict::IntentMissing));
    }
    let record = &token.record;
    let duplicate = find_duplicate(transaction, tenant, record, *deduplicate, audit.at, "").await?;
    if let Some(duplicate) = duplicate {
        return resolve_duplicate(transaction, tenant, *deduplicate, duplicate, audit).await;
    }
    let Some(number) = insert_or_replace_expired(transaction, tenant, token, audit).await? else {
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
        reject_if_in_session_at: unless_named,
        audit,
    } = update;
    check_permit(permit.tenant().id, tenant)?;
    if !convert_intent(transaction, tenant, *intent, audit).await? {
        return Ok(Err(WriteConflict::IntentMissing));
    }
    let current = find_token(transaction, T::FIND_TOKEN, tenant, &token.id, audit.at).await?;
    let is_before =
        |it: &NumberedToken| it.token.record.revision.saturating_add(1) == token.revision;
    let Some(before) = current.filter(is_before) else { return Ok(Err(WriteConflict::Stale)) };
    if let Some(now) = unless_named
        && is_used_by_threeds_session(transaction, tenant, &token.id, *now).await?
    {
        return Ok(Err(WriteConflict::UsedBySession));
    }
    let own_id = token.id.as_str();
    let duplicate =
        find_duplicate(transaction, tenant, token, *deduplicate, audit.at, own_id).await?;
    if let Some(duplicate) = duplicate {
        if *deduplicate != Deduplicate::ReportExisting {
            transaction.append_audit_record(tenant, audit, own_id, "deduplicated").await?;
        }
        // The answer shows the other one.
        return resolve_duplicate(transaction, tenant, *deduplicate, duplicate, audit).await;
    }
    transaction.replace_token(tenant, &before, token, cvc).await?;
    transaction.append_audit_record(tenant, audit, own_id, "updated").await?;
    Ok(Ok((WriteOutcome::Updated, before.number)))
}

/// Another token is what a write would have made: it takes its place, or stands in its way.
async fn resolve_duplicate<T: TokenTransaction>(
    transaction: &mut T,
    tenant: TenantId,
    deduplicate: Deduplicate,
    duplicate: NumberedToken,
    audit: &AuditRecord,
) -> Result<WriteAttempt, StoreError> {
    let NumberedToken { number, token } = duplicate;
    if deduplicate == Deduplicate::ReportExisting {
        return Ok(Err(WriteConflict::Duplicate(Box::new(token))));
    }
    transaction
        .append_audit_record(tenant, audit, token.record.id.as_str(), "deduplicated")
        .await?;
    Ok(Ok((WriteOutcome::Existing(Box::new(token)), number)))
}

/// Whether the intent that a write is made of was still there; it is not any more.
async fn convert_intent<T: TokenTransaction>(
    transaction: &mut T,
    tenant: TenantId,
    intent: Option<TokenIntentId>,
    audit: &AuditRecord,
) -> Result<bool, StoreError> {
    let Some(intent) = intent else { return Ok(true) };
    let audit = audit.with_operation(Operation::ConvertTokenIntent);
    let ended = consume_token_intent(transaction, tenant, intent, &audit, "converted").await?;
    Ok(ended == ChangeOutcome::Done)
}

pub(crate) fn check_permit(permitted: TenantId, tenant: TenantId) -> Result<(), StoreError> {
    if permitted == tenant {
        return Ok(());
    }
    Err(StoreError::Corrupt("a batch is of one tenant"))
}

/// A live token that may answer for this one, itself aside.
async fn find_duplicate<T: TokenTransaction>(
    transaction: &T,
    tenant: TenantId,
    token: &TokenRecord,
    deduplicate: Deduplicate,
    now: Timestamp,
    own_id: &str,
) -> Result<Option<NumberedToken>, StoreError> {
    let Some(lookup) = DuplicateLookup::for_write(token, deduplicate) else { return Ok(None) };
    let found = transaction.find_duplicates(tenant, &lookup, now, own_id).await?;
    if !found.iter().all(|it| lookup.matches(&it.token.record)) {
        return Err(StoreError::Corrupt("a token's duplicate key is not one of ours"));
    }
    Ok(found.into_iter().min_by_key(preference))
}

/// The longest-lived first, then the oldest.
fn preference(found: &NumberedToken) -> (Reverse<i64>, i64, i64) {
    let record = &found.token.record;
    let ends = record.expires_at.map_or(i64::MAX, |it| it.unix_ms);
    (Reverse(ends), record.created_at.unix_ms, found.number)
}

/// Nothing when a live token has the id. One that has expired gives it up, and leaves a record.
async fn insert_or_replace_expired<T: TokenTransaction>(
    transaction: &mut T,
    tenant: TenantId,
    token: &StoredToken,
    audit: &AuditRecord,
) -> Result<Option<i64>, StoreError> {
    if let Some(number) = transaction.insert_token(tenant, token).await? {
        return Ok(Some(number));
    }
    // Whatever has the id, live or not.
    let ever = Timestamp { unix_ms: i64::MIN };
    let found = find_token(transaction, T::FIND_TOKEN, tenant, &token.record.id, ever).await?;
    let Some(NumberedToken { number, token: StoredToken { record, .. } }) = found else {
        return Ok(None);
    };
    // The clock of this node may be ahead, and others still serve it.
    if record.is_live(audit.at) || record.is_live(transaction.cap_at_shared_clock(audit.at).await?)
    {
        return Ok(None);
    }
    transaction.remove_token(tenant, number, &record).await?;
    let expired = audit.as_vault(Operation::ExpireToken);
    transaction.append_audit_record(tenant, &expired, record.id.as_str(), "expired").await?;
    transaction.insert_token(tenant, token).await
}

pub(crate) async fn delete_token<T: TokenTransaction>(
    transaction: &mut T,
    tenant: TenantId,
    delete: &DeleteToken,
) -> Result<ChangeOutcome, StoreError> {
    let DeleteToken { id, revision, audit } = delete;
    let found = find_token(transaction, T::FIND_TOKEN, tenant, id, audit.at).await?;
    let found = found.filter(|it| it.token.record.revision == *revision);
    let Some(NumberedToken { number, token }) = found else { return Ok(ChangeOutcome::Stale) };
    transaction.remove_token(tenant, number, &token.record).await?;
    transaction.append_audit_record(tenant, audit, id.as_str(), "deleted").await?;
    Ok(ChangeOutcome::Done)
}

/// By an engine's own statement.
pub(crate) async fn find_token(
    client: &impl Statements,
    sql: &str,
    tenant: TenantId,
    id: &TokenId,
    now: Timestamp,
) -> Result<Option<NumberedToken>, StoreError> {
    client.find(sql, &parameters![tenant, id, now], decode_numbered_token).await
}
