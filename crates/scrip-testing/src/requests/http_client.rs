//! A blocking HTTP/1.1 client without TLS for tests. It reuses connections, reads every response to
//! its end, and follows no redirects.

use std::{
    io,
    sync::{Arc, LazyLock, Mutex, mpsc},
    time::Duration,
};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::{
    HeaderMap, Method, Request,
    body::Incoming,
    client::conn::http1::{SendRequest, handshake},
    header::{ACCEPT, CONTENT_TYPE, HOST, HeaderValue},
    http::request::Builder,
};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::{net::TcpStream, runtime::Runtime, time::timeout};

/// Far longer than any response takes: only a server that hangs reaches it.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(120);
/// A longer response body is an error.
const BODY_BYTES_MAX: usize = 16 << 20;
/// The client closes the oldest idle connection if it has more than these.
const IDLE_CONNECTIONS_MAX: usize = 3;
/// The time until a connection is reusable after the end of a response. It takes longer only if the
/// server responded without reading the request.
const REUSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Drives the connections of all clients on one thread. A caller waits on a channel, so that it may
/// itself run inside another runtime.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let builder = builder.worker_threads(1).thread_name("http-client").enable_all();
    builder.build().expect("start the runtime of the HTTP clients")
});

/// A client with its idle connections. Clones share the connections.
#[derive(Clone)]
pub struct BlockingClient {
    timeout: Duration,
    idle: Arc<Mutex<Vec<IdleConnection>>>,
}

struct IdleConnection {
    authority: String,
    sender: SendRequest<Full<Bytes>>,
}

impl Default for BlockingClient {
    fn default() -> Self {
        Self::with_timeout(DEFAULT_TIMEOUT)
    }
}

impl BlockingClient {
    /// Creates a client that waits at most this long for each complete response.
    pub fn with_timeout(timeout: Duration) -> Self {
        Self { timeout, idle: Arc::default() }
    }

    pub fn get(&self, url: impl AsRef<str>) -> ClientRequest {
        self.request("GET", url)
    }

    pub fn post(&self, url: impl AsRef<str>) -> ClientRequest {
        self.request("POST", url)
    }

    pub fn request(&self, method: &str, url: impl AsRef<str>) -> ClientRequest {
        let method = Method::from_bytes(method.as_bytes()).expect("a method");
        let builder = Request::builder().method(method).uri(url.as_ref());
        ClientRequest { client: self.clone(), builder, body: Bytes::new() }
    }

    /// Sends a request on an idle connection or a new one.
    async fn exchange(
        &self,
        authority: &str,
        mut request: Request<Full<Bytes>>,
    ) -> io::Result<ClientResponse> {
        loop {
            let idle_sender = self.take_idle(authority);
            let is_reused = idle_sender.is_some();
            let mut sender = match idle_sender {
                Some(sender) => sender,
                None => connect(authority).await?,
            };
            match sender.try_send_request(request).await {
                Ok(response) => {
                    let (parts, body) = response.into_parts();
                    let body = read_body(body).await?;
                    self.keep(authority, sender).await;
                    return Ok(ClientResponse {
                        status: parts.status.as_u16(),
                        headers: parts.headers,
                        body,
                    });
                }
                // The server closed the idle connection before any byte of the request was sent.
                Err(mut error) => match error.take_message() {
                    Some(unsent_request) if is_reused => request = unsent_request,
                    Some(_) | None => return Err(io::Error::other(error.into_error())),
                },
            }
        }
    }

    fn take_idle(&self, authority: &str) -> Option<SendRequest<Full<Bytes>>> {
        let mut idle = self.idle.lock().unwrap();
        idle.retain(|it| !it.sender.is_closed());
        let position = idle.iter().rposition(|it| it.authority == authority)?;
        Some(idle.remove(position).sender)
    }

