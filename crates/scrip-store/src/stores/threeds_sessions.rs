//! 3DS sessions.

use std::sync::Arc;

use scrip_core::{
    Timestamp,
    change::ChangeOutcome,
    policy::LookupPermit,
    store::ThreeDsSessionStore,
    threeds::{
        CardReference, ThreeDsSessionCard, ThreeDsSessionCardColumns, ThreeDsSessionRecord,
        ThreeDsSessionWrite,
    },
    types::{
        StoreError, StoreFuture,
        id::{ThreeDsSessionId, TokenId},
    },
};

use crate::{
    shared::{idempotency::insert_idempotency_record, session_cards::is_used_by_threeds_session},
    sql::{
        ColumnReader, Execute, Statements, WriteTransaction, parameters, read_optional,
        read_required,
    },
};

/// Inserts nothing if any tenant has the id, even if row-level security hides that row.
const INSERT_THREEDS_SESSION: &str = "
-- insert_threeds_session
INSERT INTO threeds_sessions (tenant, id, created_by, created_at, deletes_at, revision, token,
    intent, body)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT (id) DO NOTHING";

/// Finds a session that has not expired.
const FIND_THREEDS_SESSION: &str = "
-- find_threeds_session
SELECT tenant, id, created_by, created_at, deletes_at, revision, token, intent,
    converted_containers, converted_number_version, converted_mac, body
FROM threeds_sessions WHERE id = $1 AND (deletes_at IS NULL OR deletes_at > $2) AND tenant = $3";

const FIND_NOTIFIED_THREEDS_SESSION: &str = "
-- find_notified_threeds_session
SELECT tenant, id, created_by, created_at, deletes_at, revision, token, intent,
    converted_containers, converted_number_version, converted_mac, body
FROM threeds_sessions WHERE id = $1 AND (deletes_at IS NULL OR deletes_at > $2)";

const UPDATE_THREEDS_SESSION: &str = "
-- update_threeds_session
UPDATE threeds_sessions SET deletes_at = $1, revision = $2, body = $3
WHERE tenant = $4 AND id = $5 AND revision = $6";

for_both_engines! {
impl ThreeDsSessionStore {
    fn insert_threeds_session(&self, lookup: LookupPermit, write: ThreeDsSessionWrite) -> StoreFuture<'_, ()> {
        let tenant = lookup.tenant().id;
        Box::pin(self.write(tenant, async move |it| {
            let session = &write.session;
            if session.tenant != tenant {
                return Err(StoreError::Corrupt("a session of another tenant"));
            }
            it.check_sealed(tenant, &[&session.body]).await?;
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
            if it.execute(INSERT_THREEDS_SESSION, &row).await? == 0 {
                return Err(StoreError::Unavailable("the 3DS session id is already used".into()));
            }
            insert_session_extras(it, &write).await
        }))
    }


    fn find_threeds_session(
        &self,
        lookup: LookupPermit,
        id: ThreeDsSessionId,
        now: Timestamp,
    ) -> StoreFuture<'_, Option<ThreeDsSessionRecord>> {
        let tenant = lookup.tenant().id;
        Box::pin(async move {
            self.for_tenant(tenant).find(FIND_THREEDS_SESSION, &parameters![id, now, tenant], decode_threeds_session).await
        })
    }

    fn find_notified_threeds_session(
        &self,
        id: ThreeDsSessionId,
        now: Timestamp,
    ) -> StoreFuture<'_, Option<ThreeDsSessionRecord>> {
        Box::pin(async move {
            let key = parameters![id, now];
            self.for_all_tenants().find(FIND_NOTIFIED_THREEDS_SESSION, &key, decode_threeds_session).await
        })
    }

    /// Returns `Stale` if another request wrote the session after it was read.
    ///
    /// The write may store the response to a message that cannot be sent again. So it waits while
    /// the write queue is full instead of failing.
    fn update_threeds_session(&self, write: ThreeDsSessionWrite) -> StoreFuture<'_, ChangeOutcome> {
        let (tenant, write) = (write.session.tenant, Arc::new(write));
        Box::pin(self.write_waiting(tenant, async move |it| {
            let session = &write.session;
            it.check_sealed(tenant, &[&session.body]).await?;
            let row = parameters![
                session.deletes_at,
                session.revision,
                &session.body,
                tenant,
                session.id,
                session.revision.checked_sub(1),
            ];
            if it.execute(UPDATE_THREEDS_SESSION, &row).await? == 0 {
                return Ok(ChangeOutcome::Stale);
            }
            insert_session_extras(it, &write).await?;
            Ok(ChangeOutcome::Done)
        }))
    }


    fn is_used_by_threeds_session<'a>(
        &'a self,
        lookup: LookupPermit,
        token: &'a TokenId,
        now: Timestamp,
    ) -> StoreFuture<'a, bool> {
        let tenant = lookup.tenant().id;
        Box::pin(async move { is_used_by_threeds_session(&self.for_tenant(tenant), tenant, token, now).await })
    }
}
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

/// Decodes the columns in the order of [`FIND_THREEDS_SESSION`].
pub(super) fn decode_threeds_session(
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
