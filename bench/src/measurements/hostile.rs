//! The cost of hostile clients for honest ones: silent connections and the most expensive allowed
//! requests from other addresses, while one address creates tokens.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::Context;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::{
    harness::{
        clock::{micros, now},
        load::{self, LoadDuration, LoadPlan, connect_from},
        process::{BenchServer, raise_descriptor_limit},
        results::{MeasurementResult, print_result},
        script::{CreateScript, CreateVariant},
    },
    measurements::rounds::BenchPlan,
};

const ATTACKER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const HONEST_CLIENT: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);
/// Expensive requests come from a third address, because the silent sockets use up the connection
/// share of the attacker.
const EXPENSIVE_CLIENT: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 4);

const CREATE_CONNECTIONS: usize = 16;
const KEYLESS_CONNECTIONS: usize = 256;
const SILENT_CONNECTIONS: usize = 4096;
const EXPENSIVE_CONNECTIONS: usize = 2;
/// A closed connection is reopened after a pause, because the load shares the machine.
const RECONNECT_PAUSE: Duration = Duration::from_secs(5);
const PROBE_INTERVAL: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(crate) struct HostileClientsResult {
    without_attack: [MeasurementResult; 2],
    under_attack: MeasurementResult,
    /// Connections that silent clients opened, and the maximum open at the same time.
    connections: u32,
    sockets_max: u32,
    expensive_requests: u32,
    slowest_probe: Duration,
    slowest_operator_probe: Duration,
}

#[derive(Debug, Default)]
struct AttackState {
    stop: AtomicBool,
    connections: AtomicU32,
    open: AtomicU32,
    open_max: AtomicU32,
    expensive_requests: AtomicU32,
    probe_us: AtomicU32,
    operator_probe_us: AtomicU32,
}

impl AttackState {
    /// Waits until every silent socket was opened and an expensive request got a response.
    async fn wait_until_running(&self) -> anyhow::Result<()> {
        let sockets = u32::try_from(KEYLESS_CONNECTIONS.saturating_add(SILENT_CONNECTIONS))?;
        let wait = async {
            while self.connections.load(Ordering::Relaxed) < sockets
                || self.expensive_requests.load(Ordering::Relaxed) == 0
            {
                sleep(PROBE_TICK).await;
            }
        };
        timeout(ATTACK_TIMEOUT, wait).await.context("the attack did not start within its time")
    }
}

pub(crate) async fn measure_hostile_clients(
    plan: &BenchPlan,
) -> anyhow::Result<HostileClientsResult> {
    raise_descriptor_limit();
    let data = plan.folder.join("hostile");
    std::fs::create_dir(&data)?;
    let server = BenchServer::start_scrip(&plan.scrip, &data)?;
    let operator_address = server.metrics.context("the server has no listener for metrics")?;
    let serial = Arc::default();
    let before = measure_creates("create, alone", &server, plan, &serial).await?;
    let attack = Arc::new(AttackState::default());
    let mut attackers = JoinSet::new();
    for index in 0..KEYLESS_CONNECTIONS.saturating_add(SILENT_CONNECTIONS) {
        let request_head = if index < KEYLESS_CONNECTIONS { KEYLESS_HEAD } else { "" };
        attackers.spawn(hold_silent_connections(Arc::clone(&attack), server.address, request_head));
    }
    let request: Arc<str> = expensive_request(&server.api_key).into();
    for _ in 0..EXPENSIVE_CONNECTIONS {
        let request = Arc::clone(&request);
        attackers.spawn(send_expensive_requests(Arc::clone(&attack), server.address, request));
    }
    attackers.spawn(probe_health(Arc::clone(&attack), server.address, |it| &it.probe_us));
    attackers
        .spawn(probe_health(Arc::clone(&attack), operator_address, |it| &it.operator_probe_us));
    attack.wait_until_running().await?;
    let under_attack = measure_creates("  under attack", &server, plan, &serial).await?;
    attack.stop.store(true, Ordering::Relaxed);
    attackers.shutdown().await;
    let after = measure_creates("create, alone", &server, plan, &serial).await?;
    server.stop()?;
    let load_counter = |it: &AtomicU32| it.load(Ordering::Relaxed);
    Ok(HostileClientsResult {
        without_attack: [before, after],
        under_attack,
        connections: load_counter(&attack.connections),
        sockets_max: load_counter(&attack.open_max),
        expensive_requests: load_counter(&attack.expensive_requests),
        slowest_probe: Duration::from_micros(load_counter(&attack.probe_us).into()),
        slowest_operator_probe: Duration::from_micros(
            load_counter(&attack.operator_probe_us).into(),
        ),
    })
}

async fn measure_creates(
    name: &'static str,
    server: &BenchServer,
    plan: &BenchPlan,
    serial: &Arc<AtomicU64>,
) -> anyhow::Result<MeasurementResult> {
    let build_script = |_| CreateScript::new(&server.api_key, CreateVariant::Plain, serial);
    let scripts = (0..CREATE_CONNECTIONS).map(build_script).collect::<anyhow::Result<Vec<_>>>()?;
    let until = LoadDuration::Time(plan.durations.0, plan.durations.1);
    let (address, server) = (server.address, server.pid());
    let load =
        LoadPlan { name, address, server, upstream: None, status: 201, until, interval: None };
    let (result, _) = load::run_from(HONEST_CLIENT, load, scripts).await?;
    print_result(&result)?;
    Ok(result)
}

