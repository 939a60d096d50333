//! Rotations of sealing keys: their progress, and the sealed rows of all tables.

use std::collections::BTreeMap;

use scrip_core::{
    Timestamp,
    change::ChangeOutcome,
    events::WebhookKey,
    keys::{
        RotatedTable, RowKey, SealedDelivery, SealedRow, SealedRows,
        key_rotation::{KeyRotation, RotationProgress, VersionCount},
    },
    store::{
        DigestChanges, FinishedPass, KeyRotationStore, RotationLease, RotationMark, RotationStep,
        VersionPage,
    },
    token::TokenRecord,
    token_batch::CvcChange,
    types::{StoreError, StoreFuture, id::TenantId},
};
use uuid::Uuid;

use crate::{
    shared::{
        key_rotations::{RotationTransaction, decode_version, key_parameters},
        tokens::{
            rows::{decode_token_intent, decode_token_record},
            writes::{TokenTransaction, find_token},
        },
    },
    sql::{
        ColumnReader, Execute, Parameter, Statements, WriteTransaction, parameters, read_optional,
        read_required,
    },
    stores::threeds_sessions::decode_threeds_session,
};

const LIST_KEY_ROTATIONS: &str = "
-- list_key_rotations
SELECT tenant, to_version, started_at, promoted_at, finished_at, paused, pass, table_name, last_key,
    resealed, unopened
FROM key_rotations";

const FIND_KEY_ROTATION: &str = "
-- find_key_rotation
SELECT tenant, to_version, started_at, promoted_at, finished_at, paused, pass, table_name, last_key,
    resealed, unopened
FROM key_rotations WHERE tenant = $1";

const DELETE_KEY_ROTATION: &str = "
-- delete_key_rotation
DELETE FROM key_rotations WHERE tenant = $1";

/// Replaces only a finished rotation, or one of another version. A node with outdated keys must not
/// replace the rotation of a newer version, nor repeat a rotation whose old keys are destroyed.
const INSERT_KEY_ROTATION: &str = "
-- insert_key_rotation
INSERT INTO key_rotations (tenant, to_version, started_at, promoted_at, finished_at, paused, pass,
    table_name, last_key, resealed, unopened, node, lease_until)
    SELECT $1, $2, $3, $4, NULL, 0, $5, $6, $7, $8, $9, NULL, 0
    WHERE $2 = (SELECT max(version) FROM tenant_keys WHERE tenant = $1)
        AND (SELECT count(*) FROM tenant_keys WHERE tenant = $1) > 1
ON CONFLICT (tenant) DO UPDATE SET to_version = $2, started_at = $3, promoted_at = $4,
    finished_at = NULL, paused = 0, pass = $5, table_name = $6, last_key = $7, resealed = $8,
    unopened = $9, node = NULL, lease_until = 0
WHERE key_rotations.finished_at IS NOT NULL OR key_rotations.to_version <> $2";

const MARK_PROMOTED: &str = "
-- mark_key_rotation_promoted
UPDATE key_rotations SET promoted_at = $1
WHERE tenant = $2 AND promoted_at IS NULL AND finished_at IS NULL";

const MARK_FINISHED: &str = "
-- mark_key_rotation_finished
UPDATE key_rotations SET finished_at = $1, table_name = NULL, last_key = NULL
WHERE tenant = $2 AND finished_at IS NULL";

const MARK_PAUSED: &str = "
-- mark_key_rotation_paused
UPDATE key_rotations SET paused = $1 WHERE tenant = $2 AND finished_at IS NULL AND paused <> $1";

const CLAIM_KEY_ROTATION: &str = "
-- claim_key_rotation
UPDATE key_rotations SET node = $1, lease_until = $2
WHERE tenant = $3 AND finished_at IS NULL AND paused = 0
    AND (node IS NULL OR node = $1 OR lease_until <= $4)";

/// The stored position is the fence: two nodes cannot both advance from it.
const ADVANCE_KEY_ROTATION: &str = "
-- advance_key_rotation
UPDATE key_rotations SET pass = $1, table_name = $2, last_key = $3, resealed = resealed + $4,
    unopened = $5
WHERE tenant = $6 AND finished_at IS NULL AND paused = 0 AND pass = $7
    AND coalesce(table_name, '') = $8 AND coalesce(last_key, '') = $9";

const REPLACE_INTENT_DIGEST: &str = "
-- replace_intent_digest
UPDATE token_intents SET fingerprint = $1, body = $2 WHERE tenant = $3 AND id = $4 AND body = $5";

/// The key is the column before those of [`decode_token_record`], which starts at the second one.
const LIST_TOKENS: &str = "
-- list_sealed_tokens
SELECT id, id, type, fingerprint, containers, created_by, created_at, modified_by, modified_at,
    expires_at, revision, indexes, body, expressions
