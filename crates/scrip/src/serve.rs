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
    body_memory::BodyMemory,
    limits::{MinimumRate, RequestLimits},
    response_memory::ResponseMemory,
};
use scrip_core::audit::Operation;
use scrip_demo::{Demo, authority, with_demo};
use scrip_server::{
    audit_sink,
    background::unseal,
    config::{DeprecatedSettings, Environment, ServerSettings, Settings, Switch, TlsSettings},
    control::ControlSocket,
    directory_servers::{
        HttpDirectoryServers,
        address::LoopbackUrl,
        results::{ResultsClientCertVerifier, ResultsServer},
    },
    files::{bin_file, head_file},
    listen::{
        ListenSocket,
        connection_limits::ConnectionLimits,
        serve_on,
        tls::{Certificates, ReloadFiles, Reloadable, reload_periodically},
    },
    metrics::{
        endpoint,
        key::MetricsKey,
        listener::{OperatorAccess, OperatorListener},
    },
    node::{Node, NodeSettings},
    process::{self, MemoryState, clock::ticks},
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
const FLUSH_TIME_MIN: Duration = Duration::from_millis(250);
/// From the answer of a directory server until it is written down.
const RESULT_WRITE_TIME_MAX: Duration = Duration::from_secs(5);
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
    start(settings, SimulatorMode::Off, async |_: &Settings, _: &App, addresses: &Addresses| {
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
pub(crate) enum SimulatorMode {
    Off,
    /// Unless the settings name one.
    InProcess,
}

/// Listens, gives up what it no longer needs, and serves. `prepare` runs when the server listens
/// and the store is open, may open the vault, and says whether there is a shop; a vault that is still
/// sealed then waits for its key.
pub(crate) fn start(
    settings: Settings,
    simulator_mode: SimulatorMode,
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
        init::create_data_dir(&settings)?;
    }
    let memory = process::confine(&settings.server)?;
    check_secrets(&settings)?;
    if let Some(traces) = &traces {
        traces.start();
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let drain_deadline = settings.server.drain_deadline_seconds.seconds();
    let stopping = Arc::new(OnceLock::new());
    let process = PreparedProcess { listeners, memory, stop_time: Arc::clone(&stopping) };
    let outcome = runtime.block_on(run_server(settings, simulator_mode, process, prepare));
    if let Some(traces) = traces {
        let spent = stopping.get().map_or(Duration::ZERO, |at| ticks().saturating_sub(*at));
        traces.flush(drain_deadline.saturating_sub(spent).max(FLUSH_TIME_MIN));
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
struct PreparedProcess {
    listeners: Listeners,
    memory: MemoryState,
    /// When the server was told to stop, by the clock that only counts.
    stop_time: Arc<OnceLock<Duration>>,
}

async fn run_server(
    mut settings: Settings,
    simulator_mode: SimulatorMode,
    process: PreparedProcess,
    prepare: impl AsyncFnOnce(&Settings, &App, &Addresses) -> anyhow::Result<Option<Demo>>,
) -> anyhow::Result<()> {
    let PreparedProcess { listeners, memory, stop_time: stopping } = process;
    let stop = stop_signal(stopping)?;
    let tcp = TcpListener::from_std(listeners.clients)?;
    let tls = load_certificates(&settings.tls)?;
    let scheme = if tls.is_some() { "https" } else { "http" };
    let url = format!("{scheme}://{}", tcp.local_addr()?);
    let servers = connect_schemes(&mut settings, simulator_mode, &url).await?;
    let verifier = settings
        .results_plan()
        .map(ResultsClientCertVerifier::load_reloadable)
        .transpose()?
        .map(Arc::new);
    let mut watched = servers.credentials();
    watched.extend(tls.iter().map(Reloadable::as_reload_files));
    watched.extend(verifier.iter().map(Reloadable::as_reload_files));
    let _held = settings.lock_data_dir()?;
    let listens_for_metrics = listeners.metrics.is_some();
    let (node, own_key) = build_node(&settings, memory, servers, listens_for_metrics).await?;
    let (app, node) = (Arc::clone(&node.app), Arc::new(node));
    let access = OperatorAccess { key: own_key, hosts: settings.metrics.hosts.0.clone() };
    let own = listeners.metrics.map(|it| start_metrics_listener(&node, it, access)).transpose()?;
    let (metrics, operator_listener) = own.unzip();
    let results = listeners.results.map(TcpListener::from_std).transpose()?;
    let results_at = results.as_ref().map(TcpListener::local_addr).transpose()?;
    let results_url = results_at.map(|it| format!("https://{it}"));
    let addresses = Addresses { url, metrics, results: results_url };
    reload_certificates(watched, &settings.tls)?;
    start_bin_data_reload(&settings, &app);
    let control = start_control_socket(&settings, &node, &addresses.url);
    let demo = prepare(&settings, &app, &addresses).await?.map(Arc::new);
    let Addresses { url, metrics, results: results_url } = addresses;
    let receive = |(listener, door)| ResultsServer::start(Arc::clone(&node), listener, door);
    let results = results.zip(verifier).map(receive);
    tracing::info!(
        url,
        metrics,
        results = results_url,
        version = env!("CARGO_PKG_VERSION"),
        "listening"
    );
    let (head_file, vault) = (settings.head_file(), app.vault.clone());
    let keeping = tokio::spawn(head_file::update_periodically(head_file.clone(), vault.clone()));
    if let Some(to) = settings.audit.export.clone() {
        let data = settings.storage.data_dir.clone();
        tokio::spawn(audit_sink::run_sink(to, data, vault.clone()));
    }
    if app.is_sealed() {
        tokio::spawn(unseal::unseal_with_retries(Arc::clone(&app), move || settings.key_source()));
    }
    let failures = Arc::clone(&app.auth_failures);
    let extend = |router| match &demo {
        Some(demo) => with_demo(router, &app, demo),
        None => router,
    };
    serve_on(node, ListenSocket { tcp, tls }, extend, stop).await;
    failures.write_audit_records(&vault).await;
    if let Some(results) = results {
        results.close().await;
    }
    drop(control);
    keeping.abort();
    // It ends at once; what it has begun to write holds the lock until it is written.
    drop(keeping.await);
    head_file::update_at_shutdown(&head_file, &vault).await;
    drop(operator_listener);
    Ok(())
}

/// Loads the BIN data before the first request, then reloads it after each import.
fn start_bin_data_reload(settings: &Settings, app: &App) {
    let (file, bin_data) = (settings.bin_file(), Arc::clone(&app.vault.bin_data));
    let loaded = bin_file::reload_if_changed(&file, &bin_data, None);
    tokio::spawn(bin_file::reload_periodically(file, bin_data, loaded));
}

/// A server without a control socket still serves its clients; only commands cannot reach it.
fn start_control_socket(
    settings: &Settings,
    node: &Arc<Node>,
    url: &str,
) -> anyhow::Result<ControlSocket> {
    let folder = &settings.storage.data_dir;
    let control = ControlSocket::start(folder, Arc::clone(node), url.to_owned());
    if let Err(error) = &control {
        let cause = format!("{error:#}");
        tracing::warn!(cause, "control socket unavailable: commands cannot reach this server");
    }
    control
}

/// A server by the settings, and the key for the listener of metrics where there is one.
async fn build_node(
    settings: &Settings,
    memory: MemoryState,
    directory_servers: Arc<HttpDirectoryServers>,
    has_metrics_listener: bool,
) -> anyhow::Result<(Node, Option<MetricsKey>)> {
    let vault =
        settings.open_vault(memory, Arc::<HttpDirectoryServers>::clone(&directory_servers)).await?;
    let mut app = App::new_sealed(vault, ticks);
    apply_limits(&mut app, settings);
    app.limiter = settings.limits.limiter().await?;
    let key = settings.metrics.key_file.as_deref().map(MetricsKey::from_file).transpose()?;
    let (own_key, metrics_key) = if has_metrics_listener { (key, None) } else { (None, key) };
    let node_settings = NodeSettings {
        connections: connection_limits(settings),
        metrics_key,
        directory_servers: Some(directory_servers),
        ranges_age_max: settings.threeds.ranges_hours.seconds().saturating_mul(3600),
        ..NodeSettings::default()
    };
    Ok((Node::new(Arc::new(app), node_settings), own_key))
}

/// On a listener of its own, from now on; where that is.
fn start_metrics_listener(
    node: &Arc<Node>,
    listener: net::TcpListener,
    access: OperatorAccess,
) -> anyhow::Result<(String, OperatorListener)> {
    let url = format!("http://{}{}", listener.local_addr()?, endpoint::PATH);
    let clients = tokio::runtime::Handle::current();
    Ok((url, OperatorListener::start(Arc::clone(node), listener, access, clients)?))
}

fn body_memory(server: &ServerSettings) -> (Arc<BodyMemory>, Arc<BodyMemory>) {
    let share = server.body_memory_network_share.get();
    let largest = server.body_bytes_max.get();
    let keyed = BodyMemory::with_body_size(largest, server.body_memory_bytes.get(), share);
    let keyless = server.keyless_body_memory_bytes.get();
    (keyed, BodyMemory::with_body_size(MESSAGE_BYTES_MAX, keyless, share))
}

/// What a client may ask of the server.
fn apply_limits(app: &mut App, settings: &Settings) {
    app.limits = request_limits(&settings.server);
    (app.body_memory, app.keyless_body_memory) = body_memory(&settings.server);
    let server = &settings.server;
    let share = server.answer_memory_network_share.get();
    app.response_memory = ResponseMemory::new(server.answer_memory_bytes.get(), share);
    app.disabled_operations = disabled_operations(&settings.deprecated);
    app.trusted_proxies = settings.limits.trusted_proxies();
}

fn minimum_rate(server: &ServerSettings, bytes_per_second: u32) -> MinimumRate {
    MinimumRate { bytes_per_second, window: server.rate_window_seconds.seconds() }
}

fn request_limits(server: &ServerSettings) -> RequestLimits {
    RequestLimits {
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
        response_rate: minimum_rate(server, server.answer_bytes_per_second_min.number()),
        header_deadline: server.header_deadline_seconds.seconds(),
        connections_max: server.connections_max.get(),
        drain_deadline: server.drain_deadline_seconds.seconds(),
        authentication_deadline: settings
            .authentication_time_max()
            .saturating_add(RESULT_WRITE_TIME_MAX),
        ..ConnectionLimits::default()
    }
}

fn disabled_operations(settings: &DeprecatedSettings) -> Vec<Operation> {
    // Taken apart, so that a new setting cannot be forgotten here.
    let DeprecatedSettings { list_tokens_v1, search_tokens_v1 } = settings;
    let switches =
        [(list_tokens_v1, Operation::ListTokensV1), (search_tokens_v1, Operation::SearchTokensV1)];
    let off = switches.into_iter().filter(|(switch, _)| **switch == Switch::Off);
    off.map(|(_, operation)| operation).collect()
}

fn load_certificates(tls: &TlsSettings) -> anyhow::Result<Option<Arc<Certificates>>> {
    let (Some(certificate), Some(key)) = (&tls.certificate, &tls.key) else { return Ok(None) };
    Ok(Some(Arc::new(Certificates::for_clients(certificate, key)?)))
}

/// When the files change, and at SIGHUP, which without certificates does nothing but must not end
/// the process.
fn reload_certificates(
    reloadables: Vec<Arc<dyn ReloadFiles>>,
    settings: &TlsSettings,
) -> anyhow::Result<()> {
    let mut hang_up = signal(SignalKind::hangup())?;
    let all = reloadables.clone();
    tokio::spawn(async move {
        while hang_up.recv().await.is_some() {
            all.iter().for_each(|it| it.reload());
        }
    });
    if !reloadables.is_empty() {
        tokio::spawn(reload_periodically(reloadables, settings.reload_seconds.seconds()));
    }
    Ok(())
}

/// Whoever the settings connect; test tenants perhaps with a simulator that is started here.
async fn connect_schemes(
    settings: &mut Settings,
    simulator_mode: SimulatorMode,
    url: &str,
) -> anyhow::Result<Arc<HttpDirectoryServers>> {
    if simulator_mode == SimulatorMode::InProcess && settings.threeds.simulator_url.is_none() {
        let vault = authority(&settings.threeds_plan(url).settings.public_url);
        let at = simulator::start(vault).await?.map(|it| LoopbackUrl::parse(&it)).transpose();
        let at = at.map_err(|rule| anyhow::anyhow!("the simulator's address: {rule}"))?;
        settings.threeds.simulator_url = at;
    }
    Ok(Arc::new(HttpDirectoryServers::new(&settings.threeds_plan(url))?))
}

/// `at` is told when, by the clock that only counts.
fn stop_signal(stop_time: Arc<OnceLock<Duration>>) -> anyhow::Result<impl Future<Output = ()>> {
    let told = told_to_stop()?;
    Ok(async move {
        told.await;
        stop_time.get_or_init(ticks);
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
    fn each_deprecation_setting_disables_its_own_operation() {
        let off = |names: &[&'static str]| {
            let flags: Vec<_> = names.iter().map(|it| (*it, "off".to_owned())).collect();
            let settings = Settings::without_file(&flags, &Environment::default()).unwrap();
            let off = disabled_operations(&settings.deprecated);
            off.into_iter().map(|it| format!("deprecated.{}", it.as_str())).collect::<Vec<_>>()
        };
        let (list, search) = ("deprecated.list_tokens_v1", "deprecated.search_tokens_v1");
        assert!(off(&[]).is_empty());
        assert_eq!(off(&[list]), [list]);
        assert_eq!(off(&[search]), [search]);
        assert_eq!(off(&[list, search]), [list, search]);
    }
}
