//! The policy of every tenant, read whole.

use scrip_core::{
    policy::{DirectoryRecords, SystemKeys},
    store::{DirectoryStore, StoreFuture},
};

use crate::{
    postgres::{
        PostgresStore,
        engine::{
            scope::Scope,
            statement::{Instant, Single},
        },
    },
    rules::policy::{
        changes::insert_system_keys,
        directory::{POSTGRES_KEYS, directory_version, load_directory},
    },
};

impl DirectoryStore for PostgresStore {
    fn load_directory(&self) -> StoreFuture<'_, DirectoryRecords> {
        Box::pin(async move {
            let it = Instant::new(&self.pool.apart(), Scope::every_tenant()).await?;
            let loaded = load_directory(&it, &POSTGRES_KEYS).await;
            it.end(loaded).await
        })
    }

    fn directory_version(&self) -> StoreFuture<'_, i64> {
        Box::pin(async move {
            let pool = self.pool.apart();
            directory_version(&Single::new(&pool, Scope::no_tenant())).await
        })
    }

    fn directory_changed(&self) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            self.changes.wait().await;
            Ok(())
        })
    }

    fn insert_system_keys(&self, keys: SystemKeys) -> StoreFuture<'_, ()> {
        Box::pin(async move { insert_system_keys(&self.of_no_tenant(), &keys).await })
    }
}
