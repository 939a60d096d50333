//! Startup that `serve` and `dev` share: from the settings to a server that runs until a stop
//! signal.

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
        results::{ResultsServer, ResultsTls},
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

const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);
/// Time to flush traces if requests used the whole drain deadline.
const FLUSH_TIME_MIN: Duration = Duration::from_millis(250);
/// Maximum time from the response of a directory server until the response is stored.
const RESULT_WRITE_TIME_MAX: Duration = Duration::from_secs(5);
/// Connections that the kernel queues until they are accepted. When the queue is full, the kernel
/// drops the first packet of a client, which retries after a second. Linux uses the smaller of this
/// and `net.core.somaxconn`, which is 4096 by default.
const BACKLOG: i32 = 4096;

/// How to announce that the server listens.
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

/// URLs of a running server.
#[derive(Debug, Serialize)]
pub(crate) struct Addresses {
    pub(crate) url: String,
    /// The metrics page, if it has a separate listener.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) metrics: Option<String>,
    /// The listener for results of directory servers, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) results: Option<String>,
}

/// Whether to start a simulator of directory servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SimulatorMode {
    Off,
    /// Started unless the settings have one.
    InProcess,
}

/// Binds the listeners, hardens the process, and serves. `prepare` runs when the listeners are
/// bound and the store is open. It may unseal the vault, and returns the demo shop if there is one.
/// A vault that is still sealed waits for its root key.
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
    // With PostgreSQL the directory contains only files of this node, which can be recreated. With
    // the embedded engine it contains the vault, and a wrong path must not create an empty one.
    if settings.storage.url.is_some() {
        init::create_data_dir(&settings)?;
    }
    let memory = process::confine(&settings.server)?;
    check_secrets(&settings)?;
    if let Some(traces) = &traces {
        traces.start()?;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let drain_deadline = settings.server.drain_deadline_seconds.seconds();
    let stop_time = Arc::new(OnceLock::new());
    let process = PreparedProcess { listeners, memory, stop_time: Arc::clone(&stop_time) };
    let outcome = runtime.block_on(run_server(settings, simulator_mode, process, prepare));
    if let Some(traces) = traces {
        let drain_time_used = stop_time
            .get()
            .map_or(Duration::ZERO, |stopped_at| ticks().saturating_sub(*stopped_at));
        traces.flush(drain_deadline.saturating_sub(drain_time_used).max(FLUSH_TIME_MIN));
    }
    // Do not wait for requests that still compute: their drain deadline has passed.
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    outcome
}

/// Checks all files with secrets except the root key. The root key is checked whenever it is read,
/// because a server may wait for it.
fn check_secrets(settings: &Settings) -> anyhow::Result<()> {
    let root_key = settings.root_key_file();
    let other_files = settings.secret_files().into_iter().filter(|it| it.path != root_key);
    other_files.into_iter().try_for_each(|it| it.check())
}

struct Listeners {
    clients: net::TcpListener,
    metrics: Option<net::TcpListener>,
    results: Option<net::TcpListener>,
}

/// Binds all listeners. Call it before the process gives up root, which low ports require.
fn bind_all(settings: &Settings) -> anyhow::Result<Listeners> {
    let clients = bind(settings.server.listen)?;
    let metrics = settings.metrics.listen.map(bind).transpose().context("metrics.listen")?;
    let results = settings.threeds.results_listen.map(bind).transpose();
    let results = results.context("threeds.results_listen")?;
    Ok(Listeners { clients, metrics, results })
}

