//! Traces of the real program, as a collector gets them: OTLP, protobuf over HTTP.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    common::v1::{KeyValue, any_value::Value as Any},
    trace::v1::Span,
};
use prost::Message;
use scrip_testing::process::{
    harness::{ProcessHarness, RunningServer, becomes_true},
    terminate, wait,
};
use serde_json::json;

const NUMBER: &str = "4242424242424242";
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

/// A collector that keeps every body it was sent.
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
        let serve = move || {
            for stream in listener.incoming().flatten() {
                let stored = stored.clone();
                let response = move || drop(stored.serve_connection(stream));
                thread::Builder::new().spawn(response).expect("a thread");
            }
        };
        thread::Builder::new().spawn(serve).expect("a thread");
        collector
    }

    fn serve_connection(&self, stream: TcpStream) -> std::io::Result<()> {
        let mut stream = BufReader::new(stream);
        loop {
            let (mut head, mut length) = (String::new(), 0);
            while !head.ends_with("\r\n\r\n") {
                let from = head.len();
                if stream.read_line(&mut head)? == 0 {
                    return Ok(());
                }
                let line = head[from..].to_ascii_lowercase();
                if let Some(value) = line.strip_prefix("content-length:") {
                    length = value.trim().parse().expect("a length");
                }
            }
            assert!(head.starts_with("POST /v1/traces HTTP/1.1"), "{head}");
            assert!(head.to_ascii_lowercase().contains("content-type: application/x-protobuf"));
            let mut body = vec![0; length];
            stream.read_exact(&mut body)?;
            self.bodies.lock().unwrap().push(body);
            stream.get_mut().write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")?;
        }
    }

    fn spans(&self) -> Vec<Span> {
        let mut spans = Vec::new();
        for body in &*self.bodies.lock().unwrap() {
            let request = ExportTraceServiceRequest::decode(body.as_slice()).expect("protobuf");
            for of_resource in request.resource_spans {
                let resource = of_resource.resource.expect("who it is").attributes;
                assert_eq!(text(&resource, "service.name"), "scrip");
                assert_eq!(text(&resource, "service.version"), env!("CARGO_PKG_VERSION"));
                spans.extend(of_resource.scope_spans.into_iter().flat_map(|it| it.spans));
            }
        }
        spans
    }

    fn spans_named(&self, name: &str) -> Vec<Span> {
        self.spans().into_iter().filter(|it| it.name == name).collect()
    }
}

fn find<'a>(attributes: &'a [KeyValue], name: &str) -> Option<&'a Any> {
    attributes.iter().find(|it| it.key == name)?.value.as_ref()?.value.as_ref()
}

fn text(attributes: &[KeyValue], name: &str) -> String {
    match find(attributes, name) {
        Some(Any::StringValue(text)) => text.clone(),
        other => format!("{other:?}"),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|it| format!("{it:02x}")).collect()
}

fn serve_ready(process: &ProcessHarness) -> RunningServer {
    let server = process.serve();
    assert!(becomes_true(|| server.status("/readyz") == 200), "{}", process.log());
    server
}

