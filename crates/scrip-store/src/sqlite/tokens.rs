//! Tokens: each function is the work of one transaction.

use std::cmp::Reverse;

use rusqlite::{Connection, ErrorCode, Params, Row, named_params, params};
use scrip_core::{
    audit::AuditRecord,
    cvc::CvcRecord,
    disclosure::{DuplicateKey, DuplicateKeys, DuplicateLookup},
    id::{TenantId, TokenId},
    store::{Changed, CvcChange, Deduplicate, DeleteToken, StoreError, StoredToken, TokenRecord},
    time::Timestamp,
    token_type::TokenType,
};

use crate::sqlite::{
    audit::insert_audit,
    fault,
    filed::unfile,
    row::{index_bytes, stored_token, token_columns, uuid},
    sweep::expire,
    transaction::Transaction,
};

const FIND_TOKEN: &str = concat!(
    "-- find_token\nSELECT ",
    token_columns!(),
    " WHERE tokens.tenant = ?1 AND tokens.id = ?2
      AND (tokens.expires_at IS NULL OR tokens.expires_at > ?3)"
);

pub(super) fn find_token(
    connection: &Connection,
    tenant: TenantId,
    id: &TokenId,
    now: Timestamp,
) -> Result<Option<(i64, StoredToken)>, StoreError> {
    let parameters = (tenant.0.as_bytes(), id.as_str(), now.unix_ms);
    first_token(connection, FIND_TOKEN, parameters)
}

/// Each where its id stands, all as of one instant.
pub(super) fn find_tokens(
    connection: &Connection,
    tenant: TenantId,
    ids: &[TokenId],
    now: Timestamp,
) -> Result<Vec<Option<StoredToken>>, StoreError> {
    // Ends when dropped: there is nothing to commit.
    let _snapshot = connection.unchecked_transaction().map_err(fault)?;
    let find = |id| Ok(find_token(connection, tenant, id, now)?.map(|(_, token)| token));
    ids.iter().map(find).collect()
}

/// One seek: the longest-lived, then the oldest.
const FIND_DUPLICATE: &str = concat!(
    "-- find_duplicate\nSELECT ",
    token_columns!(),
    " WHERE tokens.tenant = ?1 AND tokens.duplicate_key = ?2
      AND ifnull(tokens.expires_at, 9223372036854775807) > ?3 AND tokens.id <> ?4
      ORDER BY ifnull(tokens.expires_at, 9223372036854775807) DESC, tokens.created_at, tokens.seq
      LIMIT 1"
);

const FIND_DUPLICATE_TO_READ: &str = concat!(
    "-- find_duplicate_to_read\nSELECT ",
    token_columns!(),
    " WHERE tokens.tenant = ?1 AND tokens.duplicate_read_key = ?2
      AND ifnull(tokens.expires_at, 9223372036854775807) > ?3 AND tokens.id <> ?4
      ORDER BY ifnull(tokens.expires_at, 9223372036854775807) DESC, tokens.created_at, tokens.seq
      LIMIT 1"
);

