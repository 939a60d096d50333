//! Reads the policy of every tenant. A row that Scrip cannot have written is reported, and the
//! other rows are still read.

use std::collections::HashMap;

use scrip_core::{
    change::StoredPolicy,
    policy::{
        DirectoryRecords, EntityRow, POLICY_ENTITIES, PolicyAlteration, PolicyEntity,
        PolicyRecords, PolicySeal, SignedRow, SystemKeys, TenantRecord,
        entity::{Entity, InvalidRow, RowSource},
        tenant::record::TENANT,
    },
    types::{StoreError, id::TenantId},
};
use scrip_seal::Sealed;

use crate::{
    shared::policy::{statements::statements, unlock_rows::load_unlocks},
    sql::{
        ColumnReader, EntityColumns, MISSING_COLUMNS, Statements, parameters, read_optional,
        read_required,
    },
};

/// Loads the policy of all tenants. The caller provides one read snapshot: a mix of rows from
/// before and after a change would not be a valid policy.
pub(crate) async fn load_directory(
    client: &impl Statements,
    keys: &KeyTables,
) -> Result<DirectoryRecords, StoreError> {
    let system_keys = find_system_keys(client).await?;
    let version = directory_version(client).await?;
    let unlocks = load_unlocks(client, keys.list_unlocks).await?;
    let mut unreadable = Vec::new();
    let tenants = load_policies(client, keys, None, &mut unreadable).await?;
    Ok(DirectoryRecords { version, system_keys, unlocks, tenants, unreadable })
}

const FIND_SYSTEM_KEYS: &str = "
-- find_system_keys
SELECT (SELECT wrapped FROM system_keys WHERE name = 'pepper'),
    (SELECT wrapped FROM system_keys WHERE name = 'audit')";

pub(crate) async fn find_system_keys(
    client: &impl Statements,
) -> Result<Option<SystemKeys>, StoreError> {
    let decode_keys = |row: &dyn ColumnReader| Ok((read_optional(row, 0)?, read_optional(row, 1)?));
    match client.find(FIND_SYSTEM_KEYS, &[], decode_keys).await?.unwrap_or_default() {
        (Some(pepper), Some(audit_key)) => Ok(Some(SystemKeys { pepper, audit_key })),
        (None, None) => Ok(None),
        (_, _) => Err(StoreError::Corrupt("a vault key is missing")),
    }
}

const FIND_WEBHOOK_SIGNING_KEY: &str = "
-- find_webhook_signing_key
SELECT wrapped FROM system_keys WHERE name = 'webhook_signing'";

pub(crate) async fn find_webhook_signing_key(
    client: &impl Statements,
) -> Result<Option<Sealed>, StoreError> {
    client.find(FIND_WEBHOOK_SIGNING_KEY, &[], |row| read_required(row, 0)).await
}

const DIRECTORY_VERSION: &str = "
-- directory_version
SELECT version FROM directory_state";

pub(crate) async fn directory_version(client: &impl Statements) -> Result<i64, StoreError> {
    client.find(DIRECTORY_VERSION, &[], |row| read_required(row, 0)).await?.ok_or(NO_VERSION)
}

pub(crate) const NO_VERSION: StoreError = StoreError::Corrupt("the directory version is invalid");

/// Loads the policy of one tenant in the transaction that changes it.
pub(crate) async fn load_policy(
    client: &impl Statements,
    keys: &KeyTables,
    tenant: TenantId,
) -> Result<Option<PolicyRecords>, StoreError> {
    let mut unreadable = Vec::new();
    let mut policies = load_policies(client, keys, Some(tenant), &mut unreadable).await?;
    if !unreadable.is_empty() {
        return Err(StoreError::Corrupt("a policy row is invalid"));
    }
    Ok(policies.pop())
}

/// Loads the policy of one tenant for its restoration: the rows may be altered.
pub(crate) async fn load_stored_policy(
    client: &impl Statements,
    keys: &KeyTables,
    tenant: TenantId,
) -> Result<StoredPolicy, StoreError> {
    let mut unreadable = Vec::new();
    let records = load_policies(client, keys, Some(tenant), &mut unreadable).await?.pop();
    Ok(StoredPolicy { records, unreadable, deletions: Vec::new() })
}

