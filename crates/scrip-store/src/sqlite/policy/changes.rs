//! Policy changes.

use std::{fs::File, sync::atomic::Ordering, time::Duration};

use rusqlite::Connection;
use scrip_core::{
    audit::AuditRecord,
    policy::{ApiKeyRecord, PolicyRecords, proxy::ProxyRecord},
    types::{StoreError, id::TenantId},
};
use scrip_seal::WrappedTenantKeys;
use tokio::time::sleep;

use crate::{
    shared::policy::{
        changes::{DELETE_SEALING_KEY, DELETE_TENANT, FIND_API_KEY, FIND_PROXY, PolicyTransaction},
        directory::{KeyTables, SQLITE_KEYS, load_policy},
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
const DELETE_LEFTOVERS: [&str; 8] = [
    "-- delete_leftover_key_rotations\nDELETE FROM key_rotations WHERE tenant = $1",
    "-- delete_leftover_client_keys\nDELETE FROM client_keys WHERE tenant = $1",
    "-- delete_leftover_webhooks\nDELETE FROM webhooks WHERE tenant = $1",
    "-- delete_leftover_proxies\nDELETE FROM proxies WHERE tenant = $1",
    "-- delete_leftover_api_keys\nDELETE FROM api_keys WHERE tenant = $1",
    "-- delete_leftover_applications\nDELETE FROM applications WHERE tenant = $1",
    "-- delete_leftover_tenant_keys\nDELETE FROM tenant_keys WHERE tenant = $1",
    "-- delete_leftover_permanent_keys\nDELETE FROM permanent_keys WHERE tenant = $1",
];

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

    async fn is_digest_taken(&self, api_key: &ApiKeyRecord) -> Result<bool, StoreError> {
        let parameters = parameters![&api_key.digest, api_key.id, api_key.tenant];
        Ok(self.find(FIND_API_KEY, &parameters, |_| Ok(())).await?.is_some())
    }

    async fn is_proxy_taken(&self, proxy: &ProxyRecord) -> Result<bool, StoreError> {
        let host = proxy.host.as_ref().map(|it| it.as_str());
        let parameters = parameters![&proxy.digest, host, proxy.id, proxy.tenant];
        Ok(self.find(FIND_PROXY, &parameters, |_| Ok(())).await?.is_some())
    }

    /// Deletes the row and overwrites the keys with zeros (`secure_delete`). The WAL still contains
    /// the keys until the caller truncates it.
    async fn delete_tenant_row(&self, tenant: TenantId) -> Result<usize, StoreError> {
        with_secure_delete(self, || {
            let statements = [DELETE_TENANT].into_iter().chain(DELETE_LEFTOVERS);
            let counts = statements.map(|sql| execute(self, sql, &parameters![tenant]));
            counts.sum()
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
