//! Epoch keys that nodes share through Redis or Valkey: wrapped, without persistence, and gone there
//! when their epoch ends.

use std::{
    fmt,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwapOption;
use redis::{AsyncConnectionConfig, Client, RedisError, Script, aio::MultiplexedConnection};
use scrip_seal::{
    EpochKeyError, KeyExchange, KeyExchangeFuture, KeyOffer, Sealed, SharedEpoch, WrappedEpochKey,
};
use tokio::time::{sleep, timeout};

use crate::epoch_keys::persistence::{self, Persistence};

const SCRIPT: &str = include_str!("exchange.lua");
/// A request waits for so long, once in an epoch.
const DEADLINE: Duration = Duration::from_secs(1);
const CONNECT_DEADLINE: Duration = Duration::from_secs(2);
/// Between attempts to reach a server that is away.
const RECONNECT_PAUSE: Duration = Duration::from_millis(250);

pub struct RedisKeyExchange {
    self_reference: Weak<Self>,
    client: Client,
    script: Script,
    disk_policy: DiskPolicy,
    connection: ArcSwapOption<MultiplexedConnection>,
    /// Somebody is at it.
    reconnecting: AtomicBool,
    failures: AtomicU64,
}

/// Whether a server will do that may write keys to a disk, where destroyed ones are found again by
/// whoever also has the root key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskPolicy {
    Forbidden,
    Allowed,
}

/// Why a server is not used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum RedisUnusable {
    /// For now.
    #[error("{0}")]
    Unavailable(String),
    /// Until somebody changes it: it writes keys to a disk, or does not tell.
    #[error("{0}")]
    Persistent(Persistence),
}

impl RedisKeyExchange {
    /// Reaches for the server once; if it is not there, goes on trying in the background.
    ///
    /// # Errors
    /// It is there, and keeps what it is given.
    pub async fn start(client: Client, disk_policy: DiskPolicy) -> Result<Arc<Self>, Persistence> {
        let shared = Arc::new_cyclic(|me| Self {
            self_reference: Weak::clone(me),
            client,
            script: Script::new(SCRIPT),
            disk_policy,
            connection: ArcSwapOption::empty(),
            reconnecting: AtomicBool::new(false),
            failures: AtomicU64::new(0),
        });
        match shared.connect().await {
            Ok(connection) => shared.connection.store(Some(Arc::new(connection))),
            Err(RedisUnusable::Persistent(persistence)) => return Err(persistence),
            Err(unfit @ RedisUnusable::Unavailable(_)) => shared.handle_disconnect(&unfit),
        }
        Ok(shared)
    }

    /// # Errors
    /// It is of no use, now or at all.
    pub async fn probe(
        client: &Client,
    ) -> Result<(MultiplexedConnection, Persistence), RedisUnusable> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_DEADLINE))
            .set_response_timeout(Some(CONNECT_DEADLINE));
        let connecting = client.get_multiplexed_async_connection_with_config(&config);
        let late = |_| RedisUnusable::Unavailable("no answer in time".to_owned());
        let connection = timeout(CONNECT_DEADLINE, connecting).await.map_err(late)?;
        let mut connection =
            connection.map_err(|it| RedisUnusable::Unavailable(describe_error(&it)))?;
        let request = persistence::detect_persistence(&mut connection);
        let request = timeout(CONNECT_DEADLINE, request).await.map_err(late)?;
        let persistence = request.map_err(|it| RedisUnusable::Unavailable(describe_error(&it)))?;
        Ok((connection, persistence))
    }

    /// Asked again with each connection: behind it there may be another server, or other settings.
    async fn connect(&self) -> Result<MultiplexedConnection, RedisUnusable> {
        let (connection, persistence) = Self::probe(&self.client).await?;
        match (persistence, self.disk_policy) {
            (Persistence::Off, _) | (_, DiskPolicy::Allowed) => Ok(connection),
            (
                kept @ (Persistence::On | Persistence::Replicated | Persistence::Unknown),
                DiskPolicy::Forbidden,
            ) => Err(RedisUnusable::Persistent(kept)),
        }
    }

    async fn run_script(
        &self,
        connection: &mut MultiplexedConnection,
        epoch: &SharedEpoch,
        offer: KeyOffer<'_>,
    ) -> Result<Vec<WrappedEpochKey>, RedisUnusable> {
        let mut call = self.script.prepare_invoke();
        let (word, keys) = match offer {
            KeyOffer::None => ("nothing", &[][..]),
            KeyOffer::IfAbsent(key) => ("first", std::slice::from_ref(key)),
            KeyOffer::Restore(keys) => ("again", keys),
        };
        call.key(&epoch.name).arg(word).arg(epoch.ends_ms);
        for key in keys {
            call.arg(format!("{:08x}", key.version)).arg(key.wrapped.as_bytes());
        }
        let response = timeout(DEADLINE, call.invoke_async(connection)).await;
        let response =
            response.map_err(|_| RedisUnusable::Unavailable("no answer in time".to_owned()))?;
        let found: Vec<(String, Vec<u8>)> =
            response.map_err(|it| RedisUnusable::Unavailable(describe_error(&it)))?;
        let read = |(version, wrapped): (String, Vec<u8>)| {
            let version = u32::from_str_radix(&version, 16).ok()?;
            Some(WrappedEpochKey { version, wrapped: Sealed::from_stored(wrapped) })
        };
        // What is not ours is not seen.
        Ok(found.into_iter().filter_map(read).collect())
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
        let found =
            self.run_script(&mut MultiplexedConnection::clone(&connection), epoch, offer).await;
        found.map_err(|unfit| {
            self.failures.fetch_add(1, Ordering::Relaxed);
            // Another request may have noticed, and somebody have connected again since.
            let current = self.connection.load_full();
            if current.is_some_and(|it| Arc::ptr_eq(&it, &connection)) {
                self.handle_disconnect(&unfit);
            }
            EpochKeyError::NoResponse
        })
    }

    /// Says so once, and tries again until it is back.
    fn handle_disconnect(&self, cause: &RedisUnusable) {
        self.connection.store(None);
        if self.reconnecting.swap(true, Ordering::AcqRel) {
            return;
        }
        let cause = cause.to_string();
        tracing::warn!(cause, "the shared epoch keys are away: codes may not be, cards are");
        tokio::spawn(reconnect(Weak::clone(&self.self_reference)));
    }
}

async fn reconnect(shared: Weak<RedisKeyExchange>) {
    let mut told = false;
    loop {
        let Some(shared) = shared.upgrade() else { return };
        match shared.connect().await {
            Ok(connection) => {
                // In this order: whoever loses this one at once must find nobody at it.
                shared.reconnecting.store(false, Ordering::Release);
                shared.connection.store(Some(Arc::new(connection)));
                tracing::info!("the shared epoch keys are back");
                return;
            }
            Err(unfit @ RedisUnusable::Persistent(_)) if !told => {
                told = true;
                tracing::error!(cause = unfit.to_string(), "the shared epoch keys are not used");
            }
            Err(RedisUnusable::Persistent(_) | RedisUnusable::Unavailable(_)) => (),
        }
        drop(shared);
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
        f.write_str("SharedKeys")
    }
}

/// For the log. What the server says of itself, never what it was sent.
fn describe_error(error: &RedisError) -> String {
    let code = error.code().unwrap_or_default();
    format!("{} {code}", error.category()).trim_end().to_owned()
}
