//! Changes of policy. Each raises the version by which other nodes see that something changed.

use scrip_core::{
    application::{ApiKeyRecord, ApplicationRecord},
    audit::AuditRecord,
    caller::TenantDeletion,
    directory::SystemKeys,
    error::Error,
    id::TenantId,
    policy::{PolicyRecords, PolicySeal, PolicyWrite, Signed, Stamp},
    store::{Changed, DecidePolicy, PolicyEdit, StoreError},
    tenant::TenantRecord,
    time::Timestamp,
    vault_rows::DeletedTenant,
};
use scrip_seal::{Mac, WrappedTenantKeys};
use tokio_postgres::Row;
use uuid::Uuid;

use crate::postgres::{
    answers::insert_beside,
    directory::{NO_VERSION, load_policy},
    listen::tell,
    row::{array, column, time},
    statement::{Single, count, execute, query},
    transaction::Transaction,
};

pub(super) async fn insert_system_keys(
    client: &Single<'_>,
    keys: &SystemKeys,
) -> Result<(), StoreError> {
    let sql = "
-- insert_system_keys
INSERT INTO system_keys (name, wrapped) VALUES ('pepper', $1), ('audit', $2)";
    let (pepper, audit) = (keys.pepper.as_bytes(), keys.audit_key.as_bytes());
    execute(client, sql, &[&pepper, &audit]).await.map(drop)
}

/// Whoever changes any policy waits here for whoever did before, so that what must be unique across
/// tenants can be looked for.
async fn raise_version(transaction: &Transaction) -> Result<(), StoreError> {
    let sql = "-- raise_version\nUPDATE directory_state SET version = version + 1 WHERE one = 1";
    match transaction.execute_raw(sql, &[]).await? {
        1 => tell(transaction.client()?).await,
        _ => Err(NO_VERSION),
    }
}

pub(super) async fn insert_tenant(
    transaction: &mut Transaction,
    records: &PolicyRecords,
    audit: &AuditRecord,
) -> Result<(), StoreError> {
    raise_version(transaction).await?;
    put_tenant(transaction, &records.tenant).await?;
    put_seal(transaction, records.seal).await?;
    transaction.append_record(audit, &records.tenant.record.id.to_string(), "done");
    Ok(())
}

/// What returns an error inside is taken back by whoever calls.
pub(super) async fn change_policy(
    transaction: &mut Transaction,
    decide: DecidePolicy,
) -> Result<Result<(), Error>, StoreError> {
    let records = match load_policy(transaction.client()?, transaction.tenant).await {
        Ok(Some(records)) => records,
        Ok(None) => return Ok(Err(Error::NotFound)),
        Err(StoreError::Corrupt(what)) => return Ok(Err(Error::Unavailable(what.into()))),
        Err(error @ (StoreError::Busy | StoreError::Unavailable(_) | StoreError::Answered)) => {
            return Err(error);
        }
    };
    let PolicyEdit { writes, seal, written } = match decide(records) {
        Ok(edit) => edit,
        Err(error) => return Ok(Err(error)),
    };
    raise_version(transaction).await?;
    for write in &writes {
        if is_taken(transaction, write).await? {
            return Ok(Err(Error::Conflict { reason: "this key is in use" }));
        }
        apply(transaction, write).await?;
    }
    put_seal(transaction, seal).await?;
    insert_beside(transaction, &written, "done").await?;
    Ok(Ok(()))
}

async fn is_taken(transaction: &Transaction, write: &PolicyWrite) -> Result<bool, StoreError> {
    let PolicyWrite::PutApiKey(api_key) = write else { return Ok(false) };
    let sql = "-- find_api_key\nSELECT 1 FROM api_keys WHERE digest = $1 AND id <> $2";
    let record = &api_key.record;
    let found =
        transaction.query_every_tenant(sql, &[&record.digest.as_slice(), &record.id.0]).await?;
    Ok(!found.is_empty())
}

