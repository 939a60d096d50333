//! Reads the policy of every tenant. A row that Scrip cannot have written is reported, and the
//! other rows are still read.

use std::collections::HashMap;

use scrip_core::{
    change::StoredPolicy,
    policy::{
        ApiKeyRecord, ApplicationRecord, ChangeStamp, ClientKeyRecord, DirectoryRecords,
        PolicyAlteration, PolicyRecords, PolicySeal, SignedRow, SystemKeys, TenantRecord,
        proxy::ProxyRecord, webhook::WebhookRecord,
    },
    types::{StoreError, id::TenantId},
};
use scrip_seal::{Sealed, WrappedTenantKeys};

use crate::{
    shared::policy::unlock_rows::load_unlocks,
    sql::{ColumnReader, MISSING_COLUMNS, Statements, parameters, read_optional, read_required},
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

pub(super) async fn load_policies(
    client: &impl Statements,
    keys: &KeyTables,
    only_tenant: Option<TenantId>,
    unreadable: &mut Vec<PolicyAlteration>,
) -> Result<Vec<PolicyRecords>, StoreError> {
    Ok(PolicyRows {
        sealing_keys: read_table(
            client,
            &keys.tenant_keys,
            only_tenant,
            unreadable,
            decode_tenant_key,
        )
        .await?,
        permanent_keys: read_table(
            client,
            &keys.permanent_keys,
            only_tenant,
            unreadable,
            decode_wrapped_key,
        )
        .await?,
        applications: read_table(
            client,
            &APPLICATIONS,
            only_tenant,
            unreadable,
            decode_application,
        )
        .await?,
        api_keys: read_table(client, &API_KEYS, only_tenant, unreadable, decode_api_key).await?,
        proxies: read_table(client, &PROXIES, only_tenant, unreadable, decode_proxy).await?,
        webhooks: read_table(client, &WEBHOOKS, only_tenant, unreadable, decode_webhook).await?,
        client_keys: read_table(client, &CLIENT_KEYS, only_tenant, unreadable, decode_client_key)
            .await?,
        tenants: read_table(client, &TENANTS, only_tenant, unreadable, decode_tenant).await?,
    }
    .into_policies(unreadable))
}

/// The decoded rows of all policy tables, each with its tenant.
#[derive(Default)]
pub(crate) struct PolicyRows {
    pub(crate) sealing_keys: Vec<(TenantId, (u32, Sealed))>,
    pub(crate) permanent_keys: Vec<(TenantId, Sealed)>,
    pub(crate) applications: Vec<(TenantId, SignedRow<ApplicationRecord>)>,
    pub(crate) api_keys: Vec<(TenantId, SignedRow<ApiKeyRecord>)>,
    pub(crate) proxies: Vec<(TenantId, SignedRow<ProxyRecord>)>,
    pub(crate) webhooks: Vec<(TenantId, SignedRow<WebhookRecord>)>,
    pub(crate) client_keys: Vec<(TenantId, SignedRow<ClientKeyRecord>)>,
    pub(crate) tenants: Vec<(TenantId, (SignedRow<TenantRecord>, PolicySeal))>,
}

impl PolicyRows {
    /// Groups the rows by tenant, in the order of their ids: the same policy is equal, in whatever
    /// order the engine reads its rows. Adds rows without a tenant to `unreadable`.
    pub(crate) fn into_policies(
        self,
        unreadable: &mut Vec<PolicyAlteration>,
    ) -> Vec<PolicyRecords> {
        let mut sealing_keys = group_by_tenant(self.sealing_keys, |(version, _)| *version);
        let mut permanent_keys = self.permanent_keys.into_iter().collect::<HashMap<_, _>>();
        let mut applications = group_by_tenant(self.applications, |it| it.record.id);
        let mut api_keys =
            group_by_tenant(self.api_keys, |it| (it.record.application, it.record.id));
        let mut proxies = group_by_tenant(self.proxies, |it| it.record.id);
        let mut webhooks = group_by_tenant(self.webhooks, |it| it.record.id);
        let mut client_keys = group_by_tenant(self.client_keys, |it| it.record.id);
        let mut policies = Vec::new();
        for (id, (mut tenant, seal)) in self.tenants {
            tenant.record.keys.sealing = sealing_keys.remove(&id).unwrap_or_default();
            // If the key is missing, opening a sealed value reports the error.
            if let Some(key) = permanent_keys.remove(&id) {
                tenant.record.keys.permanent = key;
            }
            let applications = applications.remove(&id).unwrap_or_default();
            let api_keys = api_keys.remove(&id).unwrap_or_default();
            let proxies = proxies.remove(&id).unwrap_or_default();
            let webhooks = webhooks.remove(&id).unwrap_or_default();
            let client_keys = client_keys.remove(&id).unwrap_or_default();
            policies.push(PolicyRecords {
                tenant,
                applications,
                api_keys,
                proxies,
                webhooks,
                client_keys,
                seal,
            });
        }
        let orphans =
            applications.into_keys().chain(api_keys.into_keys()).chain(proxies.into_keys());
        let orphans = orphans.chain(webhooks.into_keys()).chain(client_keys.into_keys());
        for id in orphans.chain(sealing_keys.into_keys()).chain(permanent_keys.into_keys()) {
            let description = "policy rows exist, but the tenant's row is missing".to_owned();
            unreadable.push(PolicyAlteration { tenant: Some(id), description });
        }
        policies
    }
}

fn group_by_tenant<T, K: Ord>(
    mut rows: Vec<(TenantId, T)>,
    id: impl Fn(&T) -> K,
) -> HashMap<TenantId, Vec<T>> {
    rows.sort_by_key(|(_, row)| id(row));
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

/// The tables of wrapped keys. SQLite stores them on separate pages. Columns: tenant, key, and the
/// version of a sealing key.
pub(crate) struct KeyTables {
    tenant_keys: PolicyTable,
    permanent_keys: PolicyTable,
    pub(crate) list_unlocks: &'static str,
    pub(super) insert_unlock: &'static str,
}

/// Reads the decodable rows of a table, each with its tenant, which is the first column. Adds the
/// other rows to `unreadable`.
async fn read_table<T>(
    client: &impl Statements,
    table: &PolicyTable,
    only_tenant: Option<TenantId>,
    unreadable: &mut Vec<PolicyAlteration>,
    decode: fn(&dyn ColumnReader) -> Result<T, StoreError>,
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

/// Builds the two statements of a table. Only the statement of one tenant has a condition.
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
    ($wrapped:literal, $padding:literal, $padding_value:literal) => {
        KeyTables {
            list_unlocks: concat!(
                "-- list_unlocks\nSELECT id, ",
                $wrapped,
                ", kind, label, parameters, key_version, created_at, checked_at, state, mac ",
                "FROM unlocks"
            ),
            insert_unlock: concat!(
                "-- insert_unlock\nINSERT INTO unlocks (id, wrapped, kind, label, parameters, ",
                "key_version, created_at, checked_at, state, mac",
                $padding,
                ") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10",
                $padding_value,
                ")"
            ),
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
                "permanent key",
                concat!(
                    "-- list_permanent_keys\nSELECT tenant, ",
                    $wrapped,
                    " FROM permanent_keys"
                ),
                "tenant"
            ),
        }
    };
}

/// Reads the key as NULL if the padding before it was altered, so that the row cannot be decoded.
pub(crate) const SQLITE_KEYS: KeyTables = key_tables!(
    "CASE WHEN padding = zeroblob(1024) THEN wrapped END",
    ", padding",
    ", zeroblob(1024)"
);

pub(crate) const POSTGRES_KEYS: KeyTables = key_tables!("wrapped", "", "");

pub(crate) fn decode_tenant_key(row: &dyn ColumnReader) -> Result<(u32, Sealed), StoreError> {
    Ok((read_required(row, 2)?, decode_wrapped_key(row)?))
}

pub(crate) fn decode_wrapped_key(row: &dyn ColumnReader) -> Result<Sealed, StoreError> {
    read_required(row, 1)
}

const TENANTS: PolicyTable = policy_table!(
    "tenant",
    "
-- list_tenants
SELECT id, name, kind, settings, quotas, mac, policy_counter, policy_mac, created_by, created_at,
    modified_by, modified_at, deletes_at, sealing_version
FROM tenants",
    "id"
);

pub(crate) fn decode_tenant(
    row: &dyn ColumnReader,
) -> Result<(SignedRow<TenantRecord>, PolicySeal), StoreError> {
    let no_keys = WrappedTenantKeys {
        sealing: Vec::new(),
        promoted: read_optional(row, 13)?,
        permanent: Sealed::from_stored(Vec::new()),
    };
    let record = TenantRecord {
        id: read_required(row, 0)?,
        name: read_required(row, 1)?,
        kind: read_required(row, 2)?,
        settings: read_required(row, 3)?,
        quotas: read_required(row, 4)?,
        keys: no_keys,
        created: decode_stamp(row, 8)?.ok_or(MISSING_COLUMNS)?,
        modified: decode_stamp(row, 10)?,
        deletes_at: read_optional(row, 12)?,
    };
    let seal = PolicySeal { counter: read_required(row, 6)?, mac: read_required(row, 7)? };
    Ok((SignedRow { record, mac: read_required(row, 5)? }, seal))
}

const APPLICATIONS: PolicyTable = policy_table!(
    "application",
    "
-- list_applications
SELECT tenant, id, name, kind, access, mac, created_by, created_at, modified_by, modified_at,
    origins
FROM applications",
    "tenant"
);

pub(crate) fn decode_application(
    row: &dyn ColumnReader,
) -> Result<SignedRow<ApplicationRecord>, StoreError> {
    let record = ApplicationRecord {
        id: read_required(row, 1)?,
        tenant: read_required(row, 0)?,
        name: read_required(row, 2)?,
        kind: read_required(row, 3)?,
        access: read_required(row, 4)?,
        origins: read_optional(row, 10)?.unwrap_or_default(),
        created: decode_stamp(row, 6)?.ok_or(MISSING_COLUMNS)?,
        modified: decode_stamp(row, 8)?,
    };
    Ok(SignedRow { record, mac: read_required(row, 5)? })
}

const API_KEYS: PolicyTable = policy_table!(
    "API key",
    "
-- list_api_keys
SELECT tenant, application, id, digest, mac, created_by, created_at
FROM api_keys",
    "tenant"
);

pub(crate) fn decode_api_key(
    row: &dyn ColumnReader,
) -> Result<SignedRow<ApiKeyRecord>, StoreError> {
    let record = ApiKeyRecord {
        id: read_required(row, 2)?,
        tenant: read_required(row, 0)?,
        application: read_required(row, 1)?,
        digest: read_required(row, 3)?,
        created: decode_stamp(row, 5)?.ok_or(MISSING_COLUMNS)?,
    };
    Ok(SignedRow { record, mac: read_required(row, 4)? })
}

const PROXIES: PolicyTable = policy_table!(
    "proxy",
    "
-- list_proxies
SELECT tenant, id, digest, name, application, require_auth, disable_detokenization, host, settings,
    secrets, mac, created_by, created_at, modified_by, modified_at
FROM proxies",
    "tenant"
);

pub(crate) fn decode_proxy(row: &dyn ColumnReader) -> Result<SignedRow<ProxyRecord>, StoreError> {
    let record = ProxyRecord {
        id: read_required(row, 1)?,
        tenant: read_required(row, 0)?,
        digest: read_required(row, 2)?,
        name: read_required(row, 3)?,
        application: read_optional(row, 4)?,
        require_auth: read_required(row, 5)?,
        disable_detokenization: read_required(row, 6)?,
        host: read_optional(row, 7)?,
        settings: read_required(row, 8)?,
        secrets: read_required(row, 9)?,
        created: decode_stamp(row, 11)?.ok_or(MISSING_COLUMNS)?,
        modified: decode_stamp(row, 13)?,
    };
    Ok(SignedRow { record, mac: read_required(row, 10)? })
}

const WEBHOOKS: PolicyTable = policy_table!(
    "webhook",
    "
-- list_webhooks
SELECT tenant, id, name, status, events, settings, secrets, mac, created_by, created_at,
    modified_by, modified_at
FROM webhooks",
    "tenant"
);

pub(crate) fn decode_webhook(
    row: &dyn ColumnReader,
) -> Result<SignedRow<WebhookRecord>, StoreError> {
    let record = WebhookRecord {
        id: read_required(row, 1)?,
        tenant: read_required(row, 0)?,
        name: read_required(row, 2)?,
        status: read_required(row, 3)?,
        events: read_required(row, 4)?,
        settings: read_required(row, 5)?,
        secrets: read_required(row, 6)?,
        created: decode_stamp(row, 8)?.ok_or(MISSING_COLUMNS)?,
        modified: decode_stamp(row, 10)?,
    };
    Ok(SignedRow { record, mac: read_required(row, 7)? })
}

const CLIENT_KEYS: PolicyTable = policy_table!(
    "client encryption key",
    "
-- list_client_keys
SELECT tenant, id, expires_at, private_key, mac, created_by, created_at
FROM client_keys",
    "tenant"
);

pub(crate) fn decode_client_key(
    row: &dyn ColumnReader,
) -> Result<SignedRow<ClientKeyRecord>, StoreError> {
    let record = ClientKeyRecord {
        id: read_required(row, 1)?,
        tenant: read_required(row, 0)?,
        expires_at: read_required(row, 2)?,
        private_key: read_required(row, 3)?,
        created: decode_stamp(row, 5)?.ok_or(MISSING_COLUMNS)?,
    };
    Ok(SignedRow { record, mac: read_required(row, 4)? })
}

/// Decodes the two columns of a change stamp. A stamp of an operator has only a time.
fn decode_stamp(row: &dyn ColumnReader, index: usize) -> Result<Option<ChangeStamp>, StoreError> {
    match (read_optional(row, index)?, read_optional(row, index.saturating_add(1))?) {
        (None, None) => Ok(None),
        (Some(_), None) => Err(MISSING_COLUMNS),
        (by, Some(at)) => Ok(Some(ChangeStamp { by, at })),
    }
}
