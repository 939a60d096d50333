//! What every request shares.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwapOption;
use scrip_core::{
    Vault, audit::Operation, directory::Directory, error::Error, time::Ticks,
    vault_rows::authentic_time,
};
use scrip_seal::{KeySource, Pepper};
use scrip_threeds::message::MESSAGE_BYTES_MAX;
use tokio::sync::{Mutex, SetOnce};

use crate::{
    answer_memory::AnswerMemory,
    auth_failures::AuthFailures,
    body_memory::BodyMemory,
    clock,
    connection::STALLED_AFTER,
    demo::Demo,
    http::{client_address::TrustedProxies, probes::Readiness},
    limited_stream::MinimumRate,
    limiter::Limiter,
    metrics::{Metrics, Reload, access::MetricsKey},
    ongoing::Ongoing,
    process,
    threeds::Servers,
};

#[derive(Debug)]
pub struct App {
    pub vault: Vault,
    /// Nothing while the vault is sealed. Replaced whole when a key, an application or a tenant
    /// changes.
    pub directory: ArcSwapOption<Directory>,
    /// What opened the directory, and opens it again after a change.
    pub source: SetOnce<Arc<dyn KeySource>>,
    /// Whoever replaces the directory, so that an older one never takes the place of a newer.
    reloading: Mutex<()>,
    pub limits: Limits,
    pub stall_limits: StallLimits,
    /// How many connections of clients the limit of open files allows.
    pub descriptor_slots: usize,
    /// How often anybody may ask.
    pub limiter: Limiter,
    /// Whose word about a client's address is taken.
    pub proxies: TrustedProxies,
    /// Deprecated operations that the operator wants no more. Others cannot be switched off.
    pub switched_off: Vec<Operation>,
    /// For bodies of callers that are known, and what is parsed from them.
    pub body_memory: Arc<BodyMemory>,
    /// For bodies of routes that need no key.
    pub keyless_body_memory: Arc<BodyMemory>,
    /// For large answers until their clients have read them.
    pub answer_memory: Arc<AnswerMemory>,
    /// What `/readyz` found last.
    pub readiness: Readiness,
    /// How many are open now.
    pub connections: AtomicUsize,
    /// The directory could not be followed for too long.
    pub(crate) stale: AtomicBool,
    pub metrics: Metrics,
    /// Requests without a valid API key that the audit trail has not recorded yet.
    pub auth_failures: Arc<AuthFailures>,
    /// With this key, `/metrics` is among the paths of the clients too.
    pub metrics_key: Option<MetricsKey>,
    /// The shop of `scrip dev`. Nobody else has one.
    pub demo: OnceLock<Demo>,
    /// The schemes that are connected: the same that the vault asks.
    pub threeds: Option<Arc<Servers>>,
    /// What they are being asked: its outcome is written down whoever has left meanwhile.
    pub authenticating: Ongoing,
    /// How old their card ranges may get.
    pub ranges_every: Duration,
    /// By which it is told how long a request took.
    pub ticks: Ticks,
}

/// Whether the version is believed that tells of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Load {
    IfChanged,
    Always,
}

const BODY_MEMORY_BYTES: usize = 256 * 1024 * 1024;
const KEYLESS_BODY_MEMORY_BYTES: usize = 16 * 1024 * 1024;
const BODY_MEMORY_NETWORK_SHARE: usize = 4;
const ANSWER_MEMORY_BYTES: usize = 256 * 1024 * 1024;
const ANSWER_MEMORY_NETWORK_SHARE: usize = 8;
/// However few connections there may be, a client network may have so many of them.
const NETWORK_CONNECTIONS_MIN: usize = 8;
/// Long enough that a short stall of a network does not count.
const RATE_WINDOW: Duration = Duration::from_secs(30);
/// What EMV allows.
const RANGES_EVERY: Duration = Duration::from_secs(24 * 60 * 60);

impl App {
    /// Open from the start.
    #[must_use]
    pub fn new(vault: Vault, directory: Directory, source: Arc<dyn KeySource>) -> Self {
        let app = Self::sealed(vault);
        app.open(directory, source);
        app
    }

    /// Refuses everything until it is opened.
    #[must_use]
    pub fn sealed(vault: Vault) -> Self {
        Self {
            metrics: Metrics::new(vault.clock.now()),
            auth_failures: Arc::default(),
            metrics_key: None,
            demo: OnceLock::new(),
            threeds: None,
            authenticating: Ongoing::default(),
            ranges_every: RANGES_EVERY,
            ticks: clock::ticks,
            vault,
            directory: ArcSwapOption::empty(),
            source: SetOnce::new(),
            reloading: Mutex::default(),
            limits: Limits::default(),
            stall_limits: StallLimits::default(),
            descriptor_slots: process::descriptor_slots(),
            limiter: Limiter::default(),
            proxies: TrustedProxies::default(),
            switched_off: Vec::new(),
            body_memory: BodyMemory::new(BODY_MEMORY_BYTES, BODY_MEMORY_NETWORK_SHARE),
            keyless_body_memory: BodyMemory::for_bodies_of(
                MESSAGE_BYTES_MAX,
                KEYLESS_BODY_MEMORY_BYTES,
                BODY_MEMORY_NETWORK_SHARE,
            ),
            answer_memory: AnswerMemory::new(ANSWER_MEMORY_BYTES, ANSWER_MEMORY_NETWORK_SHARE),
            readiness: Readiness::default(),
            connections: AtomicUsize::new(0),
            stale: AtomicBool::new(false),
        }
    }