async fn apply(transaction: &Transaction, write: &PolicyWrite) -> Result<(), StoreError> {
    let tenant = transaction.tenant.0;
    match write {
        PolicyWrite::PutTenant(it) => put_tenant(transaction, it).await,
        PolicyWrite::PutApplication(it) => put_application(transaction, it).await,
        PolicyWrite::PutApiKey(it) => put_api_key(transaction, it).await,
        PolicyWrite::RemoveApplication(id) => {
            let sql =
                "-- delete_application\nDELETE FROM applications WHERE tenant = $1 AND id = $2";
            transaction.execute_raw(sql, &[&tenant, &id.0]).await.map(drop)
        }
        PolicyWrite::RemoveApiKey(id) => {
            let sql = "-- delete_api_key\nDELETE FROM api_keys WHERE tenant = $1 AND id = $2";
            transaction.execute_raw(sql, &[&tenant, &id.0]).await.map(drop)
        }
    }
}

/// The two columns of a stamp.
fn stamped(stamp: Option<Stamp>) -> (Option<Uuid>, Option<i64>) {
    (stamp.and_then(|it| it.by).map(|it| it.0), stamp.map(|it| it.at.unix_ms))
}

const PUT_TENANT: &str = "
-- put_tenant
INSERT INTO tenants (id, name, kind, settings, quotas, created_by, created_at, modified_by,
    modified_at, deletes_at, mac, policy_counter, policy_mac)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, 0, '')
ON CONFLICT (id) DO UPDATE SET name = $2, kind = $3, settings = $4, quotas = $5,
    modified_by = $8, modified_at = $9, deletes_at = $10, mac = $11";

async fn put_tenant(
    transaction: &Transaction,
    tenant: &Signed<TenantRecord>,
) -> Result<(), StoreError> {
    let record = &tenant.record;
    let (created_by, created_at) = stamped(Some(record.created));
    let (modified_by, modified_at) = stamped(record.modified);
    transaction
        .execute_raw(
            PUT_TENANT,
            &[
                &record.id.0,
                &record.name.as_str(),
                &record.kind.as_str(),
                &record.settings.to_text(),
                &record.quotas.to_text(),
                &created_by,
                &created_at,
                &modified_by,
                &modified_at,
                &record.deletes_at.map(|it| it.unix_ms),
                &tenant.mac.0.as_slice(),
            ],
        )
        .await?;
    put_keys(transaction, &record.keys).await
}

/// A key that is there already is not written again.
async fn put_keys(transaction: &Transaction, keys: &WrappedTenantKeys) -> Result<(), StoreError> {
    let sql = "
-- put_tenant_key
INSERT INTO tenant_keys (tenant, version, wrapped) VALUES ($1, $2, $3)
ON CONFLICT (tenant, version) DO UPDATE SET wrapped = $3 WHERE tenant_keys.wrapped <> $3";
    let tenant = transaction.tenant.0;
    for (version, key) in &keys.sealing {
        let version = i64::from(*version);
        transaction.execute_raw(sql, &[&tenant, &version, &key.as_bytes()]).await?;
    }
    let sql = "
-- put_lasting_key
INSERT INTO lasting_keys (tenant, wrapped) VALUES ($1, $2)
ON CONFLICT (tenant) DO UPDATE SET wrapped = $2 WHERE lasting_keys.wrapped <> $2";
    transaction.execute_raw(sql, &[&tenant, &keys.lasting.as_bytes()]).await.map(drop)
}

async fn put_seal(transaction: &Transaction, seal: PolicySeal) -> Result<(), StoreError> {
    let sql = "-- put_seal\nUPDATE tenants SET policy_counter = $2, policy_mac = $3 WHERE id = $1";
    let mac = seal.mac.0.as_slice();
    transaction.execute_raw(sql, &[&transaction.tenant.0, &seal.counter, &mac]).await.map(drop)
}

