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
use scrip_api::limiter::{Away, Counted, Counting, SharedCounters};
use scrip_core::policy::rate_limit::{Demand, Row, Subject, counters::Refused};
use scrip_seal::Pepper;
use tokio::time::{sleep, timeout};

const SCRIPT: &str = include_str!("rate_limit/count.lua");
/// One late answer is a busy moment; so many in a row, and nobody is waited for any more.
const LATE_MAX: u32 = 3;
/// Between attempts to reach a server that is away.
const PAUSE: Duration = Duration::from_millis(250);
/// For a connection with its handshakes; a request waits for none of it.
const CONNECT_DEADLINE: Duration = Duration::from_secs(2);
/// Longer than any time this counts with.
const WAIT_MAX_US: u64 = 1 << 52;

#[derive(Debug)]
pub struct Shared {
    client: Client,
    script: Script,
    deadline: Duration,
    connection: ArcSwapOption<MultiplexedConnection>,
    /// Somebody is at it.
    reconnecting: AtomicBool,
    failed: AtomicU64,
    /// In a row, of answers that came too late.
    late: AtomicU32,
}

impl Shared {
    /// Reaches for the server once; if it is not there, goes on trying in the background.
    pub async fn start(client: Client, deadline: Duration) -> Arc<Self> {
        let shared = Arc::new(Self {
            client,
            script: Script::new(SCRIPT),
            deadline,
            connection: ArcSwapOption::empty(),
            reconnecting: AtomicBool::new(false),
            failed: AtomicU64::new(0),
            late: AtomicU32::new(0),
        });
        match shared.connect().await {
            Ok(connection) => shared.connection.store(Some(Arc::new(connection))),
            Err(cause) => shared.lose(&cause),
        }
        shared
    }

    /// # Errors
    /// Nobody answered in time; whether it was counted is not known.
    pub async fn count(
        self: &Arc<Self>,
        pepper: &Pepper,
        demands: &[Demand],
    ) -> Result<Counted, Away> {
        let Some(connection) = self.connection.load_full() else {
            self.failed.fetch_add(1, Ordering::Relaxed);
            return Err(Away);
        };
        let names: Vec<_> = demands.iter().map(|it| name(pepper, it)).collect();
        let counters =
            demands.iter().zip(&names).map(|(it, name)| (name.as_str(), Figures::of(it)));
        let answer = self.run(MultiplexedConnection::clone(&connection), counters).await;
        let counted = answer.and_then(|it| read(demands, &it).ok_or(Cause::NoAnswer));
        let late = match &counted {
            Err(Cause::Late) => self.late.fetch_add(1, Ordering::Relaxed).saturating_add(1),
            Ok(_) | Err(Cause::NoAnswer | Cause::Failed(_)) => {
                self.late.store(0, Ordering::Relaxed);
                LATE_MAX
            }
        };
        counted.map_err(|cause| {
            self.failed.fetch_add(1, Ordering::Relaxed);
            if late < LATE_MAX {
                return Away;
            }
            // Another request may have noticed, and somebody have connected again since.
            let current = self.connection.load_full();
            if current.is_some_and(|it| Arc::ptr_eq(&it, &connection)) {
                self.lose(&cause);
            }
            Away
        })
    }

    async fn run<'a>(
        &self,
        mut connection: MultiplexedConnection,
        counters: impl Iterator<Item = (&'a str, Figures)>,
    ) -> Result<Vec<u64>, Cause> {
        let mut call = self.script.prepare_invoke();
        for (name, figures) in counters {
            call.key(name).key(format!("{name}:block"));
            call.arg(figures.limit).arg(figures.window_us).arg(figures.block_us);
        }
        let answered = timeout(self.deadline, call.invoke_async(&mut connection)).await;
        answered.map_err(|_| Cause::Late)?.map_err(Cause::Failed)
    }

