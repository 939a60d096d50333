//! Replaces the policy of one tenant by rows of a backup. Tokens are not touched.

use scrip_core::{
    Error,
    change::{DecidePolicyRestore, PolicyRestore},
    policy::{POLICY_ENTITIES, PolicyEntity, PolicyRecords, entity::Entity},
    types::{StoreError, id::TenantId},
};

use crate::{
    shared::policy::{
        changes::{PolicyTransaction, put_seal, put_tenant, raise_version},
        deletions::find_deletions,
        directory::load_stored_policy,
        statements::{put_row, statements},
    },
    sql::parameters,
};

const KEY_TAKEN: &str = "an API key of the backup is in a row of another tenant. If the policy of \
                         that tenant is altered too, the row was moved: delete it from the table \
                         api_keys with an SQL tool, and run the command again";
const PROXY_TAKEN: &str = "a proxy of the backup has the key or the host of a row of another \
                           tenant. If the policy of that tenant is altered too, the row was \
                           moved: delete it from the table proxies with an SQL tool. Otherwise \
                           remove the host from the other proxy. Then run the command again";

/// Why a row cannot be restored whose unique value another tenant has. `None` for an entity without
/// unique values.
fn conflict_reason(entity: &Entity) -> Option<&'static str> {
    match entity.name {
        "api_key" => Some(KEY_TAKEN),
        "proxy" => Some(PROXY_TAKEN),
        _ => None,
    }
}

pub(crate) async fn restore_policy<T: PolicyTransaction>(
    transaction: &mut T,
    tenant: TenantId,
    decide: DecidePolicyRestore,
) -> Result<Result<(), Error>, StoreError> {
    let mut stored = load_stored_policy(transaction, &T::KEYS, tenant).await?;
    stored.deletions = find_deletions(transaction, tenant).await?;
    let PolicyRestore { records, replaces_keys, audit } = match decide(stored) {
        Ok(restore) => restore,
        Err(error) => return Ok(Err(error)),
    };
    raise_version(transaction).await?;
    delete_rows(transaction, tenant).await?;
    if replaces_keys {
        // Also deletes the keys.
        transaction.delete_tenant_row(tenant).await?;
    }
    put_tenant(transaction, &records.tenant).await?;
    put_seal(transaction, tenant, records.seal).await?;
    for row in records.rows() {
        if let Some(reason) = conflict_reason(row.entity())
            && transaction.is_taken(row).await?
        {
            return Ok(Err(Error::Conflict { reason }));
        }
        put_row(transaction, row).await?;
    }
    transaction.append_audit_record(tenant, &audit, &tenant.to_string(), "done").await?;
    Ok(Ok(()))
}

/// Replaces all rows of a policy except the stored keys. The caller has checked every row.
pub(super) async fn replace_policy<T: PolicyTransaction>(
    transaction: &T,
    records: &PolicyRecords,
) -> Result<(), StoreError> {
    delete_rows(transaction, records.tenant.record.id).await?;
    put_tenant(transaction, &records.tenant).await?;
    for row in records.rows() {
        put_row(transaction, row).await?;
    }
    Ok(())
}

/// Deletes all rows of a policy except the row of the tenant. Rows that refer to others come first.
async fn delete_rows<T: PolicyTransaction>(
    transaction: &T,
    tenant: TenantId,
) -> Result<(), StoreError> {
    for PolicyEntity { entity, .. } in POLICY_ENTITIES.iter().rev() {
        let statement = &statements(entity)?.delete_of_tenant;
        transaction.execute(statement, &parameters![tenant]).await?;
    }
    Ok(())
}
