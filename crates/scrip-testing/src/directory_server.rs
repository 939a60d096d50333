//! A scripted directory server for tests that records its requests.

pub mod authority;

use std::{
    collections::VecDeque,
    future::pending,
    io,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use futures_util::stream;
use http_body_util::{BodyExt, Full, StreamBody, combinators::BoxBody};
use hyper::{
    Request, Response,
    body::{Frame, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use scrip_core::threeds::SchemeConnection;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
    runtime::Handle,
};
use tokio_rustls::TlsAcceptor;

/// The reaction of the server after it has read a request completely.
#[derive(Debug, Clone)]
pub enum ServerBehavior {
    Json(Value),
    /// A JSON response with the transaction id of the request inserted.
    JsonWithTransactionId(Value),
    Bytes(Vec<u8>),
    Status(u16),
    RedirectTo(String),
    /// Responds with an endless body without a length.
    Endless,
    /// Closes the connection without a response.
    HangUp,
    /// Never responds and keeps the connection open.
    Silent,
}

#[derive(Debug, Clone)]
pub struct ReceivedRequest {
    pub path: String,
    pub content_type: String,
    pub host: String,
    pub body: Vec<u8>,
}

impl ReceivedRequest {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

pub struct DirectoryServer {
    pub address: SocketAddr,
    state: Arc<DirectoryServerState>,
}

#[derive(Default)]
struct DirectoryServerState {
    /// One behavior per request. The last one is repeated.
    behaviors: Mutex<VecDeque<ServerBehavior>>,
    received: Mutex<Vec<ReceivedRequest>>,
}

impl DirectoryServer {
    /// Starts a server. Without a TLS configuration it uses plain HTTP.
    pub fn start(
        runtime: &Handle,
        tls: Option<Arc<ServerConfig>>,
        behaviors: &[ServerBehavior],
    ) -> Self {
        let state = Arc::new(DirectoryServerState::default());
        state.behaviors.lock().unwrap().extend(behaviors.iter().cloned());
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let server_state = Arc::clone(&state);
        runtime.spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (state, tls) = (Arc::clone(&server_state), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        None => serve(stream, state).await,
                        Some(tls) => {
                            let Ok(stream) = TlsAcceptor::from(tls).accept(stream).await else {
                                return;
                            };
                            serve(stream, state).await;
                        }
                    }
                });
            }
        });
        Self { address, state }
    }

    pub fn url(&self) -> String {
        format!("https://{}/ds", self.address)
    }

    pub fn received_requests(&self) -> Vec<ReceivedRequest> {
        self.state.received.lock().unwrap().clone()
    }

    /// Sets the behaviors for the next requests.
    pub fn set_behaviors(&self, behaviors: &[ServerBehavior]) {
        *self.state.behaviors.lock().unwrap() = behaviors.iter().cloned().collect();
    }
}

async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin, state: Arc<DirectoryServerState>) {
    let service = service_fn(async |request| respond(&state, request).await);
    drop(http1::Builder::new().serve_connection(TokioIo::new(stream), service).await);
}

type ResponseBody = BoxBody<Bytes, io::Error>;

fn full_body(bytes: Vec<u8>) -> ResponseBody {
    BodyExt::boxed(Full::new(Bytes::from(bytes)).map_err(|it| match it {}))
}

async fn respond(
    state: &DirectoryServerState,
    request: Request<Incoming>,
) -> Result<Response<ResponseBody>, io::Error> {
    let (head, body) = request.into_parts();
    let header = |name| head.headers.get(name).map_or("", |it| it.to_str().unwrap()).to_owned();
    let body = body.collect().await.map_err(io::Error::other)?.to_bytes().to_vec();
    let message: Value = serde_json::from_slice(&body).unwrap_or_default();
    let (path, content_type) = (head.uri.path().to_owned(), header("content-type"));
    state.received.lock().unwrap().push(ReceivedRequest {
        path,
        content_type,
        host: header("host"),
        body,
    });
    let behavior = {
        let mut behaviors = state.behaviors.lock().unwrap();
        if behaviors.len() > 1 { behaviors.pop_front() } else { behaviors.front().cloned() }
    };
    let builder = Response::builder();
    let response = match behavior.expect("a behavior") {
        ServerBehavior::Json(it) => builder.body(full_body(serde_json::to_vec(&it).unwrap())),
        ServerBehavior::JsonWithTransactionId(mut it) => {
            it["threeDSServerTransID"] = message["threeDSServerTransID"].clone();
            builder.body(full_body(serde_json::to_vec(&it).unwrap()))
        }
        ServerBehavior::Bytes(it) => builder.body(full_body(it)),
        ServerBehavior::Status(it) => builder.status(it).body(full_body(b"{}".to_vec())),
        ServerBehavior::RedirectTo(it) => {
            builder.status(307).header("location", it).body(full_body(Vec::new()))
        }
        ServerBehavior::Endless => {
            let next_frame = || Ok::<_, io::Error>(Frame::data(Bytes::from_static(&[b' '; 4096])));
            let frames = stream::repeat_with(next_frame);
            builder.body(BodyExt::boxed(StreamBody::new(frames)))
        }
        ServerBehavior::HangUp => return Err(io::Error::other("hung up")),
        ServerBehavior::Silent => pending().await,
    };
    Ok(response.unwrap())
}

/// A response with card ranges, each given as first number, last number and action.
pub fn card_ranges_response(serial: &str, ranges: &[(&str, &str, &str)]) -> Value {
    let ranges: Vec<_> = ranges
        .iter()
        .map(|(start, end, action)| {
            json!({
                "startRange": start, "endRange": end, "actionInd": action,
                "acsStartProtocolVersion": "2.1.0", "acsEndProtocolVersion": "2.2.0",
            })
        })
        .collect();
    let mut response = json!({
        "messageType": "PRes", "messageVersion": "2.2.0",
        "dsTransID": "6fa459ea-ee8a-4ca4-894e-db77e160355e",
        "dsStartProtocolVersion": "2.1.0", "dsEndProtocolVersion": "2.2.0",
        "serialNum": serial,
    });
    if !ranges.is_empty() {
        response["cardRangeData"] = ranges.into();
    }
    response
}

pub fn error_message(code: &str) -> Value {
    json!({
        "messageType": "Erro", "messageVersion": "2.2.0", "errorCode": code,
        "errorComponent": "D", "errorDescription": "no", "errorDetail": "no",
        "errorMessageType": "PReq",
    })
}

/// The connection of a vault to a scheme with this results URL.
pub fn scheme_connection(results_url: &str) -> SchemeConnection {
    SchemeConnection {
        reference_number: "3DS_LOA_SER_SCRP_020200_00001".to_owned(),
        operator_id: Some("10001".to_owned()),
        results_url: results_url.to_owned(),
    }
}