    /// Connections of clients that are served at once.
    #[must_use]
    pub fn connection_slots(&self) -> usize {
        self.limits.connections_max.min(self.descriptor_slots)
    }

    /// Lets the clock begin after what the vault has seen; before the vault is opened.
    ///
    /// # Errors
    /// The store did not answer.
    pub(crate) async fn start_clock(&self, directory: &Directory) -> Result<(), Error> {
        let found = authentic_time(&*self.vault.store, directory.audit_key()).await?;
        if found.is_altered {
            tracing::error!(
                "the row of clock_state was altered outside of the vault, and is not used; \
                 run: scrip doctor"
            );
        }
        self.vault.clock.start_after(found.known);
        Ok(())
    }

    /// Takes what the key source opened, and the source for later.
    pub fn open(&self, directory: Directory, source: Arc<dyn KeySource>) {
        report(None, &directory);
        self.vault.audit.open(directory.audit_key());
        let vault = directory.pepper().counter_name(&[b"epoch keys"]);
        self.vault.epochs.unlock(Arc::clone(&source), vault);
        self.directory.store(Some(Arc::new(directory)));
        // The first one stays: it is what opened the vault. Last, since others wait for it.
        drop(self.source.set(source));
    }

    /// Waits until the keys are open.
    pub(crate) async fn opened(&self) {
        self.source.wait().await;
    }

    /// Before the keys are open; and when nobody could look for so long whether rights were taken
    /// away that those in memory are not to be believed.
    #[must_use]
    pub fn is_sealed(&self) -> bool {
        self.stale.load(Ordering::Relaxed) || self.directory.load().is_none()
    }

    /// Takes over what the store has now, if it has changed.
    ///
    /// # Errors
    /// The store did not answer, or not with what we wrote; the old directory stays.
    pub async fn reload(&self) -> Result<(), Error> {
        self.load(Load::IfChanged).await
    }

    pub(crate) async fn load(&self, load: Load) -> Result<(), Error> {
        let loaded = self.try_load(load).await;
        if loaded.is_err() {
            self.metrics.reloads.one(Reload::Failed);
        }
        loaded
    }

    async fn try_load(&self, load: Load) -> Result<(), Error> {
        let _turn = self.reloading.lock().await;
        let (Some(before), Some(source)) = (self.directory.load_full(), self.source.get()) else {
            return Ok(());
        };
        let store = &*self.vault.store;
        // Of many that wait here, the first one's work may have done for all.
        if load == Load::IfChanged && store.directory_version().await? == before.version() {
            return Ok(());
        }
        let after = Directory::load(store, &**source, Some(&before)).await?;
        report(Some(&before), &after);
        self.directory.store(Some(Arc::new(after)));
        self.metrics.reloads.one(Reload::Done);
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
fn report(before: Option<&Directory>, after: &Directory) {
    let known = before.map(Directory::alterations).unwrap_or_default();
    for alteration in after.alterations().iter().filter(|it| !known.contains(it)) {
        let tenant = alteration.tenant.map(|it| it.to_string()).unwrap_or_default();
        tracing::error!(tenant, what = alteration.what, "policy was altered from outside");
    }
    if !known.is_empty() && after.alterations().is_empty() {
        tracing::info!("policy is as it was written again");
    }
}

/// How much one client may ask of a connection.
#[derive(Debug, Clone)]
pub struct Limits {
    pub body_bytes_max: usize,
    /// From the first byte of a request to the last of its head; also how long a connection idles.
    pub header_deadline: Duration,
    /// From the last byte of the head to the last of the body.
    pub body_deadline: Duration,
    pub connections_max: usize,
    /// A client network may have one part in so many of the connections.
    pub connections_network_share: usize,
    /// From the start of a connection to its first byte.
    pub first_byte_deadline: Duration,
    /// How fast a body must arrive.
    pub request_rate: MinimumRate,
    /// How fast an answer must be read.
    pub answer_rate: MinimumRate,
    /// How long requests in flight may take to end when the server is told to stop.
    pub drain_deadline: Duration,
    /// The most that an authentication takes, which is waited for even then.
    pub authentication_deadline: Duration,
}

impl Limits {
    /// How many of so many connections one client network may have.
    #[must_use]
    pub fn network_connections(&self, connections: usize) -> usize {
        let share = connections.checked_div(self.connections_network_share);
        share.unwrap_or(connections).max(NETWORK_CONNECTIONS_MIN)
    }
}

/// How long a client may hold what others need without sending or reading anything.
#[derive(Debug, Clone)]
pub struct StallLimits {
    /// After so long without progress, a request that waits for its body and an answer that is not
    /// read do not keep their connection from losing its slot.
    pub evictable_after: Duration,
    /// From the last byte of the head to the last of the body, where no key is needed.
    pub keyless_body_deadline: Duration,
}

impl Default for StallLimits {
    fn default() -> Self {
        let keyless_body_deadline = Duration::from_secs(5);
        Self { evictable_after: STALLED_AFTER, keyless_body_deadline }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes_max: 1024 * 1024,
            header_deadline: Duration::from_secs(30),
            body_deadline: Duration::from_secs(30),
            connections_max: 4096,
            connections_network_share: 16,
            first_byte_deadline: Duration::from_secs(10),
            request_rate: MinimumRate { bytes_per_second: 256, window: RATE_WINDOW },
            answer_rate: MinimumRate { bytes_per_second: 1024, window: RATE_WINDOW },
            drain_deadline: Duration::from_secs(10),
            authentication_deadline: Duration::from_secs(60),
        }
    }
}
