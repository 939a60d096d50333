//! A vault on an engine, with a clock that stands still until it is told to move.

use std::{path::PathBuf, sync::Arc, time::Duration};

use scrip_core::{
    Vault,
    error::Error,
    id::{ApplicationId, TokenId},
    operations::tenants::create_tenant::{create_tenant, found_vault},
    policy::{
        AccessPolicy, ApplicationKind, Caller, Directory, Known, Mandate, Name, Origin, Principal,
        Settings, Tenant, TenantKind,
    },
    store::{Store, StoreError},
    token::Containers,
};
use scrip_seal::{EpochKeys, RootKey};
use scrip_store::{
    PostgresStore, SqliteStore,
    postgres::{PostgresSettings, transfer::PostgresRows},
    sqlite::transfer::SqliteRows,
    transfer::Rows,
};
use tempfile::TempDir;

use crate::{
    clock::StoppedClock,
    memory::MemoryStore,
    postgres::{Database, SERVING},
    vault::{create_key, root_key, vault_with},
};

/// For one node of a test.
pub fn settings(database: &Database) -> PostgresSettings {
    let settings = PostgresSettings::parse(&database.url()).unwrap().connections(8);
    settings.trusting_the_clock_of_the_node()
}

async fn migrate(url: &str) {
    let settings = PostgresSettings::parse(url).unwrap();
    PostgresStore::migrate(settings.served_by(SERVING)).await.unwrap();
}

/// The engine that a vault is stored on.
#[derive(Debug, Clone, Copy)]
pub enum Engine {
    Memory,
    Sqlite,
    Postgres,
}

/// A vault on an engine. The store is dropped before the folder that its file is in.
#[derive(Debug)]
pub struct VaultHarness {
    pub vault: Vault,
    pub clock: Arc<StoppedClock>,
    root: RootKey,
    folder: TempDir,
    database: Option<Database>,
}

