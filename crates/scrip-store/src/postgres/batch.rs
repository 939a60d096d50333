//! Writes of tokens, all or none.

use scrip_core::{
    audit::{AuditRecord, Operation},
    id::{TenantId, TokenIntentId},
    store::{
        Batched, Changed, Deduplicate, InsertToken, Obstacle, Outcome, StoreError, TokenWrite,
        UpdateToken,
    },
};

use crate::postgres::{
    answers::{Answer, insert_answer},
    filed::refile,
    intents, sessions,
    tokens::{change_cvc, find_duplicate, find_token, insert_row, update_row},
    transaction::Transaction,
};

/// What one write did, and the number of its token.
type Attempt = Result<(Outcome, i64), Obstacle>;

/// A batch that is refused has still been tried to its end, so that all that stands in its way is
/// told at once. Whoever calls takes back what it did.
pub(super) async fn write_tokens(
    transaction: &mut Transaction,
    writes: &[TokenWrite],
    answer: &mut Answer,
) -> Result<Batched, StoreError> {
    let (mut outcomes, mut numbers) = (Vec::new(), Vec::new());
    let mut obstacles = Vec::new();
    for (at, write) in writes.iter().enumerate() {
        let attempt = match write {
            TokenWrite::Insert(insert) => insert_token(transaction, insert).await?,
            TokenWrite::Update(update) => update_token(transaction, update).await?,
        };
        match attempt {
            Ok((outcome, number)) => {
                if let Some(conversion) = write.conversion() {
                    sessions::convert_card(transaction, &conversion.signed(&outcome)).await?;
                }
                outcomes.push(outcome);
                numbers.push(number);
            }
            Err(obstacle) => obstacles.push((at, obstacle)),
        }
    }
    if !obstacles.is_empty() {
        return Ok(Batched::Refused(obstacles));
    }
    if let Some(answer) = answer.to(&outcomes)? {
        insert_answer(transaction, answer, &numbers).await?;
    }
    Ok(Batched::Written(outcomes))
}

async fn insert_token(
    transaction: &mut Transaction,
    insert: &InsertToken,
) -> Result<Attempt, StoreError> {
    let InsertToken { permit, token, intent, deduplicate, audit } = insert;
    check_permit(permit.tenant().id, transaction.tenant)?;
    if !convert(transaction, *intent, audit).await? {
        return Ok(Err(Obstacle::IntentGone));
    }
    let record = &token.record;
    let found = find_duplicate(transaction, record, (*deduplicate, audit.at, "")).await?;
    if let Some((number, found)) = found {
        if *deduplicate == Deduplicate::Tell {
            return Ok(Err(Obstacle::Duplicate(Box::new(found))));
        }
        transaction.append_record(audit, found.record.id.as_str(), "deduplicated");
        return Ok(Ok((Outcome::Existing(Box::new(found)), number)));
    }
    let Some(number) = insert_row(transaction, token, audit).await? else {
        return Ok(Err(Obstacle::IdTaken));
    };
    transaction.append_record(audit, record.id.as_str(), "created");
    Ok(Ok((Outcome::New, number)))
}

async fn update_token(
    transaction: &mut Transaction,
    update: &UpdateToken,
) -> Result<Attempt, StoreError> {
    let UpdateToken { permit, token, cvc, intent, deduplicate, unless_named, audit } = update;
    let tenant = transaction.tenant;
    check_permit(permit.tenant().id, tenant)?;
    if !convert(transaction, *intent, audit).await? {
        return Ok(Err(Obstacle::IntentGone));
    }
    let current = find_token(transaction.client()?, tenant, &token.id, audit.at).await?;
    let current = current.filter(|(_, it)| it.record.revision.saturating_add(1) == token.revision);
    let Some((number, before)) = current else { return Ok(Err(Obstacle::Stale)) };
    if let Some(now) = unless_named
        && sessions::names_token(transaction.client()?, tenant, &token.id, *now).await?
    {
        return Ok(Err(Obstacle::NamedBySession));
    }
    let own_id = token.id.as_str();
    let found = find_duplicate(transaction, token, (*deduplicate, audit.at, own_id)).await?;
    if let Some((found_number, found)) = found {
        if *deduplicate == Deduplicate::Tell {
            return Ok(Err(Obstacle::Duplicate(Box::new(found))));
        }
        transaction.append_record(audit, own_id, "deduplicated");
        // The answer shows the other one.
        transaction.append_record(audit, found.record.id.as_str(), "deduplicated");
        return Ok(Ok((Outcome::Existing(Box::new(found)), found_number)));
    }
    update_row(transaction, number, token).await?;
    change_cvc(transaction, number, cvc).await?;
    refile(transaction, number, (&before.record, token)).await?;
    transaction.append_record(audit, own_id, "updated");
    Ok(Ok((Outcome::Updated, number)))
}

/// Whether the intent that a write is made of was still there; it is not any more.
async fn convert(
    transaction: &mut Transaction,
    intent: Option<TokenIntentId>,
    audit: &AuditRecord,
) -> Result<bool, StoreError> {
    let Some(intent) = intent else { return Ok(true) };
    let audit = audit.also(Operation::ConvertTokenIntent);
    Ok(intents::end(transaction, intent, (&audit, "converted")).await? == Changed::Done)
}

pub(super) fn check_permit(permitted: TenantId, tenant: TenantId) -> Result<(), StoreError> {
    if permitted == tenant {
        return Ok(());
    }
    Err(StoreError::Corrupt("a batch is of one tenant"))
}
