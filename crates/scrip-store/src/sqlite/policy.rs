//! Changes of policy. Each function is the work of one transaction, and raises the version by which
//! other processes see that something changed.

use rusqlite::{Connection, OptionalExtension, named_params};
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

use crate::sqlite::{
    answers::insert_beside,
    audit::{insert_audit, insert_last_audit},
    connection::overwriting,
    directory::{APART, load_policy},
    fault,
    row::uuid,
    transaction::Transaction,
    usage::forget_usage,
};

pub(super) fn insert_system_keys(
    connection: &Connection,
    keys: &SystemKeys,
) -> Result<(), StoreError> {
    let sql = "
-- insert_system_keys
INSERT INTO system_keys (name, wrapped) VALUES ('pepper', ?1), ('audit', ?2)";
    let parameters = [keys.pepper.as_bytes(), keys.audit_key.as_bytes()];
    connection.execute(sql, parameters).map(drop).map_err(fault)
}

fn raise_version(connection: &Connection) -> Result<(), StoreError> {
    let sql = "-- raise_version\nUPDATE directory_state SET version = version + 1";
    match connection.execute(sql, []).map_err(fault)? {
        1 => Ok(()),
        _ => Err(StoreError::Corrupt("the version of the directory is not one of ours")),
    }
}

pub(super) fn insert_tenant(
    transaction: &mut Transaction<'_>,
    records: &PolicyRecords,
    audit: &AuditRecord,
) -> Result<(), StoreError> {
    put_tenant(transaction, &records.tenant)?;
    put_seal(transaction, records.tenant.record.id, records.seal)?;
    raise_version(transaction)?;
    let id = records.tenant.record.id;
    insert_audit(transaction, id, audit, &id.to_string(), "done")
}

pub(super) fn change_policy(
    transaction: &mut Transaction<'_>,
    tenant: TenantId,
    decide: DecidePolicy,
) -> Result<Result<(), Error>, StoreError> {
    let records = match load_policy(transaction, tenant) {
        Ok(Some(records)) => records,
        Ok(None) => return Ok(Err(Error::NotFound)),
        Err(StoreError::Corrupt(what)) => return Ok(Err(Error::Unavailable(what.into()))),
        Err(error @ (StoreError::Busy | StoreError::Answered | StoreError::Unavailable(_))) => {
            return Err(error);
        }
    };
    let PolicyEdit { writes, seal, written } = match decide(records) {
        Ok(edit) => edit,
        Err(error) => return Ok(Err(error)),
    };
    // Before anything is written, for what returns an error here is not taken back.
    for write in &writes {
        if is_taken(transaction, write)? {
            return Ok(Err(Error::Conflict { reason: "this key is in use" }));
        }
    }
    for write in &writes {
        apply(transaction, tenant, write)?;
    }
    put_seal(transaction, tenant, seal)?;
    raise_version(transaction)?;
    insert_beside(transaction, tenant, &written, "done")?;
    Ok(Ok(()))
}

fn is_taken(connection: &Connection, write: &PolicyWrite) -> Result<bool, StoreError> {
    let PolicyWrite::PutApiKey(api_key) = write else { return Ok(false) };
    let sql = "-- find_api_key\nSELECT 1 FROM api_keys WHERE digest = ?1 AND id <> ?2";
    let record = &api_key.record;
    let found = connection
        .query_row(sql, (record.digest, record.id.0.as_bytes()), |_| Ok(()))
        .optional()
        .map_err(fault)?;
    Ok(found.is_some())
}

fn apply(connection: &Connection, tenant: TenantId, write: &PolicyWrite) -> Result<(), StoreError> {
    match write {
        PolicyWrite::PutTenant(it) => put_tenant(connection, it),
        PolicyWrite::PutApplication(it) => put_application(connection, it),
        PolicyWrite::PutApiKey(it) => put_api_key(connection, it),
        PolicyWrite::RemoveApplication(id) => {
            let sql = "-- delete_application\nDELETE FROM applications WHERE tenant = ? AND id = ?";
            let parameters = (tenant.0.as_bytes(), id.0.as_bytes());
            connection.execute(sql, parameters).map(drop).map_err(fault)
        }
        PolicyWrite::RemoveApiKey(id) => {
            let sql = "-- delete_api_key\nDELETE FROM api_keys WHERE tenant = ? AND id = ?";
            let parameters = (tenant.0.as_bytes(), id.0.as_bytes());
            connection.execute(sql, parameters).map(drop).map_err(fault)
        }
    }
}

/// The two columns of a stamp.
fn stamped(stamp: Option<Stamp>) -> (Option<[u8; 16]>, Option<i64>) {
    let by = stamp.and_then(|it| it.by).map(|it| *it.0.as_bytes());
    (by, stamp.map(|it| it.at.unix_ms))
}