const PUT_APPLICATION: &str = "
-- put_application
INSERT INTO applications (tenant, id, name, kind, access, created_by, created_at, modified_by,
    modified_at, mac)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
ON CONFLICT (tenant, id) DO UPDATE SET name = $3, kind = $4, access = $5, modified_by = $8,
    modified_at = $9, mac = $10";

async fn put_application(
    transaction: &Transaction,
    application: &Signed<ApplicationRecord>,
) -> Result<(), StoreError> {
    let record = &application.record;
    let (created_by, created_at) = stamped(Some(record.created));
    let (modified_by, modified_at) = stamped(record.modified);
    transaction
        .execute_raw(
            PUT_APPLICATION,
            &[
                &record.tenant.0,
                &record.id.0,
                &record.name.as_str(),
                &record.kind.as_str(),
                &record.access.to_text(),
                &created_by,
                &created_at,
                &modified_by,
                &modified_at,
                &application.mac.0.as_slice(),
            ],
        )
        .await
        .map(drop)
}

const PUT_API_KEY: &str = "
-- put_api_key
INSERT INTO api_keys (tenant, application, id, digest, created_by, created_at, mac)
VALUES ($1, $2, $3, $4, $5, $6, $7)";

async fn put_api_key(
    transaction: &Transaction,
    api_key: &Signed<ApiKeyRecord>,
) -> Result<(), StoreError> {
    let record = &api_key.record;
    let (created_by, created_at) = stamped(Some(record.created));
    transaction
        .execute_raw(
            PUT_API_KEY,
            &[
                &record.tenant.0,
                &record.application.0,
                &record.id.0,
                &record.digest.as_slice(),
                &created_by,
                &created_at,
                &api_key.mac.0.as_slice(),
            ],
        )
        .await
        .map(drop)
}

const DELETE_TENANT: [&str; 3] = [
    "-- forget_usage_types\nDELETE FROM usage_types WHERE tenant = $1",
    "-- forget_usage_months\nDELETE FROM usage_months WHERE tenant = $1",
    "-- delete_tenant\nDELETE FROM tenants WHERE id = $1",
];

pub(super) async fn delete_tenant(
    transaction: &mut Transaction,
    deletion: &TenantDeletion,
    audit: &AuditRecord,
) -> Result<Result<Changed, Error>, StoreError> {
    if transaction.check_present().is_err() {
        return Ok(Ok(Changed::Stale));
    }
    let tenant = transaction.tenant;
    if deletion.is_checked() {
        let checked = match load_policy(transaction.client()?, tenant).await {
            Ok(Some(records)) => deletion.check(&records),
            Ok(None) => return Ok(Ok(Changed::Stale)),
            Err(StoreError::Corrupt(what)) => Err(Error::Unavailable(what.into())),
            Err(error @ (StoreError::Busy | StoreError::Unavailable(_) | StoreError::Answered)) => {
                return Err(error);
            }
        };
        if let Err(error) = checked {
            return Ok(Err(error));
        }
    }
    raise_version(transaction).await?;
    for sql in DELETE_TENANT {
        transaction.execute_raw(sql, &[&tenant.0]).await?;
    }
    let sql = "
-- insert_deleted_tenant
INSERT INTO deleted_tenants (id, deleted_at, mac) VALUES ($1, $2, $3)";
    let deleted = audit.deleted_tenant(tenant);
    let (at, mac) = (deleted.deleted_at.unix_ms, deleted.mac.0.as_slice());
    transaction.execute_raw(sql, &[&tenant.0, &at, &mac]).await?;
    transaction.append_record(audit, &tenant.to_string(), "done");
    transaction.chain.end(audit, deletion.retention_seconds());
    Ok(Ok(Changed::Done))
}

const PURGED_AT_ONCE: i64 = 256;
/// A request that began before the deletion may still leave a record of a read after it.
const STRAGGLERS_MS: i64 = 60_000;

