//! Traces of the real program as a collector receives them: OTLP, JSON over HTTP.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use scrip_core::types::time::Clock;
use scrip_server::clock::SystemClock;
use scrip_testing::process::{
    harness::{ProcessHarness, RunningServer, becomes_true},
    terminate, wait,
};
use serde_json::{Value, json};

const NUMBER: &str = "4242424242424242";
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

/// A collector that stores every body it receives.
#[derive(Clone)]
struct TestCollector {
    address: SocketAddr,
    bodies: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl TestCollector {
    fn listen(address: &str) -> Self {
        let listener = TcpListener::bind(address).expect("a port");
        let collector = Self { address: listener.local_addr().unwrap(), bodies: Arc::default() };
        let stored = collector.clone();
        let serve_connections = move || {
            for stream in listener.incoming().flatten() {
                let stored = stored.clone();
                let response = move || drop(stored.serve_connection(stream));
                thread::Builder::new().spawn(response).expect("start a thread");
            }
        };
        thread::Builder::new().spawn(serve_connections).expect("start a thread");
        collector
    }

    fn serve_connection(&self, stream: TcpStream) -> std::io::Result<()> {
        let mut stream = BufReader::new(stream);
        loop {
            let (mut head, mut length) = (String::new(), 0);
            while !head.ends_with("\r\n\r\n") {
                let body_start = head.len();
                if stream.read_line(&mut head)? == 0 {
                    return Ok(());
                }
                let line = head[body_start..].to_ascii_lowercase();
                if let Some(value) = line.strip_prefix("content-length:") {
                    length = value.trim().parse().expect("a length");
                }
            }
            assert!(head.starts_with("POST /v1/traces HTTP/1.1"), "{head}");
            assert!(head.to_ascii_lowercase().contains("content-type: application/json\r\n"));
            let mut body = vec![0; length];
            stream.read_exact(&mut body)?;
            self.bodies.lock().unwrap().push(body);
            stream.get_mut().write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")?;
        }
    }

    fn spans(&self) -> Vec<Value> {
        let mut spans = Vec::new();
        for body in &*self.bodies.lock().unwrap() {
            let request: Value = serde_json::from_slice(body).expect("JSON");
            for resource_spans in elements(&request["resourceSpans"]) {
                let resource = &resource_spans["resource"]["attributes"];
                assert_eq!(text(resource, "service.name"), "scrip");
                assert_eq!(text(resource, "service.version"), env!("CARGO_PKG_VERSION"));
                for scope_spans in elements(&resource_spans["scopeSpans"]) {
                    spans.extend_from_slice(elements(&scope_spans["spans"]));
                }
            }
        }
        spans
    }

    fn spans_named(&self, name: &str) -> Vec<Value> {
        self.spans().into_iter().filter(|it| it["name"] == name).collect()
    }
}

fn elements(list: &Value) -> &[Value] {
    list.as_array().expect("an array")
}

/// Returns the typed value of the attribute, such as `{"intValue": "201"}`.
fn find<'a>(attributes: &'a Value, name: &str) -> Option<&'a Value> {
    elements(attributes).iter().find(|it| it["key"] == name).map(|it| &it["value"])
}

