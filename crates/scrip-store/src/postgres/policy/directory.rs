//! Reads the policy of every tenant.

use scrip_core::{
    policy::{DirectoryRecords, SystemKeys},
    store::DirectoryStore,
    types::{StoreFuture, id::TenantId},
};
use scrip_seal::Sealed;

use crate::{
    postgres::{
        PostgresStore,
        engine::{
            scope::RowScope,
            statement::{AutocommitClient, ReadSnapshot},
        },
    },
    shared::policy::{
        changes::{insert_system_keys, insert_webhook_signing_key},
        directory::{POSTGRES_KEYS, directory_version, find_webhook_signing_key, load_directory},
    },
};

impl DirectoryStore for PostgresStore {
    fn load_directory(&self) -> StoreFuture<'_, DirectoryRecords> {
        Box::pin(async move {
            let snapshot =
                ReadSnapshot::new(&self.pool.reserved(), RowScope::all_tenants()).await?;
            let result = load_directory(&snapshot, &POSTGRES_KEYS).await;
            snapshot.end(result).await
        })
    }

    fn directory_version(&self) -> StoreFuture<'_, i64> {
        Box::pin(async move {
            let pool = self.pool.reserved();
            directory_version(&AutocommitClient::new(&pool, RowScope::no_tenant())).await
        })
    }

    fn wait_for_directory_change(&self) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            self.directory_listener.wait().await;
            Ok(())
        })
    }

    fn insert_system_keys(&self, keys: SystemKeys) -> StoreFuture<'_, ()> {
        Box::pin(async move { insert_system_keys(&self.without_tenant(), &keys).await })
    }

    fn find_webhook_signing_key(&self) -> StoreFuture<'_, Option<Sealed>> {
        Box::pin(async move { find_webhook_signing_key(&self.without_tenant()).await })
    }

    fn insert_webhook_signing_key(&self, wrapped: Sealed) -> StoreFuture<'_, Sealed> {
        Box::pin(
            self.write(TenantId::VAULT, async move |it| {
                insert_webhook_signing_key(it, &wrapped).await
            }),
        )
    }
}