/// Some rows of a table that belong to a tenant that is deleted.
macro_rules! purge {
    ($table:literal, $key:literal) => {
        concat!(
            "-- purge_",
            $table,
            "\nDELETE FROM ",
            $table,
            " WHERE (",
            $key,
            ") IN (SELECT ",
            $key,
            " FROM ",
            $table,
            " WHERE tenant = ANY ($2) LIMIT $1
             FOR UPDATE SKIP LOCKED)"
        )
    };
}

const PURGE: [&str; 8] = [
    purge!("active_tokens", "tenant, month, token"),
    purge!("active_months", "tenant, month"),
    purge!("tokens", "tenant, number"),
    purge!("filed", "tenant, facet, container, created_at, token"),
    purge!("token_intents", "tenant, id"),
    purge!("sessions", "tenant, id"),
    purge!("session_events", "tenant, seq"),
    purge!("guesses", "tenant, bucket, number"),
];

/// Only where there is nothing left: rows that another node was about to purge are skipped above,
/// and stay where that fails.
const FORGET_DELETED: &str = "
-- forget_deleted_tenants
DELETE FROM deleted_tenants AS it WHERE deleted_at <= $1 AND id = ANY ($2)
    AND NOT EXISTS (SELECT 1 FROM active_tokens WHERE tenant = it.id)
    AND NOT EXISTS (SELECT 1 FROM active_months WHERE tenant = it.id)
    AND NOT EXISTS (SELECT 1 FROM tokens WHERE tenant = it.id)
    AND NOT EXISTS (SELECT 1 FROM filed WHERE tenant = it.id)
    AND NOT EXISTS (SELECT 1 FROM token_intents WHERE tenant = it.id)
    AND NOT EXISTS (SELECT 1 FROM sessions WHERE tenant = it.id)
    AND NOT EXISTS (SELECT 1 FROM session_events WHERE tenant = it.id)
    AND NOT EXISTS (SELECT 1 FROM guesses WHERE tenant = it.id)";

const LIST_DELETED: &str = "
-- list_deleted_tenants
SELECT id, deleted_at, mac FROM deleted_tenants";

/// A mac that cannot be read is no mac of ours.
pub(super) async fn list_deleted_tenants(
    client: &Single<'_>,
) -> Result<Vec<DeletedTenant>, StoreError> {
    let rows = query(client, LIST_DELETED, &[]).await?;
    let deleted = |row: &Row| {
        let (tenant, deleted_at) = (TenantId(column(row, 0)?), time(row, 1)?);
        Ok(DeletedTenant { tenant, deleted_at, mac: Mac(array(row, 2).unwrap_or_default()) })
    };
    rows.iter().map(deleted).collect()
}

/// Those of these tenants that have no row any more.
const WITHOUT_ROW: &str = "
-- find_tenants_without_row
SELECT it FROM unnest($1::uuid[]) AS it WHERE it NOT IN (SELECT id FROM tenants)";

/// Each statement is a transaction of its own; there is nothing left that they must agree on.
pub(super) async fn purge_tenants(
    client: &Single<'_>,
    tenants: Vec<TenantId>,
    now: Timestamp,
) -> Result<usize, StoreError> {
    if tenants.is_empty() {
        return Ok(0);
    }
    let tenants: Vec<_> = tenants.into_iter().map(|it| it.0).collect();
    let rows = query(client, WITHOUT_ROW, &[&tenants]).await?;
    let gone: Result<Vec<Uuid>, _> = rows.iter().map(|row| column(row, 0)).collect();
    let gone = gone?;
    let mut purged = 0_u64;
    for sql in PURGE {
        purged = purged.saturating_add(execute(client, sql, &[&PURGED_AT_ONCE, &gone]).await?);
    }
    if purged == 0 {
        let before = now.unix_ms.saturating_sub(STRAGGLERS_MS);
        execute(client, FORGET_DELETED, &[&before, &gone]).await?;
    }
    Ok(count(purged))
}
