//! Writes of tokens, all or none: the work of one savepoint.

use scrip_core::{
    audit::AuditRecord,
    id::{TenantId, TokenIntentId},
    store::{
        Batched, Changed, Deduplicate, InsertToken, Obstacle, Outcome, StoreError, StoredToken,
        TokenBatch, TokenWrite, UpdateToken,
    },
};

use crate::sqlite::{
    answers::insert_answer,
    audit::insert_audit,
    filed::{file, refile},
    intents, sessions,
    tokens::{
        change_cvc, check_tenant, find_duplicate, find_token, insert_cvc, insert_row, update_row,
    },
    transaction::Transaction,
};

/// What one write did, and to which row.
type Attempt = Result<(Outcome, i64), Obstacle>;

/// A batch that is refused has still been tried to its end, so that all that stands in its way is
/// told at once. Whoever calls takes back what it did.
pub(super) fn write_tokens(
    transaction: &mut Transaction<'_>,
    tenant: TenantId,
    batch: TokenBatch,
) -> Result<Batched, StoreError> {
    check_tenant(transaction, tenant)?;
    let (mut outcomes, mut rows) = (Vec::new(), Vec::new());
    let mut obstacles = Vec::new();
    for (at, write) in batch.writes.into_iter().enumerate() {
        let conversion = write.conversion();
        let attempt = match write {
            TokenWrite::Insert(insert) => insert_token(transaction, tenant, insert)?,
            TokenWrite::Update(update) => update_token(transaction, tenant, update)?,
        };
        match attempt {
            Ok((outcome, seq)) => {
                if let Some(conversion) = conversion {
                    sessions::convert_card(transaction, &conversion.signed(&outcome))?;
                }
                outcomes.push(outcome);
                rows.push(seq);
            }
            Err(obstacle) => obstacles.push((at, obstacle)),
        }
    }
    if !obstacles.is_empty() {
        return Ok(Batched::Refused(obstacles));
    }
    if let Some(answer) = batch.render.and_then(|it| it(&outcomes)) {
        insert_answer(transaction, tenant, &answer, &rows)?;
    }
    Ok(Batched::Written(outcomes))
}

fn insert_token(
    transaction: &mut Transaction<'_>,
    tenant: TenantId,
    insert: InsertToken,
) -> Result<Attempt, StoreError> {
    let InsertToken { permit, token, intent, deduplicate, audit } = insert;
    let StoredToken { record, cvc } = token;
    check_permit(permit.tenant().id, tenant)?;
    if !convert(transaction, tenant, intent, &audit)? {
        return Ok(Err(Obstacle::IntentGone));
    }
    let now = audit.at;
    let found = find_duplicate(transaction, tenant, &record, (deduplicate, now, ""))?;
    if let Some((seq, found)) = found {
        if deduplicate == Deduplicate::Tell {
            return Ok(Err(Obstacle::Duplicate(Box::new(found))));
        }
        insert_audit(transaction, tenant, &audit, found.record.id.as_str(), "deduplicated")?;
        return Ok(Ok((Outcome::Existing(Box::new(found)), seq)));
    }
    let Some(seq) = insert_row(transaction, tenant, &record, &audit)? else {
        return Ok(Err(Obstacle::IdTaken));
    };
    insert_cvc(transaction, seq, cvc.as_ref())?;
    file(transaction, tenant, seq, &record)?;
    insert_audit(transaction, tenant, &audit, record.id.as_str(), "created")?;
    Ok(Ok((Outcome::New, seq)))
}

fn update_token(
    transaction: &mut Transaction<'_>,
    tenant: TenantId,
    update: UpdateToken,
) -> Result<Attempt, StoreError> {
    let UpdateToken { permit, token, cvc, intent, deduplicate, unless_named, audit } = update;
    check_permit(permit.tenant().id, tenant)?;
    if !convert(transaction, tenant, intent, &audit)? {
        return Ok(Err(Obstacle::IntentGone));
    }
    let current = find_token(transaction, tenant, &token.id, audit.at)?;
    let current = current.filter(|(_, it)| it.record.revision.saturating_add(1) == token.revision);
    let Some((seq, before)) = current else { return Ok(Err(Obstacle::Stale)) };
    if let Some(now) = unless_named
        && sessions::names_token(transaction, tenant, &token.id, now)?
    {
        return Ok(Err(Obstacle::NamedBySession));
    }
    let own_id = token.id.as_str();
    let found = find_duplicate(transaction, tenant, &token, (deduplicate, audit.at, own_id))?;
    if let Some((found_seq, found)) = found {
        if deduplicate == Deduplicate::Tell {
            return Ok(Err(Obstacle::Duplicate(Box::new(found))));
        }
        insert_audit(transaction, tenant, &audit, own_id, "deduplicated")?;
        // The answer shows the other one.
        insert_audit(transaction, tenant, &audit, found.record.id.as_str(), "deduplicated")?;
        return Ok(Ok((Outcome::Existing(Box::new(found)), found_seq)));
    }
    update_row(transaction, seq, &token)?;
    change_cvc(transaction, seq, &cvc)?;
    refile(transaction, tenant, seq, (&before.record, &token))?;
    insert_audit(transaction, tenant, &audit, own_id, "updated")?;
    Ok(Ok((Outcome::Updated, seq)))
}

/// Whether the intent that a write is made of was still there; it is not any more.
fn convert(
    transaction: &mut Transaction<'_>,
    tenant: TenantId,
    intent: Option<TokenIntentId>,
    audit: &AuditRecord,
) -> Result<bool, StoreError> {
    let Some(intent) = intent else { return Ok(true) };
    Ok(intents::convert(transaction, tenant, intent, audit)? == Changed::Done)
}

fn check_permit(permitted: TenantId, tenant: TenantId) -> Result<(), StoreError> {
    if permitted == tenant {
        return Ok(());
    }
    Err(StoreError::Corrupt("a batch is of one tenant"))
}
