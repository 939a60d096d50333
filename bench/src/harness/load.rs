//! The load generator: one socket and one request in flight per connection.
//!
//! It does as little as it can, because it shares the machine with what it measures: requests are
//! ready-made bytes, and of an answer it reads the status and the length.

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
    process::{Pid, cpu_time},
    results::MeasurementResult,
    script::RequestScript,
};

#[derive(Debug, Clone, Copy)]
pub(crate) struct LoadPlan {
    pub(crate) name: &'static str,
    pub(crate) address: SocketAddr,
    pub(crate) server: Pid,
    pub(crate) status: u16,
    pub(crate) until: LoadDuration,
    /// How often each connection asks; nothing for as often as it is answered.
    pub(crate) interval: Option<Duration>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum LoadDuration {
    /// Warm up, then measure this long.
    Time(Duration, Duration),
    /// So many requests, with no warm-up.
    Count(u32),
}

/// What all connections of a run look at.
#[derive(Debug)]
struct LoadSignals {
    measure: AtomicBool,
    stop: AtomicBool,
    requests_left: AtomicI64,
}

/// A connection that comes from this address of the machine.
pub(crate) async fn connect_from(from: Ipv4Addr, to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((from, 0).into())?;
    socket.connect(to).await
}

/// Gives back the scripts, which may have learned something.
pub(crate) async fn run<S: RequestScript>(
    load: LoadPlan,
    scripts: Vec<S>,
) -> anyhow::Result<(MeasurementResult, Vec<S>)> {
    run_from(Ipv4Addr::LOCALHOST, load, scripts).await
}

/// The same, from another address.
pub(crate) async fn run_from<S: RequestScript>(
    from: Ipv4Addr,
    load: LoadPlan,
    scripts: Vec<S>,
) -> anyhow::Result<(MeasurementResult, Vec<S>)> {
    let connections = scripts.len();
    let (left, measure) = match load.until {
        LoadDuration::Time(..) => (i64::MAX, false),
        LoadDuration::Count(count) => (i64::from(count), true),
    };
    let signals = Arc::new(LoadSignals {
        measure: AtomicBool::new(measure),
        stop: AtomicBool::new(false),
        requests_left: AtomicI64::new(left),
    });
    let mut running = JoinSet::new();
    for (at, script) in scripts.into_iter().enumerate() {
        let stream = connect_from(from, load.address).await?;
        stream.set_nodelay(true)?;
        let driven =
            drive_connection(stream, script, load.status, load.interval, Arc::clone(&signals));
        running.spawn(async move { driven.await.map(|it| (at, it)) });
    }
    if let LoadDuration::Time(warm_up, _) = load.until {
        sleep(warm_up).await;
    }
    let cpu = (cpu_time(load.server)?, cpu_time(Pid::own())?);
    let start = now();
    signals.measure.store(true, Ordering::Relaxed);
    let mut ended = Vec::with_capacity(connections);
    match load.until {
        LoadDuration::Time(_, measured) => sleep(measured).await,
        LoadDuration::Count(_) => {
            while let Some(one) = running.join_next().await {
                ended.push(one??);
            }
        }
    }
    signals.measure.store(false, Ordering::Relaxed);
    let elapsed = start.elapsed();
    let cpu =
        (cpu_time(load.server)?.saturating_sub(cpu.0), cpu_time(Pid::own())?.saturating_sub(cpu.1));
    signals.stop.store(true, Ordering::Relaxed);
    while let Some(one) = running.join_next().await {
        ended.push(one??);
    }
    // They end in any order, and are given back in the one they came in: each has its own key.
    ended.sort_by_key(|(at, _)| *at);
    let (latencies, scripts): (Vec<_>, Vec<_>) = ended.into_iter().map(|(_, it)| it).unzip();
    let mut result = MeasurementResult::new(load.name, connections, latencies.concat(), 1, elapsed);
    result.server_cpu_us = Some(result.cpu_us(cpu.0));
    result.load_cpu_us = Some(result.cpu_us(cpu.1));
    Ok((result, scripts))
}

async fn drive_connection<S: RequestScript>(
    mut stream: TcpStream,
    mut script: S,
    status: u16,
    interval: Option<Duration>,
    signals: Arc<LoadSignals>,
) -> anyhow::Result<(Vec<u32>, S)> {
    let mut latencies = Vec::new();
    let mut buffer = Vec::with_capacity(16 * 1024);
    let mut due = now();
    while !signals.stop.load(Ordering::Relaxed)
        && signals.requests_left.fetch_sub(1, Ordering::Relaxed) > 0
    {
        let start = match interval {
            None => now(),
            Some(every) => {
                due = due.checked_add(every).unwrap_or(due);
                wait_for(due).await
            }
        };
        stream.write_all(script.next_request()).await?;
        let body_at = read_response(&mut stream, &mut buffer, status).await?;
        if signals.measure.load(Ordering::Relaxed) {
            latencies.push(micros(start.elapsed()));
        }
        script.handle_response(buffer.get(body_at..).unwrap_or_default())?;
    }
    Ok((latencies, script))
}

/// When the next request counts as sent: when it was due, if an earlier answer was late for it.
async fn wait_for(due: Instant) -> Instant {
    if now() >= due {
        return due;
    }
    sleep_until(due.into()).await;
    now()
}

/// Reads one whole answer, and says where its body starts.
async fn read_response(
    stream: &mut TcpStream,
    buffer: &mut Vec<u8>,
    expected: u16,
) -> anyhow::Result<usize> {
    buffer.clear();
    loop {
        ensure!(stream.read_buf(buffer).await? > 0, "the server closed the connection");
        let Some(end) = buffer.windows(4).position(|it| it == b"\r\n\r\n") else { continue };
        let body_at = end.saturating_add(4);
        let (status, length) = parse_head(buffer.get(..end).unwrap_or_default())?;
        let whole = body_at.saturating_add(length);
        while buffer.len() < whole {
            ensure!(stream.read_buf(buffer).await? > 0, "the server broke off an answer");
        }
        if status != expected {
            bail!("{expected} was expected, but came: {}", String::from_utf8_lossy(buffer));
        }
        return Ok(body_at);
    }
}

/// The status and the length of the body.
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
        .context("an answer has no content-length")?;
    Ok((status, length.trim().parse()?))
}

#[cfg(test)]
mod tests {
    use super::parse_head;

    #[test]
    fn response_head_is_parsed_and_requires_a_length() {
        let head = b"HTTP/1.1 201 Created\r\nDate: now\r\nContent-Length: 12";
        assert_eq!(parse_head(head).unwrap(), (201, 12));
        assert!(parse_head(b"HTTP/1.1 200 OK\r\nDate: now").is_err());
    }
}
