//! A vault with tenants and applications that handles requests in process.

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

/// The keys of one tenant, by actor. An access session has a key only after a sequence created it.
#[derive(Debug, Clone)]
pub(crate) struct TenantKeysByActor {
    keys: Vec<(Actor, String)>,
}

impl TenantKeysByActor {
    pub(crate) fn key(&self, actor: Actor) -> Option<&str> {
        self.keys.iter().find(|it| it.0 == actor).map(|it| it.1.as_str())
    }
}

/// The storage of a vault. Engines other than the in-memory model also contain the data of earlier
/// sequences, which is equal in both vaults.
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
    /// The state at the start of every sequence, if the engine can restore it.
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
        let mut keys_by_tenant = Vec::new();
        for plan in tenants {
            keys_by_tenant.push(create_tenant_keys(&app, &root, plan).await);
        }
        let start_snapshot = match storage {
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
            tenants: keys_by_tenant,
            start_snapshot,
        }
    }

    /// Whether every sequence starts from the same state.
    pub(crate) fn restores_snapshot(&self) -> bool {
        self.start_snapshot.is_some()
    }

    /// Starts a sequence. The clock advances by 100 days, so that every budget with a time window
    /// is full.
    pub(crate) async fn start_sequence(&self) {
        let Vault { guess_ledger: guesses, store, clock, .. } = &self.app.vault;
        guesses.flush(&**store, clock.now()).await.unwrap();
        if let Some((store, snapshot)) = &self.start_snapshot {
            store.restore(snapshot);
        }
        self.clock.advance(Duration::from_secs(100 * 24 * 60 * 60));
    }
}

/// The properties of a tenant.
#[derive(Debug, Clone)]
pub(crate) struct TenantPlan {
    kind: TenantKind,
    settings: TenantSettings,
    /// Replaces the guessing and search budgets of the tenant kind, so that short sequences exhaust
    /// them.
    budgets: Option<QuotaLimit>,
}

/// Returns the plans of all tenants. Only production tenants have guessing and search budgets. The
/// second half of the plans updates duplicates.
pub(crate) fn tenant_plans() -> Vec<TenantPlan> {
    let deduplicating = |token_deduplication_behavior| TenantSettings {
        deduplicate_tokens: true,
        token_deduplication_behavior,
        ..TenantSettings::default()
    };
    let build_plan = |kind, settings, budgets| TenantPlan { kind, settings, budgets };
    let updating = deduplicating(DeduplicationBehavior::UpdateExisting);
    let reading = deduplicating(DeduplicationBehavior::ReadExisting);
    let count_limit = |count| Some(QuotaLimit::Count(count));
    vec![
        build_plan(TenantKind::Test, TenantSettings::default(), None),
        build_plan(TenantKind::Test, reading.clone(), None),
        build_plan(TenantKind::Production, reading, count_limit(2)),
        build_plan(TenantKind::Test, updating.clone(), None),
        build_plan(TenantKind::Production, updating.clone(), None),
        build_plan(TenantKind::Production, updating, count_limit(1)),
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
    let load_tenant = || Arc::clone(app.directory.load().as_ref().unwrap().tenant(id).unwrap());
    let edit_quotas = move |quotas| {
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
    let permit = PolicyPermit::for_operator(load_tenant());
    set_tenant_quotas(&app.vault, permit, Box::new(edit_quotas)).await.unwrap();
    app.reload().await.unwrap();

    let private_permissions = permissions_for_kind(ApplicationKind::Private);
    let public_permissions = permissions_for_kind(ApplicationKind::Public);
    let policy_with_rules = |rules| AccessPolicy { permissions: Permissions::default(), rules };
    let backend_rules = vec![access_rule("/", Transform::Reveal, &private_permissions)];
    // The data of a token that a caller may use is not hidden: the caller chooses the destination.
    let mut permissions_without_use = private_permissions.clone();
    permissions_without_use
        .retain(|it| ![Permission::TokenUse, Permission::ProxyInvoke].contains(it));
    let merchant_rules = vec![
        access_rule("/own/", Transform::Reveal, &private_permissions),
        access_rule("/bank/", Transform::Redact, &permissions_without_use),
        access_rule(
            "/general/",
            Transform::Mask,
            &[Permission::TokenRead, Permission::TokenCreate],
        ),
        access_rule("/pci/", Transform::Mask, &[Permission::TokenCreate]),
    ];
    let applications = [
        (Actor::Backend, ApplicationKind::Private, policy_with_rules(backend_rules)),
        (Actor::Public, ApplicationKind::Public, access_without_rules(&public_permissions)),
        (Actor::Masked, ApplicationKind::Private, access_without_rules(&private_permissions)),
        (Actor::Ruled, ApplicationKind::Private, policy_with_rules(merchant_rules)),
    ];
    let mut keys = Vec::new();
    for (actor, kind, access) in applications {
        let key = create_application_key(app, &load_tenant(), kind, access).await;
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
