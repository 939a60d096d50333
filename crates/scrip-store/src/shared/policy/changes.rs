//! Policy changes. Each change increments the version that other nodes and processes poll. The
//! engine rolls back a change that returns an error or that finds no row to change.

use scrip_core::{
    Error,
    audit::AuditRecord,
    change::{ChangeOutcome, PolicyEdit},
    policy::{
        ApiKeyRecord, ApplicationRecord, ChangeStamp, ClientKeyRecord, PolicyRecords, PolicySeal,
        PolicyWrite, SignedRow, SystemKeys, TenantDeletion, TenantRecord, proxy::ProxyRecord,
        webhook::WebhookRecord,
    },
    types::{StoreError, id::TenantId},
};
use scrip_seal::WrappedTenantKeys;

use crate::{
    shared::{
        idempotency::insert_commit_extras,
        policy::{
            directory::{KeyTables, NO_VERSION, load_policy},
            unlock_rows::check_tenant_keys,
        },
    },
    sql::{ColumnReader, Execute, Parameter, WriteTransaction, parameters, read_required},
};

/// A request that began before the deletion of its tenant may write rows for this long after it.
pub(crate) const LATE_WRITES_MS: i64 = 60_000;

/// Steps of a policy change that differ between the engines.
pub(crate) trait PolicyTransaction: WriteTransaction {
    const KEYS: KeyTables;

    /// Stores keys that are not stored yet. An existing key is not written again, so that only one
    /// copy exists.
    async fn put_keys(&self, tenant: TenantId, keys: &WrappedTenantKeys) -> Result<(), StoreError>;

    /// Destroys versions of a sealing key; overwrites them, if the engine can.
    async fn delete_sealing_keys(
        &self,
        tenant: TenantId,
        versions: &[u32],
    ) -> Result<(), StoreError>;

    /// Prepares statements that replace or delete wrapped keys of any tenant: SQLite overwrites
    /// the old bytes, and PostgreSQL admits the rows of all tenants.
    async fn begin_key_overwrite(&self) -> Result<(), StoreError>;

    async fn end_key_overwrite(&self) -> Result<(), StoreError>;

    /// Notifies other nodes of the new version, if the engine supports that.
    async fn notify_version_changed(&self) -> Result<(), StoreError>;

    /// Whether another API key of any tenant has this digest.
    async fn is_digest_taken(&self, api_key: &ApiKeyRecord) -> Result<bool, StoreError>;

    /// Whether another proxy of any tenant has the key or the host of this proxy.
    async fn is_proxy_taken(&self, proxy: &ProxyRecord) -> Result<bool, StoreError>;

    /// Deletes a tenant's row with its keys and policy. Returns the number of deleted rows.
    async fn delete_tenant_row(&self, tenant: TenantId) -> Result<usize, StoreError>;

    /// Appends the tenant's final record, sets the retention of its chain, and stops counting its
    /// tokens.
    fn record_tenant_end(&mut self, tenant: TenantId, audit: &AuditRecord, retention: Option<i64>);
}

const INSERT_SYSTEM_KEYS: &str = "
-- insert_system_keys
INSERT INTO system_keys (name, wrapped) VALUES ('pepper', $1), ('audit', $2)";

pub(crate) async fn insert_system_keys(
    client: &impl Execute,
    keys: &SystemKeys,
) -> Result<(), StoreError> {
    let row = parameters![&keys.pepper, &keys.audit_key];
    client.execute(INSERT_SYSTEM_KEYS, &row).await.map(drop)
}

const RAISE_VERSION: &str = "
-- raise_version
UPDATE directory_state SET version = version + 1";

/// Increments the version. Policy changes wait for each other at this row, so that uniqueness
/// checks across tenants are safe.
pub(super) async fn raise_version<T: PolicyTransaction>(transaction: &T) -> Result<(), StoreError> {
    match transaction.execute(RAISE_VERSION, &[]).await? {
        1 => transaction.notify_version_changed().await,
        _ => Err(NO_VERSION),
    }
}

