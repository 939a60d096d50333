//! The load generator: one socket and one request in flight per connection.
//!
//! The generator does as little work as possible, because it shares the machine with the measured
//! server: requests are prepared bytes, and only the status and the length of a response are
//! parsed.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, bail, ensure};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    task::JoinSet,
    time::{sleep, sleep_until},
};

use crate::harness::{
    clock::{micros, now},
    process::{Pid, cpu_time, own_cpu_time},
    results::MeasurementResult,
    script::RequestScript,
};

#[derive(Debug, Clone, Copy)]
pub(crate) struct LoadPlan {
    pub(crate) name: &'static str,
    pub(crate) address: SocketAddr,
    pub(crate) server: Pid,
    /// The process that the server calls, if its processor time is measured too.
    pub(crate) upstream: Option<Pid>,
    pub(crate) status: u16,
    pub(crate) until: LoadDuration,
    /// The interval between requests of each connection. `None` sends the next request after each
    /// response.
    pub(crate) interval: Option<Duration>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum LoadDuration {
    /// Warm-up time, then measured time.
    Time(Duration, Duration),
    /// This many requests without warm-up.
    Count(u32),
}

/// State that all connections of a run share.
#[derive(Debug)]
struct LoadSignals {
    measure: AtomicBool,
    stop: AtomicBool,
    requests_left: AtomicI64,
}

/// The processor time of the measured processes so far.
#[derive(Debug, Clone, Copy)]
struct CpuTimes {
    server: Duration,
    upstream: Duration,
    load: Duration,
}

impl CpuTimes {
    fn read(load: &LoadPlan) -> anyhow::Result<Self> {
        let upstream = load.upstream.map(cpu_time).transpose()?.unwrap_or_default();
        Ok(Self { server: cpu_time(load.server)?, upstream, load: own_cpu_time(Pid::own())? })
    }
}

/// The times at which a connection sends its requests.
#[derive(Debug)]
struct RequestPace {
    interval: Duration,
    due: Instant,
}

impl RequestPace {
    /// The connections take turns within the interval. Otherwise all of them would send at once.
    fn new(interval: Duration, index: usize, connections: usize) -> Self {
        let [index, connections] = [index, connections].map(|it| u32::try_from(it).unwrap_or(1));
        let delay = interval.saturating_mul(index).checked_div(connections).unwrap_or_default();
        let start = now();
        Self { interval, due: start.checked_add(delay).unwrap_or(start) }
    }

