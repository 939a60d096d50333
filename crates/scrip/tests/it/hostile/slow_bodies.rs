//! A request body that arrives after the server could already answer: the connection stays usable,
//! or the answer says `Connection: close`.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use scrip_api::limiter::Limiter;
use scrip_core::policy::Settings;
use scrip_server::metrics::key::MetricsKey;
use serde_json::json;

use crate::harness::server::{SHARED, Server, text};

/// Long enough to be answered by a server that does not wait for the body.
const DELAY: Duration = Duration::from_millis(300);

struct Case {
    name: &'static str,
    address: SocketAddr,
    /// Method, path and headers, without the length.
    head: String,
    status: u16,
}

impl Case {
    fn new(name: &'static str, server: &Server, head: &str, status: u16) -> Self {
        Self { name, address: server.address, head: head.replace('\n', "\r\n"), status }
    }

    /// Both answers: to a request with a late body, and to the next one on that connection.
    fn answers(&self) -> String {
        let body = r#"{"type":"token","data":1}"#;
        let (line, headers) = self.head.split_once("\r\n").unwrap_or((&self.head, ""));
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let separator = if headers.is_empty() { "" } else { "\r\n" };
        let length = body.len();
        let head = format!(
            "{line} HTTP/1.1\r\nHost: x\r\n{headers}{separator}Content-Length: {length}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        std::thread::sleep(DELAY);
        let next = "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        // A connection that was closed without notice may refuse these bytes.
        drop(stream.write_all(format!("{body}{next}").as_bytes()));
        let mut answers = Vec::new();
        drop(stream.read_to_end(&mut answers));
        String::from_utf8(answers).unwrap()
    }

    fn check(&self) {
        let answers = self.answers();
        let name = self.name;
        let expected = format!("HTTP/1.1 {} ", self.status);
        assert!(answers.starts_with(&expected), "{name}: {answers}");
        let (first, rest) = answers.split_once("\r\n\r\n").unwrap();
        let says_close = first.to_ascii_lowercase().contains("connection: close");
        assert!(says_close || rest.contains("HTTP/1.1 200 OK"), "{name}: {answers}");
    }
}

fn keyed(key: &str, line: &str) -> String {
    format!("{line}\nBT-API-KEY: {key}\nContent-Type: application/json")
}

fn refusals(keys: &crate::harness::server::Keys) -> Vec<Case> {
    let (private, public) = (keys.private.as_str(), keys.public.as_str());
    let shared = |name, head: &str, status| Case::new(name, &SHARED, head, status);
    let json = "Content-Type: application/json";
    let twice = format!("POST /tokens\nBT-API-KEY: {private}\nBT-API-KEY: {private}\n{json}");
    let plain = format!("POST /tokens\nBT-API-KEY: {private}\nContent-Type: text/plain");
    let notification = "POST /3ds/sessions/x/method-notification\nContent-Type: text/plain";
    vec![
        shared("header sent twice", &twice, 400),
        shared("no key", &format!("POST /tokens\n{json}"), 401),
        shared("unknown key", &keyed("unknown", "POST /tokens"), 401),
        shared("permission missing", &keyed(public, "POST /applications"), 403),
        shared("unknown path", "POST /nowhere", 404),
        shared("unknown token", &keyed(private, "DELETE /tokens/none"), 404),
        shared("method not allowed", "PUT /tokens/x", 405),
        shared("probe with a wrong method", "POST /healthz", 405),
        shared("removed operation", &keyed(private, "POST /applications/x/regenerate"), 410),
        shared("wrong content type", &plain, 415),
        shared("notification of a wrong content type", notification, 415),
    ]
}

fn successes(keys: &crate::harness::server::Keys) -> Vec<Case> {
    let shared = |name, head: &str, status| Case::new(name, &SHARED, head, status);
    let body = json!({"name": "x", "type": "private", "permissions": ["token:read"]});
    let made = SHARED.post(&keys.management, "/applications", &body).is(201);
    let keys_path = format!("POST /applications/{}/keys", text(&made, "id"));
    let token = json!({"type": "token", "data": 1});
    let first = SHARED.ask("POST", "/tokens").key(&keys.private).once("slow-replay");
    first.json(&token).send().is(201);
    let replay = keyed(&keys.private, "POST /tokens\nBT-IDEMPOTENCY-KEY: slow-replay");
    vec![
        shared("idempotent replay", &replay, 201),
        shared("operation that ignores its body", &keyed(&keys.management, &keys_path), 201),
        shared("operation without a body", &keyed(&keys.public, "POST /sessions"), 201),
        shared("read", &keyed(&keys.private, "GET /permissions"), 200),
        shared("health probe", "GET /healthz", 200),
        shared("readiness probe", "GET /readyz", 200),
        shared("documentation", "GET /docs", 200),
        shared("preflight", "OPTIONS /tokens", 204),
    ]
}

#[test]
fn late_request_body_leaves_connection_usable_after_every_early_answer() {
    let keys = SHARED.tenant(Settings::default());
    let mut cases = refusals(&keys);
    cases.extend(successes(&keys));

    // The first request keeps its idempotency key until its body is there.
    let mut pending = TcpStream::connect(SHARED.address).unwrap();
    let conflict = keyed(&keys.private, "POST /tokens\nBT-IDEMPOTENCY-KEY: slow-conflict");
    let (line, headers) = conflict.split_once('\n').unwrap();
    let headers = headers.replace('\n', "\r\n");
    let head = format!("{line} HTTP/1.1\r\nHost: x\r\n{headers}\r\nContent-Length: 9\r\n\r\n");
    pending.write_all(head.as_bytes()).unwrap();
    cases.push(Case::new("idempotency key in use", &SHARED, &conflict, 409));

    let small = Server::with(|app| app.limits.body_bytes_max = 8);
    let small_keys = small.tenant(Settings::default());
    let create = keyed(&small_keys.private, "POST /tokens");
    cases.push(Case::new("body too large", &small, &create, 413));

    let limited = Server::with(|app| app.limiter = Limiter::default());
    let limited_keys = limited.tenant(Settings::default());
    let throttled = || limited.fetch(&limited_keys.private, "/permissions").status == 429;
    assert!((0..1000).any(|_| throttled()));
    let create = keyed(&limited_keys.private, "POST /tokens");
    cases.push(Case::new("rate limit", &limited, &create, 429));

    let metrics = "the-key-of-the-operator";
    let sealed = Server::with(|app| {
        app.node.metrics_key = Some(MetricsKey::parse(metrics).unwrap());
        app.directory.store(None);
    });
    cases.push(Case::new("sealed vault", &sealed, &keyed("any", "POST /tokens"), 503));
    cases.push(Case::new("metrics without key", &sealed, "GET /metrics", 401));
    let with_key = format!("GET /metrics\nAuthorization: Bearer {metrics}");
    cases.push(Case::new("metrics", &sealed, &with_key, 200));

    let hasty = Server::with(|app| app.limits.body_deadline = Duration::from_millis(50));
    let hasty_keys = hasty.tenant(Settings::default());
    let create = keyed(&hasty_keys.private, "POST /tokens");
    cases.push(Case::new("body deadline", &hasty, &create, 408));

    // All at once: each of them waits.
    std::thread::scope(|scope| {
        let running: Vec<_> = cases.iter().map(|it| scope.spawn(|| it.check())).collect();
        let failed: Vec<_> = running.into_iter().filter_map(|it| it.join().err()).collect();
        assert!(failed.is_empty(), "{} of {} cases failed", failed.len(), cases.len());
    });
}
