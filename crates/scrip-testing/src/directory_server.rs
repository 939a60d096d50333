//! A directory server of the tests: it does as it is told, and remembers what it was asked.

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

/// What it does with a request, after it has read it.
#[derive(Debug, Clone)]
pub enum ServerBehavior {
    Json(Value),
    /// The same, with the id of the question put in.
    JsonWithTransactionId(Value),
    Bytes(Vec<u8>),
    Status(u16),
    RedirectTo(String),
    /// More and more, without a length.
    Endless,
    HangUp,
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
    /// The last one stays.
    behaviors: Mutex<VecDeque<ServerBehavior>>,
    received: Mutex<Vec<ReceivedRequest>>,
}

impl DirectoryServer {
    /// In clear without a configuration.
    pub fn start(
        runtime: &Handle,
        tls: Option<Arc<ServerConfig>>,
        behaviors: &[ServerBehavior],
    ) -> Self {
        let state = Arc::new(DirectoryServerState::default());
        state.behaviors.lock().unwrap().extend(behaviors.iter().cloned());
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let serving = Arc::clone(&state);
        runtime.spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (state, tls) = (Arc::clone(&serving), tls.clone());
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

    /// From the next request on.
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
    let asked: Value = serde_json::from_slice(&body).unwrap_or_default();
    let (path, content_type) = (head.uri.path().to_owned(), header("content-type"));
    state.received.lock().unwrap().push(ReceivedRequest {
        path,
        content_type,
        host: header("host"),
        body,
    });
    let manner = {
        let mut manners = state.behaviors.lock().unwrap();
        if manners.len() > 1 { manners.pop_front() } else { manners.front().cloned() }
    };
    let builder = Response::builder();
    let created = match manner.expect("a manner") {
        ServerBehavior::Json(it) => builder.body(full_body(serde_json::to_vec(&it).unwrap())),
        ServerBehavior::JsonWithTransactionId(mut it) => {
            it["threeDSServerTransID"] = asked["threeDSServerTransID"].clone();
            builder.body(full_body(serde_json::to_vec(&it).unwrap()))
        }
        ServerBehavior::Bytes(it) => builder.body(full_body(it)),
        ServerBehavior::Status(it) => builder.status(it).body(full_body(b"{}".to_vec())),
        ServerBehavior::RedirectTo(it) => {
            builder.status(307).header("location", it).body(full_body(Vec::new()))
        }
        ServerBehavior::Endless => {
            let piece = || Ok::<_, io::Error>(Frame::data(Bytes::from_static(&[b' '; 4096])));
            let pieces = stream::repeat_with(piece);
            builder.body(BodyExt::boxed(StreamBody::new(pieces)))
        }
        ServerBehavior::HangUp => return Err(io::Error::other("hung up")),
        ServerBehavior::Silent => pending().await,
    };
    Ok(created.unwrap())
}

/// Ranges, each of them given as the first and last number and what is to be done with it.
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
    let mut answer = json!({
        "messageType": "PRes", "messageVersion": "2.2.0",
        "dsTransID": "6fa459ea-ee8a-4ca4-894e-db77e160355e",
        "dsStartProtocolVersion": "2.1.0", "dsEndProtocolVersion": "2.2.0",
        "serialNum": serial,
    });
    if !ranges.is_empty() {
        answer["cardRangeData"] = ranges.into();
    }
    answer
}

pub fn error_message(code: &str) -> Value {
    json!({
        "messageType": "Erro", "messageVersion": "2.2.0", "errorCode": code,
        "errorComponent": "D", "errorDescription": "no", "errorDetail": "no",
        "errorMessageType": "PReq",
    })
}

/// What connects a vault to a scheme whose results come to this URL.
#[must_use]
pub fn scheme_connection(results_url: &str) -> SchemeConnection {
    SchemeConnection {
        reference_number: "3DS_LOA_SER_SCRP_020200_00001".to_owned(),
        operator_id: Some("10001".to_owned()),
        results_url: results_url.to_owned(),
    }
}