fn create_card(server: &RunningServer, key: &str, headers: &[(&str, &str)]) -> u16 {
    let agent: ureq::Agent =
        ureq::Agent::config_builder().http_status_as_error(false).build().into();
    let mut request = agent.post(format!("{}/tokens", server.url)).header("BT-API-KEY", key);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let body = json!({"type": "card", "data": {"number": NUMBER}, "metadata": {"who": "hunter2"}});
    request.send_json(&body).expect("an answer").status().as_u16()
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
    let good = spans.iter().find(|it| hex(&it.trace_id) == TRACE).expect("the caller's trace");
    assert_eq!(hex(&good.parent_span_id), PARENT);
    assert_eq!(good.kind, 2, "a server's");
    assert!(good.trace_state.is_empty());
    assert!(good.end_time_unix_nano >= good.start_time_unix_nano);
    let attributes = &good.attributes;
    let names = ["http.request.method", "http.route", "scrip.operation", "scrip.trace_id"];
    let values = names.map(|it| text(attributes, it));
    assert_eq!(values, ["POST", "/tokens", "create_token", "my-trace-7"]);
    assert_eq!(find(attributes, "http.response.status_code"), Some(&Any::IntValue(201)));
    assert_eq!(attributes.len(), 5, "{attributes:?}");
    assert!(good.events.is_empty() && good.links.is_empty());
    // What the store did for it belongs to it.
    let written = collector.spans_named("store_write");
    let written: Vec<_> = written.iter().filter(|it| it.parent_span_id == good.span_id).collect();
    assert_eq!(written.len(), 1);
    assert_eq!(hex(&written[0].trace_id), TRACE);
    assert!(written[0].attributes.is_empty(), "{:?}", written[0].attributes);
    let read = collector.spans_named("store_read");
    assert!(read.iter().any(|it| it.parent_span_id == good.span_id), "{read:?}");

    let bad = spans.iter().find(|it| hex(&it.trace_id) != TRACE).expect("one of its own");
    assert_eq!(find(&bad.attributes, "http.response.status_code"), Some(&Any::IntValue(401)));
    assert!(bad.parent_span_id.is_empty());

    for body in &*collector.bodies.lock().unwrap() {
        let sent = String::from_utf8_lossy(body);
        for secret in [NUMBER, "hunter2", &key, "nobodys"] {
            assert!(!sent.contains(secret), "{secret}");
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
    terminate(&server.child);
    let status = wait(&mut server.child, Duration::from_secs(20)).expect("it ends");
    assert_eq!(status.code(), Some(0));
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
    let unasked = format!("00-{TRACE}-{PARENT}-00");
    (0..5).for_each(|_| assert_eq!(create_card(&server, &key, &[]), 201));
    assert_eq!(create_card(&server, &key, &[("traceparent", &unasked)]), 201);
    assert_eq!(create_card(&server, &key, &[("traceparent", &request)]), 201);
    terminate(&server.child);
    assert!(wait(&mut server.child, Duration::from_secs(20)).is_some());
    let spans = collector.spans_named("create_token");
    assert_eq!(spans.len(), 1);
    assert_eq!(hex(&spans[0].trace_id), TRACE);
}

#[test]
fn unreachable_collector_causes_one_warning_and_no_delay() {
    // A port that was free a moment ago.
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (process, key) = ProcessHarness::with_api_key(crate::SCRIP);
    let process = process.with_variable("SCRIP_TELEMETRY_OTLP_ENDPOINT", &format!("http://{free}"));
    let server = serve_ready(&process);
    assert_eq!(create_card(&server, &key, &[]), 201);
    process.wait_for_log("the collector takes no traces");
    // Some more batches that come to nothing.
    for _ in 0..3 {
        assert_eq!(create_card(&server, &key, &[]), 201);
        thread::sleep(Duration::from_millis(1_200));
    }
    assert_eq!(process.log().matches("the collector takes no traces").count(), 1);

    let collector = TestCollector::listen(&free.to_string());
    assert!(becomes_true(|| {
        assert_eq!(create_card(&server, &key, &[]), 201);
        !collector.spans_named("create_token").is_empty()
    }));
    process.wait_for_log("the collector takes traces again");
}

/// It takes the connection, and never answers.
#[test]
fn hanging_collector_does_not_block_shutdown() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let (process, key) = ProcessHarness::with_api_key(crate::SCRIP);
    let endpoint = format!("http://{}", silent.local_addr().unwrap());
    let process = process
        .with_variable("SCRIP_TELEMETRY_OTLP_ENDPOINT", &endpoint)
        .with_variable("SCRIP_SERVER_DRAIN_DEADLINE_SECONDS", "1");
    let mut server = serve_ready(&process);
    (0..20).for_each(|_| assert_eq!(create_card(&server, &key, &[]), 201));
    terminate(&server.child);
    let status = wait(&mut server.child, Duration::from_secs(20)).expect("it ends");
    assert_eq!(status.code(), Some(0));
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