/// A live token that may answer for this one, itself aside.
pub(super) fn find_duplicate(
    connection: &Connection,
    tenant: TenantId,
    token: &TokenRecord,
    (deduplicate, now, own_id): (Deduplicate, Timestamp, &str),
) -> Result<Option<(i64, StoredToken)>, StoreError> {
    let Some(lookup) = DuplicateLookup::of(token, deduplicate) else { return Ok(None) };
    let DuplicateLookup { keys: [first, second], read_key } = lookup;
    let mut seeks = vec![(FIND_DUPLICATE, first)];
    seeks.extend((second != first).then_some((FIND_DUPLICATE, second)));
    seeks.extend(read_key.map(|it| (FIND_DUPLICATE_TO_READ, it)));
    let mut best: Option<(i64, StoredToken)> = None;
    for (sql, DuplicateKey(key)) in seeks {
        let parameters = (tenant.0.as_bytes(), key, now.unix_ms, own_id);
        let Some(found) = first_token(connection, sql, parameters)? else { continue };
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
fn preference((seq, token): &(i64, StoredToken)) -> (Reverse<i64>, i64, i64) {
    let record = &token.record;
    let ends = record.expires_at.map_or(i64::MAX, |it| it.unix_ms);
    (Reverse(ends), record.created_at.unix_ms, *seq)
}

pub(super) fn first_token(
    connection: &Connection,
    sql: &str,
    parameters: impl Params,
) -> Result<Option<(i64, StoredToken)>, StoreError> {
    let mut statement = connection.prepare_cached(sql).map_err(fault)?;
    let mut rows = statement.query(parameters).map_err(fault)?;
    rows.next().map_err(fault)?.map(stored_token).transpose()
}

/// A request that began before its tenant was deleted must not write after.
pub(super) fn check_tenant(connection: &Connection, tenant: TenantId) -> Result<(), StoreError> {
    const FIND_TENANT: &str = "-- find_tenant\nSELECT 1 FROM tenants WHERE id = ?1";
    let mut statement = connection.prepare_cached(FIND_TENANT).map_err(fault)?;
    if statement.exists([tenant.0.as_bytes()]).map_err(fault)? {
        return Ok(());
    }
    Err(StoreError::Unavailable("the tenant was deleted meanwhile".into()))
}

const INSERT_TOKEN: &str = "
-- insert_token
INSERT INTO tokens (tenant, id, type, fingerprint, containers, created_by, created_at, expires_at,
    revision, indexes, body, expressions, duplicate_key, duplicate_read_key)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)";

/// Nothing when a live token has the id. One that has expired gives it up.
pub(super) fn insert_row(
    transaction: &mut Transaction<'_>,
    tenant: TenantId,
    token: &TokenRecord,
    audit: &AuditRecord,
) -> Result<Option<i64>, StoreError> {
    match insert(transaction, tenant, token) {
        Ok(seq) => return Ok(Some(seq)),
        Err(error) if is_taken(&error) => (),
        Err(error) => return Err(fault(error)),
    }
    // Whatever has the id, live or not.
    let found = find_token(transaction, tenant, &token.id, Timestamp { unix_ms: i64::MIN })?;
    match found {
        Some((seq, found)) if !found.record.is_live(audit.at) => {
            expire(transaction, tenant, (seq, &found.record), audit)?;
        }
        Some(_) | None => return Ok(None),
    }
    insert(transaction, tenant, token).map(Some).map_err(fault)
}

/// The only way in for a row, and so where it is counted.
fn insert(
    transaction: &mut Transaction<'_>,
    tenant: TenantId,
    token: &TokenRecord,
) -> rusqlite::Result<i64> {
    let DuplicateKeys { key, read_key } = DuplicateKeys::of(token);
    // By position: this is the hot one, and every name would be looked up.
    let seq = transaction.prepare_cached(INSERT_TOKEN)?.insert(params![
        tenant.0.as_bytes(),
        token.id.as_str(),
        token.token_type.as_str(),
        token.fingerprint.map(|it| it.0),
        token.containers.text(),
        token.created_by.0.as_bytes(),
        token.created_at.unix_ms,
        token.expires_at.map(|it| it.unix_ms),
        token.revision,
        index_bytes(&token.indexes),
        token.body.as_bytes(),
        token.expressions.to_bytes(),
        key.map(|it| it.0),
        read_key.map(|it| it.0),
    ])?;
    transaction.tally.made(tenant, token.token_type, token.created_at);
    Ok(seq)
}

/// Another row has what must be unique.
pub(super) fn is_taken(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation)
}

const INSERT_CVC: &str = "
-- insert_cvc
INSERT OR REPLACE INTO cvcs (token, expires_at, sealed) VALUES (?1, ?2, ?3)";

pub(super) fn insert_cvc(
    connection: &Connection,
    seq: i64,
    cvc: Option<&CvcRecord>,
) -> Result<(), StoreError> {
    let Some(cvc) = cvc else { return Ok(()) };
    let parameters = (seq, cvc.expires_at.unix_ms, cvc.sealed.as_bytes());
    execute(connection, INSERT_CVC, parameters).map(drop)
}

const DELETE_CVC: &str = "
-- delete_cvc
DELETE FROM cvcs WHERE token = :token";

