//! Tokens.

use std::cmp::Reverse;

use scrip_core::{
    audit::{AuditRecord, Operation},
    cvc::CvcRecord,
    disclosure::{DuplicateKeys, DuplicateLookup},
    id::{TenantId, TokenId},
    store::{Changed, CvcChange, Deduplicate, DeleteToken, StoreError, StoredToken, TokenRecord},
    time::Timestamp,
    token_type::TokenType,
};
use tokio_postgres::Row;

use crate::postgres::{
    filed::{entries, unfile},
    row::{column, index_bytes, stored_token, token_columns},
    statement::{Parameters, PostgresClient, query},
    time::not_after,
    transaction::Transaction,
};

/// A token's row with its code.
macro_rules! from_tokens {
    () => {
        " FROM tokens
          LEFT JOIN cvcs ON cvcs.tenant = tokens.tenant AND cvcs.token = tokens.number"
    };
}
pub(super) use from_tokens;

pub(super) const FIND_TOKEN: &str = concat!(
    "-- find_token\nSELECT ",
    token_columns!(),
    from_tokens!(),
    " WHERE tokens.tenant = $1 AND tokens.id = $2
      AND (tokens.expires_at IS NULL OR tokens.expires_at > $3)"
);

pub(super) async fn find_token(
    client: &impl PostgresClient,
    tenant: TenantId,
    id: &TokenId,
    now: Timestamp,
) -> Result<Option<(i64, StoredToken)>, StoreError> {
    first(&query(client, FIND_TOKEN, &[&tenant.0, &id.as_str(), &now.unix_ms]).await?)
}

pub(super) fn first(rows: &[Row]) -> Result<Option<(i64, StoredToken)>, StoreError> {
    rows.first().map(stored_token).transpose()
}

const FIND_TOKENS: &str = concat!(
    "-- find_tokens\nSELECT ",
    token_columns!(),
    from_tokens!(),
    " WHERE tokens.tenant = $1 AND tokens.id = ANY ($2)
      AND (tokens.expires_at IS NULL OR tokens.expires_at > $3)"
);

/// Each where its id stands. One statement sees one instant.
pub(super) async fn find_tokens(
    client: &impl PostgresClient,
    tenant: TenantId,
    ids: &[TokenId],
    now: Timestamp,
) -> Result<Vec<Option<StoredToken>>, StoreError> {
    let texts: Vec<_> = ids.iter().map(TokenId::as_str).collect();
    let rows = query(client, FIND_TOKENS, &[&tenant.0, &texts, &now.unix_ms]).await?;
    let found = rows.iter().map(stored_token).collect::<Result<Vec<_>, _>>()?;
    let of = |id: &TokenId| found.iter().find(|(_, it)| it.record.id == *id);
    Ok(ids.iter().map(|id| of(id).map(|(_, it)| it.clone())).collect())
}

/// One seek: the longest-lived, then the oldest.
macro_rules! seek_duplicate {
    ($column:literal, $key:literal) => {
        concat!(
            "(SELECT ",
            token_columns!(),
            from_tokens!(),
            " WHERE tokens.tenant = $1 AND tokens.",
            $column,
            " = ",
            $key,
            " AND coalesce(tokens.expires_at, 9223372036854775807) > $4 AND tokens.id <> $5
              ORDER BY coalesce(tokens.expires_at, 9223372036854775807) DESC, tokens.created_at,
                  tokens.number
              LIMIT 1)"
        )
    };
}

const FIND_DUPLICATE: &str = concat!(
    "-- find_duplicate\n",
    seek_duplicate!("duplicate_key", "$2"),
    " UNION ALL ",
    seek_duplicate!("duplicate_key", "$3")
);
const FIND_DUPLICATE_TO_READ: &str = concat!(
    "-- find_duplicate_to_read\n",
    seek_duplicate!("duplicate_key", "$2"),
    " UNION ALL ",
    seek_duplicate!("duplicate_read_key", "$3")
);