fn bind(address: SocketAddr) -> anyhow::Result<net::TcpListener> {
    let error_context = || format!("cannot listen on {address}");
    let listener = net::TcpListener::bind(address).with_context(error_context)?;
    listen(&listener, Backlog::new(BACKLOG)?).with_context(error_context)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// State that was prepared before other threads started.
struct PreparedProcess {
    listeners: Listeners,
    memory: MemoryState,
    /// Time of the stop signal, on the monotonic clock.
    stop_time: Arc<OnceLock<Duration>>,
}

async fn run_server(
    mut settings: Settings,
    simulator_mode: SimulatorMode,
    process: PreparedProcess,
    prepare: impl AsyncFnOnce(&Settings, &App, &Addresses) -> anyhow::Result<Option<Demo>>,
) -> anyhow::Result<()> {
    let PreparedProcess { listeners, memory, stop_time } = process;
    let stop = stop_signal(stop_time)?;
    let tcp = TcpListener::from_std(listeners.clients)?;
    let tls = load_certificates(&settings.tls)?;
    let scheme = if tls.is_some() { "https" } else { "http" };
    let url = format!("{scheme}://{}", tcp.local_addr()?);
    let servers = connect_schemes(&mut settings, simulator_mode, &url).await?;
    let results_tls = settings
        .results_listener_settings()
        .map(ResultsTls::load_reloadable)
        .transpose()?
        .map(Arc::new);
    let mut reloadables = servers.credentials();
    reloadables.extend(tls.iter().map(Reloadable::to_reload_files));
    reloadables.extend(results_tls.iter().map(Reloadable::to_reload_files));
    let _data_dir_lock = settings.lock_data_dir()?;
    let listens_for_metrics = listeners.metrics.is_some();
    let (node, listener_key) = build_node(&settings, memory, servers, listens_for_metrics).await?;
    let (app, node) = (Arc::clone(&node.app), Arc::new(node));
    let access = OperatorAccess { key: listener_key, hosts: settings.metrics.hosts.0.clone() };
    let metrics_listener =
        listeners.metrics.map(|it| start_metrics_listener(&node, it, access)).transpose()?;
    let (metrics, operator_listener) = metrics_listener.unzip();
    let results = listeners.results.map(TcpListener::from_std).transpose()?;
    let results_address = results.as_ref().map(TcpListener::local_addr).transpose()?;
    let results_url = results_address.map(|it| format!("https://{it}"));
    let addresses = Addresses { url, metrics, results: results_url };
    reload_certificates(reloadables, &settings.tls)?;
    start_bin_data_reload(&settings, &app);
    let control = start_control_socket(&settings, &node, &addresses.url);
    let demo = prepare(&settings, &app, &addresses).await?.map(Arc::new);
    let Addresses { url, metrics, results: results_url } = addresses;
    let start_results = |(listener, tls)| ResultsServer::start(Arc::clone(&node), listener, tls);
    let results = results.zip(results_tls).map(start_results);
    tracing::info!(
        url,
        metrics,
        results = results_url,
        version = env!("CARGO_PKG_VERSION"),
        "listening"
    );
    let (head_file, vault) = (settings.head_file(), app.vault.clone());
    let head_file_task =
        tokio::spawn(head_file::update_periodically(head_file.clone(), vault.clone()));
    if let Some(sink_target) = settings.audit.sink.clone() {
        let data_dir = settings.storage.data_dir.clone();
        tokio::spawn(audit_sink::run_sink(sink_target, data_dir, vault.clone()));
    }
    if app.is_sealed() {
        tokio::spawn(unseal::unseal_with_retries(Arc::clone(&app), move || settings.key_source()));
    }
    let auth_failures = Arc::clone(&app.auth_failures);
    let extend = |router| match &demo {
        Some(demo) => with_demo(router, &app, demo),
        None => router,
    };
    serve_on(node, ListenSocket { tcp, tls }, extend, stop).await;
    auth_failures.write_audit_records(&vault).await;
    if let Some(results) = results {
        results.close().await;
    }
    drop(control);
    head_file_task.abort();
    // The task ends immediately. A write in progress has the lock until it is finished.
    drop(head_file_task.await);
    head_file::update_at_shutdown(&head_file, &vault).await;
    drop(operator_listener);
    Ok(())
}

/// Loads the BIN data before the first request, then reloads it after each import.
fn start_bin_data_reload(settings: &Settings, app: &App) {
    let (file, bin_data) = (settings.bin_file(), Arc::clone(&app.vault.bin_data));
    let stamp = bin_file::reload_if_changed(&file, &bin_data, None);
    tokio::spawn(bin_file::reload_periodically(file, bin_data, stamp));
}

/// Starts the control socket. A server without one still serves its clients; only commands cannot
/// reach it.
fn start_control_socket(
    settings: &Settings,
    node: &Arc<Node>,
    url: &str,
) -> anyhow::Result<ControlSocket> {
    let folder = &settings.storage.data_dir;
    let control = ControlSocket::start(folder, Arc::clone(node), url.to_owned());
    if let Err(error) = &control {
        let cause = format!("{error:#}");
        tracing::warn!(
            cause,
            "control socket unavailable: commands such as scrip status cannot find this server"
        );
    }
    control
}

/// Builds the node from the settings, with the key for the metrics listener if there is one.
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
    let (listener_key, metrics_key) = if has_metrics_listener { (key, None) } else { (None, key) };
    let node_settings = NodeSettings {
        connection_limits: connection_limits(settings),
        metrics_key,
        directory_servers: Some(directory_servers),
        card_ranges_age_max: settings
            .threeds
            .card_ranges_max_age_hours
            .seconds()
            .saturating_mul(3600),
        ..NodeSettings::default()
    };
    Ok((Node::new(Arc::new(app), node_settings), listener_key))
}

