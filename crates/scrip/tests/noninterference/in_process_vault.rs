//! A vault with tenants and applications that handles requests in process.

use std::{net::Ipv4Addr, sync::Arc, time::Duration};

use axum::extract::Request;
use http_body_util::BodyExt;
use scrip_api::{
    app::{
        App,
        proxy_egress::{CallLimits, DestinationRoots, ProxyEgress},
    },
    limiter::Limiter,
    routes::InProcessServer,
};
use scrip_core::{
    Vault,
    audit::{AuditTrail, ReadRecording},
    events::{ClaimedDelivery, WebhookKey},
    operations::{
        proxies::set_proxy_host::add_proxy_host,
        tenants::{
            create_tenant::{create_tenant, initialize_vault_keys},
            update_tenant::set_tenant_quotas,
        },
    },
    policy::{
        AccessPolicy, DeduplicationBehavior, Directory, DisplayName, PolicyPermit, Quotas, Tenant,
        TenantSettings,
        destination::{HostName, LoopbackDestinations},
        tenant::quota::QuotaLimit,
    },
    store::{Store, deliveries::DeliveryClaim, open_directory},
    types::{
        ApplicationKind, DisclosureRules, Permission, Permissions, TenantKind, Transform,
        id::{ApplicationId, ProxyId, TenantId, WebhookId},
    },
};
use scrip_egress::{EgressSettings, TrustedRoots};
use scrip_seal::RootKey;
use scrip_server::clock::ticks;
use scrip_testing::{
    MemorySnapshot, MemoryStore,
    clock::StoppedClock,
    policy::{access_rule, access_without_rules, permissions_for_kind},
    vault::{CreatedKey, create_key, new_vault, root_key},
};
use serde_json::{Value, json};

use crate::{
    destination::{CONFIGURATION_HEADER, Destination},
    directory_server::ApprovingServer,
    random,
    secrets::{CONFIGURATION, VaultSide},
    step::Actor,
};

/// The keys of one tenant, by actor. An access session has a key only after a sequence created it.
#[derive(Debug, Clone)]
pub(crate) struct TenantKeysByActor {
    keys: Vec<(Actor, String)>,
    pub(crate) id: TenantId,
    /// The applications that proxies may name, in the order of [`COLLECTORS`].
    pub(crate) applications: Vec<ApplicationId>,
    /// The host of a proxy that needs no API key.
    pub(crate) host: String,
}

/// The actors whose applications create the tokens of proxies.
pub(crate) const COLLECTORS: [Actor; 3] = [Actor::Backend, Actor::Public, Actor::Masked];

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
    pub(crate) destination: Arc<Destination>,
    /// The state at the start of every sequence, if the engine can restore it.
    start_snapshot: Option<(Arc<MemoryStore>, MemorySnapshot)>,
    start_directory: Option<Arc<Directory>>,
}

impl InProcessVault {
    pub(crate) async fn new(
        storage: HarnessStorage,
        tenants: &[TenantPlan],
        disclosure: DisclosureRules,
        side: VaultSide,
        destination: &Arc<Destination>,
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
        let directory = open_directory(&*vault.store, &*root, None).await.unwrap();
        let mut app = App::new(vault, directory, Arc::<RootKey>::clone(&root), ticks);
        app.limiter = Limiter::disabled();
        app.settings.loopback_destinations = LoopbackDestinations::Allowed;
        app.egress.proxied_calls = build_egress();
        let app = Arc::new(app);
        let mut keys_by_tenant = Vec::new();
        for (index, plan) in tenants.iter().enumerate() {
            let mut keys = create_tenant_keys(&app, &root, plan).await;
            keys.host = format!("tenant-{index}.shop.example");
            create_hosted_proxy(&app, &keys, side, destination).await;
            keys_by_tenant.push(keys);
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
            start_directory: app.directory.load_full(),
            app,
            clock,
            tenants: keys_by_tenant,
            destination: Arc::clone(destination),
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
            self.app.directory.store(self.start_directory.clone());
        }
        self.clock.advance(Duration::from_secs(100 * 24 * 60 * 60));
    }

    /// Opens the events of a webhook, as its receiver gets them.
    pub(crate) async fn take_events(&self, tenant: TenantId, webhook: WebhookId) -> Vec<Value> {
        let Vault { store, clock, .. } = &self.app.vault;
        while store.move_read_deliveries().await.unwrap() > 0 {}
        let now = clock.now();
        let claim = DeliveryClaim { now, lease_until: now, deliveries_max: 100 };
        let deliveries = store.claim_deliveries(WebhookKey { tenant, webhook }, claim).await;
        let directory = self.app.directory.load_full().unwrap();
        let tenant = directory.tenant(tenant).unwrap();
        let open =
            |it: &ClaimedDelivery| serde_json::from_str(it.open(tenant).unwrap().as_str()).unwrap();
        let mut deliveries = deliveries.unwrap();
        deliveries.sort_by_key(|it| it.event.0);
        deliveries.iter().map(open).collect()
    }
}

/// The guard allows the destination, which is on this machine.
fn build_egress() -> ProxyEgress {
    let mut settings = EgressSettings::new(TrustedRoots::none());
    settings.loopback_http = true;
    settings.limits.idle_connections_max = 16;
    ProxyEgress::new(settings, DestinationRoots::Given, CallLimits::default())
}

