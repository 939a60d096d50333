//! Token intents: each function is the work of one transaction.

use rusqlite::{Connection, OptionalExtension, Row, named_params};
use scrip_core::{
    audit::{AuditRecord, Operation},
    container::Containers,
    cvc::CvcRecord,
    id::{ApplicationId, TenantId, TokenIntentId},
    store::{Beside, Changed, StoreError},
    time::Timestamp,
    token_intent::{StoredTokenIntent, TokenIntentRecord},
    token_type::TokenType,
};
use scrip_seal::{Fingerprint, Sealed};

use crate::sqlite::{
    answers::insert_beside,
    audit::insert_audit,
    fault,
    row::uuid,
    tokens::{check_tenant, execute},
    transaction::Transaction,
};

const INSERT_TOKEN_INTENT: &str = "
-- insert_token_intent
INSERT INTO token_intents
    (tenant, id, type, fingerprint, containers, created_by, created_at, expires_at, body)
VALUES
    (:tenant, :id, :type, :fingerprint, :containers, :created_by, :created_at, :expires_at, :body)";

const INSERT_INTENT_CVC: &str = "
-- insert_intent_cvc
INSERT INTO intent_cvcs (intent, expires_at, sealed) VALUES (?1, ?2, ?3)";

pub(super) fn insert_token_intent(
    transaction: &mut Transaction<'_>,
    tenant: TenantId,
    intent: &StoredTokenIntent,
    written: &Beside,
) -> Result<(), StoreError> {
    check_tenant(transaction, tenant)?;
    let record = &intent.record;
    let parameters = named_params! {
        ":tenant": tenant.0.as_bytes(),
        ":id": record.id.0.as_bytes(),
        ":type": record.token_type.as_str(),
        ":fingerprint": record.fingerprint.map(|it| it.0),
        ":containers": record.containers.text(),
        ":created_by": record.created_by.0.as_bytes(),
        ":created_at": record.created_at.unix_ms,
        ":expires_at": record.expires_at.unix_ms,
        ":body": record.body.as_bytes(),
    };
    let insert = transaction.prepare_cached(INSERT_TOKEN_INTENT);
    let seq = insert.and_then(|mut it| it.insert(parameters)).map_err(fault)?;
    if let Some(cvc) = &intent.cvc {
        let parameters = (seq, cvc.expires_at.unix_ms, cvc.sealed.as_bytes());
        execute(transaction, INSERT_INTENT_CVC, parameters)?;
    }
    insert_beside(transaction, tenant, written, "created")
}

const FIND_TOKEN_INTENT: &str = "
-- find_token_intent
SELECT it.type, it.fingerprint, it.created_by, it.created_at, it.expires_at, it.body,
    intent_cvcs.expires_at, intent_cvcs.sealed, it.containers
FROM token_intents AS it LEFT JOIN intent_cvcs ON intent_cvcs.intent = it.seq
WHERE it.tenant = ?1 AND it.id = ?2 AND it.expires_at > ?3";

pub(super) fn find_token_intent(
    connection: &Connection,
    tenant: TenantId,
    id: TokenIntentId,
    now: Timestamp,
) -> Result<Option<StoredTokenIntent>, StoreError> {
    let mut statement = connection.prepare_cached(FIND_TOKEN_INTENT).map_err(fault)?;
    let parameters = (tenant.0.as_bytes(), id.0.as_bytes(), now.unix_ms);
    let found = statement.query_row(parameters, |row| stored(row, id)).optional().map_err(fault)?;
    let corrupt = StoreError::Corrupt("an intent's row is not one of ours");
    found.map(|it| it.ok_or(corrupt)).transpose()
}

fn stored(row: &Row<'_>, id: TokenIntentId) -> rusqlite::Result<Option<StoredTokenIntent>> {
    let Some(token_type) = TokenType::parse(row.get_ref(0)?.as_str()?) else { return Ok(None) };
    let fingerprint: Option<[u8; 32]> = row.get(1)?;
    let containers = Containers::parse(row.get_ref(8)?.as_str()?.split(','));
    let Ok(containers) = containers else { return Ok(None) };
    let record = TokenIntentRecord {
        id,
        token_type,
        fingerprint: fingerprint.map(Fingerprint),
        containers,
        created_by: ApplicationId(uuid(row.get(2)?)),
        created_at: Timestamp { unix_ms: row.get(3)? },
        expires_at: Timestamp { unix_ms: row.get(4)? },
        body: Sealed::from_stored(row.get(5)?),
    };
    let (ends, sealed): (Option<i64>, Option<Vec<u8>>) = (row.get(6)?, row.get(7)?);
    let cvc = ends.zip(sealed).map(|(unix_ms, sealed)| CvcRecord {
        expires_at: Timestamp { unix_ms },
        sealed: Sealed::from_stored(sealed),
    });
    Ok(Some(StoredTokenIntent { record, cvc }))
}

const DELETE_TOKEN_INTENT: &str = "
-- delete_token_intent
DELETE FROM token_intents WHERE tenant = ?1 AND id = ?2 AND expires_at > ?3";

pub(super) fn delete_token_intent(
    transaction: &mut Transaction<'_>,
    tenant: TenantId,
    id: TokenIntentId,
    audit: &AuditRecord,
) -> Result<Changed, StoreError> {
    end(transaction, tenant, id, (audit, "deleted"))
}

/// In the transaction that makes a token of it: whoever comes second finds it gone.
pub(super) fn convert(
    transaction: &mut Transaction<'_>,
    tenant: TenantId,
    id: TokenIntentId,
    audit: &AuditRecord,
) -> Result<Changed, StoreError> {
    end(transaction, tenant, id, (&audit.also(Operation::ConvertTokenIntent), "converted"))
}

fn end(
    transaction: &mut Transaction<'_>,
    tenant: TenantId,
    id: TokenIntentId,
    (audit, word): (&AuditRecord, &'static str),
) -> Result<Changed, StoreError> {
    let parameters = (tenant.0.as_bytes(), id.0.as_bytes(), audit.at.unix_ms);
    if execute(transaction, DELETE_TOKEN_INTENT, parameters)? == 0 {
        return Ok(Changed::Stale);
    }
    insert_audit(transaction, tenant, audit, &id.to_string(), word)?;
    Ok(Changed::Done)
}