fn text(attributes: &Value, name: &str) -> String {
    let value = find(attributes, name).unwrap_or(&Value::Null);
    value["stringValue"].as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Returns a time in nanoseconds, which is a number as text.
fn nanoseconds(time: &Value) -> u64 {
    time.as_str().expect("a text").parse().expect("a number")
}

fn serve_ready(process: &ProcessHarness) -> RunningServer {
    let server = process.serve();
    assert!(becomes_true(|| server.status("/readyz") == 200), "{}", process.log());
    server
}

fn create_card(server: &RunningServer, key: &str, headers: &[(&str, &str)]) -> u16 {
    let mut request = server.request("POST", "/tokens").api_key(key);
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let body = json!({"type": "card", "data": {"number": NUMBER}, "metadata": {"who": "hunter2"}});
    request.json(&body).send().status
}

#[test]
fn request_span_has_operation_and_status_but_no_submitted_values() {
    let collector = TestCollector::listen("127.0.0.1:0");
    let (process, key) = ProcessHarness::with_api_key(crate::SCRIP);
    let endpoint = format!("http://{}", collector.address);
    let process = process.with_variable("SCRIP_TELEMETRY_OTLP_ENDPOINT", &endpoint);
    let server = serve_ready(&process);
    let parent = format!("00-{TRACE}-{PARENT}-01");
    let headers = [
        ("traceparent", parent.as_str()),
        ("tracestate", "vendor=hunter2"),
        ("BT-TRACE-ID", "my-trace-7"),
        ("BT-IDEMPOTENCY-KEY", "hunter2"),
    ];
    assert_eq!(create_card(&server, &key, &headers), 201);
    assert_eq!(create_card(&server, "nobodys", &[]), 401);
    assert!(becomes_true(|| collector.spans_named("create_token").len() == 2));

    let spans = collector.spans_named("create_token");
    let request_span = spans.iter().find(|it| it["traceId"] == TRACE).expect("the caller's trace");
    assert_eq!(request_span["parentSpanId"], PARENT);
    assert_eq!(request_span["kind"], 2, "a server's");
    assert_eq!(request_span["status"]["code"], 0);
    assert!(request_span.get("traceState").is_none());
    let [started, ended] =
        ["startTimeUnixNano", "endTimeUnixNano"].map(|it| nanoseconds(&request_span[it]));
    let now_ms = u64::try_from(SystemClock.now().unix_ms).unwrap();
    assert!(ended > started && ended / 1_000_000 <= now_ms, "{started} {ended} {now_ms}");
    assert!(started / 1_000_000 > now_ms - 60_000, "{started} {now_ms}");
    let attributes = &request_span["attributes"];
    let names = ["http.request.method", "http.route", "scrip.operation", "scrip.trace_id"];
    let values = names.map(|it| text(attributes, it));
    assert_eq!(values, ["POST", "/tokens", "create_token", "my-trace-7"]);
    assert_eq!(find(attributes, "http.response.status_code"), Some(&json!({"intValue": "201"})));
    assert_eq!(elements(attributes).len(), 5, "{attributes:?}");
    assert!(request_span.get("events").is_none() && request_span.get("links").is_none());
    // The span of the store write belongs to the request.
    let write_spans = collector.spans_named("store_write");
    let write_spans: Vec<_> =
        write_spans.iter().filter(|it| it["parentSpanId"] == request_span["spanId"]).collect();
    assert_eq!(write_spans.len(), 1);
    assert_eq!(write_spans[0]["traceId"], TRACE);
    assert_eq!(write_spans[0]["kind"], 1, "an internal span");
    assert_eq!(write_spans[0]["attributes"], json!([]));
    let read_spans = collector.spans_named("store_read");
    let is_child = read_spans.iter().any(|it| it["parentSpanId"] == request_span["spanId"]);
    assert!(is_child, "{read_spans:?}");

    let failed_span =
        spans.iter().find(|it| it["traceId"] != TRACE).expect("a span with its own trace id");
    let status = find(&failed_span["attributes"], "http.response.status_code");
    assert_eq!(status, Some(&json!({"intValue": "401"})));
    assert_eq!(failed_span["parentSpanId"], "");
    assert_eq!(failed_span["traceId"].as_str().map(str::len), Some(32));

    for body in &*collector.bodies.lock().unwrap() {
        let sent_text = String::from_utf8_lossy(body);
        for secret in [NUMBER, "hunter2", &key, "nobodys"] {
            assert!(!sent_text.contains(secret), "{secret}");
        }
    }
}

#[test]
fn remaining_spans_are_sent_at_shutdown() {
    let collector = TestCollector::listen("127.0.0.1:0");
    let (process, key) = ProcessHarness::with_api_key(crate::SCRIP);
    let endpoint = format!("http://{}/", collector.address);
    let process = process.with_variable("SCRIP_TELEMETRY_OTLP_ENDPOINT", &endpoint);
    let mut server = serve_ready(&process);
    (0..30).for_each(|_| assert_eq!(create_card(&server, &key, &[]), 201));
    server.stop();
    assert_eq!(collector.spans_named("create_token").len(), 30);
}

#[test]
fn traceparent_sampling_overrides_the_sample_percent() {
    let collector = TestCollector::listen("127.0.0.1:0");
    let (process, key) = ProcessHarness::with_api_key(crate::SCRIP);
    let process = process
        .with_variable("SCRIP_TELEMETRY_OTLP_ENDPOINT", &format!("http://{}", collector.address))
        .with_variable("SCRIP_TELEMETRY_SAMPLE_PERCENT", "0");
    let mut server = serve_ready(&process);
    let request = format!("00-{TRACE}-{PARENT}-01");
    let unsampled_parent = format!("00-{TRACE}-{PARENT}-00");
    (0..5).for_each(|_| assert_eq!(create_card(&server, &key, &[]), 201));
    assert_eq!(create_card(&server, &key, &[("traceparent", &unsampled_parent)]), 201);
    assert_eq!(create_card(&server, &key, &[("traceparent", &request)]), 201);
    terminate(&server.child);
    assert!(wait(&mut server.child, Duration::from_secs(20)).is_some());
    let spans = collector.spans_named("create_token");
    assert_eq!(spans.len(), 1);
    assert_eq!(spans[0]["traceId"], TRACE);
    // Neither requests that are not sampled nor their children are exported.
    assert!(collector.spans().iter().all(|it| it["traceId"] == TRACE));
}

#[test]
fn unreachable_collector_causes_one_warning_and_no_delay() {
    // This port was free a moment ago, so no collector listens on it. No other test uses the address.
    let unused_address = TcpListener::bind("127.0.77.7:0").unwrap().local_addr().unwrap();
    let (process, key) = ProcessHarness::with_api_key(crate::SCRIP);
    let process =
        process.with_variable("SCRIP_TELEMETRY_OTLP_ENDPOINT", &format!("http://{unused_address}"));
    let server = serve_ready(&process);
    assert_eq!(create_card(&server, &key, &[]), 201);
    process.wait_for_log("sending traces to the collector failed");
    // Wait for some more failing batches.
    for _ in 0..3 {
        assert_eq!(create_card(&server, &key, &[]), 201);
        thread::sleep(Duration::from_millis(1_200));
    }
    assert_eq!(process.log().matches("sending traces to the collector failed").count(), 1);

    let collector = TestCollector::listen(&unused_address.to_string());
    assert!(becomes_true(|| {
        assert_eq!(create_card(&server, &key, &[]), 201);
        !collector.spans_named("create_token").is_empty()
    }));
    process.wait_for_log("trace collector available again");
}

/// The collector accepts connections and never responds.
#[test]
fn hanging_collector_does_not_block_shutdown() {
    let silent_listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (process, key) = ProcessHarness::with_api_key(crate::SCRIP);
    let endpoint = format!("http://{}", silent_listener.local_addr().unwrap());
    let process = process
        .with_variable("SCRIP_TELEMETRY_OTLP_ENDPOINT", &endpoint)
        .with_variable("SCRIP_SERVER_DRAIN_DEADLINE_SECONDS", "1");
    let mut server = serve_ready(&process);
    (0..20).for_each(|_| assert_eq!(create_card(&server, &key, &[]), 201));
    server.stop();
    assert!(process.log().contains("some traces were not sent"), "{}", process.log());
}

#[test]
fn invalid_otlp_endpoint_prevents_start() {
    let process = ProcessHarness::initialized(crate::SCRIP)
        .with_variable("SCRIP_TELEMETRY_OTLP_ENDPOINT", "https://collector:4318");
    process.assert_fails(
        &["serve"],
        "SCRIP_TELEMETRY_OTLP_ENDPOINT: must be an address in plain HTTP",
    );
}