pub(crate) async fn insert_tenant<T: PolicyTransaction>(
    transaction: &mut T,
    records: &PolicyRecords,
    audit: &AuditRecord,
) -> Result<(), StoreError> {
    let id = records.tenant.record.id;
    raise_version(transaction).await?;
    put_tenant(transaction, &records.tenant).await?;
    put_seal(transaction, id, records.seal).await?;
    transaction.append_audit_record(id, audit, &id.to_string(), "done").await
}

/// Loads the current policy, or returns the reason why it cannot be changed.
async fn load_policy_or_error<T: PolicyTransaction>(
    transaction: &T,
    tenant: TenantId,
) -> Result<Result<Option<PolicyRecords>, Error>, StoreError> {
    match load_policy(transaction, &T::KEYS, tenant).await {
        Ok(records) => Ok(Ok(records)),
        Err(StoreError::Corrupt(reason)) => Ok(Err(Error::Unavailable(reason.into()))),
        Err(
            error @ (StoreError::Busy | StoreError::AlreadyCompleted | StoreError::Unavailable(_)),
        ) => Err(error),
    }
}

const FIND_SEAL: &str = "
-- find_seal
SELECT policy_counter, policy_mac FROM tenants WHERE id = $1";

/// Writes a change if the policy still has the seal on which the change was decided. A policy whose
/// rows were altered after that keeps an invalid MAC, because only the decided rows were sealed.
pub(crate) async fn change_policy<T: PolicyTransaction>(
    transaction: &mut T,
    tenant: TenantId,
    edit: PolicyEdit,
) -> Result<Result<ChangeOutcome, Error>, StoreError> {
    let PolicyEdit { base, writes, seal, extras, destroyed_versions } = edit;
    let decode = |row: &dyn ColumnReader| {
        Ok(PolicySeal { counter: read_required(row, 0)?, mac: read_required(row, 1)? })
    };
    match transaction.find(FIND_SEAL, &parameters![tenant], decode).await? {
        None => return Ok(Err(Error::NotFound)),
        Some(current) if current != base => return Ok(Ok(ChangeOutcome::Stale)),
        Some(_) => (),
    }
    raise_version(transaction).await?;
    for write in &writes {
        if let PolicyWrite::PutApiKey(api_key) = write
            && transaction.is_digest_taken(&api_key.record).await?
        {
            return Ok(Err(Error::Conflict { reason: "this key is in use" }));
        }
        if let PolicyWrite::PutProxy(proxy) = write
            && transaction.is_proxy_taken(&proxy.record).await?
        {
            return Ok(Err(Error::Conflict { reason: "another proxy has this host" }));
        }
        apply_write(transaction, tenant, write).await?;
    }
    if !destroyed_versions.is_empty() {
        transaction.delete_sealing_keys(tenant, &destroyed_versions).await?;
    }
    put_seal(transaction, tenant, seal).await?;
    insert_commit_extras(transaction, tenant, &extras, "done").await?;
    Ok(Ok(ChangeOutcome::Done))
}

/// Deletes one version of a sealing key.
pub(crate) const DELETE_SEALING_KEY: &str = "
-- delete_sealing_key
DELETE FROM tenant_keys WHERE tenant = $1 AND version = $2";

/// Finds another API key with the same digest, or this key in a row of another tenant.
pub(crate) const FIND_API_KEY: &str = "
-- find_api_key
SELECT 1 FROM api_keys WHERE digest = $1 AND (id <> $2 OR tenant <> $3)";

/// Finds another proxy with the same key or host, or this proxy in a row of another tenant.
pub(crate) const FIND_PROXY: &str = "
-- find_proxy
SELECT 1 FROM proxies WHERE (digest = $1 OR host = $2) AND (id <> $3 OR tenant <> $4)";

