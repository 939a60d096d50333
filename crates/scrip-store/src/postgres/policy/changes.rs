//! Changes of policy.

use scrip_core::{
    audit::{AuditRecord, DeletedTenant},
    error::Error,
    id::TenantId,
    policy::{ApiKeyRecord, DecidePolicy, Mandate, PolicyRecords, TenantDeletion},
    store::{Changed, PolicyStore, StoreError, StoreFuture},
    time::Timestamp,
};
use scrip_seal::WrappedTenantKeys;

use crate::{
    postgres::{
        PostgresStore, changed,
        connect::listen::tell,
        engine::{statement::raw, transaction::Transaction},
        kept,
        policy::{directory::KEYS, purge::purge_tenants},
        undone,
    },
    rules::policy::{
        changes::{
            DELETE_TENANT, FIND_API_KEY, PolicyTransaction, change_policy, delete_tenant,
            insert_tenant, list_deleted_tenants,
        },
        directory::KeyTables,
    },
    sql::{Execute, parameters},
};

const PUT_TENANT_KEY: &str = "
-- put_tenant_key
INSERT INTO tenant_keys (tenant, version, wrapped) VALUES ($1, $2, $3)
ON CONFLICT (tenant, version) DO UPDATE SET wrapped = $3 WHERE tenant_keys.wrapped <> $3";

const PUT_LASTING_KEY: &str = "
-- put_lasting_key
INSERT INTO lasting_keys (tenant, wrapped) VALUES ($1, $2)
ON CONFLICT (tenant) DO UPDATE SET wrapped = $2 WHERE lasting_keys.wrapped <> $2";

impl PolicyTransaction for Transaction {
    const KEYS: KeyTables = KEYS;

    async fn put_keys(&self, tenant: TenantId, keys: &WrappedTenantKeys) -> Result<(), StoreError> {
        for (version, key) in &keys.sealing {
            self.execute(PUT_TENANT_KEY, &parameters![tenant, *version, key]).await?;
        }
        self.execute(PUT_LASTING_KEY, &parameters![tenant, &keys.lasting]).await.map(drop)
    }

    async fn announce_version(&self) -> Result<(), StoreError> {
        tell(self.client()?).await
    }

    async fn is_digest_taken(&self, api_key: &ApiKeyRecord) -> Result<bool, StoreError> {
        let other = parameters![&api_key.digest, api_key.id];
        Ok(!self.query_every_tenant(FIND_API_KEY, &raw(&other)).await?.is_empty())
    }

    async fn delete_tenant_row(&self, tenant: TenantId) -> Result<usize, StoreError> {
        self.execute(DELETE_TENANT, &parameters![tenant]).await
    }

    fn end_tenant(&mut self, _: TenantId, audit: &AuditRecord, retention: Option<i64>) {
        self.chain.end(audit, retention);
    }
}

impl PolicyStore for PostgresStore {
    fn insert_tenant(&self, records: PolicyRecords, audit: AuditRecord) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            let mut it = self.begin(records.tenant.record.id).await?;
            insert_tenant(&mut it, &records, &audit).await?;
            it.commit().await
        })
    }

    fn change_policy(
        &self,
        mandate: Mandate,
        decide: DecidePolicy,
    ) -> StoreFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            let tenant = mandate.tenant().id;
            let mut it = self.begin(tenant).await?;
            match change_policy(&mut it, tenant, decide).await? {
                Ok(()) => kept(it, Ok(())).await,
                refused => undone(it, refused).await,
            }
        })
    }

    fn delete_tenant(
        &self,
        deletion: TenantDeletion,
        audit: AuditRecord,
    ) -> StoreFuture<'_, Result<Changed, Error>> {
        Box::pin(async move {
            let mut it = self.begin(deletion.tenant()).await?;
            match delete_tenant(&mut it, &deletion, &audit).await? {
                Ok(deleted) => changed(it, deleted).await.map(Ok),
                refused => undone(it, refused).await,
            }
        })
    }

    fn list_deleted_tenants(&self) -> StoreFuture<'_, Vec<DeletedTenant>> {
        Box::pin(async move { list_deleted_tenants(&self.of_every_tenant()).await })
    }

    fn purge_tenants(&self, tenants: Vec<TenantId>, now: Timestamp) -> StoreFuture<'_, usize> {
        Box::pin(async move { purge_tenants(&self.of_every_tenant(), tenants, now).await })
    }
}