fn put_tenant(connection: &Connection, tenant: &Signed<TenantRecord>) -> Result<(), StoreError> {
    let sql = "
-- put_tenant
INSERT INTO tenants (id, name, kind, settings, quotas, created_by, created_at, modified_by,
    modified_at, deletes_at, mac, policy_counter, policy_mac)
VALUES (:id, :name, :kind, :settings, :quotas, :created_by, :created_at, :modified_by,
    :modified_at, :deletes_at, :mac, 0, x'')
ON CONFLICT (id) DO UPDATE SET name = :name, kind = :kind, settings = :settings, quotas = :quotas,
    modified_by = :modified_by, modified_at = :modified_at, deletes_at = :deletes_at,
    mac = :mac";
    let record = &tenant.record;
    let (created_by, created_at) = stamped(Some(record.created));
    let (modified_by, modified_at) = stamped(record.modified);
    let parameters = named_params! {
        ":id": record.id.0.as_bytes(),
        ":name": record.name.as_str(),
        ":kind": record.kind.as_str(),
        ":settings": record.settings.to_text(),
        ":quotas": record.quotas.to_text(),
        ":created_by": created_by,
        ":created_at": created_at,
        ":modified_by": modified_by,
        ":modified_at": modified_at,
        ":deletes_at": record.deletes_at.map(|it| it.unix_ms),
        ":mac": tenant.mac.0,
    };
    connection.execute(sql, parameters).map_err(fault)?;
    overwriting(connection, || put_keys(connection, record.id, &record.keys))
}

/// A key that is there already is not written again: one copy of it is enough.
fn put_keys(
    connection: &Connection,
    tenant: TenantId,
    keys: &WrappedTenantKeys,
) -> Result<(), StoreError> {
    let sql = "
-- put_tenant_key
INSERT INTO tenant_keys (tenant, version, apart, wrapped) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (tenant, version) DO UPDATE SET wrapped = ?4 WHERE wrapped <> ?4";
    for (version, key) in &keys.sealing {
        let parameters = (tenant.0.as_bytes(), version, APART, key.as_bytes());
        connection.execute(sql, parameters).map_err(fault)?;
    }
    let sql = "
-- put_lasting_key
INSERT INTO lasting_keys (tenant, apart, wrapped) VALUES (?1, ?2, ?3)
ON CONFLICT (tenant) DO UPDATE SET wrapped = ?3 WHERE wrapped <> ?3";
    let parameters = (tenant.0.as_bytes(), APART, keys.lasting.as_bytes());
    connection.execute(sql, parameters).map(drop).map_err(fault)
}

fn put_seal(connection: &Connection, tenant: TenantId, seal: PolicySeal) -> Result<(), StoreError> {
    let sql = "
-- put_seal
UPDATE tenants SET policy_counter = ?2, policy_mac = ?3 WHERE id = ?1";
    let parameters = (tenant.0.as_bytes(), seal.counter, seal.mac.0);
    connection.execute(sql, parameters).map(drop).map_err(fault)
}

fn put_application(
    connection: &Connection,
    application: &Signed<ApplicationRecord>,
) -> Result<(), StoreError> {
    let sql = "
-- put_application
INSERT INTO applications (tenant, id, name, kind, access, created_by, created_at, modified_by,
    modified_at, mac)
VALUES (:tenant, :id, :name, :kind, :access, :created_by, :created_at, :modified_by,
    :modified_at, :mac)
ON CONFLICT (tenant, id) DO UPDATE SET name = :name, kind = :kind, access = :access,
    modified_by = :modified_by, modified_at = :modified_at, mac = :mac";
    let record = &application.record;
    let (created_by, created_at) = stamped(Some(record.created));
    let (modified_by, modified_at) = stamped(record.modified);
    let parameters = named_params! {
        ":tenant": record.tenant.0.as_bytes(),
        ":id": record.id.0.as_bytes(),
        ":name": record.name.as_str(),
        ":kind": record.kind.as_str(),
        ":access": record.access.to_text(),
        ":created_by": created_by,
        ":created_at": created_at,
        ":modified_by": modified_by,
        ":modified_at": modified_at,
        ":mac": application.mac.0,
    };
    connection.execute(sql, parameters).map(drop).map_err(fault)
}

fn put_api_key(connection: &Connection, api_key: &Signed<ApiKeyRecord>) -> Result<(), StoreError> {
    let sql = "
-- put_api_key
INSERT INTO api_keys (tenant, application, id, digest, created_by, created_at, mac)
VALUES (:tenant, :application, :id, :digest, :created_by, :created_at, :mac)";
    let record = &api_key.record;
    let (created_by, created_at) = stamped(Some(record.created));
    let parameters = named_params! {
        ":tenant": record.tenant.0.as_bytes(),
        ":application": record.application.0.as_bytes(),
        ":id": record.id.0.as_bytes(),
        ":digest": record.digest,
        ":created_by": created_by,
        ":created_at": created_at,
        ":mac": api_key.mac.0,
    };
    connection.execute(sql, parameters).map(drop).map_err(fault)
}

