//! Epoch keys that nodes share through Redis or Valkey: wrapped, not persisted, and expired there
//! at the end of their epoch.

use std::{
    fmt,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwapOption;
use redis::{
    AsyncConnectionConfig, Client, ErrorKind, RedisError, RedisResult, Script,
    aio::{ConnectionLike, MultiplexedConnection},
    cmd,
};
use scrip_seal::{
    EpochKeyError, KeyExchange, KeyExchangeFuture, KeyOffer, Sealed, SharedEpoch, WrappedEpochKey,
};
use tokio::time::{sleep, timeout};

const SCRIPT: &str = include_str!("exchange.lua");
/// Maximum duration of one script call. A request waits for a call at most once per epoch.
const SCRIPT_TIMEOUT: Duration = Duration::from_secs(1);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Pause between attempts to connect.
const RECONNECT_PAUSE: Duration = Duration::from_millis(250);

pub struct RedisKeyExchange {
    self_reference: Weak<Self>,
    client: Client,
    script: Script,
    disk_policy: DiskPolicy,
    connection: ArcSwapOption<MultiplexedConnection>,
    /// A reconnect task is running.
    reconnecting: AtomicBool,
    failures: AtomicU64,
}

/// Whether a Redis is allowed to write keys to a disk, where destroyed keys can be recovered and
/// decrypted with the root key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskPolicy {
    Forbidden,
    Allowed,
}

/// Why a Redis cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum RedisUnusable {
    /// Redis does not respond or denies access; later attempts may succeed.
    #[error("{0}")]
    Unavailable(String),
    /// Redis writes keys to a disk, or does not report whether it does. Later attempts fail until
    /// its configuration changes.
    #[error("{0}")]
    Persistent(Persistence),
}

impl RedisKeyExchange {
    /// Tries to connect once; if that fails, keeps trying in the background.
    /// Errors: the server is available, but persists its data.
    pub async fn start(client: Client, disk_policy: DiskPolicy) -> Result<Arc<Self>, Persistence> {
        let exchange = Arc::new_cyclic(|self_reference| Self {
            self_reference: Weak::clone(self_reference),
            client,
            script: Script::new(SCRIPT),
            disk_policy,
            connection: ArcSwapOption::empty(),
            reconnecting: AtomicBool::new(false),
            failures: AtomicU64::new(0),
        });
        match exchange.connect().await {
            Ok(connection) => exchange.connection.store(Some(Arc::new(connection))),
            Err(RedisUnusable::Persistent(persistence)) => return Err(persistence),
            Err(error @ RedisUnusable::Unavailable(_)) => exchange.handle_disconnect(&error),
        }
        Ok(exchange)
    }

    /// Stores and deletes an epoch that has ended, which needs the rights of an exchange.
    /// Errors: the server is unavailable, or denies a command.
    pub async fn check_rights(connection: &mut MultiplexedConnection) -> Result<(), RedisUnusable> {
        let script = Script::new(SCRIPT);
        let mut call = script.prepare_invoke();
        call.key("scrip:epoch:check").arg("restore").arg(1).arg("00000000").arg("check");
        let response = timeout(CONNECT_TIMEOUT, call.invoke_async::<()>(connection)).await;
        let timed_out = |_| RedisUnusable::Unavailable("no response in time".to_owned());
        response.map_err(timed_out)?.map_err(|it| RedisUnusable::Unavailable(describe_error(&it)))
    }