pub(crate) async fn load_policies(
    client: &impl Statements,
    keys: &KeyTables,
    only_tenant: Option<TenantId>,
    unreadable: &mut Vec<PolicyAlteration>,
) -> Result<Vec<PolicyRecords>, StoreError> {
    let sealing_keys =
        read_table(client, &keys.tenant_keys, only_tenant, unreadable, decode_tenant_key).await?;
    let permanent_keys =
        read_table(client, &keys.permanent_keys, only_tenant, unreadable, decode_permanent_key);
    let permanent_keys = permanent_keys.await?;
    let mut rows = PolicyRows { sealing_keys, permanent_keys, ..PolicyRows::default() };
    for PolicyEntity { entity, read } in POLICY_ENTITIES {
        let table = PolicyTable::for_entity(entity)?;
        let decode = |row: &dyn ColumnReader| decode_row(row, read);
        rows.rows.extend(read_table(client, &table, only_tenant, unreadable, decode).await?);
    }
    let tenants = PolicyTable::for_entity(&TENANT)?;
    rows.tenants = read_table(client, &tenants, only_tenant, unreadable, decode_tenant).await?;
    Ok(rows.into_policies(unreadable))
}

/// The decoded rows of all policy tables, each with its tenant.
#[derive(Default)]
pub(crate) struct PolicyRows {
    pub(crate) sealing_keys: Vec<(TenantId, (u32, Sealed))>,
    pub(crate) permanent_keys: Vec<(TenantId, Sealed)>,
    /// The rows of all entities except the tenants.
    pub(crate) rows: Vec<(TenantId, EntityRow)>,
    pub(crate) tenants: Vec<(TenantId, (SignedRow<TenantRecord>, PolicySeal))>,
}

impl PolicyRows {
    /// Groups the rows by tenant. Adds rows without a tenant to `unreadable`.
    pub(crate) fn into_policies(
        mut self,
        unreadable: &mut Vec<PolicyAlteration>,
    ) -> Vec<PolicyRecords> {
        self.sealing_keys.sort_by_key(|(_, (version, _))| *version);
        let mut sealing_keys = group_by_tenant(self.sealing_keys);
        let mut permanent_keys = self.permanent_keys.into_iter().collect::<HashMap<_, _>>();
        let mut rows = group_by_tenant(self.rows);
        let mut policies = Vec::new();
        for (id, (mut tenant, seal)) in self.tenants {
            tenant.record.keys.sealing = sealing_keys.remove(&id).unwrap_or_default();
            // If the key is missing, opening a sealed value reports the error.
            if let Some(key) = permanent_keys.remove(&id) {
                tenant.record.keys.permanent = key;
            }
            let rows = rows.remove(&id).unwrap_or_default();
            policies.push(PolicyRecords::from_rows(tenant, seal, rows));
        }
        let orphans = rows.into_keys().chain(sealing_keys.into_keys());
        for id in orphans.chain(permanent_keys.into_keys()) {
            let description = "policy rows exist, but the tenant's row is missing".to_owned();
            unreadable.push(PolicyAlteration { tenant: Some(id), description });
        }
        policies
    }
}

fn group_by_tenant<T>(rows: Vec<(TenantId, T)>) -> HashMap<TenantId, Vec<T>> {
    let mut groups = HashMap::<_, Vec<_>>::new();
    for (tenant, row) in rows {
        groups.entry(tenant).or_default().push(row);
    }
    groups
}

/// The statements that read a table. There are two statements, because a conditional filter would
/// prevent the use of an index.
struct PolicyTable {
    kind: &'static str,
    all_tenants: &'static str,
    one_tenant: &'static str,
}

impl PolicyTable {
    fn for_entity(entity: &Entity) -> Result<Self, StoreError> {
        let statements = statements(entity)?;
        let (all_tenants, one_tenant) = (&statements.list, &statements.list_of_tenant);
        Ok(Self { kind: entity.kind, all_tenants, one_tenant })
    }
}

/// The tables of wrapped keys. SQLite stores them on separate pages. Columns: tenant, the
/// version of a sealing key, and the key.
pub(crate) struct KeyTables {
    tenant_keys: PolicyTable,
    permanent_keys: PolicyTable,
    pub(crate) list_unlocks: &'static str,
    pub(crate) insert_unlock: &'static str,
}