impl VaultHarness {
    pub async fn open(engine: Engine) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut database = None;
        let store: Arc<dyn Store> = match engine {
            Engine::Postgres => {
                let made = database.insert(Database::create(migrate).await);
                Arc::new(PostgresStore::open(settings(made)).await.unwrap())
            }
            Engine::Memory => Arc::new(MemoryStore::default()),
            Engine::Sqlite => Arc::new(SqliteStore::open(&folder.path().join("scrip.db")).unwrap()),
        };
        Self::found(store, folder, database).await
    }

    /// The model of an engine. It numbers tokens as the engine does, because a cursor may name a
    /// deleted token.
    pub async fn open_model(engine: Engine) -> Self {
        let store = match engine {
            Engine::Postgres => MemoryStore::with_unique_token_numbers(),
            Engine::Memory | Engine::Sqlite => MemoryStore::default(),
        };
        Self::found(Arc::new(store), tempfile::tempdir().unwrap(), None).await
    }

    async fn found(store: Arc<dyn Store>, folder: TempDir, database: Option<Database>) -> Self {
        let (vault, clock) = vault_on(store);
        let root = root_key();
        found_vault(&vault, &root).await.unwrap();
        Self { vault, clock, root, folder, database }
    }

    /// A place for a vault, and none in it.
    pub async fn empty(engine: Engine) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let database = match engine {
            Engine::Postgres => Some(Database::create(migrate).await),
            Engine::Memory | Engine::Sqlite => None,
        };
        let (vault, clock) = vault_on(Arc::new(MemoryStore::default()));
        Self { vault, clock, root: root_key(), folder, database }
    }

    /// One that somebody fills first, row by row.
    pub async fn filled(engine: Engine, fill: impl AsyncFnOnce(&mut dyn Rows)) -> Self {
        let mut world = Self::empty(engine).await;
        fill(&mut *world.rows().await).await;
        world.open_again().await;
        found_vault(&world.vault, &world.root).await.unwrap();
        world
    }

    /// The vault, row by row: until it is opened again, nobody else has it.
    pub async fn rows(&mut self) -> Box<dyn Rows> {
        self.vault.store = Arc::new(MemoryStore::default());
        match &self.database {
            Some(database) => Box::new(PostgresRows::open(settings(database)).await.unwrap()),
            None => Box::new(SqliteRows::open(&self.file()).unwrap().unwrap()),
        }
    }

    pub async fn open_again(&mut self) {
        // One at a time.
        self.vault.store = Arc::new(MemoryStore::default());
        self.vault.store = self.try_open().await.unwrap();
    }

    /// As a server would.
    pub async fn try_open(&self) -> Result<Arc<dyn Store>, StoreError> {
        Ok(match &self.database {
            Some(database) => Arc::new(PostgresStore::open(settings(database)).await?),
            None => Arc::new(SqliteStore::open(&self.file())?),
        })
    }

    /// Where an engine that has a file keeps it.
    pub fn file(&self) -> PathBuf {
        self.folder.path().join("scrip.db")
    }

    /// What a second node would be told.
    pub fn database(&self) -> &Database {
        self.database.as_ref().unwrap()
    }

    /// The same folder with the store closed, and another one opened.
    pub fn with_store(mut self, open: impl FnOnce() -> Arc<dyn Store>) -> Self {
        self.vault.store = Arc::new(MemoryStore::default());
        self.vault.store = open();
        self
    }

    /// The same vault in a process that was started later.
    pub fn restarted(&self) -> Vault {
        Vault { epochs: Arc::new(epochs()), ..self.vault.clone() }
    }

    pub async fn directory(&self) -> Directory {
        Directory::load(&*self.vault.store, &self.root, None).await.unwrap()
    }

    /// As a process that already had a directory loads the next one.
    pub async fn reload(&self, before: Option<&Directory>) -> Result<Directory, Error> {
        Directory::load(&*self.vault.store, &self.root, before).await
    }

    pub async fn tenant(&self, settings: Settings) -> Arc<Tenant> {
        let name = Name::parse("acme").unwrap();
        let created = create_tenant(&self.vault, &self.root, name, TenantKind::Test, settings);
        let id = created.await.unwrap();
        Arc::clone(self.directory().await.tenant(id).unwrap())
    }

    /// A new application's caller, by the way a request takes: its key.
    pub async fn caller(&self, tenant: &Arc<Tenant>, access: AccessPolicy) -> Caller {
        self.caller_of(tenant, ApplicationKind::Private, access).await
    }

    pub async fn caller_of(
        &self,
        tenant: &Arc<Tenant>,
        kind: ApplicationKind,
        access: AccessPolicy,
    ) -> Caller {
        self.known(&self.key_of(tenant, kind, access).await).await
    }

    /// A new application's key.
    pub async fn key_of(
        &self,
        tenant: &Arc<Tenant>,
        kind: ApplicationKind,
        access: AccessPolicy,
    ) -> String {
        let directory = self.directory().await;
        let mandate = Mandate::of_operator(Arc::clone(tenant));
        create_key(&self.vault, directory.pepper(), mandate, kind, access).await.key
    }

    /// Whoever has this key.
    pub async fn known(&self, key: &str) -> Caller {
        match self.directory().await.authenticate(key) {
            Some(Known::Principal { principal, api_key }) => {
                Caller::new(Arc::clone(principal), origin()).with_api_key(Some(*api_key))
            }
            other => panic!("{other:?}"),
        }
    }

    /// The same application after its rights were changed.
    pub fn changed(
        &self,
        tenant: &Arc<Tenant>,
        application: ApplicationId,
        access: AccessPolicy,
    ) -> Caller {
        let kind = ApplicationKind::Private;
        let principal = Principal::new(Arc::clone(tenant), application, kind, access);
        Caller::new(Arc::new(principal), origin())
    }
}

/// A vault on this store, with a clock that stands still.
pub fn vault_on(store: Arc<dyn Store>) -> (Vault, Arc<StoppedClock>) {
    let clock = Arc::new(StoppedClock::default());
    let vault = vault_with(store, Arc::<StoppedClock>::clone(&clock));
    (Vault { epochs: Arc::new(epochs()), ..vault }, clock)
}

fn epochs() -> EpochKeys {
    EpochKeys::in_memory(Duration::from_secs(10 * 60))
}

pub fn origin() -> Origin {
    Origin { trace: "test".into(), address: [127, 0, 0, 1].into() }
}

pub fn containers(texts: &[&str]) -> Containers {
    Containers::parse(texts.iter().copied()).unwrap()
}

pub fn token_id(text: &str) -> TokenId {
    TokenId::parse(text).unwrap()
}
