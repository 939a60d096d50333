//! Replaces the policy of one tenant by rows of a backup. Tokens are not touched.

use scrip_core::{
    Error,
    change::{DecidePolicyRestore, PolicyRestore},
    policy::PolicyRecords,
    types::{StoreError, id::TenantId},
};

use crate::{
    shared::policy::{
        changes::{
            PolicyTransaction, put_api_key, put_application, put_client_key, put_proxy, put_seal,
            put_tenant, put_webhook, raise_version,
        },
        deletions::find_deletions,
        directory::load_stored_policy,
    },
    sql::parameters,
};

/// The row of the tenant stays, unless its keys are replaced.
const DELETE_POLICY: [&str; 5] = [
    "-- delete_client_keys\nDELETE FROM client_keys WHERE tenant = $1",
    "-- delete_webhooks\nDELETE FROM webhooks WHERE tenant = $1",
    "-- delete_proxies\nDELETE FROM proxies WHERE tenant = $1",
    "-- delete_api_keys\nDELETE FROM api_keys WHERE tenant = $1",
    "-- delete_applications\nDELETE FROM applications WHERE tenant = $1",
];

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
    for sql in DELETE_POLICY {
        transaction.execute(sql, &parameters![tenant]).await?;
    }
    if replaces_keys {
        // Also deletes the keys.
        transaction.delete_tenant_row(tenant).await?;
    }
    put_tenant(transaction, &records.tenant).await?;
    put_seal(transaction, tenant, records.seal).await?;
    for application in &records.applications {
        put_application(transaction, application).await?;
    }
    for api_key in &records.api_keys {
        if transaction.is_digest_taken(&api_key.record).await? {
            let reason = "an API key of the backup is in a row of another tenant. If the policy of \
                          that tenant is altered too, the row was moved: delete it from the table \
                          api_keys with an SQL tool, and run the command again";
            return Ok(Err(Error::Conflict { reason }));
        }
        put_api_key(transaction, api_key).await?;
    }
    for proxy in &records.proxies {
        if transaction.is_proxy_taken(&proxy.record).await? {
            let reason = "a proxy of the backup has the key or the host of a row of another tenant. \
                          If the policy of that tenant is altered too, the row was moved: delete \
                          it from the table proxies with an SQL tool. Otherwise remove the host \
                          from the other proxy. Then run the command again";
            return Ok(Err(Error::Conflict { reason }));
        }
        put_proxy(transaction, proxy).await?;
    }
    for webhook in &records.webhooks {
        put_webhook(transaction, webhook).await?;
    }
    for client_key in &records.client_keys {
        put_client_key(transaction, client_key).await?;
    }
    transaction.append_audit_record(tenant, &audit, &tenant.to_string(), "done").await?;
    Ok(Ok(()))
}

/// Replaces all rows of a policy except the stored keys. The caller has checked every row.
pub(super) async fn replace_policy<T: PolicyTransaction>(
    transaction: &T,
    records: &PolicyRecords,
) -> Result<(), StoreError> {
    for sql in DELETE_POLICY {
        transaction.execute(sql, &parameters![records.tenant.record.id]).await?;
    }
    put_tenant(transaction, &records.tenant).await?;
    for application in &records.applications {
        put_application(transaction, application).await?;
    }
    for api_key in &records.api_keys {
        put_api_key(transaction, api_key).await?;
    }
    for proxy in &records.proxies {
        put_proxy(transaction, proxy).await?;
    }
    for webhook in &records.webhooks {
        put_webhook(transaction, webhook).await?;
    }
    for client_key in &records.client_keys {
        put_client_key(transaction, client_key).await?;
    }
    Ok(())
}
