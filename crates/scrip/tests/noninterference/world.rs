//! A vault with tenants and applications, answering in process.

use std::{sync::Arc, time::Duration};

use scrip_api::{app::App, limiter::Limiter, router::InProcess};
use scrip_core::{
    Vault,
    audit::{AuditTrail, Reads},
    operations::tenants::{
        create_tenant::{create_tenant, found_vault},
        update_tenant::set_tenant_quotas,
    },
    policy::{
        AccessPolicy, ApplicationKind, DeduplicationBehavior, Directory, Mandate, Name, Permission,
        Permissions, Quotas, Settings, Tenant, TenantKind, Transform, tenant::quota::Limit,
    },
    store::Store,
    token::disclosure::DisclosureRules,
};
use scrip_seal::RootKey;
use scrip_server::process::clock::ticks;
use scrip_testing::{
    MemorySnapshot, MemoryStore,
    clock::StoppedClock,
    policy::{permissions_of, plain, rule},
    vault::{create_key, root_key, vault_with},
};

use crate::{directory_server::ApprovingServer, random, step::Actor};

/// Keys of one tenant, by actor. An access session has none before a sequence begins one.
#[derive(Debug, Clone)]
pub(crate) struct TenantHandle {
    keys: Vec<(Actor, String)>,
}

impl TenantHandle {
    pub(crate) fn key(&self, actor: Actor) -> Option<&str> {
        self.keys.iter().find(|it| it.0 == actor).map(|it| it.1.as_str())
    }
}

/// Engines other than the model keep what sequences leave, equal in both vaults.
pub(crate) enum Storage {
    Memory(Arc<MemoryStore>),
    Engine(Arc<dyn Store>),
}

#[derive(Debug)]
pub(crate) struct VaultHarness {
    app: Arc<App>,
    pub(crate) requests: InProcess,
    pub(crate) clock: Arc<StoppedClock>,
    pub(crate) tenants: Vec<TenantHandle>,
    /// The state that every sequence starts from, where the engine can go back to it.
    start: Option<(Arc<MemoryStore>, MemorySnapshot)>,
}

impl VaultHarness {
    pub(crate) async fn new(
        storage: Storage,
        tenants: &[TenantPlan],
        disclosure: DisclosureRules,
    ) -> Self {
        random::restart(1);
        let clock = Arc::new(StoppedClock::default());
        let root = Arc::new(root_key());
        let (store, reads): (Arc<dyn Store>, _) = match &storage {
            Storage::Memory(it) => (Arc::<MemoryStore>::clone(it), Reads::Off),
            Storage::Engine(it) => (Arc::clone(it), Reads::Durable),
        };
        let vault = Vault {
            disclosure,
            chance: random::fill,
            audit: Arc::new(AuditTrail::new(reads)),
            directory_servers: Arc::new(ApprovingServer::default()),
            ..vault_with(store, Arc::<StoppedClock>::clone(&clock))
        };
        found_vault(&vault, &*root).await.unwrap();
        let directory = Directory::load(&*vault.store, &*root, None).await.unwrap();
        let mut app = App::new(vault, directory, Arc::<RootKey>::clone(&root), ticks);
        app.limiter = Limiter::off();
        let app = Arc::new(app);
        let mut handles = Vec::new();
        for plan in tenants {
            handles.push(tenant(&app, &root, plan).await);
        }
        let start = match storage {
            Storage::Memory(it) => {
                let snapshot = it.snapshot();
                Some((it, snapshot))
            }
            Storage::Engine(_) => None,
        };
        Self { requests: InProcess::new(&app), app, clock, tenants: handles, start }
    }

    /// Whether every sequence starts from the same state.
    pub(crate) fn starts_over(&self) -> bool {
        self.start.is_some()
    }

    /// Begins a sequence. Every budget that counts in a window of time is whole again.
    pub(crate) async fn begin(&self) {
        let Vault { guesses, store, clock, .. } = &self.app.vault;
        guesses.flush(&**store, clock.now()).await.unwrap();
        if let Some((store, snapshot)) = &self.start {
            store.restore(snapshot);
        }
        self.clock.advance(Duration::from_secs(100 * 24 * 60 * 60));
    }
}

