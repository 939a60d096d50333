//! The state that all requests share.

pub mod auth_failures;
pub mod body_memory;
pub mod egress_client;
pub mod failed_call_log;
pub mod field_hosting;
pub mod in_flight;
pub mod limits;
pub(crate) mod long_evaluation;
pub(crate) mod memory_pool;
pub mod proxy_egress;
pub(crate) mod proxy_programs;
pub mod readiness;
pub mod response_memory;
pub mod trusted_proxies;
pub mod webhook_key;

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use scrip_core::{
    Vault,
    audit::{Operation, authentic_time::load_authentic_time},
    error::Error,
    policy::Directory,
    proxy::LoopbackDestinations,
    time::MonotonicClock,
};
use scrip_seal::{KeySource, Pepper, WebhookSigningKey};
use scrip_threeds::message::MESSAGE_BYTES_MAX;
use tokio::sync::{Mutex, SetOnce};

use crate::{
    app::{
        auth_failures::AuthFailures,
        body_memory::BodyMemory,
        egress_client::LazyEgressClient,
        field_hosting::FieldHosting,
        in_flight::InFlightTasks,
        limits::RequestLimits,
        long_evaluation::leave_worker,
        proxy_egress::{CallLimits, ProxyEgress},
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
    pub limits: RequestLimits,
    /// Checks the rate limits.
    pub limiter: Limiter,
    /// Proxies that may report a client's address.
    pub trusted_proxies: TrustedProxies,
    /// Deprecated operations that the operator switched off. Other operations cannot be switched
    /// off.
    pub disabled_operations: Vec<Operation>,
    /// Whether proxies may have a destination on this machine: for development only.
    pub loopback_destinations: LoopbackDestinations,
    /// The hosts that serve the hosted fields.
    pub field_hosting: FieldHosting,
    /// Memory for bodies of authenticated callers, and for the values parsed from them.
    pub body_memory: Arc<BodyMemory>,
    /// Memory for bodies of routes that need no key.
    pub keyless_body_memory: Arc<BodyMemory>,
    /// Memory for large responses until their clients have read them.
    pub response_memory: Arc<ResponseMemory>,
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
    pub metrics: Metrics,
    /// Requests without a valid API key that are not in the audit log yet.
    pub auth_failures: Arc<AuthFailures>,
    /// Running calls to directory servers. Their outcome is stored even if the client has
    /// disconnected.
    pub authentications_in_flight: InFlightTasks,
    /// The client of proxied calls.
    pub proxy_egress: ProxyEgress,
    /// Running proxied calls with an idempotency key. Their outcome is stored even if the client
    /// has disconnected.
    pub calls_in_flight: InFlightTasks,
    /// The client of deliveries to webhooks. Proxied calls have another one, so that neither uses
    /// the limits of the other.
    pub webhook_egress: LazyEgressClient,
    /// The deliverer, its attempts and the rotation of keys. A stopping server waits for them.
    pub deliveries_in_flight: InFlightTasks,
    /// The key that signs deliveries to webhooks.
    webhook_key: WebhookKeyCache,
    /// Measures the duration of requests.
    pub ticks: MonotonicClock,
}

/// Whether a reload relies on the version number of the directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReloadMode {
    IfChanged,
    Always,
}

const BODY_MEMORY_BYTES: usize = 256 * 1024 * 1024;
const KEYLESS_BODY_MEMORY_BYTES: usize = 16 * 1024 * 1024;
const BODY_MEMORY_NETWORK_SHARE: usize = 4;
const RESPONSE_MEMORY_BYTES: usize = 256 * 1024 * 1024;
const RESPONSE_MEMORY_NETWORK_SHARE: usize = 8;

