//! 3DS sessions.

use scrip_core::{
    change::ChangeOutcome,
    threeds::{
        CardReference, ThreeDsSessionCard, ThreeDsSessionCardColumns, ThreeDsSessionRecord,
        ThreeDsSessionWrite,
    },
    types::{StoreError, id::TenantId},
};

use crate::{
    shared::{idempotency::insert_idempotency_record, key_versions::check_sealed},
    sql::{ColumnReader, WriteTransaction, parameters, read_optional, read_required},
};

/// Inserts nothing if any tenant has the id, even if row-level security hides that row.
const INSERT_THREEDS_SESSION: &str = "
-- insert_threeds_session
INSERT INTO threeds_sessions (tenant, id, created_by, created_at, deletes_at, revision, token,
    intent, body)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT (id) DO NOTHING";

pub(crate) async fn insert_threeds_session<T: WriteTransaction>(
    transaction: &mut T,
    tenant: TenantId,
    write: &ThreeDsSessionWrite,
) -> Result<(), StoreError> {
    let session = &write.session;
    if session.tenant != tenant {
        return Err(StoreError::Corrupt("a session of another tenant"));
    }
    check_sealed(transaction, tenant, &[&session.body]).await?;
    let row = parameters![
        tenant,
        session.id,
        session.created_by,
        session.created_at,
        session.deletes_at,
        session.revision,
        session.card.token(),
        session.card.intent(),
        &session.body,
    ];
    if transaction.execute(INSERT_THREEDS_SESSION, &row).await? == 0 {
        return Err(StoreError::Unavailable("the 3DS session id is already used".into()));
    }
    insert_session_extras(transaction, write).await
}

/// Writes the rows that commit with the session's row.
async fn insert_session_extras<T: WriteTransaction>(
    transaction: &mut T,
    write: &ThreeDsSessionWrite,
) -> Result<(), StoreError> {
    let ThreeDsSessionWrite { session, deliveries, audit, outcome, used_card, idempotency } = write;
    let tenant = session.tenant;
    transaction.append_audit_record(tenant, audit, &session.id.to_string(), outcome).await?;
    if let Some((operation, entity)) = used_card.as_ref().map(CardReference::audit_subject) {
        transaction
            .append_audit_record(tenant, &audit.with_operation(operation), &entity, "used")
            .await?;
    }
    if let Some(record) = idempotency {
        insert_idempotency_record(transaction, tenant, record, &[]).await?;
    }
    transaction.insert_deliveries(deliveries).await
}

/// Finds a session that has not expired.
pub(crate) const FIND_THREEDS_SESSION: &str = "
-- find_threeds_session
SELECT tenant, id, created_by, created_at, deletes_at, revision, token, intent,
    converted_containers, converted_number_version, converted_mac, body
FROM threeds_sessions WHERE id = $1 AND (deletes_at IS NULL OR deletes_at > $2) AND tenant = $3";

pub(crate) const FIND_NOTIFIED_THREEDS_SESSION: &str = "
-- find_notified_threeds_session
SELECT tenant, id, created_by, created_at, deletes_at, revision, token, intent,
    converted_containers, converted_number_version, converted_mac, body
FROM threeds_sessions WHERE id = $1 AND (deletes_at IS NULL OR deletes_at > $2)";

/// Decodes the columns in the order of [`FIND_THREEDS_SESSION`].
pub(crate) fn decode_threeds_session(
    row: &dyn ColumnReader,
) -> Result<ThreeDsSessionRecord, StoreError> {
    let invalid_row = || StoreError::Corrupt("the row of a 3DS session is invalid");
    decode_columns(row).ok().flatten().ok_or_else(invalid_row)
}

fn decode_columns(row: &dyn ColumnReader) -> Result<Option<ThreeDsSessionRecord>, StoreError> {
    let tenant = read_required(row, 0)?;
    let card = ThreeDsSessionCardColumns {
        token: read_optional(row, 6)?,
        intent: read_optional(row, 7)?,
        containers: read_optional(row, 8)?,
        number_version: read_optional(row, 9)?,
        mac: read_optional(row, 10)?,
    };
    let Some(card) = ThreeDsSessionCard::from_row(tenant, card) else { return Ok(None) };
    Ok(Some(ThreeDsSessionRecord {
        tenant,
        id: read_required(row, 1)?,
        created_by: read_required(row, 2)?,
        created_at: read_required(row, 3)?,
        deletes_at: read_optional(row, 4)?,
        revision: read_required(row, 5)?,
        card,
        body: read_required(row, 11)?,
    }))
}

const UPDATE_THREEDS_SESSION: &str = "
-- update_threeds_session
UPDATE threeds_sessions SET deletes_at = $1, revision = $2, body = $3
WHERE tenant = $4 AND id = $5 AND revision = $6";

/// Returns `Stale` if another request wrote the session after it was read.
pub(crate) async fn update_threeds_session<T: WriteTransaction>(
    transaction: &mut T,
    write: &ThreeDsSessionWrite,
) -> Result<ChangeOutcome, StoreError> {
    let session = &write.session;
    check_sealed(transaction, session.tenant, &[&session.body]).await?;
    let row = parameters![
        session.deletes_at,
        session.revision,
        &session.body,
        session.tenant,
        session.id,
        session.revision.checked_sub(1),
    ];
    if transaction.execute(UPDATE_THREEDS_SESSION, &row).await? == 0 {
        return Ok(ChangeOutcome::Stale);
    }
    insert_session_extras(transaction, write).await?;
    Ok(ChangeOutcome::Done)
}

pub(crate) const STATEMENTS: &[&str] = &[
    INSERT_THREEDS_SESSION,
    FIND_THREEDS_SESSION,
    FIND_NOTIFIED_THREEDS_SESSION,
    UPDATE_THREEDS_SESSION,
];