const DELETE_PROXY: &str = "
-- delete_proxy
DELETE FROM proxies WHERE tenant = $1 AND id = $2";

const DELETE_WEBHOOK: &str = "
-- delete_webhook
DELETE FROM webhooks WHERE tenant = $1 AND id = $2";

const DELETE_CLIENT_KEY: &str = "
-- delete_client_key
DELETE FROM client_keys WHERE tenant = $1 AND id = $2";

const DELETE_APPLICATION: &str = "
-- delete_application
DELETE FROM applications WHERE tenant = $1 AND id = $2";

const DELETE_API_KEY: &str = "
-- delete_api_key
DELETE FROM api_keys WHERE tenant = $1 AND id = $2";

async fn apply_write<T: PolicyTransaction>(
    transaction: &T,
    tenant: TenantId,
    write: &PolicyWrite,
) -> Result<(), StoreError> {
    match write {
        PolicyWrite::PutTenant(it) => put_tenant(transaction, it).await,
        PolicyWrite::PutApplication(it) => put_application(transaction, it).await,
        PolicyWrite::PutApiKey(it) => put_api_key(transaction, it).await,
        PolicyWrite::PutProxy(it) => put_proxy(transaction, it).await,
        PolicyWrite::PutWebhook(it) => put_webhook(transaction, it).await,
        PolicyWrite::PutClientKey(it) => put_client_key(transaction, it).await,
        PolicyWrite::RemoveApplication(id) => {
            transaction.execute(DELETE_APPLICATION, &parameters![tenant, *id]).await.map(drop)
        }
        PolicyWrite::RemoveApiKey(id) => {
            transaction.execute(DELETE_API_KEY, &parameters![tenant, *id]).await.map(drop)
        }
        PolicyWrite::RemoveProxy(id) => {
            transaction.execute(DELETE_PROXY, &parameters![tenant, *id]).await.map(drop)
        }
        PolicyWrite::RemoveWebhook(id) => {
            transaction.execute(DELETE_WEBHOOK, &parameters![tenant, *id]).await.map(drop)
        }
        PolicyWrite::RemoveClientKey(id) => {
            transaction.execute(DELETE_CLIENT_KEY, &parameters![tenant, *id]).await.map(drop)
        }
    }
}

/// Returns the two columns of a change stamp.
fn stamp_parameters<'a>(stamp: Option<ChangeStamp>) -> [Parameter<'a>; 2] {
    parameters![stamp.and_then(|it| it.by), stamp.map(|it| it.at)]
}

/// The MACs over the whole policy are written afterwards, by [`put_seal`].
const PUT_TENANT: &str = "
-- put_tenant
INSERT INTO tenants (id, name, kind, settings, quotas, created_by, created_at, modified_by,
    modified_at, deletes_at, mac, policy_counter, policy_mac, sealing_version)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, 0, $12, $13)
ON CONFLICT (id) DO UPDATE SET name = $2, kind = $3, settings = $4, quotas = $5,
    created_by = $6, created_at = $7, modified_by = $8, modified_at = $9, deletes_at = $10, mac = $11,
    sealing_version = $13";

pub(super) async fn put_tenant<T: PolicyTransaction>(
    transaction: &T,
    tenant: &SignedRow<TenantRecord>,
) -> Result<(), StoreError> {
    let record = &tenant.record;
    let [created_by, created_at] = stamp_parameters(Some(record.created));
    let [modified_by, modified_at] = stamp_parameters(record.modified);
    let row = parameters![
        record.id,
        record.name.as_str(),
        record.kind.as_str(),
        record.settings.to_text(),
        record.quotas.to_text(),
        created_by,
        created_at,
        modified_by,
        modified_at,
        record.deletes_at,
        &tenant.mac,
        Vec::<u8>::new(),
        record.keys.promoted,
    ];
    transaction.execute(PUT_TENANT, &row).await?;
    check_tenant_keys(transaction, &record.keys).await?;
    transaction.put_keys(record.id, &record.keys).await
}

