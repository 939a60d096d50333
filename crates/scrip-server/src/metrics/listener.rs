//! A listener for metrics alone: plain HTTP, one path, apart from the clients'. It answers while the
//! vault is sealed and while the server drains, and ends with the runtime.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::response::Response;
use hyper::{
    Method, Request,
    body::Incoming,
    header::{CACHE_CONTROL, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::{sleep, timeout},
};

use crate::{
    app::App,
    http::{problem::Problem, trace::TraceId},
    metrics::access::{self, MetricsKey},
    patience::Patient,
};

pub(crate) const PATH: &str = "/metrics";

/// Somebody scrapes, and perhaps a second one; whoever holds connections keeps out only his like.
const CONNECTIONS_MAX: usize = 32;
const DEADLINE: Duration = Duration::from_secs(30);
/// A scraper that keeps its connection may, for as long as this.
const CONNECTION_DEADLINE: Duration = Duration::from_secs(600);
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// With a key, it is asked for here too.
pub(crate) async fn serve(app: Arc<App>, listener: TcpListener, key: Option<MetricsKey>) {
    let key = Arc::new(key);
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "accept failed for metrics");
                sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let (app, key) = (Arc::clone(&app), Arc::clone(&key));
        tokio::spawn(async move {
            drop(timeout(CONNECTION_DEADLINE, connect(&app, stream, &key)).await);
            drop(permit);
        });
    }
}

async fn connect(app: &App, stream: TcpStream, key: &Option<MetricsKey>) {
    let stream = TokioIo::new(Patient::new(stream, DEADLINE));
    let service =
        service_fn(async |request| Ok::<_, Infallible>(answer(app, key.as_ref(), &request)));
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(DEADLINE).max_buf_size(HEAD_BYTES_MAX);
    // Whoever breaks off is no event of ours.
    drop(builder.serve_connection(stream, service).await);
}

fn answer(app: &App, key: Option<&MetricsKey>, request: &Request<Incoming>) -> Response {
    let trace = TraceId::of_headers(request.headers());
    let mut response = match (request.method(), request.uri().path()) {
        (&Method::GET | &Method::HEAD, PATH) => access::answer(app, key, request.headers(), &trace),
        (_, PATH) => Problem::MethodNotAllowed.response(&trace),
        _ => Problem::NoRoute.response(&trace),
    };
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