    fn next_due(&mut self) -> Instant {
        let due = self.due;
        self.due = due.checked_add(self.interval).unwrap_or(due);
        due
    }
}

/// Opens a connection from this local address.
pub(crate) async fn connect_from(from: Ipv4Addr, to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((from, 0).into())?;
    socket.connect(to).await
}

/// Runs the scripts and returns them. They may have collected data such as ids.
pub(crate) async fn run<S: RequestScript>(
    load: LoadPlan,
    scripts: Vec<S>,
) -> anyhow::Result<(MeasurementResult, Vec<S>)> {
    run_from(Ipv4Addr::LOCALHOST, load, scripts).await
}

/// Runs the scripts with connections from this local address.
pub(crate) async fn run_from<S: RequestScript>(
    from: Ipv4Addr,
    load: LoadPlan,
    scripts: Vec<S>,
) -> anyhow::Result<(MeasurementResult, Vec<S>)> {
    let connection_count = scripts.len();
    let (request_count, measure) = match load.until {
        LoadDuration::Time(..) => (i64::MAX, false),
        LoadDuration::Count(count) => (i64::from(count), true),
    };
    let signals = Arc::new(LoadSignals {
        measure: AtomicBool::new(measure),
        stop: AtomicBool::new(false),
        requests_left: AtomicI64::new(request_count),
    });
    let mut connection_tasks = JoinSet::new();
    for (index, script) in scripts.into_iter().enumerate() {
        let stream = connect_from(from, load.address).await?;
        stream.set_nodelay(true)?;
        let pace = load.interval.map(|it| RequestPace::new(it, index, connection_count));
        let connection = drive_connection(stream, script, load.status, pace, Arc::clone(&signals));
        connection_tasks.spawn(async move { connection.await.map(|it| (index, it)) });
    }
    if let LoadDuration::Time(warm_up, _) = load.until {
        sleep(warm_up).await;
    }
    let cpu_before = CpuTimes::read(&load)?;
    let start = now();
    signals.measure.store(true, Ordering::Relaxed);
    let mut finished = Vec::with_capacity(connection_count);
    match load.until {
        LoadDuration::Time(_, measured) => sleep(measured).await,
        LoadDuration::Count(_) => {
            while let Some(outcome) = connection_tasks.join_next().await {
                finished.push(outcome??);
            }
        }
    }
    signals.measure.store(false, Ordering::Relaxed);
    let elapsed = start.elapsed();
    let cpu_after = CpuTimes::read(&load)?;
    signals.stop.store(true, Ordering::Relaxed);
    while let Some(outcome) = connection_tasks.join_next().await {
        finished.push(outcome??);
    }
    // Connections end in any order. Return the scripts in their original order, because each has
    // its own key.
    finished.sort_by_key(|(index, _)| *index);
    let (latencies, scripts): (Vec<_>, Vec<_>) = finished.into_iter().map(|(_, it)| it).unzip();
    let mut result =
        MeasurementResult::new(load.name, connection_count, latencies.concat(), 1, elapsed);
    let cpu_us = |of: fn(&CpuTimes) -> Duration| {
        Some(result.cpu_us(of(&cpu_after).saturating_sub(of(&cpu_before))))
    };
    let (server, load_cpu) = (cpu_us(|it| it.server), cpu_us(|it| it.load));
    let upstream = load.upstream.and_then(|_| cpu_us(|it| it.upstream));
    (result.server_cpu_us, result.load_cpu_us) = (server, load_cpu);
    result.upstream_cpu_us = upstream;
    Ok((result, scripts))
}

async fn drive_connection<S: RequestScript>(
    mut stream: TcpStream,
    mut script: S,
    status: u16,
    mut pace: Option<RequestPace>,
    signals: Arc<LoadSignals>,
) -> anyhow::Result<(Vec<u32>, S)> {
    let mut latencies = Vec::new();
    let mut buffer = Vec::with_capacity(16 * 1024);
    while !signals.stop.load(Ordering::Relaxed)
        && signals.requests_left.fetch_sub(1, Ordering::Relaxed) > 0
    {
        let start = match &mut pace {
            None => now(),
            Some(pace) => wait_for(pace.next_due()).await,
        };
        stream.write_all(script.next_request()).await?;
        let body_start = read_response(&mut stream, &mut buffer, status).await?;
        if signals.measure.load(Ordering::Relaxed) {
            latencies.push(micros(start.elapsed()));
        }
        script.handle_response(buffer.get(body_start..).unwrap_or_default())?;
    }
    Ok((latencies, script))
}

/// Waits until a request is due. Returns the time at which the request counts as sent: its due
/// time, even if an earlier response was late.
async fn wait_for(due: Instant) -> Instant {
    if now() >= due {
        return due;
    }
    sleep_until(due.into()).await;
    now()
}

/// Reads one complete response and returns the offset of its body.
async fn read_response(
    stream: &mut TcpStream,
    buffer: &mut Vec<u8>,
    expected: u16,
) -> anyhow::Result<usize> {
    buffer.clear();
    loop {
        ensure!(stream.read_buf(buffer).await? > 0, "the server closed the connection");
        let Some(head_length) = buffer.windows(4).position(|it| it == b"\r\n\r\n") else {
            continue;
        };
        let body_start = head_length.saturating_add(4);
        let (status, length) = parse_head(buffer.get(..head_length).unwrap_or_default())?;
        let response_length = body_start.saturating_add(length);
        while buffer.len() < response_length {
            ensure!(stream.read_buf(buffer).await? > 0, "the server aborted a response");
        }
        if status != expected {
            bail!(
                "{expected} was expected, but the response was: {}",
                String::from_utf8_lossy(buffer)
            );
        }
        return Ok(body_start);
    }
}

/// Parses the status and the length of the body.
fn parse_head(head: &[u8]) -> anyhow::Result<(u16, usize)> {
    const LENGTH: &[u8] = b"content-length:";
    let head = std::str::from_utf8(head)?;
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|it| it.get(9..12)).context("no status")?.parse()?;
    let length = lines
        .find(|it| {
            it.as_bytes().get(..LENGTH.len()).is_some_and(|it| it.eq_ignore_ascii_case(LENGTH))
        })
        .and_then(|it| it.get(LENGTH.len()..))
        .context("a response has no content-length")?;
    Ok((status, length.trim().parse()?))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{RequestPace, now, parse_head};

    #[test]
    fn connections_send_in_turns_within_the_interval() {
        let (interval, before) = (Duration::from_secs(40), now());
        let mut pace = RequestPace::new(interval, 3, 4);
        let first = pace.next_due();
        assert!(first >= before + Duration::from_secs(30) && first < before + interval);
        assert_eq!(pace.next_due(), first + interval);
    }

    #[test]
    fn response_head_is_parsed_and_requires_a_length() {
        let head = b"HTTP/1.1 201 Created\r\nDate: now\r\nContent-Length: 12";
        assert_eq!(parse_head(head).unwrap(), (201, 12));
        assert!(parse_head(b"HTTP/1.1 200 OK\r\nDate: now").is_err());
    }
}
