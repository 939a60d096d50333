//! A request body that arrives after the server can already respond: either the connection stays
//! usable, or the response says `Connection: close`.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use scrip_api::limiter::Limiter;
use scrip_server::node::metrics_key::MetricsKey;
use serde_json::json;

use crate::harness::server::{SERVER, TestServer, text_field};

/// The time within which a server responds if it does not wait for the body.
const DELAY: Duration = Duration::from_millis(300);

struct LateBodyCase {
    name: &'static str,
    address: SocketAddr,
    /// The method, the path and the headers without Content-Length.
    head: String,
    status: u16,
}

impl LateBodyCase {
    fn new(name: &'static str, server: &TestServer, head: &str, status: u16) -> Self {
        Self { name, address: server.address, head: head.replace('\n', "\r\n"), status }
    }

    /// Sends a request with a late body and another request on the same connection. Returns both
    /// responses.
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
        let next_request = "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        // The write can fail if the server closed the connection.
        drop(stream.write_all(format!("{body}{next_request}").as_bytes()));
        let mut responses = Vec::new();
        drop(stream.read_to_end(&mut responses));
        String::from_utf8(responses).unwrap()
    }

    fn check(&self) {
        let responses = self.responses();
        let name = self.name;
        let expected = format!("HTTP/1.1 {} ", self.status);
        assert!(responses.starts_with(&expected), "{name}: {responses}");
        let (first_response, remaining_responses) = responses.split_once("\r\n\r\n").unwrap();
        let says_close = first_response.to_ascii_lowercase().contains("connection: close");
        let is_answered = says_close || remaining_responses.contains("HTTP/1.1 200 OK");
        assert!(is_answered, "{name}: {responses}");
    }
}

fn keyed_head(key: &str, line: &str) -> String {
    format!("{line}\nBT-API-KEY: {key}\nContent-Type: application/json")
}

fn rejected_cases(keys: &crate::harness::server::TenantApiKeys) -> Vec<LateBodyCase> {
    let (private, public) = (keys.private.as_str(), keys.public.as_str());
    let shared = |name, head: &str, status| LateBodyCase::new(name, &SERVER, head, status);
    let json = "Content-Type: application/json";
    let head_with_two_keys =
        format!("POST /tokens\nBT-API-KEY: {private}\nBT-API-KEY: {private}\n{json}");
    let head_with_plain_text =
        format!("POST /tokens\nBT-API-KEY: {private}\nContent-Type: text/plain");
    let notification = "POST /3ds/sessions/x/method-notification\nContent-Type: text/plain";
    vec![
        shared("header sent twice", &head_with_two_keys, 400),
        shared("no key", &format!("POST /tokens\n{json}"), 401),
        shared("unknown key", &keyed_head("unknown", "POST /tokens"), 401),
        shared("permission missing", &keyed_head(public, "POST /applications"), 403),
        shared("unknown path", "POST /nowhere", 404),
        shared("unknown token", &keyed_head(private, "DELETE /tokens/none"), 404),
        shared("method not allowed", "PUT /tokens/x", 405),
        shared("probe with a wrong method", "POST /healthz", 405),
        shared("removed operation", &keyed_head(private, "POST /applications/x/regenerate"), 410),
        shared("wrong content type", &head_with_plain_text, 415),
        shared("notification of a wrong content type", notification, 415),
    ]
}

fn accepted_cases(keys: &crate::harness::server::TenantApiKeys) -> Vec<LateBodyCase> {
    let shared = |name, head: &str, status| LateBodyCase::new(name, &SERVER, head, status);
    let body = json!({"name": "x", "type": "private", "permissions": ["token:read"]});
    let created = SERVER.post(&keys.management, "/applications", &body).expect_status(201);
    let keys_path = format!("POST /applications/{}/keys", text_field(&created, "id"));
    let token = json!({"type": "token", "data": 1});
    let first = SERVER.request("POST", "/tokens").key(&keys.private).idempotency_key("slow-replay");
    first.json(&token).send().expect_status(201);
    let replay_head = keyed_head(&keys.private, "POST /tokens\nBT-IDEMPOTENCY-KEY: slow-replay");
    vec![
        shared("idempotent replay", &replay_head, 201),
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
    let keys = SERVER.create_default_tenant();
    let mut cases = rejected_cases(&keys);
    cases.extend(accepted_cases(&keys));

    // The first request reserves its idempotency key until its body has arrived.
    let mut pending_connection = TcpStream::connect(SERVER.address).unwrap();
    let conflict_head =
        keyed_head(&keys.private, "POST /tokens\nBT-IDEMPOTENCY-KEY: slow-conflict");
    let (line, headers) = conflict_head.split_once('\n').unwrap();
    let headers = headers.replace('\n', "\r\n");
    let head = format!("{line} HTTP/1.1\r\nHost: x\r\n{headers}\r\nContent-Length: 9\r\n\r\n");
    pending_connection.write_all(head.as_bytes()).unwrap();
    cases.push(LateBodyCase::new("idempotency key in use", &SERVER, &conflict_head, 409));

    let small_body_server = TestServer::start_with(|app| app.settings.limits.body_bytes_max = 8);
    let small_body_keys = small_body_server.create_default_tenant();
    let create_head = keyed_head(&small_body_keys.private, "POST /tokens");
    cases.push(LateBodyCase::new("body too large", &small_body_server, &create_head, 413));

    let rate_limited_server = TestServer::start_with(|app| app.limiter = Limiter::default());
    let rate_limited_keys = rate_limited_server.create_default_tenant();
    let is_throttled =
        || rate_limited_server.get_path(&rate_limited_keys.private, "/permissions").status == 429;
    assert!((0..1000).any(|_| is_throttled()));
    let create_head = keyed_head(&rate_limited_keys.private, "POST /tokens");
    cases.push(LateBodyCase::new("rate limit", &rate_limited_server, &create_head, 429));

    let metrics = "the-key-of-the-operator";
    let sealed = TestServer::start_with(|app| {
        app.node.metrics_key = Some(MetricsKey::parse(metrics).unwrap());
        app.directory.store(None);
    });
    cases.push(LateBodyCase::new("sealed vault", &sealed, &keyed_head("any", "POST /tokens"), 503));
    cases.push(LateBodyCase::new("metrics without key", &sealed, "GET /metrics", 401));
    let with_key = format!("GET /metrics\nAuthorization: Bearer {metrics}");
    cases.push(LateBodyCase::new("metrics", &sealed, &with_key, 200));

    let short_deadline_server =
        TestServer::start_with(|app| app.settings.limits.body_deadline = Duration::from_millis(50));
    let short_deadline_keys = short_deadline_server.create_default_tenant();
    let create_head = keyed_head(&short_deadline_keys.private, "POST /tokens");
    cases.push(LateBodyCase::new("body deadline", &short_deadline_server, &create_head, 408));

    // Run the cases in parallel, because each case waits.
    std::thread::scope(|scope| {
        let case_threads: Vec<_> = cases.iter().map(|it| scope.spawn(|| it.check())).collect();
        let failures: Vec<_> = case_threads.into_iter().filter_map(|it| it.join().err()).collect();
        assert!(failures.is_empty(), "{} of {} cases failed", failures.len(), cases.len());
    });
}