FROM tokens WHERE tenant = $1 AND id > $2 ORDER BY id LIMIT $3";

/// The columns of [`decode_token_intent`], without a CVC.
const LIST_INTENTS: &str = "
-- list_sealed_token_intents
SELECT type, fingerprint, created_by, created_at, expires_at, body, CAST(NULL AS BIGINT),
    CAST(NULL AS BYTEA), containers, id
FROM token_intents WHERE tenant = $1 AND id > $2 ORDER BY id LIMIT $3";

const LIST_SESSIONS: &str = "
-- list_sealed_threeds_sessions
SELECT tenant, id, created_by, created_at, deletes_at, revision, token, intent,
    converted_containers, converted_number_version, converted_mac, body
FROM threeds_sessions WHERE tenant = $1 AND id > $2 ORDER BY id LIMIT $3";

const LIST_DELIVERIES: &str = "
-- list_sealed_deliveries
SELECT webhook, event, event_type, occurred_at, body FROM deliveries
WHERE tenant = $1 AND (webhook, event) > ($2, $3) ORDER BY webhook, event LIMIT $4";

/// Four bytes from the third one on are the version.
const COUNT_TOKENS: &str = "
-- list_token_versions
SELECT id, substr(body, 3, 4) FROM tokens WHERE tenant = $1 AND id > $2 ORDER BY id LIMIT $3";
const COUNT_INTENTS: &str = "
-- list_token_intent_versions
SELECT id, substr(body, 3, 4) FROM token_intents WHERE tenant = $1 AND id > $2 ORDER BY id LIMIT $3";
const COUNT_SESSIONS: &str = "
-- list_threeds_session_versions
SELECT id, substr(body, 3, 4) FROM threeds_sessions WHERE tenant = $1 AND id > $2 ORDER BY id LIMIT $3";
const COUNT_DELIVERIES: &str = "
-- list_delivery_versions
SELECT webhook, event, substr(body, 3, 4) FROM deliveries
WHERE tenant = $1 AND (webhook, event) > ($2, $3) ORDER BY webhook, event LIMIT $4";

