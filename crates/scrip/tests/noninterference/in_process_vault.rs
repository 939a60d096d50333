//! A vault with tenants and applications, answering in process.

use std::{sync::Arc, time::Duration};

use scrip_api::{app::App, limiter::Limiter, router::InProcessServer};
use scrip_core::{
    Vault,
    audit::{AuditTrail, ReadRecording},
    operations::tenants::{
        create_tenant::{create_tenant, initialize_vault_keys},
        update_tenant::set_tenant_quotas,
    },
    policy::{
        AccessPolicy, ApplicationKind, DeduplicationBehavior, Directory, DisplayName, Permission,
        Permissions, PolicyPermit, Quotas, Tenant, TenantKind, TenantSettings, Transform,
        tenant::quota::QuotaLimit,
    },
    store::Store,
    token::disclosure::DisclosureRules,
};
use scrip_seal::RootKey;
use scrip_server::process::clock::ticks;
use scrip_testing::{
    MemorySnapshot, MemoryStore,
    clock::StoppedClock,
    policy::{access_rule, access_without_rules, permissions_for_kind},
    vault::{create_key, new_vault, root_key},
};

use crate::{directory_server::ApprovingServer, random, step::Actor};

/// Keys of one tenant, by actor. An access session has none before a sequence begins one.
#[derive(Debug, Clone)]
pub(crate) struct TenantKeysByActor {
    keys: Vec<(Actor, String)>,
}

impl TenantKeysByActor {
    pub(crate) fn key(&self, actor: Actor) -> Option<&str> {
        self.keys.iter().find(|it| it.0 == actor).map(|it| it.1.as_str())
    }
}

/// Engines other than the model keep what sequences leave, equal in both vaults.
pub(crate) enum HarnessStorage {
    Memory(Arc<MemoryStore>),
    Engine(Arc<dyn Store>),
}

#[derive(Debug)]
pub(crate) struct InProcessVault {
    app: Arc<App>,
    pub(crate) server: InProcessServer,
    pub(crate) clock: Arc<StoppedClock>,
    pub(crate) tenants: Vec<TenantKeysByActor>,
    /// The state that every sequence starts from, where the engine can go back to it.
    start_snapshot: Option<(Arc<MemoryStore>, MemorySnapshot)>,
}

impl InProcessVault {
    pub(crate) async fn new(
        storage: HarnessStorage,
        tenants: &[TenantPlan],
        disclosure: DisclosureRules,
    ) -> Self {
        random::restart(1);
        let clock = Arc::new(StoppedClock::default());
        let root = Arc::new(root_key());
        let (store, reads): (Arc<dyn Store>, _) = match &storage {
            HarnessStorage::Memory(it) => (Arc::<MemoryStore>::clone(it), ReadRecording::Off),
            HarnessStorage::Engine(it) => (Arc::clone(it), ReadRecording::Durable),
        };
        let vault = Vault {
            disclosure,
            fill_random: random::fill,
            audit_trail: Arc::new(AuditTrail::new(reads)),
            directory_servers: Arc::new(ApprovingServer::default()),
            ..new_vault(store, Arc::<StoppedClock>::clone(&clock))
        };
        initialize_vault_keys(&vault, &*root).await.unwrap();
        let directory = Directory::load(&*vault.store, &*root, None).await.unwrap();
        let mut app = App::new(vault, directory, Arc::<RootKey>::clone(&root), ticks);
        app.limiter = Limiter::disabled();
        let app = Arc::new(app);
        let mut handles = Vec::new();
        for plan in tenants {
            handles.push(create_tenant_keys(&app, &root, plan).await);
        }
        let start = match storage {
            HarnessStorage::Memory(it) => {
                let snapshot = it.snapshot();
                Some((it, snapshot))
            }
            HarnessStorage::Engine(_) => None,
        };
        Self {
            server: InProcessServer::new(&app),
            app,
            clock,
            tenants: handles,
            start_snapshot: start,
        }
    }

    /// Whether every sequence starts from the same state.
    pub(crate) fn restores_snapshot(&self) -> bool {
        self.start_snapshot.is_some()
    }

