//! The policy of every tenant, read whole. A row that we could not have written is reported, and
//! the others are read on.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension, Row, params_from_iter};
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

use crate::sqlite::{fault, row::uuid};

/// What stands before a key in its row, so that the key lies on a page of its own: see the schema.
pub(super) const APART: [u8; 1024] = [0; 1024];

/// In one transaction: rows from before and after a change would not be one policy.
pub(super) fn load_directory(connection: &Connection) -> Result<DirectoryRecords, StoreError> {
    let transaction = connection.unchecked_transaction().map_err(fault)?;
    let system_keys = find_system_keys(&transaction)?;
    let version = directory_version(&transaction)?;
    let mut unreadable = Vec::new();
    let tenants = load_policies(&transaction, None, &mut unreadable)?;
    Ok(DirectoryRecords { version, system_keys, tenants, unreadable })
}

pub(super) fn find_system_keys(connection: &Connection) -> Result<Option<SystemKeys>, StoreError> {
    let find = |name: &str| {
        let sql = "-- find_system_key\nSELECT wrapped FROM system_keys WHERE name = ?1";
        let found = connection.query_row(sql, [name], |row| row.get(0)).optional();
        Ok(found.map_err(fault)?.map(Sealed::from_stored))
    };
    match (find("pepper")?, find("audit")?) {
        (Some(pepper), Some(audit_key)) => Ok(Some(SystemKeys { pepper, audit_key })),
        (None, None) => Ok(None),
        (_, _) => Err(StoreError::Corrupt("one of the vault's own keys is missing")),
    }
}

pub(super) fn directory_version(connection: &Connection) -> Result<i64, StoreError> {
    let sql = "-- directory_version\nSELECT version FROM directory_state";
    connection
        .prepare_cached(sql)
        .and_then(|mut it| it.query_row([], |row| row.get(0)))
        .map_err(fault)
}

/// Of one tenant, inside the transaction that will change it.
pub(super) fn load_policy(
    connection: &Connection,
    tenant: TenantId,
) -> Result<Option<PolicyRecords>, StoreError> {
    let mut unreadable = Vec::new();
    let mut found = load_policies(connection, Some(tenant), &mut unreadable)?;
    if !unreadable.is_empty() {
        return Err(StoreError::Corrupt("a policy row is not one of ours"));
    }
    Ok(found.pop())
}

