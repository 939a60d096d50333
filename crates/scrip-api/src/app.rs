//! The state that all requests share.

pub mod auth_failures;
pub mod body_memory;
pub mod failed_call_log;
pub mod field_hosting;
pub mod in_flight;
pub mod limits;
pub(crate) mod long_evaluation;
pub mod proxy_egress;
pub mod readiness;
pub mod response_memory;
pub mod trusted_proxies;
pub mod webhook_key;

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use scrip_core::{
    Error, Vault,
    log_tasks::load_authentic_time,
    policy::{Directory, destination::LoopbackDestinations},
    types::{Operation, time::MonotonicClock},
};
use scrip_seal::{KeySource, Pepper, WebhookSigningKey};
use scrip_threeds::message::MESSAGE_BYTES_MAX;
use tokio::sync::{Mutex, SetOnce};

use crate::{
    app::{
        auth_failures::AuthFailures,
        body_memory::BodyMemory,
        field_hosting::FieldHosting,
        in_flight::InFlightTasks,
        limits::RequestLimits,
        long_evaluation::leave_worker,
        proxy_egress::{CallLimits, LazyEgressClient, ProxyEgress},
        readiness::{DirectoryAge, NotReadyReason, Readiness, ReloadError, SharedReason},
        response_memory::ResponseMemory,
        trusted_proxies::TrustedProxies,
        webhook_key::WebhookKeyCache,
    },
    limiter::Limiter,
    metrics::{Metrics, ReloadOutcome},
};

#[derive(Debug)]
pub struct App {
    pub vault: Vault,
    /// `None` while the vault is sealed. Replaced as a whole when a key, an application or a tenant
    /// changes.
    pub directory: ArcSwapOption<Directory>,
    /// The source of the vault keys: it opened the directory, and opens it again after a change.
    pub key_source: SetOnce<Arc<dyn KeySource>>,
    /// Serializes reloads, so that an older directory never replaces a newer one.
    reload_lock: Mutex<()>,
    /// The key that signs deliveries to webhooks.
    webhook_key: WebhookKeyCache,
    pub settings: RequestSettings,
    /// Checks the rate limits.
    pub limiter: Limiter,
    pub memory: RequestMemory,
    pub egress: EgressClients,
    pub tasks: RunningTasks,
    pub health: Health,
    pub metrics: Metrics,
    /// Requests without a valid API key that are not in the audit log yet.
    pub auth_failures: Arc<AuthFailures>,
    /// Measures the duration of requests.
    pub ticks: MonotonicClock,
}

/// Whether a reload relies on the version number of the directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReloadMode {
    IfChanged,
    Always,
}

impl App {
    /// Creates the state of an unsealed vault.
    pub fn new(
        vault: Vault,
        directory: Directory,
        key_source: Arc<dyn KeySource>,
        ticks: MonotonicClock,
    ) -> Self {
        let app = Self::new_sealed(vault, ticks);
        app.unseal(directory, key_source);
        app
    }

    /// Creates the state of a sealed vault, which rejects all requests until [`App::unseal`].
    pub fn new_sealed(vault: Vault, ticks: MonotonicClock) -> Self {
        Self {
            metrics: Metrics::new(vault.clock.now()),
            vault,
            directory: ArcSwapOption::empty(),
            key_source: SetOnce::new(),
            reload_lock: Mutex::default(),
            webhook_key: WebhookKeyCache::default(),
            settings: RequestSettings::default(),
            limiter: Limiter::default(),
            memory: RequestMemory::default(),
            egress: EgressClients::default(),
            tasks: RunningTasks::default(),
            health: Health::default(),
            auth_failures: Arc::default(),
            ticks,
        }
    }

    /// Starts the clock after the latest time that the vault has recorded. Call it before
    /// [`App::unseal`].
    pub async fn start_clock(&self, directory: &Directory) -> Result<(), Error> {
        let stored_time = load_authentic_time(&*self.vault.store, directory.audit_key()).await?;
        if stored_time.is_altered {
            tracing::error!(
                "the row of clock_watermark was altered outside of the vault and is ignored; \
                 run: scrip doctor"
            );
        }
        self.vault.clock.start_after(stored_time.watermark);
        Ok(())
    }

