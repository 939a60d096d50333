//! What `serve` and `dev` share: from the settings to a server that runs until it is told to stop.

mod simulator;

use std::{
    io::{self, Write},
    net::{self, SocketAddr},
    path::Path,
    sync::{Arc, OnceLock},
    time::Duration,
};

use anyhow::Context;
use nix::sys::socket::{Backlog, listen};
use scrip_api::app::{
    App,
    answer_memory::AnswerMemory,
    body_memory::BodyMemory,
    limits::{Limits, MinimumRate},
};
use scrip_core::audit::Operation;
use scrip_demo::{Demo, authority, with_demo};
use scrip_server::{
    audit_sink,
    background::unseal,
    config::{Deprecated, Environment, Server, Settings, Switch, Tls},
    control::Control,
    directory_servers::{
        Servers,
        address::LoopbackUrl,
        results::{Doorkeeper, ResultsServer},
    },
    files::{bin_file, head_file},
    listen::{
        Listening,
        connection_limits::ConnectionLimits,
        serve_on,
        tls::{Certificates, Reload, Watched, watch},
    },
    metrics::{
        access,
        key::MetricsKey,
        listener::{Access, OperatorListener},
    },
    node::{Node, NodeSettings},
    process::{self, Memory, clock::ticks},
    telemetry,
};
use scrip_threeds::message::MESSAGE_BYTES_MAX;
use serde::Serialize;
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
};

use crate::commands::init;

const SHUTDOWN_DEADLINE: Duration = Duration::from_secs(1);
/// What traces are given when requests took the whole drain deadline.
const FLUSH_LEAST: Duration = Duration::from_millis(250);
/// From the answer of a directory server until it is written down.
const WRITING_MOST: Duration = Duration::from_secs(5);
/// Connections that the kernel queues until they are accepted. Past it the kernel drops the first
/// packet of a client, which then waits a second before it tries again. Linux takes the smaller of
/// this and `net.core.somaxconn`, which is 4096 unless an administrator changed it.
const BACKLOG: i32 = 4096;

/// How to say that the server listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Announcement {
    None,
    Json,
}

pub(crate) fn serve(
    config: Option<&Path>,
    announcement: Announcement,
    environment: &Environment,
) -> anyhow::Result<()> {
    let settings = Settings::load(config, environment)?;
    start(settings, Simulate::No, async |_: &Settings, _: &App, addresses: &Addresses| {
        if announcement == Announcement::Json {
            let mut out = io::stdout().lock();
            writeln!(out, "{}", serde_json::json!(addresses))?;
            out.flush()?;
        }
        Ok(None)
    })
}

/// Where a server is found.
#[derive(Debug, Serialize)]
pub(crate) struct Addresses {
    pub(crate) url: String,
    /// The page of metrics, where it has a listener of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) metrics: Option<String>,
    /// Where directory servers come with results, where there is such a listener.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) results: Option<String>,
}

/// Whether a simulator of directory servers is brought along.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Simulate {
    No,
    /// Unless the settings name one.
    InThisProcess,
}

