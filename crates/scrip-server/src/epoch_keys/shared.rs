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
use scrip_seal::{Asked, EpochKeysAway, KeyExchange, Leave, NamedEpoch, Sealed, WrappedEpochKey};
use tokio::time::{sleep, timeout};

use crate::epoch_keys::persistence::{self, Persistence};

const SCRIPT: &str = include_str!("exchange.lua");
/// A request waits for so long, once in an epoch.
const DEADLINE: Duration = Duration::from_secs(1);
const CONNECT_DEADLINE: Duration = Duration::from_secs(2);
/// Between attempts to reach a server that is away.
const PAUSE: Duration = Duration::from_millis(250);

pub struct SharedKeys {
    me: Weak<Self>,
    client: Client,
    script: Script,
    disks: Disks,
    connection: ArcSwapOption<MultiplexedConnection>,
    /// Somebody is at it.
    reconnecting: AtomicBool,
    failed: AtomicU64,
}

/// Whether a server will do that may write keys to a disk, where destroyed ones are found again by
/// whoever also has the root key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disks {
    Refused,
    Allowed,
}

/// Why a server is not used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// For now.
    #[error("{0}")]
    Away(String),
    /// Until somebody changes it: it writes keys to a disk, or does not tell.
    #[error("{0}")]
    Keeps(Persistence),
}

impl SharedKeys {
    /// Reaches for the server once; if it is not there, goes on trying in the background.
    ///
    /// # Errors
    /// It is there, and keeps what it is given.
    pub async fn start(client: Client, disks: Disks) -> Result<Arc<Self>, Persistence> {
        let shared = Arc::new_cyclic(|me| Self {
            me: Weak::clone(me),
            client,
            script: Script::new(SCRIPT),
            disks,
            connection: ArcSwapOption::empty(),
            reconnecting: AtomicBool::new(false),
            failed: AtomicU64::new(0),
        });
        match shared.connect().await {
            Ok(connection) => shared.connection.store(Some(Arc::new(connection))),
            Err(Unfit::Keeps(persistence)) => return Err(persistence),
            Err(unfit @ Unfit::Away(_)) => shared.lose(&unfit),
        }
        Ok(shared)
    }

    /// # Errors
    /// It is of no use, now or at all.
    pub async fn look(client: &Client) -> Result<(MultiplexedConnection, Persistence), Unfit> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_DEADLINE))
            .set_response_timeout(Some(CONNECT_DEADLINE));
        let connecting = client.get_multiplexed_async_connection_with_config(&config);
        let late = |_| Unfit::Away("no answer in time".to_owned());
        let connection = timeout(CONNECT_DEADLINE, connecting).await.map_err(late)?;
        let mut connection = connection.map_err(|it| Unfit::Away(text(&it)))?;
        let asked = persistence::ask(&mut connection);
        let asked = timeout(CONNECT_DEADLINE, asked).await.map_err(late)?;
        let persistence = asked.map_err(|it| Unfit::Away(text(&it)))?;
        Ok((connection, persistence))
    }

    /// Asked again with each connection: behind it there may be another server, or other settings.
    async fn connect(&self) -> Result<MultiplexedConnection, Unfit> {
        let (connection, persistence) = Self::look(&self.client).await?;
        match (persistence, self.disks) {
            (Persistence::Off, _) | (_, Disks::Allowed) => Ok(connection),
            (
                kept @ (Persistence::On | Persistence::Copied | Persistence::Untold),
                Disks::Refused,
            ) => Err(Unfit::Keeps(kept)),
        }
    }

    async fn run(
        &self,
        connection: &mut MultiplexedConnection,
        epoch: &NamedEpoch,
        leave: Leave<'_>,
    ) -> Result<Vec<WrappedEpochKey>, Unfit> {
        let mut call = self.script.prepare_invoke();
        let (word, keys) = match leave {
            Leave::Nothing => ("nothing", &[][..]),
            Leave::First(key) => ("first", std::slice::from_ref(key)),
            Leave::Again(keys) => ("again", keys),
        };
        call.key(&epoch.name).arg(word).arg(epoch.ends_ms);
        for key in keys {
            call.arg(format!("{:08x}", key.version)).arg(key.wrapped.as_bytes());
        }
        let answered = timeout(DEADLINE, call.invoke_async(connection)).await;
        let answered = answered.map_err(|_| Unfit::Away("no answer in time".to_owned()))?;
        let found: Vec<(String, Vec<u8>)> = answered.map_err(|it| Unfit::Away(text(&it)))?;
        let read = |(version, wrapped): (String, Vec<u8>)| {
            let version = u32::from_str_radix(&version, 16).ok()?;
            Some(WrappedEpochKey { version, wrapped: Sealed::from_stored(wrapped) })
        };
        // What is not ours is not seen.
        Ok(found.into_iter().filter_map(read).collect())
    }

    async fn ask(
        &self,
        epoch: &NamedEpoch,
        leave: Leave<'_>,
    ) -> Result<Vec<WrappedEpochKey>, EpochKeysAway> {
        let Some(connection) = self.connection.load_full() else {
            self.failed.fetch_add(1, Ordering::Relaxed);
            return Err(EpochKeysAway::Silent);
        };
        let found = self.run(&mut MultiplexedConnection::clone(&connection), epoch, leave).await;
        found.map_err(|unfit| {
            self.failed.fetch_add(1, Ordering::Relaxed);
            // Another request may have noticed, and somebody have connected again since.
            let current = self.connection.load_full();
            if current.is_some_and(|it| Arc::ptr_eq(&it, &connection)) {
                self.lose(&unfit);
            }
            EpochKeysAway::Silent
        })
    }

    /// Says so once, and tries again until it is back.
    fn lose(&self, unfit: &Unfit) {
        self.connection.store(None);
        if self.reconnecting.swap(true, Ordering::AcqRel) {
            return;
        }
        let cause = unfit.to_string();
        tracing::warn!(cause, "the shared epoch keys are away: codes may not be, cards are");
        tokio::spawn(reconnect(Weak::clone(&self.me)));
    }
}

async fn reconnect(shared: Weak<SharedKeys>) {
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
            Err(unfit @ Unfit::Keeps(_)) if !told => {
                told = true;
                tracing::error!(cause = unfit.to_string(), "the shared epoch keys are not used");
            }
            Err(Unfit::Keeps(_) | Unfit::Away(_)) => (),
        }
        drop(shared);
        sleep(PAUSE).await;
    }
}

impl KeyExchange for SharedKeys {
    fn exchange<'a>(
        &'a self,
        epoch: &'a NamedEpoch,
        leave: Leave<'a>,
    ) -> Asked<'a, Vec<WrappedEpochKey>> {
        Box::pin(self.ask(epoch, leave))
    }

    fn answers(&self) -> bool {
        self.connection.load().is_some()
    }

    fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for SharedKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedKeys")
    }
}

/// For the log. What the server says of itself, never what it was sent.
fn text(error: &RedisError) -> String {
    let code = error.code().unwrap_or_default();
    format!("{} {code}", error.category()).trim_end().to_owned()
}
