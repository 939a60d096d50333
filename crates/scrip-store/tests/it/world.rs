//! A vault on an engine, with a clock that stands still until it is told to move.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use peers::postgres::{Database, SERVING};
use scrip_core::{
    Vault,
    access::{AccessPolicy, AccessRule, Reach},
    application::Name,
    caller::{Caller, Mandate, Origin},
    container::{Container, Containers},
    directory::{Directory, Known},
    error::Error,
    id::{ApplicationId, TokenId},
    operations::{
        create_application::{CreateKey, NewApplication, create_application},
        create_tenant::{create_tenant, found_vault},
    },
    permission::{ApplicationKind, Permission, Permissions, Transform},
    principal::Principal,
    store::{Store, StoreError},
    tenant::{Settings, Tenant, TenantKind},
    time::{Clock, Timestamp},
};
use scrip_seal::{EpochKeys, RootKey, fill_random};
use scrip_store::{
    MemoryStore, PostgresStore, SqliteStore,
    postgres::{PostgresSettings, transfer::PostgresRows},
    sqlite::transfer::SqliteRows,
    transfer::Rows,
};
use tempfile::TempDir;

/// When every test begins.
pub(crate) const START: Timestamp = Timestamp { unix_ms: 1_800_000_000_000 };

const ROOT_KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

pub(crate) struct StoppedClock(AtomicI64);

impl StoppedClock {
    pub(crate) fn advance(&self, by: Duration) {
        self.0.store(self.now().after(by).unix_ms, Ordering::SeqCst);
    }
}

impl StoppedClock {
    /// Also back.
    pub(crate) fn set(&self, to: Timestamp) {
        self.0.store(to.unix_ms, Ordering::SeqCst);
    }
}

impl Clock for StoppedClock {
    fn now(&self) -> Timestamp {
        Timestamp { unix_ms: self.0.load(Ordering::SeqCst) }
    }
}

/// For one node of a test.
pub(crate) fn settings(database: &Database) -> PostgresSettings {
    let settings = PostgresSettings::parse(&database.url()).unwrap().connections(8);
    settings.trusting_the_clock_of_the_node()
}