/// A live token that may answer for this one, itself aside. No other transaction of this tenant
/// writes at the same time, so none comes between this and the insert.
pub(super) async fn find_duplicate(
    transaction: &Transaction,
    token: &TokenRecord,
    (deduplicate, now, own_id): (Deduplicate, Timestamp, &str),
) -> Result<Option<(i64, StoredToken)>, StoreError> {
    let Some(lookup) = DuplicateLookup::of(token, deduplicate) else { return Ok(None) };
    let DuplicateLookup { keys: [first, second], read_key } = lookup;
    let sql = if read_key.is_some() { FIND_DUPLICATE_TO_READ } else { FIND_DUPLICATE };
    let (first, second) = (first.0.as_slice(), read_key.unwrap_or(second).0);
    let second = second.as_slice();
    let tenant = transaction.tenant.0;
    let rows = transaction.rows(sql, &[&tenant, &first, &second, &now.unix_ms, &own_id]).await?;
    let mut best: Option<(i64, StoredToken)> = None;
    for row in &rows {
        let found = stored_token(row)?;
        if !lookup.matches(&found.1.record) {
            return Err(StoreError::Corrupt("a token's duplicate key is not one of ours"));
        }
        if best.as_ref().is_none_or(|best| preference(&found) < preference(best)) {
            best = Some(found);
        }
    }
    Ok(best)
}

/// The longest-lived first, then the oldest.
fn preference((number, token): &(i64, StoredToken)) -> (Reverse<i64>, i64, i64) {
    let record = &token.record;
    let ends = record.expires_at.map_or(i64::MAX, |it| it.unix_ms);
    (Reverse(ends), record.created_at.unix_ms, *number)
}

/// With its code and its entries: nothing of it where a token has the id.
const INSERT_TOKEN: &str = "
-- insert_token
WITH made AS (
    INSERT INTO tokens (tenant, number, id, type, fingerprint, containers, created_by, created_at,
        expires_at, revision, indexes, body, expressions, duplicate_key, duplicate_read_key)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $17, $18, $19)
    ON CONFLICT (tenant, id) DO NOTHING
    RETURNING number
), coded AS (
    INSERT INTO cvcs (tenant, token, expires_at, sealed)
    SELECT $1, number, $13::bigint, $14::bytea FROM made WHERE $13::bigint IS NOT NULL
), entered AS (
    INSERT INTO filed (tenant, facet, container, created_at, token)
    SELECT $1, it.facet, it.container, $8, made.number
    FROM made CROSS JOIN unnest($15::bytea[], $16::text[]) AS it (facet, container)
)
    SELECT number FROM made";

/// Nothing when a live token has the id. One that has expired gives it up.
pub(super) async fn insert_row(
    transaction: &mut Transaction,
    token: &StoredToken,
    audit: &AuditRecord,
) -> Result<Option<i64>, StoreError> {
    if let Some(number) = insert(transaction, token).await? {
        return Ok(Some(number));
    }
    // Whatever has the id, live or not.
    let ever = Timestamp { unix_ms: i64::MIN };
    let id = &token.record.id;
    let found = find_token(transaction.client()?, transaction.tenant, id, ever).await?;
    match found {
        Some((number, found)) if !found.record.is_live(audit.at) => {
            // The clock of this node may be ahead, and others still serve it.
            let held = transaction.client()?;
            let now = not_after(held, held.clock(), audit.at).await?;
            if found.record.is_live(now) {
                return Ok(None);
            }
            remove(transaction, number, &found.record).await?;
            let audit = audit.by_vault(Operation::ExpireToken);
            transaction.append_record(&audit, found.record.id.as_str(), "expired");
        }
        Some(_) | None => return Ok(None),
    }
    insert(transaction, token).await
}

/// The only way in for a row, and so where it is counted.
async fn insert(
    transaction: &mut Transaction,
    StoredToken { record, cvc }: &StoredToken,
) -> Result<Option<i64>, StoreError> {
    let number = transaction.next_number();
    let (facets, containers) = entries(record);
    let code = cvc.as_ref();
    let DuplicateKeys { key, read_key } = DuplicateKeys::of(record);
    let made = transaction
        .rows(
            INSERT_TOKEN,
            &[
                &transaction.tenant.0,
                &number,
                &record.id.as_str(),
                &record.token_type.as_str(),
                &record.fingerprint.as_ref().map(|it| it.0.as_slice()),
                &record.containers.text(),
                &record.created_by.0,
                &record.created_at.unix_ms,
                &record.expires_at.map(|it| it.unix_ms),
                &record.revision,
                &index_bytes(&record.indexes),
                &record.body.as_bytes(),
                &code.map(|it| it.expires_at.unix_ms),
                &code.map(|it| it.sealed.as_bytes()),
                &facets,
                &containers,
                &record.expressions.to_bytes().as_slice(),
                &key.as_ref().map(|it| it.0.as_slice()),
                &read_key.as_ref().map(|it| it.0.as_slice()),
            ],
        )
        .await?;
    if made.is_empty() {
        return Ok(None);
    }
    transaction.tally.made(record.token_type, record.created_at);
    Ok(Some(number))
}

