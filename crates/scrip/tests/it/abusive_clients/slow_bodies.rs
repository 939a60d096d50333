//! A request body that arrives after the server could already answer: the connection stays usable,
//! or the answer says `Connection: close`.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use scrip_api::limiter::Limiter;
use scrip_core::policy::TenantSettings;
use scrip_server::metrics::key::MetricsKey;
use serde_json::json;

use crate::harness::server::{SHARED_SERVER, TestServer, text_field};

/// Long enough to be answered by a server that does not wait for the body.
const DELAY: Duration = Duration::from_millis(300);

struct LateBodyCase {
    name: &'static str,
    address: SocketAddr,
    /// Method, path and headers, without the length.
    head: String,
    status: u16,
}

impl LateBodyCase {
    fn new(name: &'static str, server: &TestServer, head: &str, status: u16) -> Self {
        Self { name, address: server.address, head: head.replace('\n', "\r\n"), status }
    }

    /// Both answers: to a request with a late body, and to the next one on that connection.
    fn responses(&self) -> String {
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
        let mut responses = Vec::new();
        drop(stream.read_to_end(&mut responses));
        String::from_utf8(responses).unwrap()
    }

    fn check(&self) {
        let responses = self.responses();
        let name = self.name;
        let expected = format!("HTTP/1.1 {} ", self.status);
        assert!(responses.starts_with(&expected), "{name}: {responses}");
        let (first, rest) = responses.split_once("\r\n\r\n").unwrap();
        let says_close = first.to_ascii_lowercase().contains("connection: close");
        assert!(says_close || rest.contains("HTTP/1.1 200 OK"), "{name}: {responses}");
    }
}

fn keyed_head(key: &str, line: &str) -> String {
    format!("{line}\nBT-API-KEY: {key}\nContent-Type: application/json")
}

fn rejected_cases(keys: &crate::harness::server::TenantApiKeys) -> Vec<LateBodyCase> {
    let (private, public) = (keys.private.as_str(), keys.public.as_str());
    let shared = |name, head: &str, status| LateBodyCase::new(name, &SHARED_SERVER, head, status);
    let json = "Content-Type: application/json";
    let twice = format!("POST /tokens\nBT-API-KEY: {private}\nBT-API-KEY: {private}\n{json}");
    let plain = format!("POST /tokens\nBT-API-KEY: {private}\nContent-Type: text/plain");
    let notification = "POST /3ds/sessions/x/method-notification\nContent-Type: text/plain";
    vec![
        shared("header sent twice", &twice, 400),
        shared("no key", &format!("POST /tokens\n{json}"), 401),
        shared("unknown key", &keyed_head("unknown", "POST /tokens"), 401),
        shared("permission missing", &keyed_head(public, "POST /applications"), 403),
        shared("unknown path", "POST /nowhere", 404),
        shared("unknown token", &keyed_head(private, "DELETE /tokens/none"), 404),
        shared("method not allowed", "PUT /tokens/x", 405),
        shared("probe with a wrong method", "POST /healthz", 405),
        shared("removed operation", &keyed_head(private, "POST /applications/x/regenerate"), 410),
        shared("wrong content type", &plain, 415),
        shared("notification of a wrong content type", notification, 415),
    ]
}

fn accepted_cases(keys: &crate::harness::server::TenantApiKeys) -> Vec<LateBodyCase> {
    let shared = |name, head: &str, status| LateBodyCase::new(name, &SHARED_SERVER, head, status);
    let body = json!({"name": "x", "type": "private", "permissions": ["token:read"]});
    let created = SHARED_SERVER.post(&keys.management, "/applications", &body).expect_status(201);
    let keys_path = format!("POST /applications/{}/keys", text_field(&created, "id"));
    let token = json!({"type": "token", "data": 1});
    let first =
        SHARED_SERVER.request("POST", "/tokens").key(&keys.private).idempotency_key("slow-replay");
    first.json(&token).send().expect_status(201);
    let replay = keyed_head(&keys.private, "POST /tokens\nBT-IDEMPOTENCY-KEY: slow-replay");
    vec![
        shared("idempotent replay", &replay, 201),
        shared("operation that ignores its body", &keyed_head(&keys.management, &keys_path), 201),
        shared("operation without a body", &keyed_head(&keys.public, "POST /sessions"), 201),
        shared("read", &keyed_head(&keys.private, "GET /permissions"), 200),
        shared("health probe", "GET /healthz", 200),
        shared("readiness probe", "GET /readyz", 200),
        shared("documentation", "GET /docs", 200),
        shared("preflight", "OPTIONS /tokens", 204),
    ]
}

#[test]
fn connection_is_usable_or_closed_after_every_early_response() {
    let keys = SHARED_SERVER.create_test_tenant(TenantSettings::default());
    let mut cases = rejected_cases(&keys);
    cases.extend(accepted_cases(&keys));

    // The first request keeps its idempotency key until its body is there.
    let mut pending = TcpStream::connect(SHARED_SERVER.address).unwrap();
    let conflict = keyed_head(&keys.private, "POST /tokens\nBT-IDEMPOTENCY-KEY: slow-conflict");
    let (line, headers) = conflict.split_once('\n').unwrap();
    let headers = headers.replace('\n', "\r\n");
    let head = format!("{line} HTTP/1.1\r\nHost: x\r\n{headers}\r\nContent-Length: 9\r\n\r\n");
    pending.write_all(head.as_bytes()).unwrap();
    cases.push(LateBodyCase::new("idempotency key in use", &SHARED_SERVER, &conflict, 409));

    let small = TestServer::start_with(|app| app.limits.body_bytes_max = 8);
    let small_keys = small.create_test_tenant(TenantSettings::default());
    let create = keyed_head(&small_keys.private, "POST /tokens");
    cases.push(LateBodyCase::new("body too large", &small, &create, 413));

    let limited = TestServer::start_with(|app| app.limiter = Limiter::default());
    let limited_keys = limited.create_test_tenant(TenantSettings::default());
    let throttled = || limited.get_path(&limited_keys.private, "/permissions").status == 429;
    assert!((0..1000).any(|_| throttled()));
    let create = keyed_head(&limited_keys.private, "POST /tokens");
    cases.push(LateBodyCase::new("rate limit", &limited, &create, 429));

    let metrics = "the-key-of-the-operator";
    let sealed = TestServer::start_with(|app| {
        app.node.metrics_key = Some(MetricsKey::parse(metrics).unwrap());
        app.directory.store(None);
    });
    cases.push(LateBodyCase::new("sealed vault", &sealed, &keyed_head("any", "POST /tokens"), 503));
    cases.push(LateBodyCase::new("metrics without key", &sealed, "GET /metrics", 401));
    let with_key = format!("GET /metrics\nAuthorization: Bearer {metrics}");
    cases.push(LateBodyCase::new("metrics", &sealed, &with_key, 200));

    let hasty = TestServer::start_with(|app| app.limits.body_deadline = Duration::from_millis(50));
    let hasty_keys = hasty.create_test_tenant(TenantSettings::default());
    let create = keyed_head(&hasty_keys.private, "POST /tokens");
    cases.push(LateBodyCase::new("body deadline", &hasty, &create, 408));

    // All at once: each of them waits.
    std::thread::scope(|scope| {
        let running: Vec<_> = cases.iter().map(|it| scope.spawn(|| it.check())).collect();
        let failed: Vec<_> = running.into_iter().filter_map(|it| it.join().err()).collect();
        assert!(failed.is_empty(), "{} of {} cases failed", failed.len(), cases.len());
    });
}