for_both_engines! {
impl KeyRotationStore {
    /// A row that the vault did not write is skipped: the background task stores a new one.
    fn list_key_rotations(&self) -> StoreFuture<'_, Vec<KeyRotation>> {
        Box::pin(async move {
            let decode = |row: &dyn ColumnReader| Ok(decode_rotation(row).ok().flatten());
            let rows = self.for_all_tenants().query(LIST_KEY_ROTATIONS, &[], decode).await?;
            Ok(rows.into_iter().flatten().collect())
        })
    }

    fn insert_key_rotation(&self, rotation: KeyRotation) -> StoreFuture<'_, ChangeOutcome> {
        let tenant = rotation.tenant;
        Box::pin(self.write(tenant, async move |it| {
            it.check_tenant(tenant).await?;
            let decode = |row: &dyn ColumnReader| Ok(decode_rotation(row).ok().flatten());
            if let Some(None) = it.find(FIND_KEY_ROTATION, &parameters![tenant], decode).await? {
                it.execute(DELETE_KEY_ROTATION, &parameters![tenant]).await?;
            }
            let [pass, table, after] = position_parameters(&rotation.progress);
            let row = parameters![
                tenant,
                rotation.to_version,
                rotation.started_at,
                rotation.promoted_at,
                pass,
                table,
                after,
                rotation.progress.resealed,
                rotation.progress.unopened,
            ];
            Ok(outcome(it.execute(INSERT_KEY_ROTATION, &row).await?))
        }))
    }

    fn mark_key_rotation(
        &self,
        tenant: TenantId,
        mark: RotationMark,
    ) -> StoreFuture<'_, ChangeOutcome> {
        let (sql, value): (_, Parameter<'_>) = match mark {
            RotationMark::Promoted(at) => (MARK_PROMOTED, at.into()),
            RotationMark::Finished(at) => (MARK_FINISHED, at.into()),
            RotationMark::Paused => (MARK_PAUSED, true.into()),
            RotationMark::Resumed => (MARK_PAUSED, false.into()),
        };
        let row = [value, tenant.into()];
        Box::pin(self.write(tenant, async move |it| Ok(outcome(it.execute(sql, &row).await?))))
    }

    fn claim_key_rotation(
        &self,
        tenant: TenantId,
        lease: RotationLease,
    ) -> StoreFuture<'_, ChangeOutcome> {
        let row = parameters![lease.node, lease.until, tenant, lease.now];
        Box::pin(self.write(tenant, async move |it| {
            Ok(outcome(it.execute(CLAIM_KEY_ROTATION, &row).await?))
        }))
    }

    fn advance_key_rotation(&self, step: RotationStep) -> StoreFuture<'_, ChangeOutcome> {
        let RotationStep { tenant, before, after, rows } = step;
        Box::pin(self.write(tenant, async move |it| {
            let replaced = match before.table {
                Some(table) => it.replace_bodies(tenant, table, &rows).await?,
                None => 0,
            };
            let [pass, table, last_key] = position_parameters(&after);
            let before_table = before.table.map_or("", RotatedTable::as_str);
            let before_key = before.after.as_ref().map(RowKey::to_text).unwrap_or_default();
            let row = parameters![
                pass,
                table,
                last_key,
                replaced,
                after.unopened,
                tenant,
                before.pass,
                before_table,
                before_key,
            ];
            Ok(outcome(it.execute(ADVANCE_KEY_ROTATION, &row).await?))
        }))
    }

    fn list_sealed_rows(
        &self,
        tenant: TenantId,
        table: RotatedTable,
        after: Option<RowKey>,
        rows_max: usize,
    ) -> StoreFuture<'_, SealedRows> {
        let sql = match table {
            RotatedTable::Tokens => LIST_TOKENS,
            RotatedTable::TokenIntents => LIST_INTENTS,
            RotatedTable::ThreeDsSessions => LIST_SESSIONS,
            RotatedTable::Deliveries => LIST_DELIVERIES,
        };
        Box::pin(async move {
            let page_parameters = page_parameters(tenant, table, after, rows_max);
            let decode = |row: &dyn ColumnReader| {
                Ok((decode_key(row, table)?, decode_sealed_row(row, tenant, table).ok()))
            };
            let rows = self.for_tenant(tenant).query(sql, &page_parameters, decode).await?;
            let mut page = SealedRows::default();
            if rows.len() >= rows_max {
                page.last = rows.last().map(|(key, _)| key.clone());
            }
            for (_, row) in rows {
                page.undecoded = page.undecoded.saturating_add(u64::from(row.is_none()));
                page.rows.extend(row);
            }
            Ok(page)
        })
    }

    fn replace_digests(&self, changes: DigestChanges) -> StoreFuture<'_, ()> {
        let tenant = changes.tenant;
        Box::pin(self.write(tenant, async move |it| {
            for [before, after] in &changes.tokens {
                replace_token(it, tenant, before, after).await?;
            }
            for [before, after] in &changes.intents {
                let (fingerprint, body) = (after.fingerprint.as_ref(), &after.body);
                let row = parameters![fingerprint, body, tenant, after.id, &before.body];
                it.execute(REPLACE_INTENT_DIGEST, &row).await?;
            }
            Ok(())
        }))
    }

    fn count_key_versions(
        &self,
        tenant: TenantId,
        table: RotatedTable,
        after: Option<RowKey>,
        rows_max: usize,
    ) -> StoreFuture<'_, VersionPage> {
        let (sql, version_column) = match table {
            RotatedTable::Tokens => (COUNT_TOKENS, 1),
            RotatedTable::TokenIntents => (COUNT_INTENTS, 1),
            RotatedTable::ThreeDsSessions => (COUNT_SESSIONS, 1),
            RotatedTable::Deliveries => (COUNT_DELIVERIES, 2),
        };
        Box::pin(async move {
            let decode = |row: &dyn ColumnReader| {
                let key = match table {
                    RotatedTable::Tokens => RowKey::Token(read_required(row, 0)?),
                    RotatedTable::TokenIntents => RowKey::TokenIntent(read_required(row, 0)?),
                    RotatedTable::ThreeDsSessions => RowKey::ThreeDsSession(read_required(row, 0)?),
                    RotatedTable::Deliveries => decode_key(row, table)?,
                };
                Ok((key, decode_version(row, version_column)?))
            };
            let page_parameters = page_parameters(tenant, table, after, rows_max);
            let rows = self.for_tenant(tenant).query(sql, &page_parameters, decode).await?;
            let last = rows.last().filter(|_| rows.len() >= rows_max).map(|(key, _)| key.clone());
            let mut counts = BTreeMap::<u32, u64>::new();
            for (_, version) in rows {
                let count = counts.entry(version).or_default();
                *count = count.saturating_add(1);
            }
            Ok(VersionPage { counts: counts.into_iter().collect(), last })
        })
    }

    fn count_other_key_versions(&self, tenant: TenantId) -> StoreFuture<'_, Vec<VersionCount>> {
        Box::pin(self.count_other_versions(tenant))
    }
}
}