    /// Takes the opened directory and its key source, which later reloads use.
    pub fn unseal(&self, directory: Directory, key_source: Arc<dyn KeySource>) {
        log_alterations(None, &directory);
        self.vault.audit_trail.set_key(directory.audit_key());
        let vault_name = directory.pepper().counter_name(&[b"epoch keys"]);
        self.vault.epoch_keys.unlock(Arc::clone(&key_source), vault_name);
        self.directory.store(Some(Arc::new(directory)));
        // A second call does not replace the source that opened the vault. Set last: it wakes
        // `wait_until_unsealed`.
        drop(self.key_source.set(key_source));
    }

    /// Waits until the vault is unsealed.
    pub async fn wait_until_unsealed(&self) {
        self.key_source.wait().await;
    }

    /// Returns why all requests are rejected: until the keys are open, and while the directory is
    /// stale, because permissions could have been revoked that this process has not seen.
    pub fn rejection_reason(&self) -> Option<NotReadyReason> {
        let reason = if self.directory.load().is_none() {
            self.health.sealed_by.get().unwrap_or(NotReadyReason::Starting)
        } else {
            let is_old =
                || self.health.directory_age.is_exceeded().then_some(NotReadyReason::Starting);
            self.health.stale_by.get().or_else(is_old)?
        };
        // A storage that fails is the cause, although it also prevents a reload.
        Some(self.storage_reason().unwrap_or(reason))
    }

    /// Returns why the storage does not accept reads and writes.
    pub fn storage_reason(&self) -> Option<NotReadyReason> {
        NotReadyReason::from_condition(self.vault.store.condition())
    }

    /// Returns why the server is not ready, as far as it is known without a check.
    pub fn not_ready_reason(&self) -> Option<NotReadyReason> {
        self.storage_reason().or_else(|| self.rejection_reason())
    }

    /// Returns whether the vault waits for its key.
    pub fn is_sealed(&self) -> bool {
        self.rejection_reason().is_some_and(NotReadyReason::is_sealed)
    }

    /// The key that signs deliveries to webhooks.
    /// Errors: the vault is sealed, the store is unavailable, or the stored key cannot be
    /// unwrapped.
    pub async fn webhook_signing_key(&self) -> Result<Arc<WebhookSigningKey>, Error> {
        let pepper = self.pepper()?;
        let source = self.key_source.get().ok_or_else(|| Error::Unavailable("sealed".into()))?;
        self.webhook_key.load(pepper, source, &*self.vault.store).await
    }

    /// Loads the directory from the store, if it has changed.
    /// Errors: the store is unavailable, or its rows are not authentic. The old directory remains
    /// in use.
    pub async fn reload(&self) -> Result<(), Error> {
        self.reload_with_mode(ReloadMode::IfChanged).await.map_err(|it| it.cause)
    }

    /// As [`App::reload`]; the error also has the reason.
    /// Errors: same as [`App::reload`].
    pub async fn reload_with_mode(&self, mode: ReloadMode) -> Result<(), ReloadError> {
        let result = self.try_reload(mode).await;
        if result.is_err() {
            self.metrics.reloads.increment(ReloadOutcome::Failed);
        }
        result
    }

    async fn try_reload(&self, mode: ReloadMode) -> Result<(), ReloadError> {
        let _guard = self.reload_lock.lock().await;
        let (Some(current), Some(source)) = (self.directory.load_full(), self.key_source.get())
        else {
            return Ok(());
        };
        let store = &*self.vault.store;
        // An earlier reload may have loaded the change while this one waited for the lock.
        if mode == ReloadMode::IfChanged {
            let version = store.directory_version().await.map_err(ReloadError::from_store)?;
            if version == current.version() {
                return Ok(());
            }
        }
        let records = store.load_directory().await.map_err(ReloadError::from_store)?;
        // A large policy has many rows, and each has a MAC.
        let reloaded = leave_worker(|| Directory::open(records, &**source, Some(&current)));
        let key_reason = self.health.new_key_missing_by.get();
        let reloaded = reloaded.map_err(|it| ReloadError::from_keys(it, key_reason))?;
        reloaded.check_servable().map_err(ReloadError::from_rotation)?;
        log_alterations(Some(&current), &reloaded);
        if !Arc::ptr_eq(reloaded.pepper(), current.pepper()) {
            // After a compromise of the vault key, CVCs get new epoch keys at once.
            let vault_name = reloaded.pepper().counter_name(&[b"epoch keys"]);
            self.vault.epoch_keys.unlock(Arc::clone(source), vault_name);
        }
        self.directory.store(Some(Arc::new(reloaded)));
        self.metrics.reloads.increment(ReloadOutcome::Succeeded);
        Ok(())
    }

