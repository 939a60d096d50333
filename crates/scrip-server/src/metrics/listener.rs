//! Listener for the operator: metrics and probes in plain HTTP, separate from the client listener.
//!
//! It has its own thread, runtime and connection slots. It responds while every worker of the
//! client runtime is busy, while the vault is sealed, and while the server drains.

use std::{
    convert::Infallible,
    io,
    net::{self, IpAddr},
    sync::{Arc, Mutex},
    thread::{self, JoinHandle},
    time::Duration,
};

use axum::{body::Body, response::Response};
use hyper::{
    Method, Request, Version,
    body::{Bytes, Incoming},
    header::HOST,
    http::{request::Parts, uri::Authority},
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use scrip_api::{
    app::{limits::MinimumRate, readiness::ReadinessResult},
    handlers::probes,
    pipeline::serve_request,
    problem::Problem,
    route::single_header,
    trace_id::TraceId,
};
use tokio::{
    net::{TcpListener, TcpStream},
    runtime::{Builder, Handle},
    sync::oneshot,
    task::yield_now,
    time::{Instant, sleep, timeout},
};

use crate::{
    connections::{
        http1_builder,
        limited_stream::{LimitedStream, StreamLimits},
        table::{Activity, Admission, ConnectionSlot, ConnectionTable},
    },
    metrics::{collect::render, endpoint},
    node::{Node, metrics_key::MetricsKey},
};

/// Enough for scrapers and probes. The limit of client connections is separate.
const CONNECTIONS_MAX: usize = 32;
/// Maximum time to receive the head of a request or to write without progress.
const IO_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum lifetime of a connection of a scraper.
const CONNECTION_LIFETIME_MAX: Duration = Duration::from_secs(600);
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Longer than the timeout of the readiness check itself.
const READINESS_TIMEOUT: Duration =
    probes::READINESS_TIMEOUT.saturating_add(Duration::from_millis(250));

const STREAM_LIMITS: StreamLimits = StreamLimits {
    first_byte_deadline: Duration::from_secs(10),
    write_deadline: IO_TIMEOUT,
    response_rate: MinimumRate { bytes_per_second: 1024, window: IO_TIMEOUT },
};

/// Access rules of the listener.
#[derive(Debug, Default)]
pub struct OperatorAccess {
    /// If set, `/metrics` requires this key.
    pub key: Option<MetricsKey>,
    /// Accepted host names, in addition to IP addresses and `localhost`.
    pub hosts: Vec<String>,
}

/// The listener thread; it stops on drop.
#[derive(Debug)]
pub struct OperatorListener {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl OperatorListener {
    /// Starts the thread. The listener must be non-blocking. Readiness checks run on `clients`, the
    /// runtime of the client listener.
    /// Errors: no thread or descriptor is available.
    pub fn start(
        node: Arc<Node>,
        listener: net::TcpListener,
        access: OperatorAccess,
        clients: Handle,
    ) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let listener = {
            let _runtime_guard = runtime.enter();
            TcpListener::from_std(listener)?
        };
        let (stop, stop_signal) = oneshot::channel();
        let state =
            Arc::new(ListenerState { node, access, clients, recent_page: RecentPage::default() });
        let thread =
            thread::Builder::new().name("operator-listener".to_owned()).spawn(move || {
                runtime.block_on(async {
                    tokio::select! {
                        () = serve(state, listener) => (),
                        _ = stop_signal => (),
                    }
                });
            })?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for OperatorListener {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

/// State shared by all connections.
struct ListenerState {
    node: Arc<Node>,
    access: OperatorAccess,
    clients: Handle,
    recent_page: RecentPage,
}

async fn serve(state: Arc<ListenerState>, listener: TcpListener) {
    let table = ConnectionTable::new(CONNECTIONS_MAX, CONNECTIONS_MAX);
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "accept failed on the operator listener");
                sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let activity = Arc::new(Activity::new());
        let Admission::Admitted(slot, _) = table.admit(None, &activity).await else { continue };
        let connection_state = Arc::clone(&state);
        tokio::spawn(async move {
            let connection = serve_connection(&connection_state, stream, &slot, activity);
            drop(timeout(CONNECTION_LIFETIME_MAX, connection).await);
            drop(slot);
        });
    }
}

async fn serve_connection(
    state: &ListenerState,
    stream: TcpStream,
    slot: &ConnectionSlot,
    activity: Arc<Activity>,
) {
    let stream = TokioIo::new(LimitedStream::new(stream, STREAM_LIMITS, Arc::clone(&activity)));
    let service = service_fn(async |request| {
        activity.start_request();
        let response = respond(state, request).await;
        activity.finish_request();
        Ok::<_, Infallible>(response)
    });
    let connection = http1_builder(IO_TIMEOUT, HEAD_BYTES_MAX).serve_connection(stream, service);
    tokio::select! {
        // A client that disconnects is not an error.
        _ = connection => (),
        () = slot.evicted.notified() => (),
    }
}

async fn respond(state: &ListenerState, request: Request<Incoming>) -> Response {
    serve_request(request, async |request: Request<Body>, trace: &TraceId| {
        let (head, _) = request.into_parts();
        match check_host(&head, &state.access.hosts) {
            Ok(()) => route(state, &head, trace).await,
            Err(problem) => problem.response(trace),
        }
    })
    .await
}

async fn route(state: &ListenerState, head: &Parts, trace: &TraceId) -> Response {
    let is_read = matches!(head.method, Method::GET | Method::HEAD);
    match head.uri.path() {
        endpoint::PATH | "/healthz" | "/readyz" if !is_read => {
            Problem::MethodNotAllowed.response(trace)
        }
        endpoint::PATH => {
            // Probes of other connections come first, also before pipelined requests.
            yield_now().await;
            let render_page = || state.recent_page.get(Instant::now(), || render(&state.node));
            endpoint::respond(state.access.key.as_ref(), &head.headers, trace, render_page)
        }
        "/healthz" => probes::health_response(),
        "/readyz" => probes::readiness_response(find_readiness(state).await, trace),
        _ => Problem::NoRoute.response(trace),
    }
}

/// A known reason needs no worker. If the client runtime has no free worker for a check, the server
/// is overloaded.
async fn find_readiness(state: &ListenerState) -> ReadinessResult {
    let app = Arc::clone(&state.node.app);
    if let Some(reason) = app.not_ready_reason() {
        return ReadinessResult::NotReady(reason);
    }
    let check = state.clients.spawn(async move { probes::find_readiness(&app).await });
    let result = timeout(READINESS_TIMEOUT, check).await;
    result.ok().and_then(Result::ok).unwrap_or(ReadinessResult::Overloaded)
}

/// Rejects unknown host names: a website that resolves its name to this address (DNS rebinding)
/// sends its own name.
fn check_host(head: &Parts, hosts: &[String]) -> Result<(), Problem> {
    let host = single_header(&head.headers, HOST.as_str(), "Host")?;
    let host = match (host, head.uri.authority()) {
        (_, Some(authority)) => Some(authority.clone()),
        (Some(host), None) => {
            Some(Authority::try_from(host.as_bytes()).map_err(|_| Problem::BadHeader("Host"))?)
        }
        (None, None) => None,
    };
    match host {
        Some(authority) if is_known_host(authority.host(), hosts) => Ok(()),
        Some(_) => Err(Problem::Misdirected),
        // Only HTTP/1.0 clients may omit the header; no browser does.
        None if head.version <= Version::HTTP_10 => Ok(()),
        None => Err(Problem::BadHeader("Host")),
    }
}

fn is_known_host(host: &str, hosts: &[String]) -> bool {
    let address = host.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(host);
    let is_equal = |name: &str| host.eq_ignore_ascii_case(name);
    address.parse::<IpAddr>().is_ok()
        || is_equal("localhost")
        || hosts.iter().any(|it| is_equal(it))
}

/// The maximum age of a page that is sent again.
const WINDOW: Duration = Duration::from_millis(250);
/// The maximum number of renderings per window, more than scrapers need.
const RENDERINGS_MAX: usize = 16;

/// The newest page, and the renderings of the current window.
#[derive(Debug, Default)]
pub(crate) struct RecentPage {
    window: Mutex<Option<RenderWindow>>,
}

#[derive(Debug)]
struct RenderWindow {
    started_at: Instant,
    renderings: usize,
    page: Bytes,
}

impl RecentPage {
    /// Renders the page, or returns the newest one if the window has enough renderings.
    pub(crate) fn get(&self, now: Instant, render: impl FnOnce() -> String) -> Bytes {
        let mut window = self.window.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let current =
            window.as_ref().filter(|it| now.saturating_duration_since(it.started_at) < WINDOW);
        if let Some(current) = current.filter(|it| it.renderings >= RENDERINGS_MAX) {
            return current.page.clone();
        }
        let (started_at, renderings) =
            current.map_or((now, 0), |it| (it.started_at, it.renderings));
        let page = Bytes::from(render());
        let renderings = renderings.saturating_add(1);
        *window = Some(RenderWindow { started_at, renderings, page: page.clone() });
        page
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_localhost_and_configured_names_are_known_hosts() {
        let hosts = ["scrip.internal".to_owned()];
        let check = |uri: &str, host: Option<&str>, version: Version| {
            let mut builder = Request::builder().uri(uri).version(version);
            if let Some(host) = host {
                builder = builder.header(HOST, host);
            }
            let (head, ()) = builder.body(()).unwrap().into_parts();
            check_host(&head, &hosts)
        };
        let check_host_header = |host: &str| check("/metrics", Some(host), Version::HTTP_11);
        for host in [
            "127.0.0.1",
            "127.0.0.1:9464",
            "10.1.2.3:80",
            "[::1]:9464",
            "localhost",
            "LocalHost:9464",
            "scrip.internal:9464",
            "SCRIP.internal",
        ] {
            assert!(check_host_header(host).is_ok(), "{host}");
        }
        for host in [
            "attacker.example",
            "localhost.attacker.example",
            "127.0.0.1.attacker.example:9464",
            "internal",
            "scrip.internal.attacker.example",
        ] {
            assert!(matches!(check_host_header(host), Err(Problem::Misdirected)), "{host}");
        }
        assert!(matches!(check_host_header("a b"), Err(Problem::BadHeader(_))));
        let absolute = "http://attacker.example/metrics";
        let misdirected = check(absolute, Some("localhost"), Version::HTTP_11);
        assert!(matches!(misdirected, Err(Problem::Misdirected)));
        assert!(check("/metrics", None, Version::HTTP_10).is_ok());
        assert!(check("/metrics", None, Version::HTTP_11).is_err());
    }

    #[test]
    fn page_is_rendered_a_limited_number_of_times_per_window() {
        let recent_page = RecentPage::default();
        let mut renderings = 0;
        let mut get = |now| {
            recent_page.get(now, || {
                renderings += 1;
                renderings.to_string()
            })
        };
        let start = Instant::now();
        for count in 1..=RENDERINGS_MAX {
            assert_eq!(get(start), count.to_string());
        }
        for _ in 0..100 {
            assert_eq!(get(start + WINDOW / 2), RENDERINGS_MAX.to_string());
        }
        assert_eq!(get(start + WINDOW), (RENDERINGS_MAX + 1).to_string());
    }
}
