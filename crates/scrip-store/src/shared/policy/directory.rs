//! The policy of every tenant, read whole. A row that we could not have written is reported, and
//! the others are read on.

use std::collections::HashMap;

use scrip_core::{
    id::TenantId,
    policy::{
        ApiKeyRecord, ApplicationRecord, ChangeStamp, DirectoryRecords, PolicyAlteration,
        PolicyRecords, PolicySeal, SignedRow, SystemKeys, TenantRecord,
    },
    store::StoreError,
};
use scrip_seal::{Sealed, WrappedTenantKeys};

use crate::sql::{ColumnReader, MISSING_COLUMNS, Statements, optional, parameters, required};

/// In a transaction that sees one instant: rows from before and after a change would not be one
/// policy.
pub(crate) async fn load_directory(
    client: &impl Statements,
    keys: &KeyTables,
) -> Result<DirectoryRecords, StoreError> {
    let system_keys = find_system_keys(client).await?;
    let version = directory_version(client).await?;
    let mut unreadable = Vec::new();
    let tenants = load_policies(client, keys, None, &mut unreadable).await?;
    Ok(DirectoryRecords { version, system_keys, tenants, unreadable })
}

const FIND_SYSTEM_KEYS: &str = "
-- find_system_keys
SELECT (SELECT wrapped FROM system_keys WHERE name = 'pepper'),
    (SELECT wrapped FROM system_keys WHERE name = 'audit')";

pub(crate) async fn find_system_keys(
    client: &impl Statements,
) -> Result<Option<SystemKeys>, StoreError> {
    let keys = |row: &dyn ColumnReader| Ok((optional(row, 0)?, optional(row, 1)?));
    match client.find(FIND_SYSTEM_KEYS, &[], keys).await?.unwrap_or_default() {
        (Some(pepper), Some(audit_key)) => Ok(Some(SystemKeys { pepper, audit_key })),
        (None, None) => Ok(None),
        (_, _) => Err(StoreError::Corrupt("one of the vault's own keys is missing")),
    }
}

const DIRECTORY_VERSION: &str = "
-- directory_version
SELECT version FROM directory_state";

pub(crate) async fn directory_version(client: &impl Statements) -> Result<i64, StoreError> {
    client.find(DIRECTORY_VERSION, &[], |row| required(row, 0)).await?.ok_or(NO_VERSION)
}

pub(crate) const NO_VERSION: StoreError =
    StoreError::Corrupt("the version of the directory is not one of ours");

/// Of one tenant, inside the transaction that will change it.
pub(crate) async fn load_policy(
    client: &impl Statements,
    keys: &KeyTables,
    tenant: TenantId,
) -> Result<Option<PolicyRecords>, StoreError> {
    let mut unreadable = Vec::new();
    let mut found = load_policies(client, keys, Some(tenant), &mut unreadable).await?;
    if !unreadable.is_empty() {
        return Err(StoreError::Corrupt("a policy row is not one of ours"));
    }
    Ok(found.pop())
}

async fn load_policies(
    client: &impl Statements,
    keys: &KeyTables,
    only_tenant: Option<TenantId>,
    unreadable: &mut Vec<PolicyAlteration>,
) -> Result<Vec<PolicyRecords>, StoreError> {
    let sealing =
        read_table(client, &keys.tenant_keys, only_tenant, unreadable, decode_tenant_key).await?;
    let mut sealing = group_by_tenant(sealing);
    let lasting =
        read_table(client, &keys.permanent_keys, only_tenant, unreadable, decode_wrapped_key)
            .await?;
    let mut lasting = lasting.into_iter().collect::<HashMap<_, _>>();
    let applications =
        read_table(client, &APPLICATIONS, only_tenant, unreadable, decode_application).await?;
    let mut applications = group_by_tenant(applications);
    let api_keys = read_table(client, &API_KEYS, only_tenant, unreadable, decode_api_key).await?;
    let mut api_keys = group_by_tenant(api_keys);
    let mut found = Vec::new();
    for (id, (mut tenant, seal)) in
        read_table(client, &TENANTS, only_tenant, unreadable, decode_tenant).await?
    {
        let mut keys = sealing.remove(&id).unwrap_or_default();
        keys.sort_by_key(|(version, _)| *version);
        tenant.record.keys.sealing = keys;
        // Without one nothing opens, and whoever opens it says so.
        if let Some(key) = lasting.remove(&id) {
            tenant.record.keys.permanent = key;
        }
        let applications = applications.remove(&id).unwrap_or_default();
        let api_keys = api_keys.remove(&id).unwrap_or_default();
        found.push(PolicyRecords { tenant, applications, api_keys, seal });
    }
    let alone = applications.into_keys().chain(api_keys.into_keys());
    for id in alone.chain(sealing.into_keys()).chain(lasting.into_keys()) {
        let what = "it has policy, and no row of its own".to_owned();
        unreadable.push(PolicyAlteration { tenant: Some(id), description: what });
    }
    Ok(found)
}

fn group_by_tenant<T>(rows: Vec<(TenantId, T)>) -> HashMap<TenantId, Vec<T>> {
    let mut groups = HashMap::<_, Vec<_>>::new();
    for (tenant, row) in rows {
        groups.entry(tenant).or_default().push(row);
    }
    groups
}

/// How the rows of a table are read. Two texts, for a condition that may not hold would keep the
/// engine from using an index.
struct PolicyTable {
    kind: &'static str,
    all_tenants: &'static str,
    one_tenant: &'static str,
}

/// The tables of tenants' keys, which the embedded engine keeps apart from other rows. Columns:
/// tenant, key, and the version of a sealing key.
pub(crate) struct KeyTables {
    tenant_keys: PolicyTable,
    permanent_keys: PolicyTable,
}