    /// Connects and detects whether the server persists its data.
    /// Errors: the server is unavailable.
    pub async fn probe(
        client: &Client,
    ) -> Result<(MultiplexedConnection, Persistence), RedisUnusable> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_TIMEOUT))
            .set_response_timeout(Some(CONNECT_TIMEOUT));
        let connect = client.get_multiplexed_async_connection_with_config(&config);
        let timed_out = |_| RedisUnusable::Unavailable("no response in time".to_owned());
        let connection = timeout(CONNECT_TIMEOUT, connect).await.map_err(timed_out)?;
        let mut connection =
            connection.map_err(|it| RedisUnusable::Unavailable(describe_error(&it)))?;
        let detection = detect_persistence(&mut connection);
        let detection = timeout(CONNECT_TIMEOUT, detection).await.map_err(timed_out)?;
        let persistence =
            detection.map_err(|it| RedisUnusable::Unavailable(describe_error(&it)))?;
        Ok((connection, persistence))
    }

    /// Checks persistence for each connection: the server or its configuration may have changed.
    async fn connect(&self) -> Result<MultiplexedConnection, RedisUnusable> {
        let (connection, persistence) = Self::probe(&self.client).await?;
        match (persistence, self.disk_policy) {
            (Persistence::Off, _) | (_, DiskPolicy::Allowed) => Ok(connection),
            (
                persistence @ (Persistence::On | Persistence::Replicated | Persistence::Unknown),
                DiskPolicy::Forbidden,
            ) => Err(RedisUnusable::Persistent(persistence)),
        }
    }

    async fn run_script(
        &self,
        connection: &mut MultiplexedConnection,
        epoch: &SharedEpoch,
        offer: KeyOffer<'_>,
    ) -> Result<Vec<WrappedEpochKey>, RedisUnusable> {
        let mut call = self.script.prepare_invoke();
        let (mode, keys) = match offer {
            KeyOffer::None => ("none", &[][..]),
            KeyOffer::IfAbsent(key) => ("if_absent", std::slice::from_ref(key)),
            KeyOffer::Restore(keys) => ("restore", keys),
        };
        call.key(&epoch.name).arg(mode).arg(epoch.ends_ms);
        for key in keys {
            call.arg(format!("{:08x}", key.version)).arg(key.wrapped.as_bytes());
        }
        let response = timeout(SCRIPT_TIMEOUT, call.invoke_async(connection)).await;
        let response =
            response.map_err(|_| RedisUnusable::Unavailable("no response in time".to_owned()))?;
        let entries: Vec<(String, Vec<u8>)> =
            response.map_err(|it| RedisUnusable::Unavailable(describe_error(&it)))?;
        let parse_entry = |(version, wrapped): (String, Vec<u8>)| {
            let version = u32::from_str_radix(&version, 16).ok()?;
            Some(WrappedEpochKey { version, wrapped: Sealed::from_stored(wrapped) })
        };
        // Skip entries in a foreign format.
        Ok(entries.into_iter().filter_map(parse_entry).collect())
    }

    async fn exchange_keys(
        &self,
        epoch: &SharedEpoch,
        offer: KeyOffer<'_>,
    ) -> Result<Vec<WrappedEpochKey>, EpochKeyError> {
        let Some(connection) = self.connection.load_full() else {
            self.failures.fetch_add(1, Ordering::Relaxed);
            return Err(EpochKeyError::NoResponse);
        };
        let keys =
            self.run_script(&mut MultiplexedConnection::clone(&connection), epoch, offer).await;
        keys.map_err(|error| {
            self.failures.fetch_add(1, Ordering::Relaxed);
            // Another request may have noticed the failure first, and the reconnect task may have
            // finished.
            let current = self.connection.load_full();
            if current.is_some_and(|it| Arc::ptr_eq(&it, &connection)) {
                self.handle_disconnect(&error);
            }
            EpochKeyError::NoResponse
        })
    }

    /// Logs the failure once and reconnects in the background.
    fn handle_disconnect(&self, cause: &RedisUnusable) {
        self.connection.store(None);
        if self.reconnecting.swap(true, Ordering::AcqRel) {
            return;
        }
        let cause = cause.to_string();
        tracing::warn!(
            cause,
            "epoch key exchange unavailable: CVCs may be unavailable until Redis responds, cards \
             are not affected; reconnecting"
        );
        tokio::spawn(reconnect(Weak::clone(&self.self_reference)));
    }
}

async fn reconnect(exchange: Weak<RedisKeyExchange>) {
    let mut is_logged = false;
    loop {
        let Some(exchange) = exchange.upgrade() else { return };
        match exchange.connect().await {
            Ok(connection) => {
                // In this order: if this connection fails immediately, the next failure must start
                // a new task.
                exchange.reconnecting.store(false, Ordering::Release);
                exchange.connection.store(Some(Arc::new(connection)));
                tracing::info!("epoch key exchange available again");
                return;
            }
            Err(error @ RedisUnusable::Persistent(_)) if !is_logged => {
                is_logged = true;
                tracing::error!(
                    cause = error.to_string(),
                    "epoch key exchange rejected: Redis must not store keys on a disk"
                );
            }
            Err(RedisUnusable::Persistent(_) | RedisUnusable::Unavailable(_)) => (),
        }
        drop(exchange);
        sleep(RECONNECT_PAUSE).await;
    }
}