    /// Errors: the vault is sealed.
    pub fn pepper(&self) -> Result<Arc<Pepper>, Error> {
        let directory = self.directory.load();
        let directory = directory.as_ref().ok_or_else(|| Error::Unavailable("sealed".into()))?;
        Ok(Arc::clone(directory.pepper()))
    }
}

/// Logs every new alteration, because an operator has to investigate it.
fn log_alterations(previous: Option<&Directory>, current: &Directory) {
    let logged_alterations = previous.map(Directory::alterations).unwrap_or_default();
    for alteration in current.alterations().iter().filter(|it| !logged_alterations.contains(it)) {
        let tenant = alteration.tenant.map(|it| it.to_string()).unwrap_or_default();
        tracing::error!(
            tenant,
            alteration = alteration.description,
            "policy was altered from outside of the vault; run: scrip doctor"
        );
    }
    if !logged_alterations.is_empty() && current.alterations().is_empty() {
        tracing::info!("policy is authentic again");
    }
}

/// Why the server does not serve requests, as far as this process knows.
#[derive(Debug, Default)]
pub struct Health {
    /// The last result of `/readyz`.
    pub readiness: Readiness,
    /// Why the vault is not open yet.
    pub sealed_by: SharedReason,
    /// Why the directory in memory could not be compared with the store for too long; `None` while
    /// it is up to date.
    pub stale_by: SharedReason,
    /// Why the key of a rotation by another node cannot be loaded.
    pub new_key_missing_by: SharedReason,
    pub directory_age: DirectoryAge,
}

const BODY_BYTES: usize = 256 * 1024 * 1024;
const KEYLESS_BODY_BYTES: usize = 16 * 1024 * 1024;
const BODY_NETWORK_SHARE: usize = 4;
const RESPONSE_BYTES: usize = 256 * 1024 * 1024;
const RESPONSE_NETWORK_SHARE: usize = 8;

#[derive(Debug)]
pub struct RequestMemory {
    /// For bodies of authenticated callers, and for the values parsed from them.
    pub bodies: Arc<BodyMemory>,
    /// For bodies of routes that need no key.
    pub keyless_bodies: Arc<BodyMemory>,
    /// For large responses until their clients have read them.
    pub responses: Arc<ResponseMemory>,
}

impl Default for RequestMemory {
    fn default() -> Self {
        Self {
            bodies: BodyMemory::new(BODY_BYTES, BODY_NETWORK_SHARE),
            keyless_bodies: BodyMemory::with_body_size(
                MESSAGE_BYTES_MAX.max(CallLimits::default().body_bytes_max),
                KEYLESS_BODY_BYTES,
                BODY_NETWORK_SHARE,
            ),
            responses: ResponseMemory::new(RESPONSE_BYTES, RESPONSE_NETWORK_SHARE),
        }
    }
}

/// What the operator decided about requests. The server sets it before the first request.
#[derive(Debug, Default)]
pub struct RequestSettings {
    pub limits: RequestLimits,
    /// Proxies that may report a client's address.
    pub trusted_proxies: TrustedProxies,
    /// Deprecated operations that the operator switched off. Other operations cannot be switched
    /// off.
    pub disabled_operations: Vec<Operation>,
    /// Whether proxies may have a destination on this machine: for development only.
    pub loopback_destinations: LoopbackDestinations,
    /// The hosts that serve the hosted fields.
    pub field_hosting: FieldHosting,
}

/// The running tasks that outlive their request. A stopping server waits for them.
#[derive(Debug, Default)]
pub struct RunningTasks {
    /// Calls to directory servers. Their outcome is stored even if the client has disconnected.
    pub authentications: InFlightTasks,
    /// Proxied calls with an idempotency key. Their outcome is stored even if the client has
    /// disconnected.
    pub calls: InFlightTasks,
    /// The deliverer, its attempts and the rotation of keys.
    pub deliveries: InFlightTasks,
}

/// Proxied calls and deliveries have different clients, so that neither uses the limits of the
/// other.
#[derive(Debug, Default)]
pub struct EgressClients {
    pub proxied_calls: ProxyEgress,
    pub webhooks: LazyEgressClient,
}