    /// Begins a sequence. Every budget that counts in a window of time is whole again.
    pub(crate) async fn start_sequence(&self) {
        let Vault { guess_ledger: guesses, store, clock, .. } = &self.app.vault;
        guesses.flush(&**store, clock.now()).await.unwrap();
        if let Some((store, snapshot)) = &self.start_snapshot {
            store.restore(snapshot);
        }
        self.clock.advance(Duration::from_secs(100 * 24 * 60 * 60));
    }
}

/// What a tenant is made of.
#[derive(Debug, Clone)]
pub(crate) struct TenantPlan {
    kind: TenantKind,
    settings: TenantSettings,
    /// Instead of the guessing and search budgets of its kind, so that short sequences spend them.
    budgets: Option<QuotaLimit>,
}

/// Test tenants have no guessing and search budgets; production tenants have them. The later half
/// of the plans updates the duplicate that a create finds.
pub(crate) fn tenant_plans() -> Vec<TenantPlan> {
    let deduplicating = |token_deduplication_behavior| TenantSettings {
        deduplicate_tokens: true,
        token_deduplication_behavior,
        ..TenantSettings::default()
    };
    let plan = |kind, settings, budgets| TenantPlan { kind, settings, budgets };
    let updating = deduplicating(DeduplicationBehavior::UpdateExisting);
    let reading = deduplicating(DeduplicationBehavior::ReadExisting);
    let small = |count| Some(QuotaLimit::Count(count));
    vec![
        plan(TenantKind::Test, TenantSettings::default(), None),
        plan(TenantKind::Test, reading.clone(), None),
        plan(TenantKind::Production, reading, small(2)),
        plan(TenantKind::Test, updating.clone(), None),
        plan(TenantKind::Production, updating.clone(), None),
        plan(TenantKind::Production, updating, small(1)),
    ]
}

async fn create_tenant_keys(
    app: &App,
    root: &Arc<RootKey>,
    plan: &TenantPlan,
) -> TenantKeysByActor {
    let TenantPlan { kind, settings, budgets } = plan.clone();
    let name = DisplayName::parse("test").unwrap();
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
    let permit = PolicyPermit::for_operator(found());
    set_tenant_quotas(&app.vault, permit, Box::new(edit)).await.unwrap();
    app.reload().await.unwrap();

    let private = permissions_for_kind(ApplicationKind::Private);
    let public = permissions_for_kind(ApplicationKind::Public);
    let ruled = |rules| AccessPolicy { parse_permissions: Permissions::default(), rules };
    let everything = vec![access_rule("/", Transform::Reveal, &private)];
    let merchant = vec![
        access_rule("/own/", Transform::Reveal, &private),
        access_rule("/bank/", Transform::Redact, &private),
        access_rule(
            "/general/",
            Transform::Mask,
            &[Permission::TokenRead, Permission::TokenCreate],
        ),
        access_rule("/pci/", Transform::Mask, &[Permission::TokenCreate]),
    ];
    let applications = [
        (Actor::Backend, ApplicationKind::Private, ruled(everything)),
        (Actor::Public, ApplicationKind::Public, access_without_rules(&public)),
        (Actor::Masked, ApplicationKind::Private, access_without_rules(&private)),
        (Actor::Ruled, ApplicationKind::Private, ruled(merchant)),
    ];
    let mut keys = Vec::new();
    for (actor, kind, access) in applications {
        let key = create_application_key(app, &found(), kind, access).await;
        if actor == Actor::Public {
            keys.push((Actor::Browser, key.clone()));
        }
        keys.push((actor, key));
    }
    TenantKeysByActor { keys }
}

async fn create_application_key(
    app: &App,
    tenant: &Arc<Tenant>,
    kind: ApplicationKind,
    access: AccessPolicy,
) -> String {
    let pepper = app.pepper().unwrap();
    let permit = PolicyPermit::for_operator(Arc::clone(tenant));
    let created = create_key(&app.vault, &pepper, permit, kind, access).await;
    app.reload().await.unwrap();
    created.key
}
