//! The policy of every tenant, read whole. A row that we could not have written is reported, and
//! the others are read on.

use std::collections::HashMap;

use scrip_core::{
    access::AccessPolicy,
    application::{ApiKeyRecord, ApplicationRecord, Name},
    directory::{DirectoryRecords, SystemKeys},
    id::{ApiKeyId, ApplicationId, TenantId},
    permission::ApplicationKind,
    policy::{Alteration, PolicyRecords, PolicySeal, Signed, Stamp},
    quota::Quotas,
    store::StoreError,
    tenant::{Settings, TenantKind, TenantRecord},
    time::Timestamp,
};
use scrip_seal::{Mac, Sealed, WrappedTenantKeys};
use tokio_postgres::{Row, types::FromSql};
use uuid::Uuid;

use crate::postgres::{
    row::column,
    statement::{PostgresClient, query},
};

/// In a transaction that sees one instant: rows from before and after a change would not be one
/// policy.
pub(super) async fn load_directory(
    client: &impl PostgresClient,
) -> Result<DirectoryRecords, StoreError> {
    let system_keys = find_system_keys(client).await?;
    let version = directory_version(client).await?;
    let mut unreadable = Vec::new();
    let tenants = load_policies(client, None, &mut unreadable).await?;
    Ok(DirectoryRecords { version, system_keys, tenants, unreadable })
}

async fn find_system_keys(client: &impl PostgresClient) -> Result<Option<SystemKeys>, StoreError> {
    let sql = "
-- find_system_keys
SELECT (SELECT wrapped FROM system_keys WHERE name = 'pepper'),
    (SELECT wrapped FROM system_keys WHERE name = 'audit')";
    let rows = query(client, sql, &[]).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let key = |at| Ok(column::<Option<Vec<u8>>>(row, at)?.map(Sealed::from_stored));
    match (key(0)?, key(1)?) {
        (Some(pepper), Some(audit_key)) => Ok(Some(SystemKeys { pepper, audit_key })),
        (None, None) => Ok(None),
        (_, _) => Err(StoreError::Corrupt("one of the vault's own keys is missing")),
    }
}

pub(super) async fn directory_version(client: &impl PostgresClient) -> Result<i64, StoreError> {
    let sql = "-- directory_version\nSELECT version FROM directory_state WHERE one = 1";
    let rows = query(client, sql, &[]).await?;
    let row = rows.first().ok_or(NO_VERSION)?;
    column(row, 0)
}

pub(super) const NO_VERSION: StoreError =
    StoreError::Corrupt("the version of the directory is not one of ours");

/// Of one tenant, inside the transaction that will change it.
pub(super) async fn load_policy(
    client: &impl PostgresClient,
    tenant: TenantId,
) -> Result<Option<PolicyRecords>, StoreError> {
    let mut unreadable = Vec::new();
    let mut found = load_policies(client, Some(tenant), &mut unreadable).await?;
    if !unreadable.is_empty() {
        return Err(StoreError::Corrupt("a policy row is not one of ours"));
    }
    Ok(found.pop())
}

async fn load_policies(
    client: &impl PostgresClient,
    only: Option<TenantId>,
    unreadable: &mut Vec<Alteration>,
) -> Result<Vec<PolicyRecords>, StoreError> {
    let keys = read(client, &TENANT_KEYS, only, unreadable, tenant_key).await?;
    let mut sealing = grouped(keys);
    let keys = read(client, &LASTING_KEYS, only, unreadable, wrapped_key).await?;
    let mut lasting = keys.into_iter().collect::<HashMap<_, _>>();
    let applications = read(client, &APPLICATIONS, only, unreadable, application).await?;
    let mut applications = grouped(applications);
    let api_keys = read(client, &API_KEYS, only, unreadable, api_key).await?;
    let mut api_keys = grouped(api_keys);
    let mut found = Vec::new();
    for (id, (mut tenant, seal)) in read(client, &TENANTS, only, unreadable, tenant).await? {
        let mut keys = sealing.remove(&id).unwrap_or_default();
        keys.sort_by_key(|(version, _)| *version);
        tenant.record.keys.sealing = keys;
        // Without one nothing opens, and whoever opens it says so.
        if let Some(key) = lasting.remove(&id) {
            tenant.record.keys.lasting = key;
        }
        let applications = applications.remove(&id).unwrap_or_default();
        let api_keys = api_keys.remove(&id).unwrap_or_default();
        found.push(PolicyRecords { tenant, applications, api_keys, seal });
    }
    let alone = applications.into_keys().chain(api_keys.into_keys());
    for id in alone.chain(sealing.into_keys()).chain(lasting.into_keys()) {
        let what = "it has policy, and no row of its own".to_owned();
        unreadable.push(Alteration { tenant: Some(id), what });
    }
    Ok(found)
}

fn grouped<T>(rows: Vec<(TenantId, T)>) -> HashMap<TenantId, Vec<T>> {
    let mut groups = HashMap::<_, Vec<_>>::new();
    for (tenant, row) in rows {
        groups.entry(tenant).or_default().push(row);
    }
    groups
}

/// How the rows of a table are read. Two texts, for a condition that may not hold would keep the
/// engine from using an index.
struct Table {
    kind: &'static str,
    all: &'static str,
    of_one: &'static str,
}