impl KeyExchange for RedisKeyExchange {
    fn exchange<'a>(
        &'a self,
        epoch: &'a SharedEpoch,
        offer: KeyOffer<'a>,
    ) -> KeyExchangeFuture<'a, Vec<WrappedEpochKey>> {
        Box::pin(self.exchange_keys(epoch, offer))
    }

    fn is_available(&self) -> bool {
        self.connection.load().is_some()
    }

    fn failure_count(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for RedisKeyExchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RedisKeyExchange")
    }
}

/// Text for the log: the error category and code of the server, never sent data.
fn describe_error(error: &RedisError) -> String {
    if error.is_timeout() {
        return "no response in time".to_owned();
    }
    // A script that may not run a command ends with a general code.
    const DENIALS: [&str; 2] = ["can't run this command", "ACL failure"];
    let is_denied = |it: &str| DENIALS.iter().any(|denial| it.contains(denial));
    if error.code() == Some("NOPERM") || error.detail().is_some_and(is_denied) {
        return "a command is denied".to_owned();
    }
    let code = error.code().unwrap_or_default();
    format!("{} {code}", error.category()).trim_end().to_owned()
}

/// Detects whether a Redis writes its data to a disk. Destroyed keys could be recovered there and
/// decrypted with the root key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Persistence {
    Off,
    /// Snapshots or an append-only file are on.
    On,
    /// Redis has replicas: a full synchronization may write all data to a disk on both sides.
    Replicated,
    /// The configuration cannot be read, as with most managed services.
    Unknown,
}

/// Reads from the configuration of Redis whether it writes data to a disk.
/// Errors: redis does not respond, or is a read-only replica.
pub(super) async fn detect_persistence(
    connection: &mut impl ConnectionLike,
) -> RedisResult<Persistence> {
    let replication_info: String = cmd("INFO").arg("replication").query_async(connection).await?;
    if info_field(&replication_info, "role") == Some("slave") {
        return Err(RedisError::from((ErrorKind::Client, "is a replica")));
    }
    if info_field(&replication_info, "connected_slaves").is_some_and(|it| it != "0") {
        return Ok(Persistence::Replicated);
    }
    let snapshots = read_setting(connection, "save").await?;
    let append_only = read_setting(connection, "appendonly").await?;
    if let (Some(snapshots), Some(append_only)) = (snapshots, append_only) {
        let is_off = snapshots.trim().is_empty() && append_only == "no";
        return Ok(if is_off { Persistence::Off } else { Persistence::On });
    }
    // `INFO` reports the append-only file, but not whether snapshots are on.
    let persistence_info: String = cmd("INFO").arg("persistence").query_async(connection).await?;
    let append_only = info_field(&persistence_info, "aof_enabled") == Some("1");
    Ok(if append_only { Persistence::On } else { Persistence::Unknown })
}

/// Reads a setting of Redis. Returns `None` if reading the setting is denied.
/// Errors: redis does not respond.
pub async fn read_setting(
    connection: &mut impl ConnectionLike,
    name: &str,
) -> RedisResult<Option<String>> {
    let response = cmd("CONFIG").arg("GET").arg(name).query_async::<Vec<String>>(connection).await;
    match response {
        Ok(pairs) => Ok(pairs.into_iter().nth(1)),
        Err(error) if error.is_io_error() || error.is_timeout() => Err(error),
        Err(_) => Ok(None),
    }
}

/// Returns a field of an `INFO` response.
fn info_field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|it| it.strip_prefix(name)?.strip_prefix(':'))
}

impl fmt::Display for Persistence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Off => "it stores nothing on a disk",
            Self::On => {
                "it stores data on a disk, so destroyed keys could be recovered; turn persistence \
                 off (save \"\" and appendonly no), or set cvc.allow_epoch_keys_on_disk = true to \
                 accept this"
            }
            Self::Replicated => {
                "it has replicas, and a synchronization may write its data to a disk on both \
                 sides; use a Redis without replicas, or set cvc.allow_epoch_keys_on_disk = true \
                 to accept this"
            }
            Self::Unknown => {
                "it does not report whether it stores data on a disk (CONFIG GET is denied); if it \
                 does not, or if you accept this, set cvc.allow_epoch_keys_on_disk = true"
            }
        })
    }
}

/// Returns the time of Redis, rounded down to a second; `None` if Redis does not respond.
pub async fn redis_time_ms(connection: &mut impl ConnectionLike) -> Option<i64> {
    let (seconds, _): (i64, i64) = cmd("TIME").query_async(connection).await.ok()?;
    Some(seconds.saturating_mul(1000))
}
