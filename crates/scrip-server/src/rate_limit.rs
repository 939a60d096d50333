//! Rate limit counters that several servers share in Redis or Valkey. One script per request counts
//! on all of its counters or on none, by the clock of Redis.

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwapOption;
use redis::{AsyncConnectionConfig, Client, RedisError, Script, aio::MultiplexedConnection};
use scrip_api::limiter::{CountFuture, CountResult, CountersUnavailable, SharedCounters};
use scrip_core::policy::rate_limit::{
    CounterCheck, CounterKey, RateLimitName, counters::RateLimitRejection,
};
use scrip_seal::Pepper;
use scrip_types::hex::encode_hex;
use tokio::time::{sleep, timeout};

const SCRIPT: &str = include_str!("rate_limit/count.lua");
/// A single late response is tolerated. After this many in a row the connection counts as lost.
const CONSECUTIVE_TIMEOUTS_MAX: u32 = 3;
/// Pause between attempts to connect.
const RECONNECT_PAUSE: Duration = Duration::from_millis(250);
/// Maximum time to connect, with handshakes; no request waits for it.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Replaces a duration that does not fit into microseconds; longer than any configured duration.
const WAIT_MAX_US: u64 = 1 << 52;

#[derive(Debug)]
pub struct RedisCounters {
    client: Client,
    script: Script,
    timeout: Duration,
    connection: ArcSwapOption<MultiplexedConnection>,
    /// A reconnect task is running.
    reconnecting: AtomicBool,
    failures: AtomicU64,
    /// Consecutive late responses.
    consecutive_timeouts: AtomicU32,
}

impl RedisCounters {
    /// Tries to connect once; if that fails, keeps trying in the background.
    pub async fn start(client: Client, timeout: Duration) -> Arc<Self> {
        let counters = Arc::new(Self {
            client,
            script: Script::new(SCRIPT),
            timeout,
            connection: ArcSwapOption::empty(),
            reconnecting: AtomicBool::new(false),
            failures: AtomicU64::new(0),
            consecutive_timeouts: AtomicU32::new(0),
        });
        match counters.connect().await {
            Ok(connection) => counters.connection.store(Some(Arc::new(connection))),
            Err(cause) => counters.handle_disconnect(&cause),
        }
        counters
    }

    /// Counts one request on all counters, or on none if one of them rejects it.
    /// Errors: no response arrived in time; whether the request was counted is unknown.
    pub async fn count(
        self: &Arc<Self>,
        pepper: &Pepper,
        checks: &[CounterCheck],
    ) -> Result<CountResult, CountersUnavailable> {
        let Some(connection) = self.connection.load_full() else {
            self.failures.fetch_add(1, Ordering::Relaxed);
            return Err(CountersUnavailable);
        };
        let names: Vec<_> = checks.iter().map(|it| counter_name(pepper, it)).collect();
        let counters =
            checks.iter().zip(&names).map(|(it, name)| (name.as_str(), ScriptRate::from_check(it)));
        let response = self.run_script(MultiplexedConnection::clone(&connection), counters).await;
        let result = response
            .and_then(|it| parse_response(checks, &it).ok_or(RedisFailure::InvalidResponse));
        let consecutive_timeouts = match &result {
            Err(RedisFailure::TimedOut) => {
                self.consecutive_timeouts.fetch_add(1, Ordering::Relaxed).saturating_add(1)
            }
            Ok(_) | Err(RedisFailure::InvalidResponse | RedisFailure::Failed(_)) => {
                self.consecutive_timeouts.store(0, Ordering::Relaxed);
                CONSECUTIVE_TIMEOUTS_MAX
            }
        };
        result.map_err(|cause| {
            self.failures.fetch_add(1, Ordering::Relaxed);
            if consecutive_timeouts < CONSECUTIVE_TIMEOUTS_MAX {
                return CountersUnavailable;
            }
            // Another request may have noticed the failure first, and the reconnect task may have
            // finished.
            let current = self.connection.load_full();
            if current.is_some_and(|it| Arc::ptr_eq(&it, &connection)) {
                self.handle_disconnect(&cause);
            }
            CountersUnavailable
        })
    }

    async fn run_script<'a>(
        &self,
        mut connection: MultiplexedConnection,
        counters: impl Iterator<Item = (&'a str, ScriptRate)>,
    ) -> Result<Vec<u64>, RedisFailure> {
        let mut call = self.script.prepare_invoke();
        for (name, rate) in counters {
            call.key(name).key(format!("{name}:block"));
            call.arg(rate.limit).arg(rate.window_us).arg(rate.block_us);
        }
        let response = timeout(self.timeout, call.invoke_async(&mut connection)).await;
        response.map_err(|_| RedisFailure::TimedOut)?.map_err(RedisFailure::Failed)
    }

