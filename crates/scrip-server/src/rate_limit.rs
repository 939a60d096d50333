//! Counters that several servers share, in Redis or Valkey: one script for each request, which
//! counts on all of its counters or on none, by that server's clock.

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
use tokio::time::{sleep, timeout};

const SCRIPT: &str = include_str!("rate_limit/count.lua");
/// One late answer is a busy moment; so many in a row, and nobody is waited for any more.
const CONSECUTIVE_TIMEOUTS_MAX: u32 = 3;
/// Between attempts to reach a server that is away.
const RECONNECT_PAUSE: Duration = Duration::from_millis(250);
/// For a connection with its handshakes; a request waits for none of it.
const CONNECT_DEADLINE: Duration = Duration::from_secs(2);
/// Longer than any time this counts with.
const WAIT_MAX_US: u64 = 1 << 52;

#[derive(Debug)]
pub struct RedisCounters {
    client: Client,
    script: Script,
    deadline: Duration,
    connection: ArcSwapOption<MultiplexedConnection>,
    /// Somebody is at it.
    reconnecting: AtomicBool,
    failures: AtomicU64,
    /// In a row, of answers that came too late.
    consecutive_timeouts: AtomicU32,
}

impl RedisCounters {
    /// Reaches for the server once; if it is not there, goes on trying in the background.
    pub async fn start(client: Client, deadline: Duration) -> Arc<Self> {
        let shared = Arc::new(Self {
            client,
            script: Script::new(SCRIPT),
            deadline,
            connection: ArcSwapOption::empty(),
            reconnecting: AtomicBool::new(false),
            failures: AtomicU64::new(0),
            consecutive_timeouts: AtomicU32::new(0),
        });
        match shared.connect().await {
            Ok(connection) => shared.connection.store(Some(Arc::new(connection))),
            Err(cause) => shared.handle_disconnect(&cause),
        }
        shared
    }

    /// # Errors
    /// Nobody answered in time; whether it was counted is not known.
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
        let counted = response
            .and_then(|it| parse_response(checks, &it).ok_or(RedisFailure::InvalidResponse));
        let late = match &counted {
            Err(RedisFailure::TimedOut) => {
                self.consecutive_timeouts.fetch_add(1, Ordering::Relaxed).saturating_add(1)
            }
            Ok(_) | Err(RedisFailure::InvalidResponse | RedisFailure::Failed(_)) => {
                self.consecutive_timeouts.store(0, Ordering::Relaxed);
                CONSECUTIVE_TIMEOUTS_MAX
            }
        };
        counted.map_err(|cause| {
            self.failures.fetch_add(1, Ordering::Relaxed);
            if late < CONSECUTIVE_TIMEOUTS_MAX {
                return CountersUnavailable;
            }
            // Another request may have noticed, and somebody have connected again since.
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
        for (name, rates) in counters {
            call.key(name).key(format!("{name}:block"));
            call.arg(rates.limit).arg(rates.window_us).arg(rates.block_us);
        }
        let response = timeout(self.deadline, call.invoke_async(&mut connection)).await;
        response.map_err(|_| RedisFailure::TimedOut)?.map_err(RedisFailure::Failed)
    }

    /// A connection by which the script was seen to work: one that can write, too.
    async fn connect(&self) -> Result<MultiplexedConnection, RedisFailure> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_DEADLINE))
            .set_response_timeout(Some(CONNECT_DEADLINE));
        let connecting = self.client.get_multiplexed_async_connection_with_config(&config);
        let connection = timeout(CONNECT_DEADLINE, connecting).await;
        let connection =
            connection.map_err(|_| RedisFailure::TimedOut)?.map_err(RedisFailure::Failed)?;
        let rates = ScriptRate { limit: 1, window_us: 1, block_us: 0 };
        let probe = std::iter::once(("scrip:limit:probe", rates));
        match self.run_script(connection.clone(), probe).await?.as_slice() {
            [_, 0] => Ok(connection),
            _ => Err(RedisFailure::InvalidResponse),
        }
    }

    /// Says so once, and tries again until it is back.
    fn handle_disconnect(self: &Arc<Self>, cause: &RedisFailure) {
        self.connection.store(None);
        if self.reconnecting.swap(true, Ordering::AcqRel) {
            return;
        }
        let cause = cause.describe();
        tracing::warn!(cause, "the shared counters of rate limits are away");
        let shared = Arc::downgrade(self);
        tokio::spawn(reconnect(shared));
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

async fn reconnect(shared: Weak<RedisCounters>) {
    loop {
        let Some(shared) = shared.upgrade() else { return };
        if let Ok(connection) = shared.connect().await {
            // In this order: whoever loses this one at once must find nobody at it.
            shared.reconnecting.store(false, Ordering::Release);
            shared.consecutive_timeouts.store(0, Ordering::Relaxed);
            shared.connection.store(Some(Arc::new(connection)));
            tracing::info!("the shared counters of rate limits are back");
            return;
        }
        drop(shared);
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
    /// For the log. What the server says of itself, never what it was sent.
    fn describe(&self) -> String {
        match self {
            Self::TimedOut => "no answer in time".to_owned(),
            Self::InvalidResponse => "an answer that makes no sense".to_owned(),
            Self::Failed(error) => {
                let code = error.code().unwrap_or_default();
                format!("{} {code}", error.category()).trim_end().to_owned()
            }
        }
    }
}

/// A rate, as the script takes it.
#[derive(Debug, Clone, Copy)]
struct ScriptRate {
    limit: u32,
    window_us: u64,
    block_us: u64,
}

impl ScriptRate {
    fn from_check(check: &CounterCheck) -> Self {
        let us = |it: Duration| u64::try_from(it.as_micros()).unwrap_or(WAIT_MAX_US);
        let rate = check.rate;
        let block_us = rate.block_duration().map(us).unwrap_or_default();
        Self { limit: rate.requests.get(), window_us: us(rate.window), block_us }
    }
}

/// What a counter is called there: its row, and a keyed digest of whom it counts.
fn counter_name(pepper: &Pepper, check: &CounterCheck) -> String {
    let row = check.limit.as_str();
    let digest = match &check.key {
        CounterKey::Address(network) => digest(pepper, check.limit, &[b"address", &network.0]),
        CounterKey::Digest(mark) => digest(pepper, check.limit, &[b"key", &mark.0]),
        CounterKey::Pair(mark, network) => {
            digest(pepper, check.limit, &[b"pair", &mark.0, &network.0])
        }
    };
    let half: String = digest.iter().take(16).map(|it| format!("{it:02x}")).collect();
    format!("scrip:limit:{row}:{half}")
}

fn digest(pepper: &Pepper, name: RateLimitName, subject: &[&[u8]]) -> [u8; 32] {
    let parts: Vec<_> =
        std::iter::once(name.as_str().as_bytes()).chain(subject.iter().copied()).collect();
    pepper.counter_name(&parts)
}

/// The time, and then the wait of each counter.
fn parse_response(checks: &[CounterCheck], response: &[u64]) -> Option<CountResult> {
    let (at_us, waits) = response.split_first()?;
    if waits.len() != checks.len() {
        return None;
    }
    let longest = checks.iter().zip(waits).max_by_key(|(_, wait)| **wait);
    let rejected =
        longest.filter(|(_, wait)| **wait > 0).map(|(demand, wait)| RateLimitRejection {
            limit: demand.limit,
            rate: demand.rate,
            retry_after: Duration::from_micros(*wait),
        });
    Some(CountResult { at_us: *at_us, outcome: rejected.map_or(Ok(()), Err) })
}
