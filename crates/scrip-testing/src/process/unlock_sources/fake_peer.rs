//! HTTP servers on this machine that answer as a test requires.

use std::{
    collections::VecDeque,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{
    HeaderMap, Request, Response, body::Incoming, server::conn::http1, service::service_fn,
};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::{
    net::{TcpListener, TcpStream},
    time::sleep,
};

/// A request that the server received.
#[derive(Debug, Clone)]
pub struct PeerRequest {
    pub method: String,
    pub path: String,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl PeerRequest {
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |it| it.to_str().unwrap())
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

/// Status and body.
pub type Reply = (u16, String);

/// A server with a function as its behavior.
#[derive(Debug, Clone)]
pub struct FakePeer {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<PeerRequest>>>,
}

impl FakePeer {
    pub async fn start(answer: impl Fn(&PeerRequest) -> Reply + Send + Sync + 'static) -> Self {
        Self::start_delayed(move |request| (Duration::ZERO, answer(request))).await
    }

    /// The function also returns how long the answer takes.
    pub async fn start_delayed(
        answer: impl Fn(&PeerRequest) -> (Duration, Reply) + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let peer = Self { address: listener.local_addr().unwrap(), requests: Arc::default() };
        let requests = Arc::clone(&peer.requests);
        let answer = Arc::new(answer);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (answer, requests) = (Arc::clone(&answer), Arc::clone(&requests));
                tokio::spawn(async move {
                    let service = service_fn(move |request| {
                        let (answer, requests) = (Arc::clone(&answer), Arc::clone(&requests));
                        async move {
                            let request = read_request(request).await;
                            let (delay, (status, body)) = answer(&request);
                            requests.lock().unwrap().push(request);
                            sleep(delay).await;
                            let response = Response::builder().status(status);
                            response.body(Full::new(Bytes::from(body)))
                        }
                    });
                    let connection = http1::Builder::new();
                    drop(connection.serve_connection(TokioIo::new(stream), service).await);
                });
            }
        });
        peer
    }

    /// Sends these replies in order, then the last one again.
    pub async fn with_replies(replies: Vec<Reply>) -> Self {
        let replies = Mutex::new(VecDeque::from(replies));
        Self::start(move |_| {
            let mut replies = replies.lock().unwrap();
            if replies.len() > 1 { replies.pop_front() } else { replies.front().cloned() }.unwrap()
        })
        .await
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn requests(&self) -> Vec<PeerRequest> {
        self.requests.lock().unwrap().clone()
    }
}

async fn read_request(request: Request<Incoming>) -> PeerRequest {
    let (head, body) = request.into_parts();
    PeerRequest {
        method: head.method.to_string(),
        path: head.uri.to_string(),
        headers: head.headers,
        body: body.collect().await.unwrap().to_bytes().to_vec(),
    }
}

/// Accepts connections and gives each to a function. Returns the URL.
pub async fn start_raw_peer<F>(handle: impl Fn(TcpStream) -> F + Send + Sync + 'static) -> String
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(handle(stream));
        }
    });
    url
}