pub(super) fn change_cvc(
    connection: &Connection,
    seq: i64,
    change: &CvcChange,
) -> Result<(), StoreError> {
    match change {
        CvcChange::Keep => Ok(()),
        CvcChange::Remove => {
            execute(connection, DELETE_CVC, named_params! { ":token": seq }).map(drop)
        }
        CvcChange::Replace(cvc) => insert_cvc(connection, seq, Some(cvc)),
    }
}

const UPDATE_TOKEN: &str = "
-- update_token
UPDATE tokens SET fingerprint = :fingerprint, containers = :containers,
    modified_by = :modified_by, modified_at = :modified_at, expires_at = :expires_at,
    revision = :revision, indexes = :indexes, body = :body, expressions = :expressions,
    duplicate_key = :duplicate_key, duplicate_read_key = :duplicate_read_key
WHERE seq = :seq";

pub(super) fn update_row(
    connection: &Connection,
    seq: i64,
    token: &TokenRecord,
) -> Result<(), StoreError> {
    let DuplicateKeys { key, read_key } = DuplicateKeys::of(token);
    let parameters = named_params! {
        ":seq": seq,
        ":expressions": token.expressions.to_bytes(),
        ":duplicate_key": key.map(|it| it.0),
        ":duplicate_read_key": read_key.map(|it| it.0),
        ":fingerprint": token.fingerprint.map(|it| it.0),
        ":containers": token.containers.text(),
        ":modified_by": token.modified.map(|it| *it.by.0.as_bytes()),
        ":modified_at": token.modified.map(|it| it.at.unix_ms),
        ":expires_at": token.expires_at.map(|it| it.unix_ms),
        ":revision": token.revision,
        ":indexes": index_bytes(&token.indexes),
        ":body": token.body.as_bytes(),
    };
    execute(connection, UPDATE_TOKEN, parameters).map(drop)
}

const DELETE_TOKEN: &str = "
-- delete_token
DELETE FROM tokens WHERE seq = ?1 RETURNING tenant, type";

/// The cvc and the data in remembered answers go with the row, by the schema.
pub(super) fn remove(
    transaction: &mut Transaction<'_>,
    tenant: TenantId,
    seq: i64,
    record: &TokenRecord,
) -> Result<(), StoreError> {
    unfile(transaction, tenant, seq, record)?;
    remove_row(transaction, seq)
}

/// Without the entries by which it was found, which lead nowhere then. The only way out for a row of
/// a tenant that has counts: it is taken from those it says it is in, whatever else is altered in it.
pub(super) fn remove_row(transaction: &mut Transaction<'_>, seq: i64) -> Result<(), StoreError> {
    let gone = {
        let mut statement = transaction.prepare_cached(DELETE_TOKEN).map_err(fault)?;
        let of = |row: &Row<'_>| {
            let tenant: Option<[u8; 16]> = row.get(0).ok();
            let of = row.get_ref(1)?.as_str().ok().and_then(TokenType::parse);
            Ok(tenant.map(|it| TenantId(uuid(it))).zip(of))
        };
        let gone = statement.query_map([seq], of).map_err(fault)?;
        gone.collect::<Result<Vec<_>, _>>().map_err(fault)?
    };
    for (tenant, of) in gone.into_iter().flatten() {
        transaction.tally.gone(tenant, of);
    }
    Ok(())
}

pub(super) fn delete_token(
    transaction: &mut Transaction<'_>,
    tenant: TenantId,
    delete: &DeleteToken,
) -> Result<Changed, StoreError> {
    let found = find_token(transaction, tenant, &delete.id, delete.audit.at)?;
    let found = found.filter(|(_, it)| it.record.revision == delete.revision);
    let Some((seq, token)) = found else { return Ok(Changed::Stale) };
    remove(transaction, tenant, seq, &token.record)?;
    insert_audit(transaction, tenant, &delete.audit, delete.id.as_str(), "deleted")?;
    Ok(Changed::Done)
}

pub(super) fn execute(
    connection: &Connection,
    sql: &str,
    parameters: impl Params,
) -> Result<usize, StoreError> {
    connection.prepare_cached(sql).and_then(|mut it| it.execute(parameters)).map_err(fault)
}