async fn migrate(url: &str) {
    let settings = PostgresSettings::parse(url).unwrap();
    PostgresStore::migrate(settings.served_by(SERVING)).await.unwrap();
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Engine {
    Memory,
    Sqlite,
    Postgres,
}

/// The store goes before the folder that its file is in.
pub(crate) struct World {
    pub(crate) vault: Vault,
    pub(crate) clock: Arc<StoppedClock>,
    root: RootKey,
    folder: TempDir,
    database: Option<Database>,
}

impl World {
    pub(crate) async fn open(engine: Engine) -> Self {
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
        let (vault, clock) = vault_on(store);
        let root = root();
        found_vault(&vault, &root).await.unwrap();
        Self { vault, clock, root, folder, database }
    }

    /// A place for a vault, and none in it.
    pub(crate) async fn empty(engine: Engine) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let database = match engine {
            Engine::Postgres => Some(Database::create(migrate).await),
            Engine::Memory | Engine::Sqlite => None,
        };
        let (vault, clock) = vault_on(Arc::new(MemoryStore::default()));
        Self { vault, clock, root: root(), folder, database }
    }

    /// One that somebody fills first, row by row.
    pub(crate) async fn filled(engine: Engine, fill: impl AsyncFnOnce(&mut dyn Rows)) -> Self {
        let mut world = Self::empty(engine).await;
        fill(&mut *world.rows().await).await;
        world.open_again().await;
        found_vault(&world.vault, &world.root).await.unwrap();
        world
    }

    /// The vault, row by row: until it is opened again, nobody else has it.
    pub(crate) async fn rows(&mut self) -> Box<dyn Rows> {
        self.vault.store = Arc::new(MemoryStore::default());
        match &self.database {
            Some(database) => Box::new(PostgresRows::open(settings(database)).await.unwrap()),
            None => Box::new(SqliteRows::open(&self.file()).unwrap().unwrap()),
        }
    }

    pub(crate) async fn open_again(&mut self) {
        // One at a time.
        self.vault.store = Arc::new(MemoryStore::default());
        self.vault.store = self.try_open().await.unwrap();
    }

    /// As a server would.
    pub(crate) async fn try_open(&self) -> Result<Arc<dyn Store>, StoreError> {
        Ok(match &self.database {
            Some(database) => Arc::new(PostgresStore::open(settings(database)).await?),
            None => Arc::new(SqliteStore::open(&self.file())?),
        })
    }

    /// Where an engine that has a file keeps it.
    pub(crate) fn file(&self) -> PathBuf {
        self.folder.path().join("scrip.db")
    }

    /// What a second node would be told.
    pub(crate) fn database(&self) -> &Database {
        self.database.as_ref().unwrap()
    }

    /// The same folder with the store closed, and another one opened.
    pub(crate) fn with_store(mut self, open: impl FnOnce() -> Arc<dyn Store>) -> Self {
        self.vault.store = Arc::new(MemoryStore::default());
        self.vault.store = open();
        self
    }

    /// The same vault in a process that was started later.
    pub(crate) fn restarted(&self) -> Vault {
        Vault { epochs: Arc::new(epochs()), ..self.vault.clone() }
    }

    pub(crate) async fn directory(&self) -> Directory {
        Directory::load(&*self.vault.store, &self.root, None).await.unwrap()
    }

    /// As a process that already had a directory loads the next one.
    pub(crate) async fn reload(&self, before: Option<&Directory>) -> Result<Directory, Error> {
        Directory::load(&*self.vault.store, &self.root, before).await
    }

    pub(crate) async fn tenant(&self, settings: Settings) -> Arc<Tenant> {
        let name = Name::parse("acme").unwrap();
        let created = create_tenant(&self.vault, &self.root, name, TenantKind::Test, settings);
        let id = created.await.unwrap();
        Arc::clone(self.directory().await.tenant(id).unwrap())
    }

    /// A new application's caller, by the way a request takes: its key.
    pub(crate) async fn caller(&self, tenant: &Arc<Tenant>, access: AccessPolicy) -> Caller {
        self.caller_of(tenant, ApplicationKind::Private, access).await
    }

    pub(crate) async fn caller_of(
        &self,
        tenant: &Arc<Tenant>,
        kind: ApplicationKind,
        access: AccessPolicy,
    ) -> Caller {
        self.known(&self.key_of(tenant, kind, access).await).await
    }

    /// A new application's key.
    pub(crate) async fn key_of(
        &self,
        tenant: &Arc<Tenant>,
        kind: ApplicationKind,
        access: AccessPolicy,
    ) -> String {
        let name = Name::parse("app").unwrap();
        let new = NewApplication { name, kind, access, create_key: CreateKey::Yes };
        let mandate = Mandate::of_operator(Arc::clone(tenant));
        let directory = self.directory().await;
        let created = create_application(&self.vault, mandate, directory.pepper(), new, None).await;
        created.unwrap().api_key.unwrap().expose().to_owned()
    }

    /// Whoever has this key.
    pub(crate) async fn known(&self, key: &str) -> Caller {
        match self.directory().await.authenticate(key) {
            Some(Known::Principal { principal, api_key }) => {
                Caller::new(Arc::clone(principal), origin()).with_api_key(Some(*api_key))
            }
            other => panic!("{other:?}"),
        }
    }

    /// The same application after its rights were changed.
    pub(crate) fn changed(
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

pub(crate) fn root() -> RootKey {
    RootKey::from_text(ROOT_KEY).unwrap()
}

pub(crate) fn vault_on(store: Arc<dyn Store>) -> (Vault, Arc<StoppedClock>) {
    let clock = Arc::new(StoppedClock(AtomicI64::new(START.unix_ms)));
    let vaults_clock: Arc<dyn Clock> = Arc::<StoppedClock>::clone(&clock);
    let epochs = Arc::new(epochs());
    let bins = Arc::default();
    let audit = Arc::default();
    let guesses = Arc::default();
    let directory_servers = Arc::new(scrip_core::threeds::NoDirectoryServers::default());
    let vault = Vault {
        store,
        epochs,
        bins,
        clock: vaults_clock,
        audit,
        guesses,
        directory_servers,
        chance: fill_random,
        disclosure: scrip_core::disclosure::DisclosureRules::default(),
    };
    (vault, clock)
}

fn epochs() -> EpochKeys {
    EpochKeys::in_memory(Duration::from_secs(10 * 60))
}

pub(crate) fn origin() -> Origin {
    Origin { trace: "test".into(), address: [127, 0, 0, 1].into() }
}

pub(crate) const TOKENS: &[Permission] = &[
    Permission::TokenCreate,
    Permission::TokenRead,
    Permission::TokenUpdate,
    Permission::TokenDelete,
];

/// Rights without a rule.
pub(crate) fn plain(permissions: &[Permission]) -> AccessPolicy {
    AccessPolicy { permissions: Permissions::of(permissions), rules: vec![] }
}

/// Rights by rules, the first of which goes first.
pub(crate) fn ruled(rules: &[(&str, Transform, &[Permission])]) -> AccessPolicy {
    let rule =
        |(priority, (container, transform, permissions)): (i64, &(&str, _, &[_]))| AccessRule {
            description: String::new(),
            priority,
            reach: Reach::Container(Container::parse(container).unwrap()),
            transform: *transform,
            permissions: Permissions::of(permissions),
        };
    AccessPolicy {
        permissions: Permissions::default(),
        rules: (0..).zip(rules).map(rule).collect(),
    }
}

pub(crate) fn containers(texts: &[&str]) -> Containers {
    Containers::parse(texts.iter().copied()).unwrap()
}

pub(crate) fn token_id(text: &str) -> TokenId {
    TokenId::parse(text).unwrap()
}
