//! What every request shares.

pub mod auth_failures;
pub mod body_memory;
pub mod in_flight;
pub mod limits;
pub(crate) mod memory_pool;
pub mod response_memory;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwapOption;
use scrip_core::{
    Vault,
    audit::{Operation, authentic_time::load_authentic_time},
    error::Error,
    policy::Directory,
    time::MonotonicClock,
};
use scrip_seal::{KeySource, Pepper};
use scrip_threeds::message::MESSAGE_BYTES_MAX;
use tokio::sync::{Mutex, SetOnce};

use crate::{
    app::{
        auth_failures::AuthFailures, body_memory::BodyMemory, in_flight::InFlightTasks,
        limits::RequestLimits, response_memory::ResponseMemory,
    },
    limiter::Limiter,
    metrics::{Metrics, ReloadOutcome},
    middleware::client_address::TrustedProxies,
};

#[derive(Debug)]
pub struct App {
    pub vault: Vault,
    /// Nothing while the vault is sealed. Replaced whole when a key, an application or a tenant
    /// changes.
    pub directory: ArcSwapOption<Directory>,
    /// What opened the directory, and opens it again after a change.
    pub key_source: SetOnce<Arc<dyn KeySource>>,
    /// Whoever replaces the directory, so that an older one never takes the place of a newer.
    reload_lock: Mutex<()>,
    pub limits: RequestLimits,
    /// How often anybody may ask.
    pub limiter: Limiter,
    /// Whose word about a client's address is taken.
    pub trusted_proxies: TrustedProxies,
    /// Deprecated operations that the operator wants no more. Others cannot be switched off.
    pub disabled_operations: Vec<Operation>,
    /// For bodies of callers that are known, and what is parsed from them.
    pub body_memory: Arc<BodyMemory>,
    /// For bodies of routes that need no key.
    pub keyless_body_memory: Arc<BodyMemory>,
    /// For large answers until their clients have read them.
    pub response_memory: Arc<ResponseMemory>,
    /// What `/readyz` found last.
    pub readiness: Readiness,
    /// The directory could not be followed for too long.
    pub directory_is_stale: AtomicBool,
    pub metrics: Metrics,
    /// Requests without a valid API key that the audit trail has not recorded yet.
    pub auth_failures: Arc<AuthFailures>,
    /// What directory servers are being asked: its outcome is written down whoever has left meanwhile.
    pub authentications_in_flight: InFlightTasks,
    /// By which it is told how long a request took.
    pub ticks: MonotonicClock,
}

/// The outcome of the last readiness check.
#[derive(Debug, Default)]
pub struct Readiness(pub(crate) Mutex<Option<ReadinessCheck>>);

#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadinessCheck {
    pub(crate) at: Duration,
    pub(crate) is_ready: bool,
}

/// Whether the version is believed that tells of a change.
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
    /// Open from the start.
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

    /// Refuses everything until it is opened.
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
            body_memory: BodyMemory::new(BODY_MEMORY_BYTES, BODY_MEMORY_NETWORK_SHARE),
            keyless_body_memory: BodyMemory::with_body_size(
                MESSAGE_BYTES_MAX,
                KEYLESS_BODY_MEMORY_BYTES,
                BODY_MEMORY_NETWORK_SHARE,
            ),
            response_memory: ResponseMemory::new(
                RESPONSE_MEMORY_BYTES,
                RESPONSE_MEMORY_NETWORK_SHARE,
            ),
            readiness: Readiness::default(),
            directory_is_stale: AtomicBool::new(false),
        }
    }

    /// Lets the clock begin after what the vault has seen; before the vault is opened.
    ///
    /// # Errors
    /// The store did not answer.
    pub async fn start_clock(&self, directory: &Directory) -> Result<(), Error> {
        let found = load_authentic_time(&*self.vault.store, directory.audit_key()).await?;
        if found.is_altered {
            tracing::error!(
                "the row of clock_state was altered outside of the vault, and is not used; \
                 run: scrip doctor"
            );
        }
        self.vault.clock.start_after(found.watermark);
        Ok(())
    }

    /// Takes what the key source opened, and the source for later.
    pub fn unseal(&self, directory: Directory, key_source: Arc<dyn KeySource>) {
        log_alterations(None, &directory);
        self.vault.audit_trail.set_key(directory.audit_key());
        let vault = directory.pepper().counter_name(&[b"epoch keys"]);
        self.vault.epoch_keys.unlock(Arc::clone(&key_source), vault);
        self.directory.store(Some(Arc::new(directory)));
        // The first one stays: it is what opened the vault. Last, since others wait for it.
        drop(self.key_source.set(key_source));
    }

    /// Waits until the keys are open.
    pub async fn wait_until_unsealed(&self) {
        self.key_source.wait().await;
    }

    /// Before the keys are open; and when nobody could look for so long whether rights were taken
    /// away that those in memory are not to be believed.
    #[must_use]
    pub fn is_sealed(&self) -> bool {
        self.directory_is_stale.load(Ordering::Relaxed) || self.directory.load().is_none()
    }

    /// Takes over what the store has now, if it has changed.
    ///
    /// # Errors
    /// The store did not answer, or not with what we wrote; the old directory stays.
    pub async fn reload(&self) -> Result<(), Error> {
        self.mode(ReloadMode::IfChanged).await
    }

    pub async fn mode(&self, load: ReloadMode) -> Result<(), Error> {
        let loaded = self.try_reload(load).await;
        if loaded.is_err() {
            self.metrics.reloads.increment(ReloadOutcome::Failed);
        }
        loaded
    }

    async fn try_reload(&self, mode: ReloadMode) -> Result<(), Error> {
        let _turn = self.reload_lock.lock().await;
        let (Some(before), Some(source)) = (self.directory.load_full(), self.key_source.get())
        else {
            return Ok(());
        };
        let store = &*self.vault.store;
        // Of many that wait here, the first one's work may have done for all.
        if mode == ReloadMode::IfChanged && store.directory_version().await? == before.version() {
            return Ok(());
        }
        let after = Directory::load(store, &**source, Some(&before)).await?;
        log_alterations(Some(&before), &after);
        self.directory.store(Some(Arc::new(after)));
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

/// Every alteration that was not there before: somebody has to look at it.
fn log_alterations(before: Option<&Directory>, after: &Directory) {
    let known = before.map(Directory::alterations).unwrap_or_default();
    for alteration in after.alterations().iter().filter(|it| !known.contains(it)) {
        let tenant = alteration.tenant.map(|it| it.to_string()).unwrap_or_default();
        tracing::error!(tenant, what = alteration.description, "policy was altered from outside");
    }
    if !known.is_empty() && after.alterations().is_empty() {
        tracing::info!("policy is as it was written again");
    }
}