fn decode_rotation(row: &dyn ColumnReader) -> Result<Option<KeyRotation>, StoreError> {
    let table = read_optional::<&str>(row, 7)?;
    let Some(table) = table.map_or(Some(None), |it| RotatedTable::parse(it).map(Some)) else {
        return Ok(None);
    };
    let after = match read_optional::<&str>(row, 8)? {
        None => None,
        Some(text) => match table.and_then(|it| RowKey::parse(it, text)) {
            // The position of a step would never be the stored one.
            None => return Ok(None),
            after @ Some(_) => after,
        },
    };
    Ok(Some(KeyRotation {
        tenant: read_required(row, 0)?,
        to_version: read_required(row, 1)?,
        started_at: read_required(row, 2)?,
        promoted_at: read_optional(row, 3)?,
        finished_at: read_optional(row, 4)?,
        is_paused: read_required(row, 5)?,
        progress: RotationProgress {
            pass: read_required(row, 6)?,
            table,
            after,
            resealed: read_required::<i64>(row, 9)?.unsigned_abs(),
            unopened: read_required::<i64>(row, 10)?.unsigned_abs(),
        },
    }))
}

fn outcome(changed_rows: usize) -> ChangeOutcome {
    if changed_rows > 0 { ChangeOutcome::Done } else { ChangeOutcome::Stale }
}

/// The columns of the position.
fn position_parameters<'a>(progress: &RotationProgress) -> [Parameter<'a>; 3] {
    let after = progress.after.as_ref().map(RowKey::to_text);
    parameters![progress.pass, progress.table.map(|it| it.as_str().to_owned()), after]
}

/// A value of an old version that was written after the end of the pass has started another pass.
const FINISH_PASS: &str = "
-- finish_rotation_pass
UPDATE key_rotations SET finished_at = $1
WHERE tenant = $2 AND pass = $3 AND table_name IS NULL AND promoted_at IS NOT NULL
    AND finished_at IS NULL AND paused = 0";

pub(super) async fn finish_pass(
    transaction: &impl Execute,
    tenant: TenantId,
    finished: FinishedPass,
) -> Result<ChangeOutcome, StoreError> {
    let row = parameters![finished.at, tenant, finished.pass];
    Ok(outcome(transaction.execute(FINISH_PASS, &row).await?))
}

/// Replaces a token that is unchanged, whether it is expired or not.
async fn replace_token<T: TokenTransaction>(
    transaction: &T,
    tenant: TenantId,
    before: &TokenRecord,
    after: &TokenRecord,
) -> Result<(), StoreError> {
    let any_expiry = Timestamp { unix_ms: i64::MIN };
    let found = find_token(transaction, T::FIND_TOKEN, tenant, &before.id, any_expiry).await?;
    if let Some(previous) = found.filter(|it| it.token.record == *before) {
        transaction.replace_token(tenant, &previous, after, &CvcChange::Keep).await?;
    }
    Ok(())
}

/// The parameters of a page. The first page comes after a key that no row has.
fn page_parameters<'a>(
    tenant: TenantId,
    table: RotatedTable,
    after: Option<RowKey>,
    rows_max: usize,
) -> Vec<Parameter<'a>> {
    let mut parameters = vec![Parameter::from(tenant)];
    parameters.extend(match (after, table) {
        (Some(key), _) => key_parameters(&key),
        (None, RotatedTable::Tokens) => vec![String::new().into()],
        (None, RotatedTable::Deliveries) => vec![Uuid::nil().into(), Uuid::nil().into()],
        (None, RotatedTable::TokenIntents | RotatedTable::ThreeDsSessions) => {
            vec![Uuid::nil().into()]
        }
    });
    parameters.push(rows_max.into());
    parameters
}

fn decode_key(row: &dyn ColumnReader, table: RotatedTable) -> Result<RowKey, StoreError> {
    Ok(match table {
        RotatedTable::Tokens => RowKey::Token(read_required(row, 0)?),
        RotatedTable::TokenIntents => RowKey::TokenIntent(read_required(row, 9)?),
        RotatedTable::ThreeDsSessions => RowKey::ThreeDsSession(read_required(row, 1)?),
        RotatedTable::Deliveries => {
            RowKey::Delivery { webhook: read_required(row, 0)?, event: read_required(row, 1)? }
        }
    })
}

fn decode_sealed_row(
    row: &dyn ColumnReader,
    tenant: TenantId,
    table: RotatedTable,
) -> Result<SealedRow, StoreError> {
    Ok(match table {
        RotatedTable::Tokens => SealedRow::Token(Box::new(decode_token_record(row)?)),
        RotatedTable::TokenIntents => {
            let intent = decode_token_intent(row, read_required(row, 9)?)?;
            SealedRow::TokenIntent(Box::new(intent.record))
        }
        RotatedTable::ThreeDsSessions => {
            SealedRow::ThreeDsSession(Box::new(decode_threeds_session(row)?))
        }
        RotatedTable::Deliveries => SealedRow::Delivery(Box::new(SealedDelivery {
            key: WebhookKey { tenant, webhook: read_required(row, 0)? },
            event: read_required(row, 1)?,
            event_type: read_required(row, 2)?,
            occurred_at: read_required(row, 3)?,
            body: read_required(row, 4)?,
        })),
    })
}