const PUT_SEAL: &str = "
-- put_seal
UPDATE tenants SET policy_counter = $1, policy_mac = $2 WHERE id = $3";

pub(super) async fn put_seal(
    transaction: &impl Execute,
    tenant: TenantId,
    seal: PolicySeal,
) -> Result<(), StoreError> {
    let row = parameters![seal.counter, &seal.mac, tenant];
    transaction.execute(PUT_SEAL, &row).await.map(drop)
}

const PUT_APPLICATION: &str = "
-- put_application
INSERT INTO applications (tenant, id, name, kind, access, created_by, created_at, modified_by,
    modified_at, mac, origins)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
ON CONFLICT (tenant, id) DO UPDATE SET name = $3, kind = $4, access = $5, modified_by = $8,
    modified_at = $9, mac = $10, origins = $11";

pub(super) async fn put_application(
    transaction: &impl Execute,
    application: &SignedRow<ApplicationRecord>,
) -> Result<(), StoreError> {
    let record = &application.record;
    let [created_by, created_at] = stamp_parameters(Some(record.created));
    let [modified_by, modified_at] = stamp_parameters(record.modified);
    let row = parameters![
        record.tenant,
        record.id,
        record.name.as_str(),
        record.kind.as_str(),
        record.access.to_text(),
        created_by,
        created_at,
        modified_by,
        modified_at,
        &application.mac,
        record.origins.to_text(),
    ];
    transaction.execute(PUT_APPLICATION, &row).await.map(drop)
}

const PUT_API_KEY: &str = "
-- put_api_key
INSERT INTO api_keys (tenant, application, id, digest, created_by, created_at, mac)
VALUES ($1, $2, $3, $4, $5, $6, $7)";

pub(super) async fn put_api_key(
    transaction: &impl Execute,
    api_key: &SignedRow<ApiKeyRecord>,
) -> Result<(), StoreError> {
    let record = &api_key.record;
    let [created_by, created_at] = stamp_parameters(Some(record.created));
    let row = parameters![
        record.tenant,
        record.application,
        record.id,
        &record.digest,
        created_by,
        created_at,
        &api_key.mac,
    ];
    transaction.execute(PUT_API_KEY, &row).await.map(drop)
}

const PUT_PROXY: &str = "
-- put_proxy
INSERT INTO proxies (tenant, id, digest, name, application, require_auth, disable_detokenization,
    host, settings, secrets, created_by, created_at, modified_by, modified_at, mac)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
ON CONFLICT (tenant, id) DO UPDATE SET name = $4, application = $5, require_auth = $6,
    disable_detokenization = $7, host = $8, settings = $9, secrets = $10, modified_by = $13,
    modified_at = $14, mac = $15";

pub(super) async fn put_proxy(
    transaction: &impl Execute,
    proxy: &SignedRow<ProxyRecord>,
) -> Result<(), StoreError> {
    let record = &proxy.record;
    let [created_by, created_at] = stamp_parameters(Some(record.created));
    let [modified_by, modified_at] = stamp_parameters(record.modified);
    let row = parameters![
        record.tenant,
        record.id,
        &record.digest,
        record.name.as_str(),
        record.application,
        record.require_auth,
        record.disable_detokenization,
        record.host.as_ref().map(|it| it.as_str()),
        &record.settings,
        &record.secrets,
        created_by,
        created_at,
        modified_by,
        modified_at,
        &proxy.mac,
    ];
    transaction.execute(PUT_PROXY, &row).await.map(drop)
}

const PUT_WEBHOOK: &str = "
-- put_webhook
INSERT INTO webhooks (tenant, id, name, status, events, settings, secrets, created_by, created_at,
    modified_by, modified_at, mac)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