/// Creates a proxy with a host of its own. It needs no API key, and keeps the configuration secret.
async fn create_hosted_proxy(
    app: &Arc<App>,
    keys: &TenantKeysByActor,
    side: VaultSide,
    destination: &Destination,
) {
    let secret = CONFIGURATION[usize::from(side == VaultSide::Right)];
    let value = "{{ config: secret }}";
    let body = json!({
        "name": "host", "require_auth": false, "configuration": {"secret": secret},
        "destination_url": format!("http://{}/echo/host", destination.address),
        "request_transforms": [
            {"type": "append_header", "options": {"location": CONFIGURATION_HEADER, "value": value}},
        ],
    });
    let request = Request::post("/proxies")
        .header("bt-api-key", keys.key(Actor::Administrator).unwrap())
        .header("content-type", "application/json")
        .body(body.to_string().into())
        .unwrap();
    let response = InProcessServer::new(app).respond(Ipv4Addr::LOCALHOST.into(), request).await;
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let created: Value = serde_json::from_slice(&body).unwrap();
    let id = ProxyId::parse(created["id"].as_str().unwrap()).unwrap();
    let tenant = Arc::clone(app.directory.load().as_ref().unwrap().tenant(keys.id).unwrap());
    let permit = PolicyPermit::for_operator(tenant);
    add_proxy_host(&app.vault, permit, id, HostName::parse(&keys.host).unwrap()).await.unwrap();
    app.reload().await.unwrap();
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

impl TenantPlan {
    /// The number of distinct guesses after which the vault answers no more, if a short sequence
    /// can reach it.
    pub(crate) fn guesses_max(&self) -> Option<usize> {
        match self.budgets {
            Some(QuotaLimit::Count(count)) => usize::try_from(count).ok(),
            Some(QuotaLimit::Off) | None => None,
        }
    }

    /// Whether guesses count in this tenant.
    pub(crate) fn counts_guesses(&self) -> bool {
        self.kind == TenantKind::Production
    }
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
        // Records of earlier sequences, which an engine writes in any order, are not listed.
        let log_retention_seconds = 24 * 60 * 60;
        let quotas = Quotas { threeds_access: true, log_retention_seconds, ..quotas };
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

    let (mut keys, mut ids) = (Vec::new(), Vec::new());
    for (actor, kind, access) in applications() {
        let CreatedKey { application, key } =
            create_application_key(app, &load_tenant(), kind, access).await;
        if actor == Actor::Public {
            keys.push((Actor::Browser, key.clone()));
        }
        keys.push((actor, key));
        ids.push((actor, application));
    }
    let find_id = |actor| ids.iter().find(|it| it.0 == actor).unwrap().1;
    let applications = COLLECTORS.map(find_id).to_vec();
    TenantKeysByActor { keys, id, applications, host: String::new() }
}

/// The applications of every tenant: actor, kind and access.
fn applications() -> Vec<(Actor, ApplicationKind, AccessPolicy)> {
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
    let invoker_permissions = [
        Permission::TokenRead,
        Permission::TokenSearch,
        Permission::TokenCreate,
        Permission::ProxyInvoke,
    ];
    let invoker_rules = vec![access_rule("/", Transform::Mask, &invoker_permissions)];
    let management_permissions = permissions_for_kind(ApplicationKind::Management);
    vec![
        (Actor::Backend, ApplicationKind::Private, policy_with_rules(backend_rules)),
        (Actor::Public, ApplicationKind::Public, access_without_rules(&public_permissions)),
        (Actor::Masked, ApplicationKind::Private, access_without_rules(&private_permissions)),
        (Actor::Ruled, ApplicationKind::Private, policy_with_rules(merchant_rules)),
        (Actor::Invoker, ApplicationKind::Private, policy_with_rules(invoker_rules)),
        (
            Actor::Administrator,
            ApplicationKind::Management,
            access_without_rules(&management_permissions),
        ),
        (Actor::Auditor, ApplicationKind::Management, access_without_rules(&AUDITOR_PERMISSIONS)),
    ]
}

/// No permission to create or change an application, or to choose where a proxy sends data: they
/// imply every other right.
const AUDITOR_PERMISSIONS: [Permission; 13] = [
    Permission::TenantRead,
    Permission::ApplicationRead,
    Permission::LogRead,
    Permission::ReportRead,
    Permission::KeysRead,
    Permission::KeysCreate,
    Permission::KeysDelete,
    Permission::WebhookRead,
    Permission::WebhookCreate,
    Permission::WebhookUpdate,
    Permission::WebhookDelete,
    Permission::ProxyUpdate,
    Permission::ProxyDelete,
];

async fn create_application_key(
    app: &App,
    tenant: &Arc<Tenant>,
    kind: ApplicationKind,
    access: AccessPolicy,
) -> CreatedKey {
    let pepper = app.pepper().unwrap();
    let permit = PolicyPermit::for_operator(Arc::clone(tenant));
    let created = create_key(&app.vault, &pepper, permit, kind, access).await;
    app.reload().await.unwrap();
    created
}
