//! Its listener and its addresses.

use std::{future::Future, net::SocketAddr, sync::Arc, time::Duration};

use axum::{
    Router,
    body::Bytes,
    extract::{DefaultBodyLimit, Path, State},
    http::{StatusCode, header},
    middleware::{from_fn, from_fn_with_state},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use scrip_threeds::{code::Scheme, message::MESSAGE_BYTES_MAX};
use tokio::{net::TcpListener, sync::oneshot, task::JoinHandle, time::timeout};

use crate::{
    acs, directory,
    door::{check_host, check_json},
    knob::Knobs,
    settings::{Settings, Unusable},
    world::World,
};

/// What is in flight when it is to stop has this long.
const DRAIN: Duration = Duration::from_millis(500);
/// A form is a third longer than the message in it.
const BODY_BYTES_MAX: usize = MESSAGE_BYTES_MAX * 2;

/// A directory server for each scheme, and the bank behind all of them.
#[derive(Debug, Clone)]
pub struct Simulator {
    world: Arc<World>,
}

impl Simulator {
    /// The settings must name a base URL: nothing here knows where it will listen.
    pub fn new(settings: Settings) -> Result<Self, Unusable> {
        Ok(Self { world: Arc::new(World::new(settings)?) })
    }

    pub fn router(&self) -> Router {
        Router::new()
            .route("/sim/ds/{scheme}", post(directory::receive).layer(from_fn(check_json)))
            .route("/sim/acs/{scheme}/method", post(acs::receive_method))
            .route("/sim/acs/challenge", post(acs::receive_creq))
            .route("/sim/acs/challenge/{id}", post(acs::receive_answer))
            .route("/sim/acs/app", post(acs::receive_app))
            .route("/sim/acs/root.pem", get(root))
            .route("/sim/knobs", get(show).put(turn).delete(reset))
            .route("/sim/knobs/{scheme}", get(show).put(turn).delete(reset))
            .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
            .layer(from_fn_with_state(Arc::clone(&self.world), check_host))
            .with_state(Arc::clone(&self.world))
    }

    #[must_use]
    pub fn base_url(&self) -> &str {
        &self.world.base_url
    }

    /// Where a 3DS server sends its messages about the cards of a scheme.
    #[must_use]
    pub fn directory_url(&self, scheme: Scheme) -> String {
        format!("{}/sim/ds/{}", self.world.base_url, scheme.slug())
    }

    /// Serves until told to stop; what is in flight then has a moment.
    pub async fn serve(&self, listener: TcpListener, stop: impl Future<Output = ()>) {
        let (stopping, told) = oneshot::channel::<()>();
        // Told by the other end's going away.
        let graceful = async {
            drop(told.await);
        };
        let mut serving = tokio::spawn(
            // Without deadlines of its own: whoever connects here is testing.
            axum::serve(listener, self.router()).with_graceful_shutdown(graceful).into_future(),
        );
        tokio::select! {
            () = stop => (),
            _ = &mut serving => return,
        }
        drop(stopping);
        // A silence that a knob asked for would last longer.
        if timeout(DRAIN, &mut serving).await.is_err() {
            serving.abort();
        }
    }
}

/// A simulator that runs. It ends when this is dropped.
#[derive(Debug)]
pub struct Handle {
    simulator: Simulator,
    address: SocketAddr,
    /// Going away, it tells the task to stop.
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

/// Serves on a listener, which may have any free port: without a base URL in the settings its
/// address is used. Must be called within a runtime, which serves it.
pub fn start(listener: TcpListener, mut settings: Settings) -> Result<Handle, Unusable> {
    let address = listener.local_addr()?;
    settings.base_url.get_or_insert_with(|| format!("http://{address}"));
    let simulator = Simulator::new(settings)?;
    let (stop, stopped) = oneshot::channel();
    let served = simulator.clone();
    let task = tokio::spawn(async move {
        let stopped = async {
            drop(stopped.await);
        };
        served.serve(listener, stopped).await;
    });
    Ok(Handle { simulator, address, stop, task })
}

impl Handle {
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    #[must_use]
    pub fn base_url(&self) -> &str {
        self.simulator.base_url()
    }

    #[must_use]
    pub fn directory_url(&self, scheme: Scheme) -> String {
        self.simulator.directory_url(scheme)
    }

    /// Turns the knobs of all schemes, as `PUT /sim/knobs` does.
    pub fn turn(&self, knobs: Knobs) {
        self.simulator.world.set_knobs(None, knobs);
    }

    /// Lets what is in flight finish, and ends.
    pub async fn stop(self) {
        drop(self.stop);
        drop(timeout(DRAIN.saturating_mul(2), self.task).await);
    }
}

async fn root(State(world): State<Arc<World>>) -> Response {
    let kind = [(header::CONTENT_TYPE, "application/x-pem-file")];
    (kind, world.signer.root_pem().to_owned()).into_response()
}

/// Knobs of one scheme, or of all of them where the path names none.
type SchemePath = Option<Path<String>>;

fn scheme(path: SchemePath) -> Result<Option<Scheme>, StatusCode> {
    path.map(|Path(it)| Scheme::from_slug(&it).ok_or(StatusCode::NOT_FOUND)).transpose()
}

async fn show(State(world): State<Arc<World>>, path: SchemePath) -> Result<Response, StatusCode> {
    Ok(told(&world.knobs_of(scheme(path)?)))
}

/// All of them: what is not said is as if it were normal.
async fn turn(
    State(world): State<Arc<World>>,
    path: SchemePath,
    body: Bytes,
) -> Result<Response, StatusCode> {
    let scheme = scheme(path)?;
    Ok(match serde_json::from_slice::<Knobs>(&body) {
        Ok(knobs) => {
            world.set_knobs(scheme, knobs.clone());
            told(&knobs)
        }
        Err(error) => (StatusCode::BAD_REQUEST, error.to_string()).into_response(),
    })
}

async fn reset(State(world): State<Arc<World>>, path: SchemePath) -> Result<Response, StatusCode> {
    let scheme = scheme(path)?;
    world.reset_knobs(scheme);
    Ok(told(&world.knobs_of(scheme)))
}

fn told(knobs: &Knobs) -> Response {
    match serde_json::to_vec(knobs) {
        Ok(bytes) => ([(header::CONTENT_TYPE, "application/json")], bytes).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}