/// The rows of a table that can be read, each with its tenant, which is its first column.
async fn read<T>(
    client: &impl PostgresClient,
    table: &Table,
    only: Option<TenantId>,
    unreadable: &mut Vec<Alteration>,
    parse: fn(&Row) -> Option<T>,
) -> Result<Vec<(TenantId, T)>, StoreError> {
    let rows = match only {
        None => query(client, table.all, &[]).await?,
        Some(tenant) => query(client, table.of_one, &[&tenant.0]).await?,
    };
    let mut found = Vec::new();
    for row in &rows {
        let tenant = get(row, 0).map(TenantId);
        match tenant.zip(parse(row)) {
            Some(row) => found.push(row),
            None => {
                let what = format!("a row of kind {} cannot be read", table.kind);
                unreadable.push(Alteration { tenant, what });
            }
        }
    }
    Ok(found)
}

fn get<'a, T: FromSql<'a>>(row: &'a Row, at: usize) -> Option<T> {
    row.try_get(at).ok()
}

fn bytes<const N: usize>(row: &Row, at: usize) -> Option<[u8; N]> {
    get::<&[u8]>(row, at)?.try_into().ok()
}

/// A table's two texts, which differ at the end.
macro_rules! table {
    ($kind:literal, $sql:literal, $tenant:literal) => {
        Table { kind: $kind, all: $sql, of_one: concat!($sql, " WHERE ", $tenant, " = $1") }
    };
}

const TENANT_KEYS: Table = table!(
    "tenant key",
    "
-- list_tenant_keys
SELECT tenant, wrapped, version FROM tenant_keys",
    "tenant"
);

fn tenant_key(row: &Row) -> Option<(u32, Sealed)> {
    Some((get::<i64>(row, 2)?.try_into().ok()?, wrapped_key(row)?))
}

const LASTING_KEYS: Table = table!(
    "lasting key",
    "
-- list_lasting_keys
SELECT tenant, wrapped FROM lasting_keys",
    "tenant"
);

fn wrapped_key(row: &Row) -> Option<Sealed> {
    get(row, 1).map(Sealed::from_stored)
}

const TENANTS: Table = table!(
    "tenant",
    "
-- list_tenants
SELECT id, name, kind, settings, quotas, mac, policy_counter, policy_mac, created_by, created_at,
    modified_by, modified_at, deletes_at
FROM tenants",
    "id"
);

fn tenant(row: &Row) -> Option<(Signed<TenantRecord>, PolicySeal)> {
    let none = WrappedTenantKeys { sealing: Vec::new(), lasting: Sealed::from_stored(Vec::new()) };
    let record = TenantRecord {
        id: TenantId(get(row, 0)?),
        name: Name::from_stored(get(row, 1)?)?,
        kind: TenantKind::parse(get(row, 2)?)?,
        settings: Settings::from_text(get(row, 3)?)?,
        quotas: Quotas::from_text(get(row, 4)?)?,
        keys: none,
        created: stamp(row, 8)??,
        modified: stamp(row, 10)?,
        deletes_at: get::<Option<i64>>(row, 12)?.map(|unix_ms| Timestamp { unix_ms }),
    };
    let seal = PolicySeal { counter: get(row, 6)?, mac: Mac(bytes(row, 7)?) };
    Some((Signed { record, mac: Mac(bytes(row, 5)?) }, seal))
}

const APPLICATIONS: Table = table!(
    "application",
    "
-- list_applications
SELECT tenant, id, name, kind, access, mac, created_by, created_at, modified_by, modified_at
FROM applications",
    "tenant"
);

fn application(row: &Row) -> Option<Signed<ApplicationRecord>> {
    let record = ApplicationRecord {
        id: ApplicationId(get(row, 1)?),
        tenant: TenantId(get(row, 0)?),
        name: Name::from_stored(get(row, 2)?)?,
        kind: ApplicationKind::parse(get(row, 3)?)?,
        access: AccessPolicy::from_text(get(row, 4)?)?,
        created: stamp(row, 6)??,
        modified: stamp(row, 8)?,
    };
    Some(Signed { record, mac: Mac(bytes(row, 5)?) })
}

const API_KEYS: Table = table!(
    "API key",
    "
-- list_api_keys
SELECT tenant, application, id, digest, mac, created_by, created_at
FROM api_keys",
    "tenant"
);

fn api_key(row: &Row) -> Option<Signed<ApiKeyRecord>> {
    let record = ApiKeyRecord {
        id: ApiKeyId(get(row, 2)?),
        tenant: TenantId(get(row, 0)?),
        application: ApplicationId(get(row, 1)?),
        digest: bytes(row, 3)?,
        created: stamp(row, 5)??,
    };
    Some(Signed { record, mac: Mac(bytes(row, 4)?) })
}

/// Two columns. The outer nothing is a row that cannot be read; the inner one is no stamp.
fn stamp(row: &Row, at: usize) -> Option<Option<Stamp>> {
    let by: Option<Uuid> = get(row, at)?;
    let unix_ms: Option<i64> = get(row, at.saturating_add(1))?;
    match (by, unix_ms) {
        (None, None) => Some(None),
        (Some(_), None) => None,
        (by, Some(unix_ms)) => {
            let by = by.map(ApplicationId);
            Some(Some(Stamp { by, at: Timestamp { unix_ms } }))
        }
    }
}