    /// A connection by which the script was seen to work: one that can write, too.
    async fn connect(&self) -> Result<MultiplexedConnection, Cause> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_DEADLINE))
            .set_response_timeout(Some(CONNECT_DEADLINE));
        let connecting = self.client.get_multiplexed_async_connection_with_config(&config);
        let connection = timeout(CONNECT_DEADLINE, connecting).await;
        let connection = connection.map_err(|_| Cause::Late)?.map_err(Cause::Failed)?;
        let figures = Figures { limit: 1, window_us: 1, block_us: 0 };
        let probe = std::iter::once(("scrip:limit:probe", figures));
        match self.run(connection.clone(), probe).await?.as_slice() {
            [_, 0] => Ok(connection),
            _ => Err(Cause::NoAnswer),
        }
    }

    /// Says so once, and tries again until it is back.
    fn lose(self: &Arc<Self>, cause: &Cause) {
        self.connection.store(None);
        if self.reconnecting.swap(true, Ordering::AcqRel) {
            return;
        }
        let cause = cause.text();
        tracing::warn!(cause, "the shared counters of rate limits are away");
        let shared = Arc::downgrade(self);
        tokio::spawn(reconnect(shared));
    }
}

impl SharedCounters for Shared {
    fn count<'a>(self: Arc<Self>, pepper: &'a Pepper, demands: &'a [Demand]) -> Counting<'a> {
        Box::pin(async move { Self::count(&self, pepper, demands).await })
    }

    fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    fn answers(&self) -> bool {
        self.connection.load().is_some()
    }
}

async fn reconnect(shared: Weak<Shared>) {
    loop {
        let Some(shared) = shared.upgrade() else { return };
        if let Ok(connection) = shared.connect().await {
            // In this order: whoever loses this one at once must find nobody at it.
            shared.reconnecting.store(false, Ordering::Release);
            shared.late.store(0, Ordering::Relaxed);
            shared.connection.store(Some(Arc::new(connection)));
            tracing::info!("the shared counters of rate limits are back");
            return;
        }
        drop(shared);
        sleep(PAUSE).await;
    }
}

#[derive(Debug)]
enum Cause {
    Late,
    NoAnswer,
    Failed(RedisError),
}

impl Cause {
    /// For the log. What the server says of itself, never what it was sent.
    fn text(&self) -> String {
        match self {
            Self::Late => "no answer in time".to_owned(),
            Self::NoAnswer => "an answer that makes no sense".to_owned(),
            Self::Failed(error) => {
                let code = error.code().unwrap_or_default();
                format!("{} {code}", error.category()).trim_end().to_owned()
            }
        }
    }
}

/// A rate, as the script takes it.
#[derive(Debug, Clone, Copy)]
struct Figures {
    limit: u32,
    window_us: u64,
    block_us: u64,
}

impl Figures {
    fn of(demand: &Demand) -> Self {
        let us = |it: Duration| u64::try_from(it.as_micros()).unwrap_or(WAIT_MAX_US);
        let rate = demand.rate;
        let block_us = rate.block().map(us).unwrap_or_default();
        Self { limit: rate.requests.get(), window_us: us(rate.window), block_us }
    }
}

/// What a counter is called there: its row, and a keyed digest of whom it counts.
fn name(pepper: &Pepper, demand: &Demand) -> String {
    let row = demand.row.as_str();
    let digest = match &demand.subject {
        Subject::Address(network) => digest(pepper, demand.row, &[b"address", &network.0]),
        Subject::Marked(mark) => digest(pepper, demand.row, &[b"key", &mark.0]),
        Subject::Pair(mark, network) => digest(pepper, demand.row, &[b"pair", &mark.0, &network.0]),
    };
    let half: String = digest.iter().take(16).map(|it| format!("{it:02x}")).collect();
    format!("scrip:limit:{row}:{half}")
}

fn digest(pepper: &Pepper, row: Row, subject: &[&[u8]]) -> [u8; 32] {
    let parts: Vec<_> =
        std::iter::once(row.as_str().as_bytes()).chain(subject.iter().copied()).collect();
    pepper.counter_name(&parts)
}

/// The time, and then the wait of each counter.
fn read(demands: &[Demand], answer: &[u64]) -> Option<Counted> {
    let (at_us, waits) = answer.split_first()?;
    if waits.len() != demands.len() {
        return None;
    }
    let longest = demands.iter().zip(waits).max_by_key(|(_, wait)| **wait);
    let refused = longest.filter(|(_, wait)| **wait > 0).map(|(demand, wait)| Refused {
        row: demand.row,
        rate: demand.rate,
        wait: Duration::from_micros(*wait),
    });
    Some(Counted { at_us: *at_us, outcome: refused.map_or(Ok(()), Err) })
}