const PUT_CVC: &str = "
-- put_cvc
INSERT INTO cvcs (tenant, token, expires_at, sealed) VALUES ($1, $2, $3, $4)
ON CONFLICT (tenant, token) DO UPDATE SET expires_at = $3, sealed = $4";

const DELETE_CVC: &str = "
-- delete_cvc
DELETE FROM cvcs WHERE tenant = $1 AND token = $2";

pub(super) async fn change_cvc(
    transaction: &Transaction,
    number: i64,
    change: &CvcChange,
) -> Result<(), StoreError> {
    let tenant = transaction.tenant.0;
    match change {
        CvcChange::Keep => Ok(()),
        CvcChange::Remove => transaction.execute_raw(DELETE_CVC, &[&tenant, &number]).await.map(drop),
        CvcChange::Replace(CvcRecord { expires_at, sealed }) => {
            let put: Parameters<'_, 3> = [&tenant, &number, &expires_at.unix_ms];
            let sealed = sealed.as_bytes();
            let [tenant, number, expires_at] = put;
            transaction.execute_raw(PUT_CVC, &[tenant, number, expires_at, &sealed]).await.map(drop)
        }
    }
}

const UPDATE_TOKEN: &str = "
-- update_token
UPDATE tokens SET fingerprint = $3, containers = $4, modified_by = $5, modified_at = $6,
    expires_at = $7, revision = $8, indexes = $9, body = $10, expressions = $11,
    duplicate_key = $12, duplicate_read_key = $13
WHERE tenant = $1 AND number = $2";

pub(super) async fn update_row(
    transaction: &Transaction,
    number: i64,
    token: &TokenRecord,
) -> Result<(), StoreError> {
    let DuplicateKeys { key, read_key } = DuplicateKeys::of(token);
    transaction
        .execute_raw(
            UPDATE_TOKEN,
            &[
                &transaction.tenant.0,
                &number,
                &token.fingerprint.as_ref().map(|it| it.0.as_slice()),
                &token.containers.text(),
                &token.modified.map(|it| it.by.0),
                &token.modified.map(|it| it.at.unix_ms),
                &token.expires_at.map(|it| it.unix_ms),
                &token.revision,
                &index_bytes(&token.indexes),
                &token.body.as_bytes(),
                &token.expressions.to_bytes().as_slice(),
                &key.as_ref().map(|it| it.0.as_slice()),
                &read_key.as_ref().map(|it| it.0.as_slice()),
            ],
        )
        .await
        .map(drop)
}

const DELETE_TOKEN: &str = "
-- delete_token
DELETE FROM tokens WHERE tenant = $1 AND number = $2 RETURNING type";

/// The code and the data in remembered answers go with the row, by the schema.
pub(super) async fn remove(
    transaction: &mut Transaction,
    number: i64,
    record: &TokenRecord,
) -> Result<(), StoreError> {
    unfile(transaction, number, record).await?;
    remove_row(transaction, number).await
}

/// Without the entries by which it was found, which lead nowhere then. The only way out for a row of
/// a tenant that has counts: it is taken from those it says it is in.
pub(super) async fn remove_row(
    transaction: &mut Transaction,
    number: i64,
) -> Result<(), StoreError> {
    let gone = transaction.rows(DELETE_TOKEN, &[&transaction.tenant.0, &number]).await?;
    for row in &gone {
        if let Some(of) = column(row, 0).ok().and_then(TokenType::parse) {
            transaction.tally.gone(of);
        }
    }
    Ok(())
}

pub(super) async fn delete_token(
    transaction: &mut Transaction,
    delete: &DeleteToken,
) -> Result<Changed, StoreError> {
    let tenant = transaction.tenant;
    let found = find_token(transaction.client()?, tenant, &delete.id, delete.audit.at).await?;
    let found = found.filter(|(_, it)| it.record.revision == delete.revision);
    let Some((number, token)) = found else { return Ok(Changed::Stale) };
    remove(transaction, number, &token.record).await?;
    transaction.append_record(&delete.audit, delete.id.as_str(), "deleted");
    Ok(Changed::Done)
}
