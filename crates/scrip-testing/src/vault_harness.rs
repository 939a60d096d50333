//! A vault on an engine, with a clock that only tests advance.

use std::{path::PathBuf, sync::Arc, time::Duration};

use scrip_core::{
    Error, Vault,
    operations::tenants::{
        create_tenant::{create_tenant, initialize_vault_keys},
        purge_tenants::purge_tenants,
    },
    policy::{
        AccessPolicy, ApiKeyLookup, Caller, Directory, DisplayName, PolicyPermit, Principal,
        RequestOrigin, Tenant, TenantSettings,
    },
    store::{Store, open_directory},
    types::{
        ApplicationKind, Containers, Permission, StoreError, TenantKind, Transform,
        id::{ApplicationId, TokenId},
    },
};
use scrip_seal::{EpochKeys, RootKey};
use scrip_store::{
    PostgresStore, SqliteStore,
    postgres::{PostgresSettings, transfer::PostgresTransfer},
    sqlite::transfer::SqliteTransfer,
    transfer::TransferEngine,
};
use tempfile::TempDir;

use crate::{
    clock::StoppedClock,
    memory::MemoryStore,
    policy::{TOKENS, access_rule, access_with_rules, access_without_rules},
    postgres::{SERVE_ROLE, TestDatabase},
    vault::{create_key, new_vault, root_key},
};

/// The settings of one node.
pub fn node_settings(database: &TestDatabase) -> PostgresSettings {
    let settings = PostgresSettings::parse(&database.url()).unwrap().with_connections(8);
    settings.with_node_clock()
}

async fn migrate(url: &str) {
    let settings = PostgresSettings::parse(url).unwrap();
    PostgresStore::migrate(settings.with_serve_role(SERVE_ROLE)).await.unwrap();
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
    database: Option<TestDatabase>,
}

