//! Policy changes.

use std::fs::File;

use scrip_core::{
    audit::{AuditRecord, LogKind},
    policy::{PolicyRecords, StoredRow, tenant::record::TENANT},
    types::{StoreError, id::TenantId},
};
use scrip_seal::WrappedTenantKeys;

use crate::{
    postgres::{
        PostgresStore,
        connect::directory_listener::notify_directory_changed,
        engine::{
            scope::RowScope,
            statement::{ReadSnapshot, driver_parameters},
            transaction::PostgresTransaction,
        },
    },
    shared::policy::{
        changes::{DELETE_SEALING_KEY, PolicyTransaction},
        directory::{KeyTables, POSTGRES_KEYS, load_policy},
        statements::{statements, taken_parameters},
    },
    sql::{Execute, parameters},
};

const PUT_TENANT_KEY: &str = "
-- put_tenant_key
INSERT INTO tenant_keys (tenant, version, wrapped) VALUES ($1, $2, $3)
ON CONFLICT (tenant, version) DO UPDATE SET wrapped = $3 WHERE tenant_keys.wrapped <> $3";

const PUT_PERMANENT_KEY: &str = "
-- put_permanent_key
INSERT INTO permanent_keys (tenant, wrapped) VALUES ($1, $2)
ON CONFLICT (tenant) DO UPDATE SET wrapped = $2 WHERE permanent_keys.wrapped <> $2";

impl PolicyTransaction for PostgresTransaction {
    const KEYS: KeyTables = POSTGRES_KEYS;

    async fn put_keys(&self, tenant: TenantId, keys: &WrappedTenantKeys) -> Result<(), StoreError> {
        for (version, key) in &keys.sealing {
            self.execute(PUT_TENANT_KEY, &parameters![tenant, *version, key]).await?;
        }
        self.execute(PUT_PERMANENT_KEY, &parameters![tenant, &keys.permanent]).await.map(drop)
    }

    async fn delete_sealing_keys(
        &self,
        tenant: TenantId,
        versions: &[u32],
    ) -> Result<(), StoreError> {
        for version in versions {
            self.execute(DELETE_SEALING_KEY, &parameters![tenant, *version]).await?;
        }
        Ok(())
    }

    async fn begin_key_overwrite(&self) -> Result<(), StoreError> {
        self.connection_batch(&RowScope::all_tenants().set_statement()).await
    }

    async fn end_key_overwrite(&self) -> Result<(), StoreError> {
        self.connection_batch(&RowScope::for_tenant(self.tenant()).set_statement()).await
    }

    async fn notify_version_changed(&self) -> Result<(), StoreError> {
        notify_directory_changed(self.client()?).await
    }

    async fn is_taken(&self, row: &dyn StoredRow) -> Result<bool, StoreError> {
        let statement = &statements(row.entity())?.find_taken;
        let parameters = taken_parameters(row);
        let rows = self.query_all_tenants(statement, &driver_parameters(&parameters)).await?;
        Ok(!rows.is_empty())
    }

    async fn delete_tenant_row(&self, tenant: TenantId) -> Result<usize, StoreError> {
        self.execute(&statements(&TENANT)?.delete, &parameters![tenant]).await
    }

    fn record_tenant_end(&mut self, _: TenantId, audit: &AuditRecord, retention: Option<i64>) {
        self.chain.set_final_record(audit, retention);
    }
}

impl PostgresStore {
    pub(crate) const KEYS: KeyTables = POSTGRES_KEYS;

    /// Nodes do not wait for each other: the lock of a suspended node would stop all others.
    pub(crate) async fn wait_for_processes(&self) -> Option<File> {
        None
    }

    /// Reads the policy of a tenant in one snapshot.
    pub(crate) async fn read_policy(
        &self,
        tenant: TenantId,
    ) -> Result<Option<PolicyRecords>, StoreError> {
        let read = async |it: &ReadSnapshot| load_policy(it, &POSTGRES_KEYS, tenant).await;
        self.read_snapshot(LogKind::Audit, tenant, read).await
    }

    /// Does nothing: PostgreSQL recycles its WAL.
    pub(crate) async fn erase_log(&self) -> Result<(), StoreError> {
        Ok(())
    }
}