/// Reads the decodable rows of a table, each with its tenant, which is the first column. Adds the
/// other rows to `unreadable`.
async fn read_table<T>(
    client: &impl Statements,
    table: &PolicyTable,
    only_tenant: Option<TenantId>,
    unreadable: &mut Vec<PolicyAlteration>,
    decode: impl Fn(&dyn ColumnReader) -> Result<T, StoreError>,
) -> Result<Vec<(TenantId, T)>, StoreError> {
    let decode_row = |row: &dyn ColumnReader| Ok((read_required(row, 0).ok(), decode(row).ok()));
    let rows = match only_tenant {
        None => client.query(table.all_tenants, &[], decode_row).await?,
        Some(tenant) => client.query(table.one_tenant, &parameters![tenant], decode_row).await?,
    };
    let mut decoded_rows = Vec::new();
    for (tenant, row) in rows {
        match tenant.zip(row) {
            Some(decoded_row) => decoded_rows.push(decoded_row),
            None => {
                let description = format!("a row of kind {} cannot be read", table.kind);
                unreadable.push(PolicyAlteration { tenant, description });
            }
        }
    }
    Ok(decoded_rows)
}

/// Reads the key as NULL if the padding before it was altered, so that the row cannot be decoded.
pub(crate) const SQLITE_KEYS: KeyTables = KeyTables {
    list_unlocks: "
-- list_unlocks
SELECT id, CASE WHEN padding = zeroblob(1024) THEN wrapped END, kind, label, parameters,
    key_version, created_at, checked_at, state, mac
FROM unlocks",
    insert_unlock: "
-- insert_unlock
INSERT INTO unlocks (id, wrapped, kind, label, parameters, key_version, created_at, checked_at,
    state, mac, padding)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, zeroblob(1024))",
    tenant_keys: PolicyTable {
        kind: "tenant key",
        all_tenants: "
-- list_tenant_keys
SELECT tenant, version, CASE WHEN padding = zeroblob(1024) THEN wrapped END
FROM tenant_keys",
        one_tenant: "
-- list_tenant_keys
SELECT tenant, version, CASE WHEN padding = zeroblob(1024) THEN wrapped END
FROM tenant_keys WHERE tenant = $1",
    },
    permanent_keys: PolicyTable {
        kind: "permanent key",
        all_tenants: "
-- list_permanent_keys
SELECT tenant, CASE WHEN padding = zeroblob(1024) THEN wrapped END
FROM permanent_keys",
        one_tenant: "
-- list_permanent_keys
SELECT tenant, CASE WHEN padding = zeroblob(1024) THEN wrapped END
FROM permanent_keys WHERE tenant = $1",
    },
};

pub(crate) const POSTGRES_KEYS: KeyTables = KeyTables {
    list_unlocks: "
-- list_unlocks
SELECT id, wrapped, kind, label, parameters, key_version, created_at, checked_at, state, mac
FROM unlocks",
    insert_unlock: "
-- insert_unlock
INSERT INTO unlocks (id, wrapped, kind, label, parameters, key_version, created_at, checked_at,
    state, mac)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
    tenant_keys: PolicyTable {
        kind: "tenant key",
        all_tenants: "
-- list_tenant_keys
SELECT tenant, version, wrapped FROM tenant_keys",
        one_tenant: "
-- list_tenant_keys
SELECT tenant, version, wrapped FROM tenant_keys WHERE tenant = $1",
    },
    permanent_keys: PolicyTable {
        kind: "permanent key",
        all_tenants: "
-- list_permanent_keys
SELECT tenant, wrapped FROM permanent_keys",
        one_tenant: "
-- list_permanent_keys
SELECT tenant, wrapped FROM permanent_keys WHERE tenant = $1",
    },
};

/// Decodes the row of a sealing key, without its tenant.
pub(crate) fn decode_tenant_key(row: &dyn ColumnReader) -> Result<(u32, Sealed), StoreError> {
    Ok((read_required(row, 1)?, read_required(row, 2)?))
}

/// Decodes the row of a permanent key, without its tenant.
pub(crate) fn decode_permanent_key(row: &dyn ColumnReader) -> Result<Sealed, StoreError> {
    read_required(row, 1)
}

/// Decodes the row of an entity.
pub(crate) fn decode_row<T>(
    row: &dyn ColumnReader,
    read: fn(&dyn RowSource) -> Result<T, InvalidRow>,
) -> Result<T, StoreError> {
    read(&EntityColumns(row)).map_err(|InvalidRow| MISSING_COLUMNS)
}

/// Decodes the row of a tenant, which has the seal of its whole policy.
pub(crate) fn decode_tenant(
    row: &dyn ColumnReader,
) -> Result<(SignedRow<TenantRecord>, PolicySeal), StoreError> {
    decode_row(row, |source| Ok((SignedRow::read(source)?, PolicySeal::read(source)?)))
}
