//! Startup that `serve` and `dev` share: from the settings to a server that runs until a stop
//! signal.

mod limits;
pub(crate) mod server_mode;
mod simulator;
mod stop_time;

use std::{
    io,
    net::{self, SocketAddr},
    sync::Arc,
    time::Duration,
};

use anyhow::Context;
use nix::sys::socket::{Backlog, listen};
use scrip_api::app::App;
use scrip_core::{Vault, policy::destination::LoopbackDestinations};
use scrip_demo::{Demo, authority, with_demo};
use scrip_server::{
    audit_sink::{self, health::SinkHealth},
    background::unseal,
    clock::ticks,
    config::{Settings, TlsSettings},
    control::ControlSocket,
    directory_servers::{HttpDirectoryServers, address::LoopbackUrl, client_cert::ResultsTls},
    dual_control::DualControl,
    files::{
        bin_file,
        head_file::{self, ServerHeadFile},
    },
    listen::{ListenSocket, results::ResultsServer, serve_on},
    metrics::{
        endpoint,
        listener::{OperatorAccess, OperatorListener},
    },
    node::{Node, NodeSettings, metrics_key::MetricsKey},
    periodic_tasks::{TaskFuture, restart_after_panic},
    process::{self, MemoryState},
    telemetry,
    tls::{Certificates, ReloadFiles, Reloadable, reload_periodically},
    unlock::{health, manager::KeyManager},
};
use serde::Serialize;
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
    sync::SetOnce,
    task::{JoinHandle, spawn_blocking},
    time::sleep,
};

use crate::{
    commands::{init, output::print_output},
    serve::{
        limits::{apply_limits, connection_limits},
        server_mode::{ListenerSetting, ServerMode},
        stop_time::StopTime,
    },
    signals::termination_signal,
};

const LISTENER_FAILED: &str = "the listener failed";
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);
/// Time to flush traces if requests used the whole drain deadline.
const FLUSH_TIME_MIN: Duration = Duration::from_millis(250);
/// Time in which the first requests have the processor for themselves.
const SEED_DELAY: Duration = Duration::from_millis(100);
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

