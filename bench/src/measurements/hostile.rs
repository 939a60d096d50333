//! What hostile clients cost honest ones: silent connections from one address, and the most
//! expensive request that the limits allow, again and again, while another address creates tokens.

use std::{
    net::{Ipv4Addr, SocketAddr},
    process::{Command, Stdio},
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
        figures::{Figures, note},
        load::{self, Load, Until, connect_from},
        process::Server,
        script::{Besides, Creates},
    },
    measurements::rounds::Plan,
};

const ATTACKER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const HONEST: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);
/// Expensive requests come from a third address, because the silent sockets use up the
/// attacker's share of connections.
const EXPENSIVE_CLIENT: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 4);

const CREATING: usize = 16;
const KEYLESS: usize = 256;
const SILENT: usize = 4096;
const EXPENSIVE: usize = 2;
/// A connection that was closed comes back, but not at once: the load shares the machine.
const COMES_BACK: Duration = Duration::from_secs(5);
const PROBE_EVERY: Duration = Duration::from_millis(100);
/// Descriptors for all of these, and some more.
const DESCRIPTORS: usize = 8192;

#[derive(Debug)]
pub(crate) struct Hostile {
    alone: [Figures; 2],
    attacked: Figures,
    /// Connections that silent clients opened, and the most that were open at the same time.
    connections: u32,
    sockets: u32,
    expensive: u32,
    slowest_probe: Duration,
    slowest_operator_probe: Duration,
}

#[derive(Debug, Default)]
struct Attack {
    stop: AtomicBool,
    connections: AtomicU32,
    open: AtomicU32,
    open_max: AtomicU32,
    expensive: AtomicU32,
    probe_us: AtomicU32,
    operator_probe_us: AtomicU32,
}

impl Attack {
    /// Measuring starts after every silent socket was opened and an expensive request was answered.
    async fn wait_until_running(&self) -> anyhow::Result<()> {
        let sockets = u32::try_from(KEYLESS.saturating_add(SILENT))?;
        let running = async {
            while self.connections.load(Ordering::Relaxed) < sockets
                || self.expensive.load(Ordering::Relaxed) == 0
            {
                sleep(PROBE_TICK).await;
            }
        };
        timeout(PATIENCE, running).await.context("the attack did not start within its time")
    }
}

pub(crate) async fn run(plan: &Plan) -> anyhow::Result<Hostile> {
    allow_descriptors();
    let data = plan.folder.join("hostile");
    std::fs::create_dir(&data)?;
    let server = Server::scrip(&plan.scrip, &data)?;
    let operator = server.metrics.context("the server has no listener for metrics")?;
    let serial = Arc::default();
    let before = create("create, alone", &server, plan, &serial).await?;
    let attack = Arc::new(Attack::default());
    let mut attackers = JoinSet::new();
    for at in 0..KEYLESS.saturating_add(SILENT) {
        let said = if at < KEYLESS { KEYLESS_HEAD } else { "" };
        attackers.spawn(stay_silent(Arc::clone(&attack), server.address, said));
    }
    let request: Arc<str> = expensive_request(&server.api_key).into();
    for _ in 0..EXPENSIVE {
        let request = Arc::clone(&request);
        attackers.spawn(ask_expensively(Arc::clone(&attack), server.address, request));
    }
    attackers.spawn(probe(Arc::clone(&attack), server.address, |it| &it.probe_us));
    attackers.spawn(probe(Arc::clone(&attack), operator, |it| &it.operator_probe_us));
    attack.wait_until_running().await?;
    let attacked = create("  under attack", &server, plan, &serial).await?;
    attack.stop.store(true, Ordering::Relaxed);
    attackers.shutdown().await;
    let after = create("create, alone", &server, plan, &serial).await?;
    server.stop()?;
    let read = |it: &AtomicU32| it.load(Ordering::Relaxed);
    Ok(Hostile {
        alone: [before, after],
        attacked,
        connections: read(&attack.connections),
        sockets: read(&attack.open_max),
        expensive: read(&attack.expensive),
        slowest_probe: Duration::from_micros(read(&attack.probe_us).into()),
        slowest_operator_probe: Duration::from_micros(read(&attack.operator_probe_us).into()),
    })
}

/// Where this is not allowed, there are fewer sockets; the report says how many.
fn allow_descriptors() {
    let mut command = Command::new("prlimit");
    command.args(["--pid", &std::process::id().to_string()]);
    command.arg(format!("--nofile={DESCRIPTORS}"));
    drop(command.stdout(Stdio::null()).stderr(Stdio::null()).status());
}

