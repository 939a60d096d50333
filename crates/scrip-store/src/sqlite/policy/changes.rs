//! Policy changes.

use std::{
    fs::File,
    sync::{LazyLock, atomic::Ordering},
    time::Duration,
};

use rusqlite::Connection;
use scrip_core::{
    audit::AuditRecord,
    policy::{POLICY_ENTITIES, PolicyEntity, PolicyRecords, StoredRow, tenant::record::TENANT},
    types::{StoreError, id::TenantId},
};
use scrip_seal::WrappedTenantKeys;
use tokio::time::sleep;

use crate::{
    shared::policy::{
        changes::{DELETE_SEALING_KEY, PolicyTransaction},
        directory::{KeyTables, SQLITE_KEYS, load_policy},
        statements::{statements, taken_parameters},
    },
    sql::{Statements, parameters, run_sync_future},
    sqlite::{
        SqliteStore,
        engine::{
            connection::with_secure_delete,
            readers::run_blocking,
            statement::{execute, store_error, with_snapshot},
            transaction::SqliteTransaction,
        },
        policy::directory::KEY_PADDING,
    },
    tables::{TenantRows, tables_with},
};

const PUT_TENANT_KEY: &str = "
-- put_tenant_key
INSERT INTO tenant_keys (tenant, version, padding, wrapped) VALUES ($1, $2, $3, $4)
ON CONFLICT (tenant, version) DO UPDATE SET wrapped = $4 WHERE wrapped <> $4";

const PUT_PERMANENT_KEY: &str = "
-- put_permanent_key
INSERT INTO permanent_keys (tenant, padding, wrapped) VALUES ($1, $2, $3)
ON CONFLICT (tenant) DO UPDATE SET wrapped = $3 WHERE wrapped <> $3";

/// A command of another program can leave these rows without the row of their tenant, because SQLite
/// checks references only for connections that enable it.
pub(crate) static DELETE_LEFTOVERS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let delete = |it| format!("-- delete_leftover_{it}\nDELETE FROM {it} WHERE tenant = $1");
    tables_with(TenantRows::ReferToTenant).map(delete).collect()
});

impl PolicyTransaction for SqliteTransaction<'_> {
    const KEYS: KeyTables = SQLITE_KEYS;

    async fn put_keys(&self, tenant: TenantId, keys: &WrappedTenantKeys) -> Result<(), StoreError> {
        with_secure_delete(self, || {
            for (version, key) in &keys.sealing {
                execute(self, PUT_TENANT_KEY, &parameters![tenant, *version, &KEY_PADDING, key])?;
            }
            execute(self, PUT_PERMANENT_KEY, &parameters![tenant, &KEY_PADDING, &keys.permanent])
                .map(drop)
        })
    }

    /// Overwrites the keys with zeros. The WAL still contains them until the caller truncates it.
    async fn delete_sealing_keys(
        &self,
        tenant: TenantId,
        versions: &[u32],
    ) -> Result<(), StoreError> {
        with_secure_delete(self, || {
            versions.iter().try_for_each(|version| {
                execute(self, DELETE_SEALING_KEY, &parameters![tenant, *version]).map(drop)
            })
        })
    }

    /// Turns `secure_delete` on. The WAL contains the old keys until the caller truncates it.
    async fn begin_key_overwrite(&self) -> Result<(), StoreError> {
        self.execute_batch("PRAGMA secure_delete = ON").map_err(store_error)
    }

    async fn end_key_overwrite(&self) -> Result<(), StoreError> {
        self.execute_batch("PRAGMA secure_delete = FAST").map_err(store_error)
    }

    /// Does nothing: other processes poll the version.
    async fn notify_version_changed(&self) -> Result<(), StoreError> {
        Ok(())
    }

    async fn is_taken(&self, row: &dyn StoredRow) -> Result<bool, StoreError> {
        let statement = &statements(row.entity())?.find_taken;
        Ok(self.find(statement, &taken_parameters(row), |_| Ok(())).await?.is_some())
    }

    /// Deletes the row and overwrites the keys with zeros (`secure_delete`). The WAL still contains
    /// the keys until the caller truncates it.
    async fn delete_tenant_row(&self, tenant: TenantId) -> Result<usize, StoreError> {
        let mut leftovers = vec![&statements(&TENANT)?.delete];
        for PolicyEntity { entity, .. } in POLICY_ENTITIES.iter().rev() {
            leftovers.push(&statements(entity)?.delete_leftovers);
        }
        leftovers.extend(&*DELETE_LEFTOVERS);
        with_secure_delete(self, || {
            leftovers.iter().map(|sql| execute(self, sql, &parameters![tenant])).sum()
        })
    }

    fn record_tenant_end(&mut self, tenant: TenantId, audit: &AuditRecord, retention: Option<i64>) {
        self.usage.drop_tenant(tenant);
        self.chains.set_tenant_end(tenant, audit, retention);
    }
}

impl SqliteStore {
    pub(crate) const KEYS: KeyTables = SQLITE_KEYS;

    /// Lets a command next to a server change a policy. The command waits long for the write lock of
    /// the database, so without this lock the server would always be faster, and the command would
    /// repeat its change. It locks the data directory alone; changes of the server share the lock,
    /// and do not wait for ever: a command may be suspended. No change depends on the lock.
    pub(crate) async fn wait_for_processes(&self) -> Option<File> {
        const TRIES_MAX: usize = 500;
        const PAUSE: Duration = Duration::from_millis(2);
        let folder = File::open(self.path.parent()?).ok()?;
        if self._lock.is_none() {
            return run_blocking(|| folder.lock()).ok().map(|()| folder);
        }
        for _ in 0..TRIES_MAX {
            if folder.try_lock_shared().is_ok() {
                return Some(folder);
            }
            sleep(PAUSE).await;
        }
        None
    }

    /// Reads the policy of a tenant in one snapshot. A policy can have many rows, so other requests
    /// get the worker meanwhile.
    pub(crate) async fn read_policy(
        &self,
        tenant: TenantId,
    ) -> Result<Option<PolicyRecords>, StoreError> {
        let read = |connection: &Connection| {
            with_snapshot(connection, || {
                run_sync_future(load_policy(connection, &SQLITE_KEYS, tenant))
            })
        };
        run_blocking(|| self.readers.read(read))
    }

    /// Truncates the WAL, which still contains the keys that were deleted from the tables. Returns
    /// after the truncation, unless a reader stays active for longer than a client waits.
    pub(crate) async fn erase_log(&self) -> Result<(), StoreError> {
        self.writer.progress.truncate_requested.store(true, Ordering::Relaxed);
        self.writer.write(|_| Ok(())).await
    }
}
