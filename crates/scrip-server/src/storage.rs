//! Opens the store from the settings, for both engines.

use std::{fs::File, os::unix::fs::OpenOptionsExt, sync::Arc};

use anyhow::Context;
use scrip_core::{
    Vault,
    audit::AuditTrail,
    store::Store,
    threeds::{DirectoryServers, NoDirectoryServers},
    types::StoreError,
};
use scrip_operator::error::explain;
use scrip_seal::EpochKeys;
use scrip_store::{
    PageMode, PostgresStore, SqliteStore,
    postgres::{MigrationResult, PostgresSettings, transfer::PostgresTransfer},
    sqlite::transfer::SqliteTransfer,
    transfer::TransferEngine,
};

use crate::{
    clock::{SteadyClock, SystemClock, ticks},
    config::{Settings, Switch},
    control::status::query_status,
    epoch_keys,
    process::MemoryState,
};

impl Settings {
    /// Opens the store for a server, exclusively if it is the embedded engine.
    ///
    /// Errors: the directory is missing or in use, or its database is not a vault; PostgreSQL
    /// cannot be reached, or its schema has another version.
    pub(crate) async fn open_store(&self, memory: MemoryState) -> anyhow::Result<Arc<dyn Store>> {
        if let Some(postgres) = self.storage.postgres()? {
            return self.open_postgres(postgres).await;
        }
        let folder = self.existing_data_dir()?;
        // With locked memory, mapped pages of the database would stay in memory permanently.
        let pages = match memory {
            MemoryState::Locked => PageMode::Cached,
            MemoryState::Unlocked => PageMode::Mapped,
        };
        let store = SqliteStore::open_with(&self.database_file(), pages, ticks);
        let store = store.map_err(explain);
        let store = store.with_context(|| match query_status(folder) {
            Some(it) => format!("{} is in use by server process {}", folder.display(), it.pid),
            None => format!("{} cannot be opened", folder.display()),
        });
        Ok(Arc::new(store?))
    }

    /// Migrates an older schema if the settings allow it. Never creates a schema: a wrong address
    /// must not create an empty vault.
    async fn open_postgres(&self, postgres: PostgresSettings) -> anyhow::Result<Arc<dyn Store>> {
        let may_migrate = self.storage.migrate == Switch::On;
        if may_migrate && schema_version(&postgres).await?.is_some() {
            let MigrationResult { from, to } = migrate_postgres(&postgres).await?;
            if from != to {
                tracing::info!(from, to, "migrated the PostgreSQL schema");
            }
        }
        Ok(Arc::new(connect_postgres(postgres).await?))
    }

    /// Prevents other servers from using this data directory, if the store does not do so itself.
    /// Errors: another server uses it.
    pub fn lock_data_dir(&self) -> anyhow::Result<Option<File>> {
        if self.storage.url.is_none() {
            return Ok(None);
        }
        let folder = &self.storage.data_dir;
        let file = folder.join("node.lock");
        let error_context = || format!("{} cannot be opened", file.display());
        let mut options = File::options();
        let lock = options.write(true).create(true).truncate(false).mode(0o600).open(&file);
        let lock = lock.with_context(error_context)?;
        lock.try_lock().map_err(|_| match query_status(folder) {
            Some(it) => {
                anyhow::anyhow!("{} is in use by server process {}", folder.display(), it.pid)
            }
            None => anyhow::anyhow!("{} is in use by another process", folder.display()),
        })?;
        Ok(Some(lock))
    }

    /// Opens the vault for a server.
    /// Errors: as [`Settings::open_store`], or the location of the epoch keys cannot be used.
    pub async fn open_vault(
        &self,
        memory: MemoryState,
        directory_servers: Arc<dyn DirectoryServers>,
    ) -> anyhow::Result<Vault> {
        epoch_keys::check_sharing(self)?;
        let store = self.open_store(memory).await?;
        Ok(Vault {
            epoch_keys: Arc::new(epoch_keys::open_epoch_keys(self).await?),
            // The stored clock watermark is verified and applied when the vault is unsealed.
            clock: Arc::new(SteadyClock::start(None, self.clock.start_mode)),
            audit_trail: Arc::new(AuditTrail::new(self.audit.reads)),
            directory_servers,
            ..command_vault(store)
        })
    }

    /// Opens the vault for a command; a server may have the store open too.
    /// Errors: the directory is missing, its database is not a vault, or as
    /// [`Settings::open_store`].
    pub async fn open_vault_for_command(&self) -> anyhow::Result<Vault> {
        if let Some(postgres) = self.storage.postgres()? {
            return Ok(command_vault(Arc::new(connect_postgres(postgres).await?)));
        }
        let folder = self.existing_data_dir()?;
        let store = SqliteStore::open_for_command(&self.database_file());
        let store = store.map_err(explain);
        let store = store.with_context(|| format!("{} cannot be opened", folder.display()))?;
        Ok(command_vault(Arc::new(store)))
    }