/// The head of a request that needs no key. The body never arrives.
const KEYLESS_HEAD: &str = "POST /3ds/sessions/6fa459ea-ee8a-4ca4-894e-db77e160355e/results/x \
    HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nContent-Length: 262144\r\n\r\n";

async fn hold_silent_connections(
    attack: Arc<AttackState>,
    address: SocketAddr,
    request_head: &'static str,
) {
    while !attack.stop.load(Ordering::Relaxed) {
        if let Ok(mut stream) = connect_from(ATTACKER, address).await {
            attack.connections.fetch_add(1, Ordering::Relaxed);
            let open_count = attack.open.fetch_add(1, Ordering::Relaxed).saturating_add(1);
            attack.open_max.fetch_max(open_count, Ordering::Relaxed);
            let mut byte = [0; 1];
            if stream.write_all(request_head.as_bytes()).await.is_ok() {
                // Waits until the server closes the connection.
                drop(stream.read(&mut byte).await);
            }
            attack.open.fetch_sub(1, Ordering::Relaxed);
        }
        sleep(RECONNECT_PAUSE).await;
    }
}

/// A body close to the size limit, with the maximum number of expressions.
fn expensive_request(api_key: &str) -> String {
    let index = r#""{{ data | split: ' ' | sort | join: '-' | upcase | replace: 'A', 'bb' }}""#;
    let indexes = vec![index; 16].join(",");
    let data = "ab ".repeat(320_000);
    let body = format!(r#"{{"type":"token","data":"{data}","search_indexes":[{indexes}]}}"#);
    format!(
        "POST /tokens HTTP/1.1\r\nHost: bench\r\nBT-API-KEY: {api_key}\r\n\
         Content-Type: application/json\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Sends expensive requests and ignores the responses.
async fn send_expensive_requests(attack: Arc<AttackState>, address: SocketAddr, request: Arc<str>) {
    while !attack.stop.load(Ordering::Relaxed) {
        let Ok(mut stream) = connect_from(EXPENSIVE_CLIENT, address).await else {
            sleep(PROBE_INTERVAL).await;
            continue;
        };
        let mut response = Vec::new();
        if stream.write_all(request.as_bytes()).await.is_ok()
            && stream.read_to_end(&mut response).await.is_ok()
        {
            attack.expensive_requests.fetch_add(1, Ordering::Relaxed);
        }
    }
}

const ATTACK_TIMEOUT: Duration = Duration::from_secs(30);
const PROBE_TICK: Duration = Duration::from_millis(50);

/// Probes `/healthz`. Each probe uses its own connection, like the probes of an orchestrator.
async fn probe_health(
    attack: Arc<AttackState>,
    address: SocketAddr,
    slowest: fn(&AttackState) -> &AtomicU32,
) {
    while !attack.stop.load(Ordering::Relaxed) {
        let start = now();
        let record_slowest =
            |duration: Duration| slowest(&attack).fetch_max(micros(duration), Ordering::Relaxed);
        let mut probe = std::pin::pin!(timeout(ATTACK_TIMEOUT, send_probe(address)));
        // A probe without a response at the end of the run counts with its time so far.
        let response = loop {
            match timeout(PROBE_TICK, probe.as_mut()).await {
                Ok(response) => break response,
                Err(_) => record_slowest(start.elapsed()),
            };
        };
        // A failed probe counts as a timeout.
        record_slowest(if matches!(response, Ok(Ok(()))) {
            start.elapsed()
        } else {
            ATTACK_TIMEOUT
        });
        sleep(PROBE_INTERVAL).await;
    }
}

async fn send_probe(address: SocketAddr) -> anyhow::Result<()> {
    let mut stream = connect_from(HONEST_CLIENT, address).await?;
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await?;
    let mut chunk = [0; 12];
    stream.read_exact(&mut chunk).await?;
    anyhow::ensure!(chunk.starts_with(b"HTTP/1.1 200"), "not healthy");
    Ok(())
}

pub(crate) fn report_hostile_clients(hostile: &HostileClientsResult) -> String {
    let [before, after] = &hostile.without_attack;
    let p99_alone = f64::midpoint(f64::from(before.p99_us), f64::from(after.p99_us));
    let ratio = f64::from(hostile.under_attack.p99_us) / p99_alone.max(1.0);
    let verdict = |is_met: bool| if is_met { "met" } else { "MISSED" };
    let limit = Duration::from_secs(1);
    let report_probe = |name: &str, slowest: Duration| {
        let (ms, outcome) = (slowest.as_secs_f64() * 1e3, verdict(slowest < limit));
        format!("slowest /healthz {name}, under 1 s: {ms:.0} ms, {outcome}\n")
    };
    format!(
        "\nHostile clients ({} silent connections of one address, {} open at once at most, \
         {} expensive requests)\n\n\
         p99 of creates under attack, at most 3 times of alone: {ratio:.1}, {}\n{}{}",
        hostile.connections,
        hostile.sockets_max,
        hostile.expensive_requests,
        verdict(ratio <= 3.0),
        report_probe("on the client listener", hostile.slowest_probe),
        report_probe("on the operator listener", hostile.slowest_operator_probe),
    )
}
