//! Changes of policy.

use std::sync::atomic::Ordering;

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
    rules::policy::{
        changes::{
            DELETE_TENANT, FIND_API_KEY, PolicyTransaction, change_policy, delete_tenant,
            insert_tenant, list_deleted_tenants,
        },
        directory::KeyTables,
    },
    sql::{Statements, parameters, run_ready},
    sqlite::{
        SqliteStore,
        engine::{connection::overwriting, statement::execute, transaction::Transaction},
        maintenance::usage::forget_active,
        policy::{
            directory::{APART, KEYS},
            purge::{list_without_row, purge_tenants},
        },
    },
};

const PUT_TENANT_KEY: &str = "
-- put_tenant_key
INSERT INTO tenant_keys (tenant, version, apart, wrapped) VALUES ($1, $2, $3, $4)
ON CONFLICT (tenant, version) DO UPDATE SET wrapped = $4 WHERE wrapped <> $4";

const PUT_LASTING_KEY: &str = "
-- put_lasting_key
INSERT INTO lasting_keys (tenant, apart, wrapped) VALUES ($1, $2, $3)
ON CONFLICT (tenant) DO UPDATE SET wrapped = $3 WHERE wrapped <> $3";

impl PolicyTransaction for Transaction<'_> {
    const KEYS: KeyTables = KEYS;

    async fn put_keys(&self, tenant: TenantId, keys: &WrappedTenantKeys) -> Result<(), StoreError> {
        overwriting(self, || {
            for (version, key) in &keys.sealing {
                execute(self, PUT_TENANT_KEY, &parameters![tenant, *version, &APART, key])?;
            }
            execute(self, PUT_LASTING_KEY, &parameters![tenant, &APART, &keys.lasting]).map(drop)
        })
    }

    /// Other processes look for it.
    async fn announce_version(&self) -> Result<(), StoreError> {
        Ok(())
    }

    async fn is_digest_taken(&self, api_key: &ApiKeyRecord) -> Result<bool, StoreError> {
        let other = parameters![&api_key.digest, api_key.id];
        Ok(self.find(FIND_API_KEY, &other, |_| Ok(())).await?.is_some())
    }

    /// The keys are overwritten with zeros, not only unlinked; so is the log, once the caller has let
    /// it be moved and cut.
    async fn delete_tenant_row(&self, tenant: TenantId) -> Result<usize, StoreError> {
        overwriting(self, || execute(self, DELETE_TENANT, &parameters![tenant]))
    }

    fn end_tenant(&mut self, tenant: TenantId, audit: &AuditRecord, retention: Option<i64>) {
        self.tally.forgotten(tenant);
        self.chains.end(tenant, audit, retention);
    }
}

impl PolicyStore for SqliteStore {
    fn insert_tenant(&self, records: PolicyRecords, audit: AuditRecord) -> StoreFuture<'_, ()> {
        self.write_old(move |it| run_ready(insert_tenant(it, &records, &audit)))
    }

    fn change_policy(
        &self,
        mandate: Mandate,
        decide: DecidePolicy,
    ) -> StoreFuture<'_, Result<(), Error>> {
        let tenant = mandate.tenant().id;
        let change = move |it: &mut Transaction<'_>| run_ready(change_policy(it, tenant, decide));
        Box::pin(self.writer.write_if(change, Result::is_ok))
    }

    fn delete_tenant(
        &self,
        deletion: TenantDeletion,
        audit: AuditRecord,
    ) -> StoreFuture<'_, Result<Changed, Error>> {
        Box::pin(async move {
            let delete =
                move |it: &mut Transaction<'_>| run_ready(delete_tenant(it, &deletion, &audit));
            let is_done = |it: &Result<_, _>| matches!(it, Ok(Changed::Done));
            let deleted = self.writer.write_if(delete, is_done).await?;
            // The keys are gone from the tables; the log that had them is cut before the answer,
            // unless somebody reads for longer than a client waits.
            self.writer.progress.cut_asked.store(true, Ordering::Relaxed);
            self.writer.write(|_| Ok(())).await?;
            Ok(deleted)
        })
    }

    fn list_deleted_tenants(&self) -> StoreFuture<'_, Vec<DeletedTenant>> {
        self.read(|it| run_ready(list_deleted_tenants(it)))
    }

    fn purge_tenants(&self, tenants: Vec<TenantId>, now: Timestamp) -> StoreFuture<'_, usize> {
        Box::pin(async move {
            let gone = self.readers.read(|it| list_without_row(it, &tenants))?;
            let deleted = gone.clone();
            let forget = move |it: &mut Transaction<'_>| forget_active(it, &deleted);
            match self.access.writer.write(forget).await? {
                0 => self.writer.write(move |it| purge_tenants(it, &gone, now)).await,
                some => Ok(some),
            }
        })
    }
}
