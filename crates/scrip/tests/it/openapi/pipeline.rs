//! Processing steps that every request passes.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

use scrip_api::app::body_memory::BodyMemory;
use serde_json::json;

use crate::harness::server::{ACME, SERVER, TestServer};

#[test]
fn all_errors_are_problem_json() {
    SERVER.request("GET", "/nowhere").send().expect_problem(404, "Not found.");
    SERVER.request("GET", "/nowhere/").send().expect_problem(404, "Not found.");
    let wrong_method_response = SERVER.request("PUT", "/tokens/x").send();
    wrong_method_response.expect_problem(405, "method");
    let allowed = &wrong_method_response.headers["allow"];
    assert!(allowed.contains("PATCH"), "{allowed}");
    let post = |content_type: &str, body: &str| {
        SERVER.request("POST", "/tokens").key(&ACME.private).body(content_type, body).send()
    };
    post("text/plain", "{}").expect_problem(415, "application/json");
    post("application/json", "{").expect_problem(400, "JSON");
    post("application/json", "").expect_problem(400, "JSON");
    post("application/json", r#"{"type":"token","type":"card"}"#)
        .expect_problem(400, "duplicate name");
    post("application/json", &"[".repeat(40)).expect_problem(400, "nested");
    let too_large_body = format!(r#"{{"type":"token","data":"{}"}}"#, "x".repeat(1024 * 1024));
    post("application/json", &too_large_body).expect_problem(413, "larger");
    let largest_body = format!(r#"{{"type":"token","data":"{}"}}"#, "x".repeat(1024 * 1024 - 100));
    assert_eq!(post("application/json", &largest_body).status, 201);
}

#[test]
fn every_response_has_a_trace_id_and_cors_headers() {
    for path in ["/tokens/x", "/nowhere", "/healthz"] {
        let response = SERVER.request("GET", path).header("BT-TRACE-ID", "trace-7").send();
        assert_eq!(response.headers["bt-trace-id"], "trace-7");
        assert_eq!(response.headers["access-control-allow-origin"], "*");
        assert!(response.headers["access-control-expose-headers"].contains("bt-trace-id"));
    }
    let created = SERVER.request("GET", "/healthz").send().headers["bt-trace-id"].clone();
    assert_ne!(created, SERVER.request("GET", "/healthz").send().headers["bt-trace-id"]);
    let response_to_invalid_trace_id =
        SERVER.request("GET", "/healthz").header("BT-TRACE-ID", "a b\"c").send();
    assert_ne!(response_to_invalid_trace_id.headers["bt-trace-id"], "a b\"c");
}

#[test]
fn cors_preflight_needs_no_key() {
    let response = SERVER
        .request("OPTIONS", "/tokens")
        .header("Origin", "https://shop.example")
        .header("Access-Control-Request-Method", "POST")
        .header("Access-Control-Request-Headers", "bt-api-key,content-type,bt-anything")
        .send();
    assert_eq!(response.status, 204);
    assert!(response.headers["access-control-allow-headers"].contains("bt-anything"));
    assert!(response.headers["access-control-allow-methods"].contains("PATCH"));
}

#[test]
fn trailing_slash_is_ignored() {
    let body = json!({"id": "with-slash", "type": "token", "data": 1});
    let create_response = SERVER.post(&ACME.private, "/tokens/", &body);
    assert_eq!(create_response.status, 201);
    let get_response = SERVER.request("GET", "/tokens/with-slash/?x=1").key(&ACME.private).send();
    assert_eq!(get_response.status, 200);
}

#[test]
fn probes_need_no_key() {
    assert_eq!(SERVER.request("GET", "/healthz").send().status, 200);
    assert_eq!(SERVER.request("GET", "/readyz").send().json(), json!({"status": "ready"}));
}

#[test]
fn duplicate_security_header_is_rejected() {
    let key = &ACME.private;
    let send_header_twice = |name: &str, value: &str| {
        let request = format!(
            "POST /tokens HTTP/1.1\r\nHost: x\r\nBT-API-KEY: {key}\r\nContent-Type: application/json\r\n\
             {name}: {value}\r\nBT-IDEMPOTENCY-KEY: twice\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{{}}"
        );
        SERVER.send_raw(request.as_bytes())
    };
    for (name, value) in [
        ("BT-API-KEY", key.as_str()),
        ("BT-IDEMPOTENCY-KEY", "b"),
        ("Content-Type", "application/json"),
    ] {
        let response = send_header_twice(name, value);
        assert!(response.starts_with("HTTP/1.1 400"), "{name}: {response}");
        assert!(response.contains(name), "{response}");
    }
}

#[test]
fn invalid_http_is_rejected_without_harm() {
    for bytes in ["\r\n\r\n", "GET\r\n\r\n", "\u{0}\u{1}", "GET / HTTP/9.9\r\n\r\n"] {
        let response = SERVER.send_raw(bytes.as_bytes());
        assert!(response.is_empty() || response.starts_with("HTTP/1.1 4"), "{bytes:?}: {response}");
    }
    assert_eq!(SERVER.request("GET", "/healthz").send().status, 200);
}

#[test]
fn body_that_never_ends_times_out_with_408() {
    let server = TestServer::start_with(|app| {
        app.settings.limits.body_deadline = Duration::from_millis(200);
        app.node.connection_limits.header_deadline = Duration::from_millis(300);
    });
    let keys = server.create_default_tenant();
    let head = format!(
        "POST /tokens HTTP/1.1\r\nHost: x\r\nBT-API-KEY: {}\r\nContent-Type: application/json\r\n\
         Content-Length: 100\r\n\r\n{{",
        keys.private
    );
    let response = server.send_raw(head.as_bytes());
    assert!(response.starts_with("HTTP/1.1 408"), "{response}");
    // A connection with an endless head is closed.
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost").unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let mut response_bytes = Vec::new();
    let is_closed = stream.read_to_end(&mut response_bytes).is_ok();
    assert!(is_closed, "the server does not close the connection");
}

#[test]
fn silent_client_is_disconnected() {
    let server = TestServer::start_with(|app| {
        app.node.connection_limits.header_deadline = Duration::from_millis(300)
    });
    for sent_bytes in ["", "P", "PRI * HTTP/2.0\r\n", "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"] {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.write_all(sent_bytes.as_bytes()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let mut response = Vec::new();
        assert!(stream.read_to_end(&mut response).is_ok(), "{sent_bytes:?} is never closed");
    }
}

#[test]
fn bodies_and_parsed_values_share_bounded_memory() {
    let server = TestServer::start_with(|app| app.memory.bodies = BodyMemory::new(17 * 100_000, 1));
    let keys = server.create_default_tenant();
    let create_token = |bytes: usize| {
        server.create_token(&keys.private, &json!({"type": "token", "data": "x".repeat(bytes)}))
    };
    assert_eq!(create_token(60_000).status, 201);
    assert_eq!(create_token(90_000).status, 201);
    let rejected_response = create_token(150_000);
    assert_eq!(rejected_response.status, 503);
    assert_eq!(rejected_response.headers["retry-after"], "1");
    assert_eq!(create_token(90_000).status, 201, "body memory was not released");
}

#[test]
fn connection_above_the_limit_evicts_the_idlest() {
    let server = TestServer::start_with(|app| app.node.connection_limits.connections_max = 2);
    let connect = || TcpStream::connect(server.address).unwrap();
    let (mut first_connection, mut second_connection) = (connect(), connect());
    assert!(is_served_probe(&mut second_connection) && is_served_probe(&mut first_connection));
    let mut three = connect();
    assert!(is_served_probe(&mut three));
    // No request is sent here, because a request that arrives just in time is still served.
    let is_closed = matches!(second_connection.read(&mut [0; 1024]), Ok(0));
    assert!(is_closed, "the connection that was idle longest is still open");
    assert!(is_served_probe(&mut first_connection));
}

#[test]
fn connection_above_the_limit_waits_while_all_are_busy() {
    let server = TestServer::start_with(|app| {
        app.node.connection_limits.connections_max = 2;
        app.node.connection_limits.evictable_after = Duration::from_secs(600);
    });
    let keys = server.create_default_tenant();
    let head = format!(
        "POST /tokens HTTP/1.1\r\nHost: x\r\nBT-API-KEY: {}\r\nContent-Type: application/json\r\n\
         Content-Length: 2\r\n\r\n",
        keys.private
    );
    let start_request = || {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.write_all(head.as_bytes()).unwrap();
        stream
    };
    let (mut first_connection, _second_connection) = (start_request(), start_request());
    assert!(crate::metrics::endpoint::eventually(|| server.app.metrics.in_flight.get() == 2));
    let mut three = TcpStream::connect(server.address).unwrap();
    three.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut chunk = [0; 1024];
    three.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    assert!(three.read(&mut chunk).is_err(), "the connection got a slot");
    // A connection with a completed request may lose its slot.
    first_connection.write_all(b"{}").unwrap();
    three.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    assert!(matches!(three.read(&mut chunk), Ok(1..)), "the connection got no slot");
}

fn is_served_probe(stream: &mut TcpStream) -> bool {
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let request = stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
    request.is_ok() && matches!(stream.read(&mut [0; 1024]), Ok(1..))
}