impl VaultHarness {
    pub async fn open(engine: Engine) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut database = None;
        let store: Arc<dyn Store> = match engine {
            Engine::Postgres => {
                let test_database = database.insert(TestDatabase::create(migrate).await);
                Arc::new(PostgresStore::open(node_settings(test_database)).await.unwrap())
            }
            Engine::Memory => Arc::new(MemoryStore::default()),
            Engine::Sqlite => Arc::new(SqliteStore::open(&folder.path().join("scrip.db")).unwrap()),
        };
        Self::create_vault(store, folder, database).await
    }

    /// Opens the model of an engine. The model numbers tokens as the engine does, because a cursor
    /// may name a deleted token.
    pub async fn open_model(engine: Engine) -> Self {
        let store = match engine {
            Engine::Postgres => MemoryStore::with_unique_token_numbers(),
            Engine::Memory | Engine::Sqlite => MemoryStore::default(),
        };
        Self::create_vault(Arc::new(store), tempfile::tempdir().unwrap(), None).await
    }

    async fn create_vault(
        store: Arc<dyn Store>,
        folder: TempDir,
        database: Option<TestDatabase>,
    ) -> Self {
        let (vault, clock) = vault_with_stopped_clock(store);
        let root = root_key();
        initialize_vault_keys(&vault, &root).await.unwrap();
        Self { vault, clock, root, folder, database }
    }

    /// A folder and a database without a vault.
    pub async fn without_vault(engine: Engine) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let database = match engine {
            Engine::Postgres => Some(TestDatabase::create(migrate).await),
            Engine::Memory | Engine::Sqlite => None,
        };
        let (vault, clock) = vault_with_stopped_clock(Arc::new(MemoryStore::default()));
        Self { vault, clock, root: root_key(), folder, database }
    }

    /// Creates a vault after `fill` has imported rows.
    pub async fn imported(engine: Engine, fill: impl AsyncFnOnce(&mut dyn TransferEngine)) -> Self {
        let mut harness = Self::without_vault(engine).await;
        fill(&mut *harness.transfer_engine().await).await;
        harness.reopen().await;
        initialize_vault_keys(&harness.vault, &harness.root).await.unwrap();
        harness
    }

    /// The transfer engine of the vault. It has exclusive access until `reopen`.
    pub async fn transfer_engine(&mut self) -> Box<dyn TransferEngine> {
        self.vault.store = Arc::new(MemoryStore::default());
        match &self.database {
            Some(database) => {
                Box::new(PostgresTransfer::open(node_settings(database)).await.unwrap())
            }
            None => Box::new(SqliteTransfer::open(&self.file()).unwrap().unwrap()),
        }
    }

    pub async fn reopen(&mut self) {
        // Only one store can be open at a time.
        self.vault.store = Arc::new(MemoryStore::default());
        self.vault.store = self.try_open().await.unwrap();
    }

    /// Opens the store like a server does.
    pub async fn try_open(&self) -> Result<Arc<dyn Store>, StoreError> {
        Ok(match &self.database {
            Some(database) => Arc::new(PostgresStore::open(node_settings(database)).await?),
            None => Arc::new(SqliteStore::open(&self.file())?),
        })
    }

    /// The path of the database file, for engines with a file.
    pub fn file(&self) -> PathBuf {
        self.folder.path().join("scrip.db")
    }

    /// The database, for a second node.
    pub fn database(&self) -> &TestDatabase {
        self.database.as_ref().unwrap()
    }

    /// Closes the store and then replaces it.
    pub fn with_store(mut self, open_store: impl FnOnce() -> Arc<dyn Store>) -> Self {
        self.vault.store = Arc::new(MemoryStore::default());
        self.vault.store = open_store();
        self
    }

    /// The same vault as after a restart of the process: with new epoch keys.
    pub fn restart(&self) -> Vault {
        Vault { epoch_keys: Arc::new(new_epoch_keys()), ..self.vault.clone() }
    }

    pub async fn directory(&self) -> Directory {
        open_directory(&*self.vault.store, &self.root, None).await.unwrap()
    }

    /// The current directory, as background tasks share it.
    pub async fn shared_directory(&self) -> Arc<Directory> {
        Arc::new(self.directory().await)
    }

    /// Loads the directory like a process that has an earlier one.
    pub async fn reload(&self, previous: Option<&Directory>) -> Result<Directory, Error> {
        open_directory(&*self.vault.store, &self.root, previous).await
    }

    pub async fn tenant(&self, settings: TenantSettings) -> Arc<Tenant> {
        self.tenant_of_kind(TenantKind::Test, settings).await
    }

    pub async fn tenant_of_kind(&self, kind: TenantKind, settings: TenantSettings) -> Arc<Tenant> {
        let name = DisplayName::parse("acme").unwrap();
        let creation = create_tenant(&self.vault, &self.root, name, kind, settings);
        let id = creation.await.unwrap();
        Arc::clone(self.directory().await.tenant(id).unwrap())
    }

    /// Creates an application and authenticates its key, like a request does.
    pub async fn caller(&self, tenant: &Arc<Tenant>, access: AccessPolicy) -> Caller {
        self.caller_of_kind(tenant, ApplicationKind::Private, access).await
    }

    pub async fn default_tenant(&self) -> Arc<Tenant> {
        self.tenant(TenantSettings::default()).await
    }

    /// Creates a tenant with default settings, and a caller that may use tokens and reveals none.
    pub async fn tenant_with_default_caller(&self) -> (Arc<Tenant>, Caller) {
        let tenant = self.default_tenant().await;
        let caller = self.caller(&tenant, access_without_rules(TOKENS)).await;
        (tenant, caller)
    }

    /// Creates a tenant with default settings, and a caller that reveals with these permissions.
    pub async fn tenant_with_caller(&self, permissions: &[Permission]) -> (Arc<Tenant>, Caller) {
        let tenant = self.default_tenant().await;
        let caller = self.revealing_caller(&tenant, permissions).await;
        (tenant, caller)
    }

    /// Creates a caller with these permissions and a reveal rule on every container.
    pub async fn revealing_caller(
        &self,
        tenant: &Arc<Tenant>,
        permissions: &[Permission],
    ) -> Caller {
        let rule = access_rule("/", Transform::Reveal, permissions);
        self.caller(tenant, access_with_rules([rule])).await
    }

    /// Deletes the rows of all deleted tenants.
    pub async fn purge_tenants(&self) {
        while purge_tenants(&self.vault, &[]).await.unwrap() > 0 {}
    }

    pub async fn caller_of_kind(
        &self,
        tenant: &Arc<Tenant>,
        kind: ApplicationKind,
        access: AccessPolicy,
    ) -> Caller {
        self.authenticate(&self.create_api_key(tenant, kind, access).await).await
    }

    /// Creates an application and returns its key.
    pub async fn create_api_key(
        &self,
        tenant: &Arc<Tenant>,
        kind: ApplicationKind,
        access: AccessPolicy,
    ) -> String {
        let directory = self.directory().await;
        let permit = PolicyPermit::for_operator(Arc::clone(tenant));
        create_key(&self.vault, directory.pepper(), permit, kind, access).await.key
    }

    /// Authenticates a key and returns its caller.
    pub async fn authenticate(&self, key: &str) -> Caller {
        match self.directory().await.authenticate(key) {
            Some(ApiKeyLookup::Found { principal, api_key }) => {
                Caller::new(Arc::clone(principal), test_origin()).with_api_key(Some(*api_key))
            }
            lookup => panic!("the key is not found: {lookup:?}"),
        }
    }

    /// The same application with another access policy.
    pub fn caller_with_access(
        &self,
        tenant: &Arc<Tenant>,
        application: ApplicationId,
        access: AccessPolicy,
    ) -> Caller {
        let kind = ApplicationKind::Private;
        let principal = Principal::new(Arc::clone(tenant), application, kind, access);
        Caller::new(Arc::new(principal), test_origin())
    }
}

/// A vault on this store with a stopped clock.
pub fn vault_with_stopped_clock(store: Arc<dyn Store>) -> (Vault, Arc<StoppedClock>) {
    let clock = Arc::new(StoppedClock::default());
    let vault = new_vault(store, Arc::<StoppedClock>::clone(&clock));
    (Vault { epoch_keys: Arc::new(new_epoch_keys()), ..vault }, clock)
}

fn new_epoch_keys() -> EpochKeys {
    EpochKeys::in_memory(Duration::from_secs(10 * 60))
}

pub fn test_origin() -> RequestOrigin {
    RequestOrigin { trace: "test".into(), address: [127, 0, 0, 1].into() }
}

pub fn containers(texts: &[&str]) -> Containers {
    Containers::parse(texts.iter().copied()).unwrap()
}

pub fn token_id(text: &str) -> TokenId {
    TokenId::parse(text).unwrap()
}