fn load_policies(
    connection: &Connection,
    only: Option<TenantId>,
    unreadable: &mut Vec<Alteration>,
) -> Result<Vec<PolicyRecords>, StoreError> {
    let keys = read(connection, &TENANT_KEYS, only, unreadable, tenant_key)?;
    let mut sealing = grouped(keys);
    let keys = read(connection, &LASTING_KEYS, only, unreadable, wrapped_key)?;
    let mut lasting = keys.into_iter().collect::<HashMap<_, _>>();
    let applications = read(connection, &APPLICATIONS, only, unreadable, application)?;
    let mut applications = grouped(applications);
    let api_keys = read(connection, &API_KEYS, only, unreadable, api_key)?;
    let mut api_keys = grouped(api_keys);
    let mut found = Vec::new();
    for (id, (mut tenant, seal)) in read(connection, &TENANTS, only, unreadable, tenant)? {
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
fn read<T>(
    connection: &Connection,
    table: &Table,
    only: Option<TenantId>,
    unreadable: &mut Vec<Alteration>,
    parse: impl Fn(&Row<'_>) -> Option<T>,
) -> Result<Vec<(TenantId, T)>, StoreError> {
    let sql = if only.is_some() { table.of_one } else { table.all };
    let mut statement = connection.prepare_cached(sql).map_err(fault)?;
    let only = only.iter().map(|it| it.0.as_bytes());
    let mut rows = statement.query(params_from_iter(only)).map_err(fault)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next().map_err(fault)? {
        let tenant = row.get(0).ok().map(|it| TenantId(uuid(it)));
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

/// A table's two texts, which differ at the end.
macro_rules! table {
    ($kind:literal, $sql:literal, $tenant:literal) => {
        Table { kind: $kind, all: $sql, of_one: concat!($sql, " WHERE ", $tenant, " = ?1") }
    };
}

const TENANT_KEYS: Table = table!(
    "tenant key",
    "
-- list_tenant_keys
SELECT tenant, apart, wrapped, version FROM tenant_keys",
    "tenant"
);

fn tenant_key(row: &Row<'_>) -> Option<(u32, Sealed)> {
    Some((row.get(3).ok()?, wrapped_key(row)?))
}

const LASTING_KEYS: Table = table!(
    "lasting key",
    "
-- list_lasting_keys
SELECT tenant, apart, wrapped FROM lasting_keys",
    "tenant"
);

fn wrapped_key(row: &Row<'_>) -> Option<Sealed> {
    let is_apart = row.get_ref(1).ok()?.as_blob().ok()? == APART;
    is_apart.then_some(Sealed::from_stored(row.get(2).ok()?))
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

fn tenant(row: &Row<'_>) -> Option<(Signed<TenantRecord>, PolicySeal)> {
    let none = WrappedTenantKeys { sealing: Vec::new(), lasting: Sealed::from_stored(Vec::new()) };
    let record = TenantRecord {
        id: TenantId(uuid(row.get(0).ok()?)),
        name: Name::from_stored(&text(row, 1)?)?,
        kind: TenantKind::parse(&text(row, 2)?)?,
        settings: Settings::from_text(&text(row, 3)?)?,
        quotas: Quotas::from_text(&text(row, 4)?)?,
        keys: none,
        created: stamp(row, 8)??,
        modified: stamp(row, 10)?,
        deletes_at: row.get::<_, Option<i64>>(12).ok()?.map(|unix_ms| Timestamp { unix_ms }),
    };
    let seal = PolicySeal { counter: row.get(6).ok()?, mac: Mac(row.get(7).ok()?) };
    Some((Signed { record, mac: Mac(row.get(5).ok()?) }, seal))
}

const APPLICATIONS: Table = table!(
    "application",
    "
-- list_applications
SELECT tenant, id, name, kind, access, mac, created_by, created_at, modified_by, modified_at
FROM applications",
    "tenant"
);

fn application(row: &Row<'_>) -> Option<Signed<ApplicationRecord>> {
    let record = ApplicationRecord {
        id: ApplicationId(uuid(row.get(1).ok()?)),
        tenant: TenantId(uuid(row.get(0).ok()?)),
        name: Name::from_stored(&text(row, 2)?)?,
        kind: ApplicationKind::parse(&text(row, 3)?)?,
        access: AccessPolicy::from_text(&text(row, 4)?)?,
        created: stamp(row, 6)??,
        modified: stamp(row, 8)?,
    };
    Some(Signed { record, mac: Mac(row.get(5).ok()?) })
}

const API_KEYS: Table = table!(
    "API key",
    "
-- list_api_keys
SELECT tenant, application, id, digest, mac, created_by, created_at
FROM api_keys",
    "tenant"
);

fn api_key(row: &Row<'_>) -> Option<Signed<ApiKeyRecord>> {
    let record = ApiKeyRecord {
        id: ApiKeyId(uuid(row.get(2).ok()?)),
        tenant: TenantId(uuid(row.get(0).ok()?)),
        application: ApplicationId(uuid(row.get(1).ok()?)),
        digest: row.get(3).ok()?,
        created: stamp(row, 5)??,
    };
    Some(Signed { record, mac: Mac(row.get(4).ok()?) })
}

pub(super) fn text(row: &Row<'_>, at: usize) -> Option<String> {
    row.get(at).ok()
}

/// Two columns. The outer nothing is a row that cannot be read; the inner one is no stamp.
fn stamp(row: &Row<'_>, at: usize) -> Option<Option<Stamp>> {
    let by: Option<[u8; 16]> = row.get(at).ok()?;
    let unix_ms: Option<i64> = row.get(at.saturating_add(1)).ok()?;
    match (by, unix_ms) {
        (None, None) => Some(None),
        (Some(_), None) => None,
        (by, Some(unix_ms)) => {
            let by = by.map(|it| ApplicationId(uuid(it)));
            Some(Some(Stamp { by, at: Timestamp { unix_ms } }))
        }
    }
}
