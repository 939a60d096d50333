//! What a command finds where the settings point: the store, whichever engine it is, and the key to
//! it.

use std::{
    fs::{self, File},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::Context;
use scrip_core::{
    Vault,
    audit::AuditTrail,
    error::{Error, FieldError},
    store::{Store, StoreError},
    threeds::{DirectoryServers, NoDirectoryServers},
};
use scrip_seal::{EpochKeys, KeySource, RootKey};
use scrip_store::{
    PageMode, PostgresStore, SqliteStore,
    postgres::{MigrationResult, PostgresSettings, transfer::PostgresTransfer},
    sqlite::transfer::SqliteTransfer,
    transfer::TransferEngine,
};

use crate::{
    config::{Settings, Switch},
    control, epoch_keys,
    process::{
        MemoryState,
        clock::{SteadyClock, SystemClock, ticks},
    },
};

impl Settings {
    pub fn database_file(&self) -> PathBuf {
        self.storage.data_dir.join("scrip.db")
    }

    /// Whether the vault itself is in that folder. With PostgreSQL it is in none.
    pub fn has_data_in(&self, folder: Option<&Path>) -> bool {
        self.storage.url.is_none() && folder == Some(&self.storage.data_dir)
    }

    /// Where the heads of the logs are kept apart.
    pub fn head_file(&self) -> PathBuf {
        let default = || self.storage.data_dir.join("audit.head");
        self.audit.head_file.clone().unwrap_or_else(default)
    }

    pub fn bin_file(&self) -> PathBuf {
        self.storage.data_dir.join("bin-data")
    }

    pub fn root_key_file(&self) -> PathBuf {
        let default = || self.storage.data_dir.join("root.key");
        self.keys.root_key_file.clone().unwrap_or_else(default)
    }

    /// The root key from `SCRIP_ROOT_KEY`, else from its file. Never makes one.
    ///
    /// # Errors
    /// The key is missing, malformed, or can be read by others.
    pub fn key_source(&self) -> anyhow::Result<Arc<dyn KeySource>> {
        if let Some(text) = &self.root_key {
            let text = str::from_utf8(text.expose()).unwrap_or_default();
            let key = RootKey::from_text(text).context("SCRIP_ROOT_KEY cannot be used")?;
            return Ok(Arc::new(key));
        }
        let file = self.root_key_file();
        let cannot = || format!("the root key {} cannot be used", file.display());
        self.root_key_secret().check().with_context(cannot)?;
        Ok(Arc::new(RootKey::from_file(&file).with_context(cannot)?))
    }

    /// Makes the root key file when there is no key at all; whether it did.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn create_root_key(&self) -> anyhow::Result<bool> {
        let file = self.root_key_file();
        if self.root_key.is_some() || file.exists() {
            return Ok(false);
        }
        let created = RootKey::create_file(&file);
        created.with_context(|| format!("the root key {} cannot be made", file.display()))?;
        Ok(true)
    }

    /// Opens the store for a server. An embedded one, nobody else then can.
    ///
    /// # Errors
    /// The directory is missing or open elsewhere, or its database is not ours; PostgreSQL cannot be
    /// reached, or its schema is of another version.
    pub(crate) async fn open_store(&self, memory: MemoryState) -> anyhow::Result<Arc<dyn Store>> {
        if let Some(postgres) = self.storage.postgres()? {
            return self.open_postgres(postgres).await;
        }
        let folder = self.existing_data_dir()?;
        // A page of the database that is mapped would be locked too, and stay in memory for good.
        let pages = match memory {
            MemoryState::Locked => PageMode::Cached,
            MemoryState::Unlocked => PageMode::Mapped,
        };
        let store = SqliteStore::open_with(&self.database_file(), pages, ticks);
        let store = store.map_err(explain);
        let store = store.with_context(|| match control::query_status(folder) {
            Some(it) => format!("{} is served by process {}", folder.display(), it.pid),
            None => format!("{} cannot be opened", folder.display()),
        });
        Ok(Arc::new(store?))
    }

    /// Brings an older schema up to date where that is allowed. Where there is none, nothing is made:
    /// a wrong address must not begin an empty vault.
    async fn open_postgres(&self, postgres: PostgresSettings) -> anyhow::Result<Arc<dyn Store>> {
        let may_migrate = self.storage.migrate == Switch::On;
        if may_migrate && schema_version(&postgres).await?.is_some() {
            let MigrationResult { from, to } = migrate_postgres(&postgres).await?;
            if from != to {
                tracing::info!(from, to, "the schema was brought up to date");
            }
        }
        Ok(Arc::new(connect_postgres(postgres).await?))
    }

    /// Keeps others from serving with this data directory, where the store does not do so itself.
    ///
    /// # Errors
    /// Another server has it.
    pub fn lock_data_dir(&self) -> anyhow::Result<Option<File>> {
        if self.storage.url.is_none() {
            return Ok(None);
        }
        let folder = &self.storage.data_dir;
        let file = folder.join("node.lock");
        let cannot = || format!("{} cannot be opened", file.display());
        let mut options = File::options();
        let lock = options.write(true).create(true).truncate(false).mode(0o600).open(&file);
        let lock = lock.with_context(cannot)?;
        lock.try_lock().map_err(|_| match control::query_status(folder) {
            Some(it) => anyhow::anyhow!("{} is served by process {}", folder.display(), it.pid),
            None => anyhow::anyhow!("another process has {} open", folder.display()),
        })?;
        Ok(Some(lock))
    }

    /// A server's vault on that store.
    ///
    /// # Errors
    /// As [`Settings::open_store`]; or the epoch keys have no place that will do.
    pub async fn open_vault(
        &self,
        memory: MemoryState,
        directory_servers: Arc<dyn DirectoryServers>,
    ) -> anyhow::Result<Vault> {
        epoch_keys::check_sharing(self)?;
        let store = self.open_store(memory).await?;
        Ok(Vault {
            epoch_keys: Arc::new(epoch_keys::open_epoch_keys(self).await?),
            // What the vault knows about the time can be checked when it is open, and counts then.
            clock: Arc::new(SteadyClock::start(None, self.clock.start)),
            audit_trail: Arc::new(AuditTrail::new(self.audit.reads)),
            directory_servers,
            ..command_vault(store)
        })
    }

    /// A vault for an operator's command, on a store that a server may have open too.
    ///
    /// # Errors
    /// The directory is missing, or its database is not ours; or as [`Settings::open_store`].
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

    /// The vault, row by row, which nobody else may use meanwhile. An embedded one is made if there is
    /// none.
    ///
    /// # Errors
    /// A server runs with this data directory, or as [`Settings::open_store`].
    pub async fn open_rows(&self) -> anyhow::Result<Box<dyn TransferEngine>> {
        let folder = &self.storage.data_dir;
        if let Some(it) = control::query_status(folder) {
            anyhow::bail!("{} is served by process {}; stop it first", folder.display(), it.pid);
        }
        if let Some(postgres) = self.storage.postgres()? {
            let rows = PostgresTransfer::open(postgres.clone()).await;
            return Ok(Box::new(rows.map_err(|it| postgres_error(&postgres, it))?));
        }
        let rows = SqliteTransfer::open(&self.database_file()).map_err(explain);
        let rows = rows.with_context(|| format!("{} cannot be opened", folder.display()))?;
        let busy = || format!("another process has {} open; stop it first", folder.display());
        Ok(Box::new(rows.with_context(busy)?))
    }

    /// The data directory; for the embedded engine, with a database in it.
    ///
    /// # Errors
    /// Either is missing.
    pub fn existing_data_dir(&self) -> anyhow::Result<&Path> {
        let folder = &self.storage.data_dir;
        if !folder.is_dir() {
            anyhow::bail!("there is no data directory {}; run: scrip init", folder.display());
        }
        if self.storage.url.is_none() && !self.database_file().is_file() {
            anyhow::bail!("there is no vault in {}; run: scrip init", folder.display());
        }
        Ok(folder)
    }

    /// Makes the database, or PostgreSQL's schema, and leaves what is there as it is. Nothing else
    /// makes one: a wrong path must not begin an empty vault.
    ///
    /// # Errors
    /// The directory cannot be written, or has a database that is not ours; PostgreSQL does not let
    /// us.
    pub async fn create_store(&self) -> anyhow::Result<()> {
        if let Some(postgres) = self.storage.postgres()? {
            // An older one is for `scrip migrate`, once its servers have stopped.
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
}

/// What went wrong with PostgreSQL, and where that is. Its password is not in it.
fn postgres_error(postgres: &PostgresSettings, error: StoreError) -> anyhow::Error {
    explain(error).context(format!("{} cannot be used", postgres.redacted()))
}

/// # Errors
/// It cannot be reached, or its schema is of another version.
pub async fn connect_postgres(postgres: PostgresSettings) -> anyhow::Result<PostgresStore> {
    let opened = PostgresStore::open(postgres.clone()).await;
    opened.map_err(|it| postgres_error(&postgres, it))
}

/// # Errors
/// It cannot be reached, does not let us, or has a newer schema.
pub async fn migrate_postgres(postgres: &PostgresSettings) -> anyhow::Result<MigrationResult> {
    let migrated = PostgresStore::migrate(postgres.clone()).await;
    migrated.map_err(|it| postgres_error(postgres, it))
}

async fn schema_version(postgres: &PostgresSettings) -> anyhow::Result<Option<i64>> {
    let version = PostgresStore::schema_version(postgres.clone()).await;
    version.map_err(|it| postgres_error(postgres, it))
}

/// A command's, which neither seals nor opens a code.
fn command_vault(store: Arc<dyn Store>) -> Vault {
    Vault {
        store,
        epoch_keys: Arc::new(EpochKeys::in_memory(epoch_keys::EPOCH_LENGTH)),
        bin_data: Arc::default(),
        clock: Arc::new(SystemClock),
        fill_random: scrip_seal::fill_random,
        disclosure: scrip_core::token::disclosure::DisclosureRules::default(),
        audit_trail: Arc::default(),
        guess_ledger: Arc::default(),
        directory_servers: Arc::new(NoDirectoryServers::default()),
    }
}

/// Makes the directory for its owner only; whether it did.
///
/// # Errors
/// It cannot be made.
pub fn create_folder(folder: &Path) -> anyhow::Result<bool> {
    if folder.is_dir() {
        return Ok(false);
    }
    let created = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    created.with_context(|| format!("{} cannot be made", folder.display()))?;
    Ok(true)
}

/// The cause of a failed start is for the operator, who is reading.
pub fn explain(error: impl Into<Error>) -> anyhow::Error {
    match error.into() {
        Error::Unavailable(cause) | Error::Internal(cause) => anyhow::anyhow!("{cause}"),
        Error::Invalid(fields) => {
            let say = |it: &FieldError| format!("{} {}", it.field, it.problem);
            anyhow::anyhow!("{}", fields.iter().map(say).collect::<Vec<_>>().join("\n"))
        }
        other @ (Error::Forbidden(_)
        | Error::NotFound
        | Error::NotReady { .. }
        | Error::Conflict { .. }
        | Error::Unprocessable { .. }
        | Error::RateLimited(_)
        | Error::BudgetExhausted
        | Error::Service(_)) => other.into(),
    }
}
