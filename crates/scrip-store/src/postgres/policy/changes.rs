//! Changes of policy.

use scrip_core::{audit::AuditRecord, id::TenantId, policy::ApiKeyRecord, store::StoreError};
use scrip_seal::WrappedTenantKeys;

use crate::{
    postgres::{
        PostgresStore,
        connect::listen::tell,
        engine::{statement::raw, transaction::Transaction},
    },
    rules::policy::{
        changes::{DELETE_TENANT, FIND_API_KEY, PolicyTransaction},
        directory::{KeyTables, POSTGRES_KEYS},
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
    const KEYS: KeyTables = POSTGRES_KEYS;

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

impl PostgresStore {
    /// PostgreSQL recycles its log by itself.
    pub(crate) async fn erase_log(&self) -> Result<(), StoreError> {
        Ok(())
    }
}