impl App {
    /// Creates the state of an unsealed vault.
    #[must_use]
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
    #[must_use]
    pub fn new_sealed(vault: Vault, ticks: MonotonicClock) -> Self {
        Self {
            metrics: Metrics::new(vault.clock.now()),
            auth_failures: Arc::default(),
            authentications_in_flight: InFlightTasks::default(),
            ticks,
            vault,
            directory: ArcSwapOption::empty(),
            key_source: SetOnce::new(),
            reload_lock: Mutex::default(),
            limits: RequestLimits::default(),
            limiter: Limiter::default(),
            trusted_proxies: TrustedProxies::default(),
            disabled_operations: Vec::new(),
            loopback_destinations: LoopbackDestinations::Rejected,
            field_hosting: FieldHosting::default(),
            proxy_egress: ProxyEgress::default(),
            calls_in_flight: InFlightTasks::default(),
            webhook_egress: LazyEgressClient::default(),
            deliveries_in_flight: InFlightTasks::default(),
            webhook_key: WebhookKeyCache::default(),
            body_memory: BodyMemory::new(BODY_MEMORY_BYTES, BODY_MEMORY_NETWORK_SHARE),
            keyless_body_memory: BodyMemory::with_body_size(
                MESSAGE_BYTES_MAX.max(CallLimits::default().body_bytes_max),
                KEYLESS_BODY_MEMORY_BYTES,
                BODY_MEMORY_NETWORK_SHARE,
            ),
            response_memory: ResponseMemory::new(
                RESPONSE_MEMORY_BYTES,
                RESPONSE_MEMORY_NETWORK_SHARE,
            ),
            readiness: Readiness::default(),
            sealed_by: SharedReason::default(),
            stale_by: SharedReason::default(),
            new_key_missing_by: SharedReason::default(),
            directory_age: DirectoryAge::default(),
        }
    }

    /// Starts the clock after the latest time that the vault has recorded. Call it before
    /// [`App::unseal`].
    ///
    /// # Errors
    /// The store is unavailable.
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
    #[must_use]
    pub fn rejection_reason(&self) -> Option<NotReadyReason> {
        let reason = if self.directory.load().is_none() {
            self.sealed_by.get().unwrap_or(NotReadyReason::Starting)
        } else {
            let is_old = || self.directory_age.is_exceeded().then_some(NotReadyReason::Starting);
            self.stale_by.get().or_else(is_old)?
        };
        // A storage that fails is the cause, although it also prevents a reload.
        Some(self.storage_reason().unwrap_or(reason))
    }

    /// Returns why the storage does not accept reads and writes.
    #[must_use]
    pub fn storage_reason(&self) -> Option<NotReadyReason> {
        NotReadyReason::from_condition(self.vault.store.condition())
    }

    /// Returns why the server is not ready, as far as it is known without a check.
    #[must_use]
    pub fn not_ready_reason(&self) -> Option<NotReadyReason> {
        self.storage_reason().or_else(|| self.rejection_reason())
    }

    /// Returns whether the vault waits for its key.
    #[must_use]
    pub fn is_sealed(&self) -> bool {
        self.rejection_reason().is_some_and(NotReadyReason::is_sealed)
    }

    /// The key that signs deliveries to webhooks.
    ///
    /// # Errors
    /// The vault is sealed, the store is unavailable, or the stored key cannot be unwrapped.
    pub async fn webhook_signing_key(&self) -> Result<Arc<WebhookSigningKey>, Error> {
        let pepper = self.pepper()?;
        let source = self.key_source.get().ok_or_else(|| Error::Unavailable("sealed".into()))?;
        self.webhook_key.load(pepper, source, &*self.vault.store).await
    }

    /// Loads the directory from the store, if it has changed.
    ///
    /// # Errors
    /// The store is unavailable, or its rows are not authentic. The old directory remains in use.
    pub async fn reload(&self) -> Result<(), Error> {
        self.reload_with_mode(ReloadMode::IfChanged).await.map_err(|it| it.cause)
    }

    /// As [`App::reload`]; the error also has the reason.
    ///
    /// # Errors
    /// Same as [`App::reload`].
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
        let key_reason = self.new_key_missing_by.get();
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

    /// # Errors
    /// The vault is sealed.
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