pub(crate) fn serve(settings: Settings, announcement: Announcement) -> anyhow::Result<()> {
    start(
        settings,
        ServerMode::Production,
        async |_: &Settings, _: &KeyManager, addresses: &Addresses| {
            if announcement == Announcement::Json {
                print_output(&format!("{}\n", serde_json::json!(addresses)))?;
            }
            Ok(None)
        },
    )
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

/// Binds the listeners, hardens the process, and serves. `prepare` runs when the listeners are
/// bound and the store is open, while health checks are already served. It may unseal the vault,
/// and returns the demo shop if there is one. If it fails, the process ends. A vault that is still
/// sealed afterwards waits for its root key.
pub(crate) fn start(
    settings: Settings,
    mode: ServerMode,
    prepare: impl AsyncFnOnce(&Settings, &KeyManager, &Addresses) -> anyhow::Result<Option<Demo>>,
) -> anyhow::Result<()> {
    let traces = telemetry::start(&settings)?;
    for warning in &settings.warnings {
        tracing::warn!("{warning}");
    }
    let listeners = bind_all(&settings, &mode)?;
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
    let stop_time = Arc::new(StopTime::default());
    let process = PreparedProcess { listeners, memory, stop_time: Arc::clone(&stop_time) };
    let outcome = runtime.block_on(run_server(settings, mode, process, prepare));
    if let Some(traces) = traces {
        let drain_time_used = stop_time.elapsed(ticks());
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

impl Listeners {
    fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        let others = self.metrics.iter().chain(&self.results);
        std::iter::once(&self.clients).chain(others).map(net::TcpListener::local_addr).collect()
    }
}

/// Binds all listeners. Call it before the process gives up root, which low ports require.
fn bind_all(settings: &Settings, mode: &ServerMode) -> anyhow::Result<Listeners> {
    let bind = |name, address| {
        let result = bind(address);
        result.map_err(|error| ListenerSetting { name, address }.explain(error, mode))
    };
    let clients = bind(ListenerSetting::CLIENTS, settings.server.listen)?;
    let metrics = settings.metrics.listen.map(|it| bind("metrics.listen", it)).transpose()?;
    let results = settings.threeds.results_listen;
    let results = results.map(|it| bind("threeds.results_listen", it)).transpose()?;
    Ok(Listeners { clients, metrics, results })
}

fn bind(address: SocketAddr) -> io::Result<net::TcpListener> {
    let listener = net::TcpListener::bind(address)?;
    listen(&listener, Backlog::new(BACKLOG)?)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// State that was prepared before other threads started.
struct PreparedProcess {
    listeners: Listeners,
    memory: MemoryState,
    stop_time: Arc<StopTime>,
}

async fn run_server(
    mut settings: Settings,
    mode: ServerMode,
    process: PreparedProcess,
    prepare: impl AsyncFnOnce(&Settings, &KeyManager, &Addresses) -> anyhow::Result<Option<Demo>>,
) -> anyhow::Result<()> {
    let PreparedProcess { listeners, memory, stop_time } = process;
    let stop = stop_signal(Arc::clone(&stop_time))?;
    let own_addresses = listeners.addresses()?;
    let tcp = TcpListener::from_std(listeners.clients)?;
    let tls = load_certificates(&settings.tls)?;
    let scheme = if tls.is_some() { "https" } else { "http" };
    let url = format!("{scheme}://{}", tcp.local_addr()?);
    let servers = connect_schemes(&mut settings, &mode, &url).await?;
    let results_tls = settings.results_listener_settings().map(ResultsTls::load_reloadable);
    let results_tls = results_tls.transpose()?.map(Arc::new);
    let mut reloadables = servers.credentials();
    reloadables.extend(tls.iter().map(Reloadable::to_reload_files));
    reloadables.extend(results_tls.iter().map(Reloadable::to_reload_files));
    let _data_dir_lock = settings.lock_data_dir()?;
    let listens_for_metrics = listeners.metrics.is_some();
    let (mut node, listener_key) =
        build_node(&settings, &mode, memory, servers, listens_for_metrics, own_addresses).await?;
    node.settings.certificates.clone_from(&tls);
    let sink_health = settings.audit.sink.is_some().then(Arc::<SinkHealth>::default);
    node.settings.audit_sink.clone_from(&sink_health);
    let (manager, dual_control) = add_key_management(&mut node, &settings);
    let (app, node) = (Arc::clone(&node.app), Arc::new(node));
    let access = OperatorAccess { key: listener_key, hosts: settings.metrics.hosts.0.clone() };
    let metrics_listener =
        listeners.metrics.map(|it| start_metrics_listener(&node, it, access)).transpose()?;
    let (metrics, operator_listener) = metrics_listener.unzip();
    let results = listeners.results.map(TcpListener::from_std).transpose()?;
    let results_address = results.as_ref().map(TcpListener::local_addr).transpose()?;
    let addresses =
        Addresses { url, metrics, results: results_address.map(|it| format!("https://{it}")) };
    reload_certificates(reloadables, &settings.tls)?;
    start_bin_data_reload(&settings, &app);
    let vault = app.vault.clone();
    let head_file = Arc::new(ServerHeadFile::new(settings.head_file()));
    let control = start_control_socket(&settings, &node, &addresses.url, &head_file);
    let start_results = |(listener, tls)| ResultsServer::start(Arc::clone(&node), listener, tls);
    let results = results.zip(results_tls).map(start_results);
    let head_file_task = start_head_file_task(&head_file, &vault);
    start_audit_sink(&settings, &vault, sink_health);
    let auth_failures = Arc::clone(&app.auth_failures);
    let (demo, has_demo) = (Arc::new(SetOnce::new()), mode.has_demo(&settings));
    let (shop, shop_app) = (Arc::clone(&demo), Arc::clone(&app));
    let extend = move |router| if has_demo { with_demo(router, &shop_app, &shop) } else { router };
    // In a separate task: `prepare` computes keys and syncs files, and health checks must not wait
    // for that.
    let mut serving = tokio::spawn(serve_on(node, ListenSocket { tcp, tls }, extend, stop));
    // A server that stops before `prepare` is finished announces nothing.
    let is_stopped = tokio::select! {
        prepared = prepare(&settings, &manager, &addresses) => {
            prepared?.into_iter().for_each(|it| drop(demo.set(it)));
            false
        }
        stopped = &mut serving => stopped.map(|()| true).context(LISTENER_FAILED)?,
    };
    if !is_stopped {
        stop_time.announce_unless_stopped(|| log_addresses(&addresses));
        seed_random_generator(Arc::clone(&app));
        start_key_management(&settings, &manager, dual_control);
        serving.await.context(LISTENER_FAILED)?;
    }
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

fn add_key_management(node: &mut Node, settings: &Settings) -> (Arc<KeyManager>, Arc<DualControl>) {
    let manager = Arc::new(KeyManager::new(Arc::clone(&node.app), settings));
    let dual_control = DualControl::new(Arc::clone(&node.app), settings.keys.dual_control);
    let dual_control = Arc::new(dual_control);
    node.settings.key_manager = Some(Arc::clone(&manager));
    node.settings.dual_control = Some(Arc::clone(&dual_control));
    (manager, dual_control)
}

/// Opens the vault unless it is open, checks its unlock methods, follows rotations by other nodes,
/// and keeps the requests of dual control.
fn start_key_management(
    settings: &Settings,
    manager: &Arc<KeyManager>,
    dual_control: Arc<DualControl>,
) {
    restart_after_panic("keep_approvals", move || Arc::clone(&dual_control).run());
    let (interval, limit) = (settings.keys.check_every, settings.keys.seal_when_source_lost);
    let spawn = |task, work: fn(Arc<KeyManager>) -> TaskFuture| {
        let manager = Arc::clone(manager);
        restart_after_panic(task, move || work(Arc::clone(&manager)));
    };
    spawn("keep_unsealed", |it| Box::pin(unseal::keep_unsealed(it)));
    if settings.storage.url.is_some() {
        spawn("follow_rotations", |it| Box::pin(health::follow_rotations(it)));
    }
    let manager = Arc::clone(manager);
    restart_after_panic("check_unlock_methods", move || {
        health::check_periodically(Arc::clone(&manager), interval, limit)
    });
}

fn start_head_file_task(head_file: &Arc<ServerHeadFile>, vault: &Vault) -> JoinHandle<()> {
    let (head_file, vault) = (Arc::clone(head_file), vault.clone());
    restart_after_panic("save_chain_heads", move || {
        head_file::update_periodically(Arc::clone(&head_file), vault.clone())
    })
}

fn start_audit_sink(settings: &Settings, vault: &Vault, health: Option<Arc<SinkHealth>>) {
    if let Some((sink_target, health)) = settings.audit.sink.clone().zip(health) {
        let (data_dir, vault) = (settings.storage.data_dir.clone(), vault.clone());
        restart_after_panic("write_to_audit_sink", move || {
            let (vault, health) = (vault.clone(), Arc::clone(&health));
            audit_sink::run_sink(sink_target.clone(), data_dir.clone(), vault, health)
        });
    }
}

/// Seeds the random generator soon after the vault is open. The seed costs 40 ms of processor time,
/// which otherwise the first write would wait for.
fn seed_random_generator(app: Arc<App>) {
    tokio::spawn(async move {
        app.wait_until_unsealed().await;
        sleep(SEED_DELAY).await;
        drop(spawn_blocking(|| scrip_seal::fill_random(&mut [0])).await);
    });
}

fn log_addresses(addresses: &Addresses) {
    let Addresses { url, metrics, results } = addresses;
    let (version, fips) = (env!("CARGO_PKG_VERSION"), scrip_seal::has_fips_module());
    tracing::info!(url, metrics, results, version, fips, "listening");
}

/// Loads the BIN data before the first request, then reloads it after each import.
fn start_bin_data_reload(settings: &Settings, app: &App) {
    let (file, bin_data) = (settings.bin_file(), Arc::clone(&app.vault.bin_data));
    let stamp = bin_file::reload_if_changed(&file, &bin_data, None);
    restart_after_panic("reload_bin_data", move || {
        bin_file::reload_periodically(file.clone(), Arc::clone(&bin_data), stamp)
    });
}

/// Starts the control socket. A server without one still serves its clients; only commands cannot
/// reach it.
fn start_control_socket(
    settings: &Settings,
    node: &Arc<Node>,
    url: &str,
    head_file: &Arc<ServerHeadFile>,
) -> anyhow::Result<ControlSocket> {
    let head_file = Arc::clone(head_file);
    let control = ControlSocket::start(settings, Arc::clone(node), url.to_owned(), head_file);
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
    mode: &ServerMode,
    memory: MemoryState,
    directory_servers: Arc<HttpDirectoryServers>,
    has_metrics_listener: bool,
    own_addresses: Vec<SocketAddr>,
) -> anyhow::Result<(Node, Option<MetricsKey>)> {
    let vault =
        settings.open_vault(memory, Arc::<HttpDirectoryServers>::clone(&directory_servers)).await?;
    let mut app = App::new_sealed(vault, ticks);
    apply_limits(&mut app, settings);
    app.limiter = settings.limits.limiter().await?;
    app.egress.webhooks = settings.webhooks.egress(&settings.proxy, own_addresses.clone())?;
    app.egress.proxied_calls = settings.proxy.egress(own_addresses)?;
    app.settings.field_hosting = settings.field_hosting(mode.is_development());
    if settings.proxy.loopback_http {
        app.settings.loopback_destinations = LoopbackDestinations::Allowed;
    }
    let key = settings.metrics.key_file.as_deref().map(MetricsKey::from_file).transpose()?;
    let (listener_key, metrics_key) = if has_metrics_listener { (key, None) } else { (None, key) };
    let node_settings = NodeSettings {
        connection_limits: connection_limits(settings),
        metrics_key,
        directory_servers: Some(directory_servers),
        sealed_start: mode.sealed_start(),
        request_log: mode.request_log(),
        data_dir: Some(settings.storage.data_dir.clone()),
        delivers_webhooks: settings.webhooks.deliver,
        key_rotation: settings.keys.rotation_pace(),
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
    // A server with an expired certificate starts: some clients may not check it, and a vault that
    // is down after a reboot helps no client.
    reloadables.iter().for_each(|it| it.log_validity());
    let mut hang_up = signal(SignalKind::hangup())?;
    let reloaded_at_signal = reloadables.clone();
    tokio::spawn(async move {
        while hang_up.recv().await.is_some() {
            for it in &reloaded_at_signal {
                it.reload();
                it.log_validity();
            }
        }
    });
    if !reloadables.is_empty() {
        let interval = settings.reload_seconds.seconds();
        restart_after_panic("reload_certificates", move || {
            reload_periodically(reloadables.clone(), interval)
        });
    }
    Ok(())
}

/// Connects the schemes of the settings, and for test tenants possibly a simulator in this process.
async fn connect_schemes(
    settings: &mut Settings,
    mode: &ServerMode,
    url: &str,
) -> anyhow::Result<Arc<HttpDirectoryServers>> {
    if mode.is_development() && settings.threeds.simulator_url.is_none() {
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

fn stop_signal(stop_time: Arc<StopTime>) -> anyhow::Result<impl Future<Output = ()>> {
    let signal = termination_signal()?;
    Ok(async move {
        signal.await;
        stop_time.record(ticks(), || tracing::info!("stopping"));
    })
}