/// What a tenant is made of.
#[derive(Debug, Clone)]
pub(crate) struct TenantPlan {
    kind: TenantKind,
    settings: Settings,
    /// Instead of the guessing and search budgets of its kind, so that short sequences spend them.
    budgets: Option<Limit>,
}

/// Test tenants have no guessing and search budgets; production tenants have them. The later half
/// of the plans updates the duplicate that a create finds.
pub(crate) fn tenant_plans() -> Vec<TenantPlan> {
    let deduplicating = |token_deduplication_behavior| Settings {
        deduplicate_tokens: true,
        token_deduplication_behavior,
        ..Settings::default()
    };
    let plan = |kind, settings, budgets| TenantPlan { kind, settings, budgets };
    let updating = deduplicating(DeduplicationBehavior::UpdateExisting);
    let reading = deduplicating(DeduplicationBehavior::ReadExisting);
    let small = |count| Some(Limit::Count(count));
    vec![
        plan(TenantKind::Test, Settings::default(), None),
        plan(TenantKind::Test, reading.clone(), None),
        plan(TenantKind::Production, reading, small(2)),
        plan(TenantKind::Test, updating.clone(), None),
        plan(TenantKind::Production, updating.clone(), None),
        plan(TenantKind::Production, updating, small(1)),
    ]
}

async fn tenant(app: &App, root: &Arc<RootKey>, plan: &TenantPlan) -> TenantHandle {
    let TenantPlan { kind, settings, budgets } = plan.clone();
    let name = Name::parse("test").unwrap();
    let id = create_tenant(&app.vault, &**root, name, kind, settings).await.unwrap();
    app.reload().await.unwrap();
    let found = || Arc::clone(app.directory.load().as_ref().unwrap().tenant(id).unwrap());
    let edit = move |quotas| {
        let quotas = Quotas { threeds_access: true, ..quotas };
        let Some(limit) = budgets else { return quotas };
        Quotas {
            number_guesses_day: limit,
            number_guesses_quarter: limit,
            number_guesses_application: limit,
            search_misses: limit,
            ..quotas
        }
    };
    let mandate = Mandate::of_operator(found());
    set_tenant_quotas(&app.vault, mandate, Box::new(edit)).await.unwrap();
    app.reload().await.unwrap();

    let private = permissions_of(ApplicationKind::Private);
    let public = permissions_of(ApplicationKind::Public);
    let ruled = |rules| AccessPolicy { permissions: Permissions::default(), rules };
    let everything = vec![rule("/", Transform::Reveal, &private)];
    let merchant = vec![
        rule("/own/", Transform::Reveal, &private),
        rule("/bank/", Transform::Redact, &private),
        rule("/general/", Transform::Mask, &[Permission::TokenRead, Permission::TokenCreate]),
        rule("/pci/", Transform::Mask, &[Permission::TokenCreate]),
    ];
    let applications = [
        (Actor::Backend, ApplicationKind::Private, ruled(everything)),
        (Actor::Public, ApplicationKind::Public, plain(&public)),
        (Actor::Masked, ApplicationKind::Private, plain(&private)),
        (Actor::Ruled, ApplicationKind::Private, ruled(merchant)),
    ];
    let mut keys = Vec::new();
    for (actor, kind, access) in applications {
        let key = application(app, &found(), kind, access).await;
        if actor == Actor::Public {
            keys.push((Actor::Browser, key.clone()));
        }
        keys.push((actor, key));
    }
    TenantHandle { keys }
}

async fn application(
    app: &App,
    tenant: &Arc<Tenant>,
    kind: ApplicationKind,
    access: AccessPolicy,
) -> String {
    let pepper = app.pepper().unwrap();
    let mandate = Mandate::of_operator(Arc::clone(tenant));
    let created = create_key(&app.vault, &pepper, mandate, kind, access).await;
    app.reload().await.unwrap();
    created.key
}