/// The keys are overwritten with zeros, not only unlinked; so is the log, once the caller has let
/// it be moved and cut.
pub(super) fn delete_tenant(
    transaction: &mut Transaction<'_>,
    deletion: &TenantDeletion,
    audit: &AuditRecord,
) -> Result<Result<Changed, Error>, StoreError> {
    let tenant = deletion.tenant();
    if deletion.is_checked() {
        let checked = match load_policy(transaction, tenant) {
            Ok(Some(records)) => deletion.check(&records),
            Ok(None) => return Ok(Ok(Changed::Stale)),
            Err(StoreError::Corrupt(what)) => Err(Error::Unavailable(what.into())),
            Err(error @ (StoreError::Busy | StoreError::Answered | StoreError::Unavailable(_))) => {
                return Err(error);
            }
        };
        if let Err(error) = checked {
            return Ok(Err(error));
        }
    }
    let sql = "-- delete_tenant\nDELETE FROM tenants WHERE id = ?";
    let delete = || transaction.execute(sql, [tenant.0.as_bytes()]).map_err(fault);
    if overwriting(transaction, delete)? == 0 {
        return Ok(Ok(Changed::Stale));
    }
    let sql = "
-- insert_deleted_tenant
INSERT INTO deleted_tenants (id, deleted_at, mac) VALUES (?, ?, ?)";
    let deleted = audit.deleted_tenant(tenant);
    let row = (tenant.0.as_bytes(), deleted.deleted_at.unix_ms, deleted.mac.0);
    transaction.execute(sql, row).map_err(fault)?;
    forget_usage(transaction, tenant)?;
    raise_version(transaction)?;
    insert_last_audit(transaction, tenant, audit, deletion.retention_seconds())?;
    Ok(Ok(Changed::Done))
}

const PURGED_AT_ONCE: i64 = 256;
/// A request that began before the deletion may still leave a token after it.
const STRAGGLERS_MS: i64 = 60_000;

const PURGE: [&str; 6] = [
    "
-- purge_tokens
DELETE FROM tokens WHERE seq IN (SELECT seq FROM tokens WHERE tenant = ?1 LIMIT ?2)",
    "
-- purge_filed
DELETE FROM filed WHERE (tenant, facet, container, created_at, token) IN (
    SELECT tenant, facet, container, created_at, token FROM filed WHERE tenant = ?1 LIMIT ?2)",
    "
-- purge_token_intents
DELETE FROM token_intents WHERE seq IN (
    SELECT seq FROM token_intents WHERE tenant = ?1 LIMIT ?2)",
    "
-- purge_sessions
DELETE FROM sessions WHERE seq IN (SELECT seq FROM sessions WHERE tenant = ?1 LIMIT ?2)",
    "
-- purge_session_events
DELETE FROM session_events WHERE seq IN (
    SELECT seq FROM session_events WHERE tenant = ?1 LIMIT ?2)",
    "
-- purge_guesses
DELETE FROM guesses WHERE (tenant, bucket, number) IN (
    SELECT tenant, bucket, number FROM guesses WHERE tenant = ?1 LIMIT ?2)",
];

/// Rows that cannot be read were not written by us, and are passed over.
pub(super) fn list_deleted_tenants(
    connection: &Connection,
) -> Result<Vec<DeletedTenant>, StoreError> {
    let sql = "
-- list_deleted_tenants
SELECT id, deleted_at, mac FROM deleted_tenants";
    let mut statement = connection.prepare_cached(sql).map_err(fault)?;
    let mut rows = statement.query([]).map_err(fault)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next().map_err(fault)? {
        let Ok(tenant) = row.get(0).map(|it| TenantId(uuid(it))) else { continue };
        let deleted_at = Timestamp { unix_ms: row.get(1).unwrap_or_default() };
        let mac = Mac(row.get(2).unwrap_or_default());
        found.push(DeletedTenant { tenant, deleted_at, mac });
    }
    Ok(found)
}

/// Those of these tenants that have no row any more.
pub(super) fn without_row(
    connection: &Connection,
    tenants: &[TenantId],
) -> Result<Vec<TenantId>, StoreError> {
    let sql = "-- find_tenant\nSELECT EXISTS (SELECT 1 FROM tenants WHERE id = ?1)";
    let mut statement = connection.prepare_cached(sql).map_err(fault)?;
    let mut gone = Vec::new();
    for tenant in tenants {
        let exists = statement.query_row([tenant.0.as_bytes()], |row| row.get(0));
        if !exists.map_err(fault)? {
            gone.push(*tenant);
        }
    }
    Ok(gone)
}

pub(super) fn purge_tenants(
    connection: &Connection,
    tenants: &[TenantId],
    now: Timestamp,
) -> Result<usize, StoreError> {
    let mut purged = 0_usize;
    for tenant in tenants {
        for sql in PURGE {
            let mut statement = connection.prepare_cached(sql).map_err(fault)?;
            let rows = statement.execute((tenant.0.as_bytes(), PURGED_AT_ONCE)).map_err(fault)?;
            purged = purged.saturating_add(rows);
        }
        if purged > 0 {
            return Ok(purged);
        }
        let sql = "
-- forget_deleted_tenant
DELETE FROM deleted_tenants WHERE id = ?1 AND deleted_at <= ?2";
        let before = now.unix_ms.saturating_sub(STRAGGLERS_MS);
        connection.execute(sql, (tenant.0.as_bytes(), before)).map_err(fault)?;
    }
    Ok(purged)
}
