//! A destination of proxied calls, on the thread of the vaults.
//!
//! The first segment of the path decides how it behaves. What it receives is compared between the
//! vaults. It never repeats the header and the attribute into which administrators put the
//! configuration of a proxy: what else it repeats, a browser may read.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex},
};

use serde_json::{Map, Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

/// The header into which administrators put the secret of the configuration.
pub(crate) const CONFIGURATION_HEADER: &str = "x-provider-key";
/// The attribute of the body into which administrators put the secret of the configuration.
pub(crate) const CONFIGURATION_ATTRIBUTE: &str = "provider";

/// How the destination answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DestinationKind {
    /// Like a provider of payments: with nothing of the request.
    Provider,
    /// With everything that the client sent.
    Echo,
    /// With the body as it arrived, and with the number in a header.
    Repeat,
    /// With an error.
    Decline,
    /// Closes the connection.
    HangUp,
}

impl DestinationKind {
    const ALL: [Self; 5] = [Self::Provider, Self::Echo, Self::Repeat, Self::Decline, Self::HangUp];

    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::Provider => "provider",
            Self::Echo => "echo",
            Self::Repeat => "repeat",
            Self::Decline => "decline",
            Self::HangUp => "hang-up",
        }
    }
}

/// A request as it arrived, without the configuration.
#[derive(Debug)]
struct ReceivedRequest {
    method: String,
    target: String,
    headers: Map<String, Value>,
    body: Value,
}

/// Headers that belong to the connection.
const CONNECTION_HEADERS: [&str; 3] = ["host", "content-length", "connection"];

impl ReceivedRequest {
    fn parse(head: &str, body: &[u8]) -> Self {
        let mut lines = head.split("\r\n");
        let mut words = lines.next().unwrap_or_default().split(' ');
        let mut next_word = || words.next().unwrap_or_default().to_owned();
        let (method, target) = (next_word(), next_word());
        let mut headers = Map::new();
        for (name, value) in lines.filter_map(|it| it.split_once(": ")) {
            let name = name.to_ascii_lowercase();
            if name != CONFIGURATION_HEADER && !CONNECTION_HEADERS.contains(&&*name) {
                let values = headers.entry(name).or_insert_with(|| json!([]));
                values.as_array_mut().unwrap().push(value.into());
            }
        }
        // A text that happens to be a number is no JSON message. Its spaces are compared, too.
        let message = serde_json::from_slice(body).ok();
        let message = message.filter(|it: &Value| it.is_object() || it.is_array());
        let text = || Value::String(String::from_utf8_lossy(body).into_owned());
        let mut body = message.unwrap_or_else(text);
        if let Some(object) = body.as_object_mut() {
            object.remove(CONFIGURATION_ATTRIBUTE);
        }
        Self { method, target, headers, body }
    }

    fn kind(&self) -> DestinationKind {
        let segment = self.target.split(['/', '?']).nth(1).unwrap_or_default();
        let kind = DestinationKind::ALL.into_iter().find(|it| it.path() == segment);
        kind.unwrap_or(DestinationKind::Provider)
    }

    fn to_json(&self) -> Value {
        let Self { method, target, headers, body } = self;
        json!({"method": method, "target": target, "headers": headers, "body": body})
    }

    /// The bytes of the answer; `None` if the connection is closed without one.
    fn answer(&self) -> Option<Vec<u8>> {
        let paid = json!({"id": "charge-1", "status": "paid", "number": "4111111111111111"});
        let number = self.body["number"].as_str().filter(|it| it.is_ascii() && it.len() < 64);
        let location = number.map(|it| format!("Location: /cards/{it}\r\n"));
        let (status, header, body) = match self.kind() {
            DestinationKind::Provider => ("200 OK", None, paid),
            DestinationKind::Echo => ("200 OK", None, self.to_json()),
            DestinationKind::Repeat => ("200 OK", location, self.body.clone()),
            DestinationKind::Decline => {
                ("402 Payment Required", None, json!({"error": "declined"}))
            }
            DestinationKind::HangUp => return None,
        };
        let (header, body) = (header.unwrap_or_default(), body.to_string());
        let length = body.len();
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: application/json\r\n{header}\
             Content-Length: {length}\r\n\r\n"
        );
        Some([head.as_bytes(), body.as_bytes()].concat())
    }
}

#[derive(Debug)]
pub(crate) struct Destination {
    pub(crate) address: SocketAddr,
    received: Arc<Mutex<Vec<Value>>>,
}

impl Destination {
    /// Starts a destination on the runtime of the caller.
    pub(crate) async fn start() -> Arc<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let received = Arc::<Mutex<Vec<Value>>>::default();
        let accepted = Arc::clone(&received);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve_connection(stream, Arc::clone(&accepted)));
            }
        });
        Arc::new(Self { address, received })
    }

    /// Takes the requests that arrived since the last call.
    pub(crate) fn take_received(&self) -> Vec<Value> {
        std::mem::take(&mut self.received.lock().unwrap())
    }
}

async fn serve_connection(mut stream: TcpStream, received: Arc<Mutex<Vec<Value>>>) {
    stream.set_nodelay(true).unwrap();
    let mut buffer = Vec::new();
    while let Some((head, body)) = read_request(&mut stream, &mut buffer).await {
        let request = ReceivedRequest::parse(&head, &body);
        received.lock().unwrap().push(request.to_json());
        let Some(answer) = request.answer() else { return };
        if stream.write_all(&answer).await.is_err() {
            return;
        }
    }
}

/// Reads one request with a known length; `None` at the end of the connection.
async fn read_request(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<(String, Vec<u8>)> {
    loop {
        let head_end = buffer.windows(4).position(|it| it == b"\r\n\r\n");
        if let Some(head_end) = head_end {
            let head = String::from_utf8_lossy(&buffer[..head_end]).into_owned();
            let body_start = head_end + 4;
            let body_end = body_start + content_length(&head);
            if buffer.len() >= body_end {
                let body = buffer[body_start..body_end].to_vec();
                buffer.drain(..body_end);
                return Some((head, body));
            }
        }
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
}

fn content_length(head: &str) -> usize {
    let headers = head.split("\r\n").filter_map(|it| it.split_once(": "));
    let mut lengths = headers.filter(|it| it.0.eq_ignore_ascii_case("content-length"));
    lengths.next().map_or(0, |it| it.1.parse().unwrap())
}