    /// Errors: a server uses this data directory.
    pub fn check_no_server(&self) -> anyhow::Result<()> {
        let folder = &self.storage.data_dir;
        match query_status(folder) {
            None => Ok(()),
            Some(it) => anyhow::bail!(
                "{} is in use by server process {}; stop it first",
                folder.display(),
                it.pid
            ),
        }
    }

    /// Opens the vault for a command that must not run at the same time as a server.
    /// Errors: a server uses this data directory, or as [`Settings::open_store`].
    pub async fn open_vault_exclusively(&self) -> anyhow::Result<Vault> {
        self.check_no_server()?;
        Ok(command_vault(self.open_store(MemoryState::Unlocked).await?))
    }

    /// Opens the database exclusively, for export and import. Creates an embedded database if there
    /// is none.
    /// Errors: a server uses this data directory, or as [`Settings::open_store`].
    pub async fn open_transfer_engine(&self) -> anyhow::Result<Box<dyn TransferEngine>> {
        self.check_no_server()?;
        let folder = &self.storage.data_dir;
        if let Some(postgres) = self.storage.postgres()? {
            let engine = PostgresTransfer::open(postgres.clone()).await;
            return Ok(Box::new(engine.map_err(|it| postgres_error(&postgres, it))?));
        }
        let engine = SqliteTransfer::open(&self.database_file()).map_err(explain);
        let engine = engine.with_context(|| format!("{} cannot be opened", folder.display()))?;
        let in_use = || format!("{} is in use by another process; stop it first", folder.display());
        Ok(Box::new(engine.with_context(in_use)?))
    }

    /// Creates the database or the PostgreSQL schema; an existing one is not changed. No other
    /// function creates one: a wrong path must not create an empty vault.
    ///
    /// Errors: the directory cannot be written, or contains a database that is not a vault;
    /// PostgreSQL denies the change.
    pub async fn create_store(&self) -> anyhow::Result<()> {
        if let Some(postgres) = self.storage.postgres()? {
            // An older schema requires `scrip migrate` after its servers have stopped.
            return match schema_version(&postgres).await? {
                Some(_) => Ok(()),
                None => migrate_postgres(&postgres).await.map(drop),
            };
        }
        let store = SqliteStore::open_for_command(&self.database_file());
        let store = store.map_err(explain);
        let folder = self.storage.data_dir.display();
        store.map(drop).with_context(|| format!("{folder} cannot be opened"))
    }

    /// Creates an empty database file of the embedded engine if there is none. A server that opens
    /// the file creates the schema.
    /// Errors: the directory cannot be written.
    pub fn create_database_file(&self) -> anyhow::Result<()> {
        let file = self.database_file();
        let mut options = File::options();
        let created = options.write(true).create(true).truncate(false).mode(0o600).open(&file);
        created.map(drop).with_context(|| format!("{} cannot be created", file.display()))
    }
}

/// Adds the address of PostgreSQL, without its password, to an error.
fn postgres_error(postgres: &PostgresSettings, error: StoreError) -> anyhow::Error {
    explain(error).context(format!("{} cannot be used", postgres.redacted()))
}

/// Errors: PostgreSQL cannot be reached, or its schema has another version.
pub async fn connect_postgres(postgres: PostgresSettings) -> anyhow::Result<PostgresStore> {
    let store = PostgresStore::open(postgres.clone()).await;
    store.map_err(|it| postgres_error(&postgres, it))
}

/// Errors: PostgreSQL cannot be reached, denies the change, or has a newer schema.
pub async fn migrate_postgres(postgres: &PostgresSettings) -> anyhow::Result<MigrationResult> {
    let result = PostgresStore::migrate(postgres.clone()).await;
    result.map_err(|it| postgres_error(postgres, it))
}

async fn schema_version(postgres: &PostgresSettings) -> anyhow::Result<Option<i64>> {
    let version = PostgresStore::schema_version(postgres.clone()).await;
    version.map_err(|it| postgres_error(postgres, it))
}

/// A vault for a command, which never encrypts or decrypts a CVC.
fn command_vault(store: Arc<dyn Store>) -> Vault {
    Vault {
        store,
        epoch_keys: Arc::new(EpochKeys::in_memory(epoch_keys::EPOCH_LENGTH)),
        bin_data: Arc::default(),
        clock: Arc::new(SystemClock),
        fill_random: scrip_seal::fill_random,
        disclosure: scrip_core::types::DisclosureRules::default(),
        audit_trail: Arc::default(),
        guess_ledger: Arc::default(),
        outcome_queue: Arc::default(),
        directory_servers: Arc::new(NoDirectoryServers::default()),
    }
}
