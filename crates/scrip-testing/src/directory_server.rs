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
use scrip_core::threeds::Link;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
    runtime::Handle,
};
use tokio_rustls::TlsAcceptor;

/// What it does with a request, after it has read it.
#[derive(Debug, Clone)]
pub enum Manner {
    Answer(Value),
    /// The same, with the id of the question put in.
    Reply(Value),
    Bytes(Vec<u8>),
    Status(u16),
    RedirectTo(String),
    /// More and more, without a length.
    Endless,
    HangUp,
    Silent,
}

#[derive(Debug, Clone)]
pub struct Seen {
    pub path: String,
    pub content_type: String,
    pub host: String,
    pub body: Vec<u8>,
}

impl Seen {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

pub struct DirectoryServer {
    pub address: SocketAddr,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    /// The last one stays.
    manners: Mutex<VecDeque<Manner>>,
    seen: Mutex<Vec<Seen>>,
}

impl DirectoryServer {
    /// In clear without a configuration.
    pub fn start(runtime: &Handle, tls: Option<Arc<ServerConfig>>, manners: &[Manner]) -> Self {
        let state = Arc::new(State::default());
        state.manners.lock().unwrap().extend(manners.iter().cloned());
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

    pub fn seen(&self) -> Vec<Seen> {
        self.state.seen.lock().unwrap().clone()
    }

    /// From the next request on.
    pub fn set(&self, manners: &[Manner]) {
        *self.state.manners.lock().unwrap() = manners.iter().cloned().collect();
    }
}

async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin, state: Arc<State>) {
    let service = service_fn(async |request| answer(&state, request).await);
    drop(http1::Builder::new().serve_connection(TokioIo::new(stream), service).await);
}

type Body = BoxBody<Bytes, io::Error>;

fn whole(bytes: Vec<u8>) -> Body {
    BodyExt::boxed(Full::new(Bytes::from(bytes)).map_err(|it| match it {}))
}

async fn answer(state: &State, request: Request<Incoming>) -> Result<Response<Body>, io::Error> {
    let (head, body) = request.into_parts();
    let header = |name| head.headers.get(name).map_or("", |it| it.to_str().unwrap()).to_owned();
    let body = body.collect().await.map_err(io::Error::other)?.to_bytes().to_vec();
    let asked: Value = serde_json::from_slice(&body).unwrap_or_default();
    let (path, content_type) = (head.uri.path().to_owned(), header("content-type"));
    state.seen.lock().unwrap().push(Seen { path, content_type, host: header("host"), body });
    let manner = {
        let mut manners = state.manners.lock().unwrap();
        if manners.len() > 1 { manners.pop_front() } else { manners.front().cloned() }
    };
    let builder = Response::builder();
    let made = match manner.expect("a manner") {
        Manner::Answer(it) => builder.body(whole(serde_json::to_vec(&it).unwrap())),
        Manner::Reply(mut it) => {
            it["threeDSServerTransID"] = asked["threeDSServerTransID"].clone();
            builder.body(whole(serde_json::to_vec(&it).unwrap()))
        }
        Manner::Bytes(it) => builder.body(whole(it)),
        Manner::Status(it) => builder.status(it).body(whole(b"{}".to_vec())),
        Manner::RedirectTo(it) => {
            builder.status(307).header("location", it).body(whole(Vec::new()))
        }
        Manner::Endless => {
            let piece = || Ok::<_, io::Error>(Frame::data(Bytes::from_static(&[b' '; 4096])));
            let pieces = stream::repeat_with(piece);
            builder.body(BodyExt::boxed(StreamBody::new(pieces)))
        }
        Manner::HangUp => return Err(io::Error::other("hung up")),
        Manner::Silent => pending().await,
    };
    Ok(made.unwrap())
}

/// Ranges, each of them given as the first and last number and what is to be done with it.
pub fn ranges(serial: &str, ranges: &[(&str, &str, &str)]) -> Value {
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

pub fn erro(code: &str) -> Value {
    json!({
        "messageType": "Erro", "messageVersion": "2.2.0", "errorCode": code,
        "errorComponent": "D", "errorDescription": "no", "errorDetail": "no",
        "errorMessageType": "PReq",
    })
}

/// What connects a vault to a scheme whose results come to this URL.
#[must_use]
pub fn link_with(results_url: &str) -> Link {
    Link {
        reference_number: "3DS_LOA_SER_SCRP_020200_00001".to_owned(),
        operator_id: Some("10001".to_owned()),
        results_url: results_url.to_owned(),
    }
}
