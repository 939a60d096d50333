//! The HTTP reference: an axum server with the same routes that does no work.

use std::{io::Read, net::Ipv4Addr};

use axum::{
    Router,
    body::Bytes,
    http::{StatusCode, header::CONTENT_TYPE},
    routing::{get, post},
    serve::ListenerExt,
};
use tokio::net::TcpListener;

use crate::harness::{output::print, script::IdText};

const JSON: [(axum::http::HeaderName, &str); 1] = [(CONTENT_TYPE, "application/json")];

/// A response with the length of a card token response, and with an id at the same position.
const RESPONSE: &str = concat!(
    r#"{"id":"00000000-0000-4000-8000-000000000000","type":"card","filler":""#,
    "....................................................................................................",
    "....................................................................................................",
    "....................................................................................................",
    "....................................................................................................",
    "....................................................................................................",
    "............................",
    r#""}"#
);

/// An id for read requests. Any id works.
pub(crate) const SAMPLE_ID: IdText = *b"00000000-0000-4000-8000-000000000000";

/// Runs the server until its standard input is closed, so that it ends with the process that
/// started it.
pub(crate) fn serve() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        print(&format!("{{\"url\":\"http://{}\"}}", listener.local_addr()?))?;
        let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
        let router = Router::new()
            .route("/tokens", post(async |_body: Bytes| (StatusCode::CREATED, JSON, RESPONSE)))
            .route("/tokens/{id}", get(async || (JSON, RESPONSE)));
        let server = axum::serve(listener, router).into_future();
        let wait_for_input_end =
            tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new()));
        tokio::select! {
            outcome = server => outcome?,
            _ = wait_for_input_end => (),
        }
        Ok(())
    })
}