/// Starts the separate metrics listener and returns its address.
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
    let body_bytes_max = server.body_bytes_max.get();
    let keyed = BodyMemory::with_body_size(body_bytes_max, server.body_memory_bytes.get(), share);
    let keyless_bytes = server.keyless_body_memory_bytes.get();
    (keyed, BodyMemory::with_body_size(MESSAGE_BYTES_MAX, keyless_bytes, share))
}

/// Applies the limits for clients.
fn apply_limits(app: &mut App, settings: &Settings) {
    app.limits = request_limits(&settings.server);
    (app.body_memory, app.keyless_body_memory) = body_memory(&settings.server);
    let server = &settings.server;
    let share = server.response_memory_network_share.get();
    app.response_memory = ResponseMemory::new(server.response_memory_bytes.get(), share);
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
        response_rate: minimum_rate(server, server.response_bytes_per_second_min.number()),
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
    // Destructured, so that a new setting cannot be missed here.
    let DeprecatedSettings { list_tokens_v1, search_tokens_v1 } = settings;
    let switches =
        [(list_tokens_v1, Operation::ListTokensV1), (search_tokens_v1, Operation::SearchTokensV1)];
    let disabled = switches.into_iter().filter(|(switch, _)| **switch == Switch::Off);
    disabled.map(|(_, operation)| operation).collect()
}

fn load_certificates(tls: &TlsSettings) -> anyhow::Result<Option<Arc<Certificates>>> {
    let (Some(certificate), Some(key)) = (&tls.certificate, &tls.key) else { return Ok(None) };
    Ok(Some(Arc::new(Certificates::for_clients(certificate, key)?)))
}

/// Reloads certificates when their files change and at SIGHUP. Without certificates SIGHUP has no
/// effect, but must not end the process.
fn reload_certificates(
    reloadables: Vec<Arc<dyn ReloadFiles>>,
    settings: &TlsSettings,
) -> anyhow::Result<()> {
    let mut hang_up = signal(SignalKind::hangup())?;
    let reloaded_at_signal = reloadables.clone();
    tokio::spawn(async move {
        while hang_up.recv().await.is_some() {
            reloaded_at_signal.iter().for_each(|it| it.reload());
        }
    });
    if !reloadables.is_empty() {
        tokio::spawn(reload_periodically(reloadables, settings.reload_seconds.seconds()));
    }
    Ok(())
}

/// Connects the schemes of the settings, and for test tenants possibly a simulator in this process.
async fn connect_schemes(
    settings: &mut Settings,
    simulator_mode: SimulatorMode,
    url: &str,
) -> anyhow::Result<Arc<HttpDirectoryServers>> {
    if simulator_mode == SimulatorMode::InProcess && settings.threeds.simulator_url.is_none() {
        let vault_authority =
            authority(&settings.directory_servers_settings(url).threeds.public_url);
        let simulator_url =
            simulator::start(vault_authority).await?.map(|it| LoopbackUrl::parse(&it)).transpose();
        let simulator_url =
            simulator_url.map_err(|rule| anyhow::anyhow!("address of the simulator: {rule}"))?;
        settings.threeds.simulator_url = simulator_url;
    }
    Ok(Arc::new(HttpDirectoryServers::new(&settings.directory_servers_settings(url))?))
}

/// Stores the time of the signal in `stop_time`, on the monotonic clock.
fn stop_signal(stop_time: Arc<OnceLock<Duration>>) -> anyhow::Result<impl Future<Output = ()>> {
    let signal = termination_signal()?;
    Ok(async move {
        signal.await;
        stop_time.get_or_init(ticks);
        tracing::info!("stopping");
    })
}

/// Completes at SIGTERM or SIGINT.
pub(crate) fn termination_signal() -> anyhow::Result<impl Future<Output = ()>> {
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
        let disabled_by = |names: &[&'static str]| {
            let flags: Vec<_> = names.iter().map(|it| (*it, "off".to_owned())).collect();
            let settings = Settings::without_file(&flags, &Environment::default()).unwrap();
            let operations = disabled_operations(&settings.deprecated);
            operations
                .into_iter()
                .map(|it| format!("deprecated.{}", it.as_str()))
                .collect::<Vec<_>>()
        };
        let (list, search) = ("deprecated.list_tokens_v1", "deprecated.search_tokens_v1");
        assert!(disabled_by(&[]).is_empty());
        assert_eq!(disabled_by(&[list]), [list]);
        assert_eq!(disabled_by(&[search]), [search]);
        assert_eq!(disabled_by(&[list, search]), [list, search]);
    }
}