ON CONFLICT (tenant, id) DO UPDATE SET name = $3, status = $4, events = $5, settings = $6,
    secrets = $7, modified_by = $10, modified_at = $11, mac = $12";

pub(super) async fn put_webhook(
    transaction: &impl Execute,
    webhook: &SignedRow<WebhookRecord>,
) -> Result<(), StoreError> {
    let record = &webhook.record;
    let [created_by, created_at] = stamp_parameters(Some(record.created));
    let [modified_by, modified_at] = stamp_parameters(record.modified);
    let row = parameters![
        record.tenant,
        record.id,
        record.name.as_str(),
        record.status.as_str(),
        record.events.to_text(),
        &record.settings,
        &record.secrets,
        created_by,
        created_at,
        modified_by,
        modified_at,
        &webhook.mac,
    ];
    transaction.execute(PUT_WEBHOOK, &row).await.map(drop)
}

const PUT_CLIENT_KEY: &str = "
-- put_client_key
INSERT INTO client_keys (tenant, id, expires_at, private_key, created_by, created_at, mac)
VALUES ($1, $2, $3, $4, $5, $6, $7)";

pub(super) async fn put_client_key(
    transaction: &impl Execute,
    client_key: &SignedRow<ClientKeyRecord>,
) -> Result<(), StoreError> {
    let record = &client_key.record;
    let [created_by, created_at] = stamp_parameters(Some(record.created));
    let row = parameters![
        record.tenant,
        record.id,
        record.expires_at,
        &record.private_key,
        created_by,
        created_at,
        &client_key.mac,
    ];
    transaction.execute(PUT_CLIENT_KEY, &row).await.map(drop)
}

const DELETE_USAGE: [&str; 2] = [
    "-- delete_usage_types\nDELETE FROM usage_types WHERE tenant = $1",
    "-- delete_usage_months\nDELETE FROM usage_months WHERE tenant = $1",
];

/// An attacker may have inserted the row, and leftovers may be deleted again.
const REMOVE_DELETED_TENANT: &str = "
-- remove_deleted_tenant
DELETE FROM deleted_tenants WHERE id = $1";

const INSERT_DELETED_TENANT: &str = "
-- insert_deleted_tenant
INSERT INTO deleted_tenants (id, deleted_at, mac) VALUES ($1, $2, $3)";

pub(crate) async fn delete_tenant<T: PolicyTransaction>(
    transaction: &mut T,
    deletion: &TenantDeletion,
    audit: &AuditRecord,
) -> Result<Result<ChangeOutcome, Error>, StoreError> {
    let tenant = deletion.tenant();
    if deletion.requires_policy_check() {
        let check_result = match load_policy_or_error(transaction, tenant).await? {
            Ok(Some(records)) => deletion.check(&records),
            Ok(None) => return Ok(Ok(ChangeOutcome::Stale)),
            Err(error) => Err(error),
        };
        if let Err(error) = check_result {
            return Ok(Err(error));
        }
    }
    raise_version(transaction).await?;
    for sql in DELETE_USAGE {
        transaction.execute(sql, &parameters![tenant]).await?;
    }
    if transaction.delete_tenant_row(tenant).await? == 0 {
        return Ok(Ok(ChangeOutcome::Stale));
    }
    let deleted_tenant = audit.sign_deleted_tenant(tenant);
    let row = parameters![tenant, deleted_tenant.deleted_at, &deleted_tenant.mac];
    transaction.execute(REMOVE_DELETED_TENANT, &parameters![tenant]).await?;
    transaction.execute(INSERT_DELETED_TENANT, &row).await?;
    transaction.append_audit_record(tenant, audit, &tenant.to_string(), "done").await?;
    transaction.record_tenant_end(tenant, audit, deletion.retention_seconds());
    Ok(Ok(ChangeOutcome::Done))
}

/// Deletes a tenant's row.
pub(crate) const DELETE_TENANT: &str = "-- delete_tenant\nDELETE FROM tenants WHERE id = $1";