/// Listens, gives up what it no longer needs, and serves. `prepare` runs when the server listens
/// and the store is open, may open the vault, and says whether there is a shop; a vault that is still
/// sealed then waits for its key.
pub(crate) fn start(
    settings: Settings,
    simulate: Simulate,
    prepare: impl AsyncFnOnce(&Settings, &App, &Addresses) -> anyhow::Result<Option<Demo>>,
) -> anyhow::Result<()> {
    let traces = telemetry::start(&settings)?;
    for warning in &settings.warnings {
        tracing::warn!("{warning}");
    }
    let listeners = bind_all(&settings)?;
    // What a node on PostgreSQL has in there is its own and made anew; with the embedded engine it
    // is the vault, and a wrong path must not begin an empty one.
    if settings.storage.url.is_some() {
        init::make_folder(&settings)?;
    }
    let memory = process::confine(&settings.server)?;
    check_secrets(&settings)?;
    if let Some(traces) = &traces {
        traces.start();
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let drain_deadline = settings.server.drain_deadline_seconds.seconds();
    let stopping = Arc::new(OnceLock::new());
    let process = Process { listeners, memory, stopping: Arc::clone(&stopping) };
    let outcome = runtime.block_on(run(settings, simulate, process, prepare));
    if let Some(traces) = traces {
        let spent = stopping.get().map_or(Duration::ZERO, |at| ticks().saturating_sub(*at));
        traces.flush(drain_deadline.saturating_sub(spent).max(FLUSH_LEAST));
    }
    // A request that still computes is not waited for: its client was given its time to be answered.
    runtime.shutdown_timeout(SHUTDOWN_DEADLINE);
    outcome
}

/// The root key is looked at whenever it is read: a server may wait for it.
fn check_secrets(settings: &Settings) -> anyhow::Result<()> {
    let root_key = settings.root_key_file();
    let others = settings.secret_files().into_iter().filter(|it| it.path != root_key);
    others.into_iter().try_for_each(|it| it.check())
}

struct Listeners {
    clients: net::TcpListener,
    metrics: Option<net::TcpListener>,
    results: Option<net::TcpListener>,
}

/// Before the rights of root are given up, which a low port takes.
fn bind_all(settings: &Settings) -> anyhow::Result<Listeners> {
    let clients = bind(settings.server.listen)?;
    let metrics = settings.metrics.listen.map(bind).transpose().context("metrics.listen")?;
    let results = settings.threeds.results_listen.map(bind).transpose();
    let results = results.context("threeds.results_listen")?;
    Ok(Listeners { clients, metrics, results })
}

fn bind(address: SocketAddr) -> anyhow::Result<net::TcpListener> {
    let cannot = || format!("cannot listen on {address}");
    let listener = net::TcpListener::bind(address).with_context(cannot)?;
    listen(&listener, Backlog::new(BACKLOG)?).with_context(cannot)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// What was prepared before there were other threads.
struct Process {
    listeners: Listeners,
    memory: Memory,
    /// When the server was told to stop, by the clock that only counts.
    stopping: Arc<OnceLock<Duration>>,
}

async fn run(
    mut settings: Settings,
    simulate: Simulate,
    process: Process,
    prepare: impl AsyncFnOnce(&Settings, &App, &Addresses) -> anyhow::Result<Option<Demo>>,
) -> anyhow::Result<()> {
    let Process { listeners, memory, stopping } = process;
    let stop = stop_signal(stopping)?;
    let tcp = TcpListener::from_std(listeners.clients)?;
    let tls = certificates(&settings.tls)?;
    let scheme = if tls.is_some() { "https" } else { "http" };
    let url = format!("{scheme}://{}", tcp.local_addr()?);
    let servers = connect_schemes(&mut settings, simulate, &url).await?;
    let doorkeeper = settings.results_plan().map(Doorkeeper::watched).transpose()?.map(Arc::new);
    let mut watched = servers.credentials();
    watched.extend(tls.iter().map(Watched::reloaded));
    watched.extend(doorkeeper.iter().map(Watched::reloaded));
    let _held = settings.hold_folder()?;
    let listens_for_metrics = listeners.metrics.is_some();
    let (node, own_key) = build_node(&settings, memory, servers, listens_for_metrics).await?;
    let (app, node) = (Arc::clone(&node.app), Arc::new(node));
    let access = Access { key: own_key, hosts: settings.metrics.hosts.0.clone() };
    let own = listeners.metrics.map(|it| show_metrics(&node, it, access)).transpose()?;
    let (metrics, operator_listener) = own.unzip();
    let results = listeners.results.map(TcpListener::from_std).transpose()?;
    let results_at = results.as_ref().map(TcpListener::local_addr).transpose()?;
    let results_url = results_at.map(|it| format!("https://{it}"));
    let addresses = Addresses { url, metrics, results: results_url };
    reload_certificates(watched, &settings.tls)?;
    // Before anybody is served, and from then on whenever an import replaces the file.
    let seen = bin_file::look(&settings.bin_file(), &app.vault.bins, None);
    tokio::spawn(bin_file::follow(settings.bin_file(), Arc::clone(&app.vault.bins), seen));
    let folder = &settings.storage.data_dir;
    let control = Control::start(folder, Arc::clone(&node), addresses.url.clone());
    if let Err(error) = &control {
        // It serves its clients all the same.
        let cause = format!("{error:#}");
        tracing::warn!(cause, "no command will reach this server");
    }
    let demo = prepare(&settings, &app, &addresses).await?.map(Arc::new);
    let Addresses { url, metrics, results: results_url } = addresses;
    let receive = |(listener, door)| ResultsServer::start(Arc::clone(&node), listener, door);
    let results = results.zip(doorkeeper).map(receive);
    tracing::info!(
        url,
        metrics,
        results = results_url,
        version = env!("CARGO_PKG_VERSION"),
        "listening"
    );
    let (head_file, vault) = (settings.head_file(), app.vault.clone());
    let keeping = tokio::spawn(head_file::follow(head_file.clone(), vault.clone()));
    if let Some(to) = settings.audit.export.clone() {
        let data = settings.storage.data_dir.clone();
        tokio::spawn(audit_sink::follow(to, data, vault.clone()));
    }
    if app.is_sealed() {
        tokio::spawn(unseal::open(Arc::clone(&app), move || settings.key_source()));
    }
    let failures = Arc::clone(&app.auth_failures);
    let extend = |router| match &demo {
        Some(demo) => with_demo(router, &app, demo),
        None => router,
    };
    serve_on(node, Listening { tcp, tls }, extend, stop).await;
    failures.write(&vault).await;
    if let Some(results) = results {
        results.close().await;
    }
    drop(control);
    keeping.abort();
    // It ends at once; what it has begun to write holds the lock until it is written.
    drop(keeping.await);
    head_file::update_at_end(&head_file, &vault).await;
    drop(operator_listener);
    Ok(())
}

/// A server by the settings, and the key for the listener of metrics where there is one.
async fn build_node(
    settings: &Settings,
    memory: Memory,
    servers: Arc<Servers>,
    listens_for_metrics: bool,
) -> anyhow::Result<(Node, Option<MetricsKey>)> {
    let vault = settings.open_vault(memory, Arc::<Servers>::clone(&servers)).await?;
    let mut app = App::sealed(vault, ticks);
    set_bounds(&mut app, settings);
    app.limiter = settings.limits.limiter().await?;
    let key = settings.metrics.key_file.as_deref().map(MetricsKey::from_file).transpose()?;
    let (own_key, metrics_key) = if listens_for_metrics { (key, None) } else { (None, key) };
    let node_settings = NodeSettings {
        connections: connection_limits(settings),
        metrics_key,
        schemes: Some(servers),
        ranges_every: settings.threeds.ranges_hours.seconds().saturating_mul(3600),
        ..NodeSettings::default()
    };
    Ok((Node::new(Arc::new(app), node_settings), own_key))
}

/// On a listener of its own, from now on; where that is.
fn show_metrics(
    node: &Arc<Node>,
    listener: net::TcpListener,
    access: Access,
) -> anyhow::Result<(String, OperatorListener)> {
    let url = format!("http://{}{}", listener.local_addr()?, access::PATH);
    let clients = tokio::runtime::Handle::current();
    Ok((url, OperatorListener::start(Arc::clone(node), listener, access, clients)?))
}

fn body_memory(server: &Server) -> (Arc<BodyMemory>, Arc<BodyMemory>) {
    let share = server.body_memory_network_share.get();
    let largest = server.body_bytes_max.get();
    let keyed = BodyMemory::for_bodies_of(largest, server.body_memory_bytes.get(), share);
    let keyless = server.keyless_body_memory_bytes.get();
    (keyed, BodyMemory::for_bodies_of(MESSAGE_BYTES_MAX, keyless, share))
}

/// What a client may ask of the server.
fn set_bounds(app: &mut App, settings: &Settings) {
    app.limits = request_limits(&settings.server);
    (app.body_memory, app.keyless_body_memory) = body_memory(&settings.server);
    let server = &settings.server;
    let share = server.answer_memory_network_share.get();
    app.answer_memory = AnswerMemory::new(server.answer_memory_bytes.get(), share);
    app.switched_off = switched_off(&settings.deprecated);
    app.proxies = settings.limits.proxies();
}

fn minimum_rate(server: &Server, bytes_per_second: u32) -> MinimumRate {
    MinimumRate { bytes_per_second, window: server.rate_window_seconds.seconds() }
}

fn request_limits(server: &Server) -> Limits {
    Limits {
        body_bytes_max: server.body_bytes_max.get(),
        body_deadline: server.body_deadline_seconds.seconds(),
        keyless_body_deadline: server.keyless_body_deadline_seconds.seconds(),
        request_rate: minimum_rate(server, server.request_bytes_per_second_min.number()),
    }
}

fn connection_limits(settings: &Settings) -> ConnectionLimits {
    let server = &settings.server;
    ConnectionLimits {
        connections_network_share: server.connections_network_share.get(),
        first_byte_deadline: server.first_byte_deadline_seconds.seconds(),
        answer_rate: minimum_rate(server, server.answer_bytes_per_second_min.number()),
        header_deadline: server.header_deadline_seconds.seconds(),
        connections_max: server.connections_max.get(),
        drain_deadline: server.drain_deadline_seconds.seconds(),
        authentication_deadline: settings.authentication_most().saturating_add(WRITING_MOST),
        ..ConnectionLimits::default()
    }
}

fn switched_off(settings: &Deprecated) -> Vec<Operation> {
    // Taken apart, so that a new setting cannot be forgotten here.
    let Deprecated { list_tokens_v1, search_tokens_v1 } = settings;
    let switches =
        [(list_tokens_v1, Operation::ListTokensV1), (search_tokens_v1, Operation::SearchTokensV1)];
    let off = switches.into_iter().filter(|(switch, _)| **switch == Switch::Off);
    off.map(|(_, operation)| operation).collect()
}

fn certificates(tls: &Tls) -> anyhow::Result<Option<Arc<Certificates>>> {
    let (Some(certificate), Some(key)) = (&tls.certificate, &tls.key) else { return Ok(None) };
    Ok(Some(Arc::new(Certificates::of_clients(certificate, key)?)))
}

/// When the files change, and at SIGHUP, which without certificates does nothing but must not end
/// the process.
fn reload_certificates(watched: Vec<Arc<dyn Reload>>, settings: &Tls) -> anyhow::Result<()> {
    let mut hang_up = signal(SignalKind::hangup())?;
    let all = watched.clone();
    tokio::spawn(async move {
        while hang_up.recv().await.is_some() {
            all.iter().for_each(|it| it.reload());
        }
    });
    if !watched.is_empty() {
        tokio::spawn(watch(watched, settings.reload_seconds.seconds()));
    }
    Ok(())
}

/// Whoever the settings connect; test tenants perhaps with a simulator that is started here.
async fn connect_schemes(
    settings: &mut Settings,
    simulate: Simulate,
    url: &str,
) -> anyhow::Result<Arc<Servers>> {
    if simulate == Simulate::InThisProcess && settings.threeds.simulator_url.is_none() {
        let vault = authority(&settings.threeds_plan(url).terms.public_url);
        let at = simulator::start(vault).await?.map(|it| LoopbackUrl::parse(&it)).transpose();
        let at = at.map_err(|rule| anyhow::anyhow!("the simulator's address: {rule}"))?;
        settings.threeds.simulator_url = at;
    }
    Ok(Arc::new(Servers::new(&settings.threeds_plan(url))?))
}

/// `at` is told when, by the clock that only counts.
fn stop_signal(at: Arc<OnceLock<Duration>>) -> anyhow::Result<impl Future<Output = ()>> {
    let told = told_to_stop()?;
    Ok(async move {
        told.await;
        at.get_or_init(ticks);
        tracing::info!("stopping");
    })
}

/// Ready at SIGTERM and SIGINT.
pub(crate) fn told_to_stop() -> anyhow::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => (),
            _ = interrupt.recv() => (),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_switch_turns_off_its_own_operation() {
        let off = |names: &[&'static str]| {
            let flags: Vec<_> = names.iter().map(|it| (*it, "off".to_owned())).collect();
            let settings = Settings::without_file(&flags, &Environment::default()).unwrap();
            let off = switched_off(&settings.deprecated);
            off.into_iter().map(|it| format!("deprecated.{}", it.as_str())).collect::<Vec<_>>()
        };
        let (list, search) = ("deprecated.list_tokens_v1", "deprecated.search_tokens_v1");
        assert!(off(&[]).is_empty());
        assert_eq!(off(&[list]), [list]);
        assert_eq!(off(&[search]), [search]);
        assert_eq!(off(&[list, search]), [list, search]);
    }
}