    /// Connects and runs the script once, to check that the server accepts writes.
    async fn connect(&self) -> Result<MultiplexedConnection, RedisFailure> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_TIMEOUT))
            .set_response_timeout(Some(CONNECT_TIMEOUT));
        let connect = self.client.get_multiplexed_async_connection_with_config(&config);
        let connection = timeout(CONNECT_TIMEOUT, connect).await;
        let connection =
            connection.map_err(|_| RedisFailure::TimedOut)?.map_err(RedisFailure::Failed)?;
        let rate = ScriptRate { limit: 1, window_us: 1, block_us: 0 };
        let probe = std::iter::once(("scrip:limit:probe", rate));
        match self.run_script(connection.clone(), probe).await?.as_slice() {
            [_, 0] => Ok(connection),
            _ => Err(RedisFailure::InvalidResponse),
        }
    }

    /// Logs the failure once and reconnects in the background.
    fn handle_disconnect(self: &Arc<Self>, cause: &RedisFailure) {
        self.connection.store(None);
        if self.reconnecting.swap(true, Ordering::AcqRel) {
            return;
        }
        let cause = cause.describe();
        tracing::warn!(
            cause,
            "shared rate limit counters unavailable; reconnecting (limits.redis_outage decides how \
             requests are counted)"
        );
        let counters = Arc::downgrade(self);
        tokio::spawn(reconnect(counters));
    }
}

impl SharedCounters for RedisCounters {
    fn count<'a>(
        self: Arc<Self>,
        pepper: &'a Pepper,
        checks: &'a [CounterCheck],
    ) -> CountFuture<'a> {
        Box::pin(async move { Self::count(&self, pepper, checks).await })
    }

    fn failure_count(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    fn is_available(&self) -> bool {
        self.connection.load().is_some()
    }
}

async fn reconnect(counters: Weak<RedisCounters>) {
    loop {
        let Some(counters) = counters.upgrade() else { return };
        if let Ok(connection) = counters.connect().await {
            // In this order: if this connection fails immediately, the next failure must start a
            // new task.
            counters.reconnecting.store(false, Ordering::Release);
            counters.consecutive_timeouts.store(0, Ordering::Relaxed);
            counters.connection.store(Some(Arc::new(connection)));
            tracing::info!("shared rate limit counters available again");
            return;
        }
        drop(counters);
        sleep(RECONNECT_PAUSE).await;
    }
}

#[derive(Debug)]
enum RedisFailure {
    TimedOut,
    InvalidResponse,
    Failed(RedisError),
}

impl RedisFailure {
    /// Text for the log: the error category and code of the server, never sent data.
    fn describe(&self) -> String {
        match self {
            Self::TimedOut => "response timeout".to_owned(),
            Self::InvalidResponse => "invalid response".to_owned(),
            Self::Failed(error) => {
                let code = error.code().unwrap_or_default();
                format!("{} {code}", error.category()).trim_end().to_owned()
            }
        }
    }
}

/// A rate as arguments of the script.
#[derive(Debug, Clone, Copy)]
struct ScriptRate {
    limit: u32,
    window_us: u64,
    block_us: u64,
}

impl ScriptRate {
    fn from_check(check: &CounterCheck) -> Self {
        let to_micros = |it: Duration| u64::try_from(it.as_micros()).unwrap_or(WAIT_MAX_US);
        let rate = check.rate;
        let block_us = rate.block_duration().map(to_micros).unwrap_or_default();
        Self { limit: rate.requests.get(), window_us: to_micros(rate.window), block_us }
    }
}

/// Returns the Redis key of a counter: the name of the limit, and a keyed digest of the caller.
fn counter_name(pepper: &Pepper, check: &CounterCheck) -> String {
    let limit_name = check.limit.as_str();
    let digest = match &check.key {
        CounterKey::Address(network) => digest(pepper, check.limit, &[b"address", &network.0]),
        CounterKey::Digest(key_digest) => digest(pepper, check.limit, &[b"key", &key_digest.0]),
        CounterKey::Pair(key_digest, network) => {
            digest(pepper, check.limit, &[b"pair", &key_digest.0, &network.0])
        }
    };
    let short_digest = encode_hex(digest.get(..16).unwrap_or(&digest));
    format!("scrip:limit:{limit_name}:{short_digest}")
}

fn digest(pepper: &Pepper, name: RateLimitName, subject: &[&[u8]]) -> [u8; 32] {
    let parts: Vec<_> =
        std::iter::once(name.as_str().as_bytes()).chain(subject.iter().copied()).collect();
    pepper.counter_name(&parts)
}

/// Parses the time and then the wait of each counter.
fn parse_response(checks: &[CounterCheck], response: &[u64]) -> Option<CountResult> {
    let (at_us, waits) = response.split_first()?;
    if waits.len() != checks.len() {
        return None;
    }
    let longest = checks.iter().zip(waits).max_by_key(|(_, wait)| **wait);
    let rejection =
        longest.filter(|(_, wait)| **wait > 0).map(|(check, wait)| RateLimitRejection {
            limit: check.limit,
            rate: check.rate,
            retry_after: Duration::from_micros(*wait),
        });
    Some(CountResult { at_us: *at_us, outcome: rejection.map_or(Ok(()), Err) })
}
