//! The listener and the routes.

use std::{
    future::Future,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use axum::{
    Router,
    body::Bytes,
    extract::{DefaultBodyLimit, Path, Request, State},
    http::{StatusCode, header, uri::Authority},
    middleware::{Next, from_fn, from_fn_with_state},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use scrip_threeds::{code::Scheme, message::MESSAGE_BYTES_MAX};
use tokio::{net::TcpListener, sync::oneshot, task::JoinHandle, time::timeout};

use crate::{
    acs,
    behavior::SimulatedBehavior,
    directory,
    settings::{SimulatorSettings, StartError},
    state::SimulatorState,
};

/// Time for in-flight requests after the stop signal.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(500);
/// A base64url form field is one third longer than the message in it.
const BODY_BYTES_MAX: usize = MESSAGE_BYTES_MAX * 2;

/// A directory server for each scheme, and one ACS for all of them.
#[derive(Debug, Clone)]
pub struct Simulator {
    state: Arc<SimulatorState>,
}

impl Simulator {
    /// The settings must contain a base URL, because the listen address is not known here.
    pub fn new(settings: SimulatorSettings) -> Result<Self, StartError> {
        Ok(Self { state: Arc::new(SimulatorState::new(settings)?) })
    }

    pub fn router(&self) -> Router {
        Router::new()
            .route("/sim/ds/{scheme}", post(directory::receive).layer(from_fn(check_json)))
            .route("/sim/acs/{scheme}/method", post(acs::receive_method))
            .route("/sim/acs/challenge", post(acs::receive_creq))
            .route("/sim/acs/challenge/{id}", post(acs::receive_action))
            .route("/sim/acs/app", post(acs::receive_app))
            .route("/sim/acs/root.pem", get(get_root_certificate))
            .route(
                "/sim/behavior",
                get(get_common_behavior).put(put_common_behavior).delete(reset_common_behavior),
            )
            .route(
                "/sim/behavior/{scheme}",
                get(get_common_behavior).put(put_common_behavior).delete(reset_common_behavior),
            )
            .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
            .layer(from_fn_with_state(Arc::clone(&self.state), check_host))
            .with_state(Arc::clone(&self.state))
    }

    pub fn base_url(&self) -> &str {
        &self.state.base_url
    }

    /// Where a 3DS server sends its messages about the cards of a scheme.
    pub fn directory_url(&self, scheme: Scheme) -> String {
        format!("{}/sim/ds/{}", self.state.base_url, scheme.slug())
    }

    /// Serves until `stop` completes, then waits briefly for in-flight requests.
    pub async fn serve(&self, listener: TcpListener, stop: impl Future<Output = ()>) {
        let (shutdown_sender, shutdown_receiver) = oneshot::channel::<()>();
        // Completes when the sender is dropped.
        let graceful = async {
            drop(shutdown_receiver.await);
        };
        let mut serving = tokio::spawn(
            // Without timeouts: only tests connect here.
            axum::serve(listener, self.router()).with_graceful_shutdown(graceful).into_future(),
        );
        tokio::select! {
            () = stop => (),
            _ = &mut serving => return,
        }
        drop(shutdown_sender);
        // A simulated silence would last longer.
        if timeout(DRAIN_TIMEOUT, &mut serving).await.is_err() {
            serving.abort();
        }
    }
}

/// A running simulator. It stops when the handle is dropped.
#[derive(Debug)]
pub struct SimulatorHandle {
    simulator: Simulator,
    address: SocketAddr,
    /// Dropping the sender stops the task.
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

/// Serves on a listener, which may have any free port. Without a base URL in the settings, the
/// listen address is used. Must be called within a runtime, which runs the server.
pub fn start(
    listener: TcpListener,
    mut settings: SimulatorSettings,
) -> Result<SimulatorHandle, StartError> {
    let address = listener.local_addr()?;
    settings.base_url.get_or_insert_with(|| format!("http://{address}"));
    let simulator = Simulator::new(settings)?;
    let (stop, stopped) = oneshot::channel();
    let served_simulator = simulator.clone();
    let task = tokio::spawn(async move {
        let stopped = async {
            drop(stopped.await);
        };
        served_simulator.serve(listener, stopped).await;
    });
    Ok(SimulatorHandle { simulator, address, stop, task })
}

impl SimulatorHandle {
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn base_url(&self) -> &str {
        self.simulator.base_url()
    }

    pub fn directory_url(&self, scheme: Scheme) -> String {
        self.simulator.directory_url(scheme)
    }

    /// Sets the behavior of all schemes, like the HTTP endpoint of the behavior.
    pub fn set_behavior(&self, behavior: SimulatedBehavior) {
        self.simulator.state.set_behavior(None, behavior);
    }

    /// Waits briefly for in-flight requests, then stops.
    pub async fn stop(self) {
        drop(self.stop);
        drop(timeout(DRAIN_TIMEOUT.saturating_mul(2), self.task).await);
    }
}

async fn get_root_certificate(State(state): State<Arc<SimulatorState>>) -> Response {
    let content_type = [(header::CONTENT_TYPE, "application/x-pem-file")];
    match state.signer() {
        Ok(signer) => (content_type, signer.root_pem().to_owned()).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

/// The scheme in the path. `None` addresses all schemes.
type SchemePath = Option<Path<String>>;

fn scheme(path: SchemePath) -> Result<Option<Scheme>, StatusCode> {
    path.map(|Path(it)| Scheme::from_slug(&it).ok_or(StatusCode::NOT_FOUND)).transpose()
}

async fn get_common_behavior(
    State(state): State<Arc<SimulatorState>>,
    path: SchemePath,
) -> Result<Response, StatusCode> {
    Ok(behavior_response(&state.behavior_for(scheme(path)?)))
}

/// Replaces the whole behavior: attributes that are absent become normal.
async fn put_common_behavior(
    State(state): State<Arc<SimulatorState>>,
    path: SchemePath,
    body: Bytes,
) -> Result<Response, StatusCode> {
    let scheme = scheme(path)?;
    Ok(match serde_json::from_slice::<SimulatedBehavior>(&body) {
        Ok(behavior) => {
            state.set_behavior(scheme, behavior.clone());
            behavior_response(&behavior)
        }
        Err(error) => (StatusCode::BAD_REQUEST, error.to_string()).into_response(),
    })
}

async fn reset_common_behavior(
    State(state): State<Arc<SimulatorState>>,
    path: SchemePath,
) -> Result<Response, StatusCode> {
    let scheme = scheme(path)?;
    state.reset_behavior(scheme);
    Ok(behavior_response(&state.behavior_for(scheme)))
}

fn behavior_response(behavior: &SimulatedBehavior) -> Response {
    match serde_json::to_vec(behavior) {
        Ok(bytes) => ([(header::CONTENT_TYPE, "application/json")], bytes).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// Accepts requests to a loopback address or to the host of the base URL.
pub(crate) async fn check_host(
    State(state): State<Arc<SimulatorState>>,
    request: Request,
    next: Next,
) -> Response {
    let header = || request.headers().get(header::HOST).and_then(|it| it.to_str().ok());
    let requested_host = request.uri().authority().map(|it| it.as_str()).or_else(header);
    if requested_host.is_some_and(|it| is_own_host(it, &state.base_url)) {
        return next.run(request).await;
    }
    (StatusCode::MISDIRECTED_REQUEST, "this host name does not belong to the simulator")
        .into_response()
}

/// A cross-origin page can post text without a preflight request, but not JSON.
pub(crate) async fn check_json(request: Request, next: Next) -> Response {
    let content_type = request.headers().get(header::CONTENT_TYPE).and_then(|it| it.to_str().ok());
    let content_type = content_type.and_then(|it| it.split(';').next()).unwrap_or_default().trim();
    if content_type.eq_ignore_ascii_case("application/json") {
        return next.run(request).await;
    }
    (StatusCode::UNSUPPORTED_MEDIA_TYPE, "messages must be application/json").into_response()
}

fn is_own_host(authority: &str, base_url: &str) -> bool {
    let Ok(parsed) = authority.parse::<Authority>() else { return false };
    let host = parsed.host().to_ascii_lowercase();
    let unbracketed = host.trim_start_matches('[').trim_end_matches(']');
    let is_loopback = unbracketed.parse::<IpAddr>().is_ok_and(|it| it.to_canonical().is_loopback());
    let own_authority =
        base_url.split_once("://").map(|(_, it)| it.split('/').next().unwrap_or_default());
    is_loopback
        || host == "localhost"
        || own_authority.is_some_and(|it| it.eq_ignore_ascii_case(authority))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_and_base_url_hosts_are_accepted() {
        let base = "http://sim.example:4243/sandbox";
        for host in ["127.0.0.1:1", "localhost", "LOCALHOST:4243", "[::1]:4243", "Sim.example:4243"]
        {
            assert!(is_own_host(host, base), "{host}");
        }
        for host in ["", "sim.example", "evil.example:4243", "127.0.0.1.evil.example", "192.0.2.1"]
        {
            assert!(!is_own_host(host, base), "{host}");
        }
    }
}