/// The rows of a table that can be read, each with its tenant, which is its first column.
async fn read_table<T>(
    client: &impl Statements,
    table: &PolicyTable,
    only_tenant: Option<TenantId>,
    unreadable: &mut Vec<PolicyAlteration>,
    parse: fn(&dyn ColumnReader) -> Result<T, StoreError>,
) -> Result<Vec<(TenantId, T)>, StoreError> {
    let row = |row: &dyn ColumnReader| Ok((required(row, 0).ok(), parse(row).ok()));
    let rows = match only_tenant {
        None => client.query(table.all_tenants, &[], row).await?,
        Some(tenant) => client.query(table.one_tenant, &parameters![tenant], row).await?,
    };
    let mut found = Vec::new();
    for (tenant, row) in rows {
        match tenant.zip(row) {
            Some(row) => found.push(row),
            None => {
                let what = format!("a row of kind {} cannot be read", table.kind);
                unreadable.push(PolicyAlteration { tenant, description: what });
            }
        }
    }
    Ok(found)
}

/// A table's two texts, which differ at the end.
macro_rules! policy_table {
    ($kind:literal, $sql:expr, $tenant:literal) => {
        PolicyTable {
            kind: $kind,
            all_tenants: $sql,
            one_tenant: concat!($sql, " WHERE ", $tenant, " = $1"),
        }
    };
}

macro_rules! key_tables {
    ($wrapped:literal) => {
        KeyTables {
            tenant_keys: policy_table!(
                "tenant key",
                concat!(
                    "-- list_tenant_keys\nSELECT tenant, ",
                    $wrapped,
                    ", version FROM tenant_keys"
                ),
                "tenant"
            ),
            permanent_keys: policy_table!(
                "lasting key",
                concat!("-- list_lasting_keys\nSELECT tenant, ", $wrapped, " FROM lasting_keys"),
                "tenant"
            ),
        }
    };
}

/// A row in which something else stands before the key cannot be read.
pub(crate) const SQLITE_KEYS: KeyTables =
    key_tables!("CASE WHEN apart = zeroblob(1024) THEN wrapped END");

pub(crate) const POSTGRES_KEYS: KeyTables = key_tables!("wrapped");

fn decode_tenant_key(row: &dyn ColumnReader) -> Result<(u32, Sealed), StoreError> {
    Ok((required(row, 2)?, decode_wrapped_key(row)?))
}

fn decode_wrapped_key(row: &dyn ColumnReader) -> Result<Sealed, StoreError> {
    required(row, 1)
}

const TENANTS: PolicyTable = policy_table!(
    "tenant",
    "
-- list_tenants
SELECT id, name, kind, settings, quotas, mac, policy_counter, policy_mac, created_by, created_at,
    modified_by, modified_at, deletes_at
FROM tenants",
    "id"
);

fn decode_tenant(
    row: &dyn ColumnReader,
) -> Result<(SignedRow<TenantRecord>, PolicySeal), StoreError> {
    let none =
        WrappedTenantKeys { sealing: Vec::new(), permanent: Sealed::from_stored(Vec::new()) };
    let record = TenantRecord {
        id: required(row, 0)?,
        name: required(row, 1)?,
        kind: required(row, 2)?,
        settings: required(row, 3)?,
        quotas: required(row, 4)?,
        keys: none,
        created: decode_stamp(row, 8)?.ok_or(MISSING_COLUMNS)?,
        modified: decode_stamp(row, 10)?,
        deletes_at: optional(row, 12)?,
    };
    let seal = PolicySeal { counter: required(row, 6)?, mac: required(row, 7)? };
    Ok((SignedRow { record, mac: required(row, 5)? }, seal))
}

const APPLICATIONS: PolicyTable = policy_table!(
    "application",
    "
-- list_applications
SELECT tenant, id, name, kind, access, mac, created_by, created_at, modified_by, modified_at
FROM applications",
    "tenant"
);

fn decode_application(row: &dyn ColumnReader) -> Result<SignedRow<ApplicationRecord>, StoreError> {
    let record = ApplicationRecord {
        id: required(row, 1)?,
        tenant: required(row, 0)?,
        name: required(row, 2)?,
        kind: required(row, 3)?,
        access: required(row, 4)?,
        created: decode_stamp(row, 6)?.ok_or(MISSING_COLUMNS)?,
        modified: decode_stamp(row, 8)?,
    };
    Ok(SignedRow { record, mac: required(row, 5)? })
}

const API_KEYS: PolicyTable = policy_table!(
    "API key",
    "
-- list_api_keys
SELECT tenant, application, id, digest, mac, created_by, created_at
FROM api_keys",
    "tenant"
);

fn decode_api_key(row: &dyn ColumnReader) -> Result<SignedRow<ApiKeyRecord>, StoreError> {
    let record = ApiKeyRecord {
        id: required(row, 2)?,
        tenant: required(row, 0)?,
        application: required(row, 1)?,
        digest: required(row, 3)?,
        created: decode_stamp(row, 5)?.ok_or(MISSING_COLUMNS)?,
    };
    Ok(SignedRow { record, mac: required(row, 4)? })
}

/// Two columns. An operator's stamp has a time only.
fn decode_stamp(row: &dyn ColumnReader, at: usize) -> Result<Option<ChangeStamp>, StoreError> {
    match (optional(row, at)?, optional(row, at.saturating_add(1))?) {
        (None, None) => Ok(None),
        (Some(_), None) => Err(MISSING_COLUMNS),
        (by, Some(at)) => Ok(Some(ChangeStamp { by, at })),
    }
}