async fn create(
    name: &'static str,
    server: &Server,
    plan: &Plan,
    serial: &Arc<AtomicU64>,
) -> anyhow::Result<Figures> {
    let script = |_| Creates::new(&server.api_key, Besides::Nothing, serial);
    let scripts = (0..CREATING).map(script).collect::<anyhow::Result<Vec<_>>>()?;
    let until = Until::Time(plan.span.0, plan.span.1);
    let (address, server) = (server.address, server.pid());
    let load = Load { name, address, server, status: 201, until, every: None };
    let (figures, _) = load::run_from(HONEST, load, scripts).await?;
    note(&figures)?;
    Ok(figures)
}

/// A request that needs no key and whose body never comes.
const KEYLESS_HEAD: &str = "POST /3ds/sessions/6fa459ea-ee8a-4ca4-894e-db77e160355e/results/x \
    HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nContent-Length: 262144\r\n\r\n";

async fn stay_silent(attack: Arc<Attack>, address: SocketAddr, said: &'static str) {
    while !attack.stop.load(Ordering::Relaxed) {
        if let Ok(mut stream) = connect_from(ATTACKER, address).await {
            attack.connections.fetch_add(1, Ordering::Relaxed);
            let open = attack.open.fetch_add(1, Ordering::Relaxed).saturating_add(1);
            attack.open_max.fetch_max(open, Ordering::Relaxed);
            let mut byte = [0; 1];
            if stream.write_all(said.as_bytes()).await.is_ok() {
                // Until the server closes the connection.
                drop(stream.read(&mut byte).await);
            }
            attack.open.fetch_sub(1, Ordering::Relaxed);
        }
        sleep(COMES_BACK).await;
    }
}

/// Close to the largest body, with as many expressions on it as a token may have.
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

/// Whatever the answer is, it is not looked at.
async fn ask_expensively(attack: Arc<Attack>, address: SocketAddr, request: Arc<str>) {
    while !attack.stop.load(Ordering::Relaxed) {
        let Ok(mut stream) = connect_from(EXPENSIVE_CLIENT, address).await else {
            sleep(PROBE_EVERY).await;
            continue;
        };
        let mut answer = Vec::new();
        if stream.write_all(request.as_bytes()).await.is_ok()
            && stream.read_to_end(&mut answer).await.is_ok()
        {
            attack.expensive.fetch_add(1, Ordering::Relaxed);
        }
    }
}

const PATIENCE: Duration = Duration::from_secs(30);
const PROBE_TICK: Duration = Duration::from_millis(50);

/// Each on a connection of its own, as an orchestrator asks.
async fn probe(attack: Arc<Attack>, address: SocketAddr, slowest: fn(&Attack) -> &AtomicU32) {
    while !attack.stop.load(Ordering::Relaxed) {
        let start = now();
        let note = |took: Duration| slowest(&attack).fetch_max(micros(took), Ordering::Relaxed);
        let mut ask = std::pin::pin!(timeout(PATIENCE, ask_probe(address)));
        // A probe that has no answer when the run stops counts as slow as it is by then.
        let answer = loop {
            match timeout(PROBE_TICK, ask.as_mut()).await {
                Ok(answer) => break answer,
                Err(_) => note(start.elapsed()),
            };
        };
        // A probe that fails has no answer at all.
        note(if matches!(answer, Ok(Ok(()))) { start.elapsed() } else { PATIENCE });
        sleep(PROBE_EVERY).await;
    }
}

async fn ask_probe(address: SocketAddr) -> anyhow::Result<()> {
    let mut stream = connect_from(HONEST, address).await?;
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await?;
    let mut chunk = [0; 12];
    stream.read_exact(&mut chunk).await?;
    anyhow::ensure!(chunk.starts_with(b"HTTP/1.1 200"), "not healthy");
    Ok(())
}

pub(crate) fn report(hostile: &Hostile) -> String {
    let [before, after] = &hostile.alone;
    let alone = f64::midpoint(f64::from(before.p99_us), f64::from(after.p99_us));
    let ratio = f64::from(hostile.attacked.p99_us) / alone.max(1.0);
    let verdict = |met: bool| if met { "met" } else { "MISSED" };
    let second = Duration::from_secs(1);
    let probe = |name: &str, slowest: Duration| {
        let (ms, met) = (slowest.as_secs_f64() * 1e3, verdict(slowest < second));
        format!("slowest /healthz {name}, under 1 s: {ms:.0} ms, {met}\n")
    };
    format!(
        "\nHostile clients ({} silent connections of one address, {} open at once at most, \
         {} expensive requests)\n\n\
         p99 of creates under attack, at most 3 times of alone: {ratio:.1}, {}\n{}{}",
        hostile.connections,
        hostile.sockets,
        hostile.expensive,
        verdict(ratio <= 3.0),
        probe("where clients ask", hostile.slowest_probe),
        probe("on the operator's listener", hostile.slowest_operator_probe),
    )
}