    /// Keeps the connection for the next request if the server keeps it open.
    async fn keep(&self, authority: &str, mut sender: SendRequest<Full<Bytes>>) {
        if !matches!(timeout(REUSE_TIMEOUT, sender.ready()).await, Ok(Ok(()))) {
            return;
        }
        let mut idle = self.idle.lock().unwrap();
        if idle.len() == IDLE_CONNECTIONS_MAX {
            idle.remove(0);
        }
        idle.push(IdleConnection { authority: authority.to_owned(), sender });
    }
}

async fn connect(authority: &str) -> io::Result<SendRequest<Full<Bytes>>> {
    let stream = TcpStream::connect(authority).await?;
    stream.set_nodelay(true)?;
    let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    tokio::spawn(connection);
    Ok(sender)
}

async fn read_body(body: Incoming) -> io::Result<Bytes> {
    let body = Limited::new(body, BODY_BYTES_MAX).collect().await;
    Ok(body.map_err(io::Error::other)?.to_bytes())
}

/// A request before it is sent.
#[must_use]
pub struct ClientRequest {
    client: BlockingClient,
    builder: Builder,
    body: Bytes,
}

impl ClientRequest {
    /// Adds a header. A `Host` header replaces the host of the URL.
    pub fn header(mut self, name: &str, value: impl AsRef<str>) -> Self {
        self.builder = self.builder.header(name, value.as_ref());
        self
    }

    pub fn api_key(self, key: &str) -> Self {
        self.header("BT-API-KEY", key)
    }

    /// Sets the body without a content type.
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    pub fn json(self, body: &Value) -> Self {
        self.header(CONTENT_TYPE.as_str(), "application/json; charset=utf-8").body(body.to_string())
    }

    pub fn form(self, fields: &[(&str, &str)]) -> Self {
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        self.header(CONTENT_TYPE.as_str(), "application/x-www-form-urlencoded").body(body)
    }

    /// Sends the request. Panics without a complete response within the timeout. Any status is a
    /// response.
    #[track_caller]
    pub fn send(self) -> ClientResponse {
        match self.try_send() {
            Ok(response) => response,
            Err(error) => panic!("no response: {error}"),
        }
    }

    /// Sends the request. An error means that there was no complete response within the timeout.
    pub fn try_send(self) -> io::Result<ClientResponse> {
        let Self { client, builder, body } = self;
        let mut request = builder.body(Full::new(body)).map_err(io::Error::other)?;
        let url = request.uri().clone();
        let (Some("http"), Some(authority)) = (url.scheme_str(), url.authority()) else {
            return Err(io::Error::other(format!("{url} is not the URL of a server without TLS")));
        };
        let authority = authority.to_string();
        if !request.headers().contains_key(HOST) {
            let host = HeaderValue::from_str(&authority).map_err(io::Error::other)?;
            request.headers_mut().insert(HOST, host);
        }
        // Browsers always send this header, and the sessions of 3-D Secure depend on it.
        request.headers_mut().entry(ACCEPT).or_insert(HeaderValue::from_static("*/*"));
        let target = url.path_and_query().map_or("/", |it| it.as_str());
        *request.uri_mut() = target.parse().map_err(io::Error::other)?;
        let (result_sender, result_receiver) = mpsc::sync_channel(1);
        RUNTIME.spawn(async move {
            let result = timeout(client.timeout, client.exchange(&authority, request)).await;
            // The connection of a single request begins to close before the caller continues.
            drop(client);
            drop(result_sender.send(result.unwrap_or_else(|it| Err(it.into()))));
        });
        result_receiver.recv().map_err(io::Error::other)?
    }
}

/// A response with its complete body.
#[derive(Debug)]
pub struct ClientResponse {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl ClientResponse {
    /// The value of a header, `None` if it is missing or not text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    #[track_caller]
    pub fn text(&self) -> String {
        String::from_utf8(self.body.to_vec()).expect("UTF-8 text")
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("JSON")
    }

    /// Panics if the response has another status.
    #[track_caller]
    #[must_use]
    pub fn expect_status(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", String::from_utf8_lossy(&self.body));
        self
    }
}
