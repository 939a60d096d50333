//! What every request goes through.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

use scrip_api::app::body_memory::BodyMemory;
use serde_json::json;

use crate::harness::server::{ACME, SHARED, Server};

#[test]
fn problems_everywhere_have_one_form() {
    SHARED.ask("GET", "/nowhere").send().refused(404, "path");
    SHARED.ask("GET", "/").send().refused(404, "path");
    let wrong = SHARED.ask("PUT", "/tokens/x").send();
    wrong.refused(405, "method");
    assert!(wrong.headers["allow"].contains("PATCH"), "{:?}", wrong.headers);
    let post = |content_type: &str, body: &str| {
        SHARED.ask("POST", "/tokens").key(&ACME.private).text(content_type, body).send()
    };
    post("text/plain", "{}").refused(415, "application/json");
    post("application/json", "{").refused(400, "JSON");
    post("application/json", "").refused(400, "JSON");
    post("application/json", r#"{"type":"token","type":"card"}"#).refused(400, "twice");
    post("application/json", &"[".repeat(40)).refused(400, "nested");
    let large = format!(r#"{{"type":"token","data":"{}"}}"#, "x".repeat(1024 * 1024));
    post("application/json", &large).refused(413, "larger");
    let fits = format!(r#"{{"type":"token","data":"{}"}}"#, "x".repeat(1024 * 1024 - 100));
    assert_eq!(post("application/json", &fits).status, 201);
}

#[test]
fn every_answer_has_a_trace_id_and_opens_to_browsers() {
    for path in ["/tokens/x", "/nowhere", "/healthz"] {
        let reply = SHARED.ask("GET", path).header("BT-TRACE-ID", "trace-7").send();
        assert_eq!(reply.headers["bt-trace-id"], "trace-7");
        assert_eq!(reply.headers["access-control-allow-origin"], "*");
        assert!(reply.headers["access-control-expose-headers"].contains("bt-trace-id"));
    }
    let made = SHARED.ask("GET", "/healthz").send().headers["bt-trace-id"].clone();
    assert_ne!(made, SHARED.ask("GET", "/healthz").send().headers["bt-trace-id"]);
    let unfit = SHARED.ask("GET", "/healthz").header("BT-TRACE-ID", "a b\"c").send();
    assert_ne!(unfit.headers["bt-trace-id"], "a b\"c");
}

#[test]
fn preflights_are_answered_without_a_key() {
    let reply = SHARED
        .ask("OPTIONS", "/tokens")
        .header("Origin", "https://shop.example")
        .header("Access-Control-Request-Method", "POST")
        .header("Access-Control-Request-Headers", "bt-api-key,content-type,bt-anything")
        .send();
    assert_eq!(reply.status, 204);
    assert!(reply.headers["access-control-allow-headers"].contains("bt-anything"));
    assert!(reply.headers["access-control-allow-methods"].contains("PATCH"));
}

#[test]
fn a_trailing_slash_changes_nothing() {
    let body = json!({"id": "with-slash", "type": "token", "data": 1});
    let create = SHARED.ask("POST", "/tokens/").key(&ACME.private).json(&body).send();
    assert_eq!(create.status, 201);
    let get = SHARED.ask("GET", "/tokens/with-slash/?x=1").key(&ACME.private).send();
    assert_eq!(get.status, 200);
}

#[test]
fn probes_need_no_key() {
    assert_eq!(SHARED.ask("GET", "/healthz").send().status, 200);
    assert_eq!(SHARED.ask("GET", "/readyz").send().json(), json!({"status": "ready"}));
}

#[test]
fn a_security_header_sent_twice_is_refused() {
    let key = &ACME.private;
    let twice = |name: &str, value: &str| {
        let request = format!(
            "POST /tokens HTTP/1.1\r\nHost: x\r\nBT-API-KEY: {key}\r\nContent-Type: application/json\r\n\
             {name}: {value}\r\nBT-IDEMPOTENCY-KEY: twice\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{{}}"
        );
        SHARED.raw(request.as_bytes())
    };
    for (name, value) in [
        ("BT-API-KEY", key.as_str()),
        ("BT-IDEMPOTENCY-KEY", "b"),
        ("Content-Type", "application/json"),
    ] {
        let answer = twice(name, value);
        assert!(answer.starts_with("HTTP/1.1 400"), "{name}: {answer}");
        assert!(answer.contains(name), "{answer}");
    }
}

#[test]
fn what_is_not_http_gets_no_further() {
    for bytes in ["\r\n\r\n", "GET\r\n\r\n", "\u{0}\u{1}", "GET / HTTP/9.9\r\n\r\n"] {
        let answer = SHARED.raw(bytes.as_bytes());
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{bytes:?}: {answer}");
    }
    assert_eq!(SHARED.ask("GET", "/healthz").send().status, 200);
}

#[test]
fn a_body_that_never_ends_is_given_up() {
    let server = Server::with(|app| {
        app.limits.body_deadline = Duration::from_millis(200);
        app.node.connections.header_deadline = Duration::from_millis(300);
    });
    let keys = server.tenant(scrip_core::policy::Settings::default());
    let head = format!(
        "POST /tokens HTTP/1.1\r\nHost: x\r\nBT-API-KEY: {}\r\nContent-Type: application/json\r\n\
         Content-Length: 100\r\n\r\n{{",
        keys.private
    );
    let answer = server.raw(head.as_bytes());
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    // A head that never ends is closed.
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost").unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let mut rest = Vec::new();
    assert!(stream.read_to_end(&mut rest).is_ok(), "the server closes it");
}

#[test]
fn a_client_that_says_nothing_is_not_waited_for() {
    let server =
        Server::with(|app| app.node.connections.header_deadline = Duration::from_millis(300));
    for said in ["", "P", "PRI * HTTP/2.0\r\n", "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"] {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.write_all(said.as_bytes()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let mut answer = Vec::new();
        assert!(stream.read_to_end(&mut answer).is_ok(), "{said:?} is never closed");
    }
}

#[test]
fn bodies_and_parsed_values_share_bounded_memory() {
    let server = Server::with(|app| app.body_memory = BodyMemory::new(17 * 100_000, 1));
    let keys = server.tenant(scrip_core::policy::Settings::default());
    let create = |bytes: usize| {
        server.create(&keys.private, &json!({"type": "token", "data": "x".repeat(bytes)}))
    };
    assert_eq!(create(60_000).status, 201);
    assert_eq!(create(90_000).status, 201);
    let refused = create(150_000);
    assert_eq!((refused.status, refused.headers["retry-after"].as_str()), (503, "1"));
    assert_eq!(create(90_000).status, 201, "memory is given back");
}

#[test]
fn connection_past_the_cap_takes_the_place_of_the_idlest() {
    let server = Server::with(|app| app.node.connections.connections_max = 2);
    let connect = || TcpStream::connect(server.address).unwrap();
    let (mut one, mut two) = (connect(), connect());
    assert!(is_answered(&mut two) && is_answered(&mut one));
    let mut three = connect();
    assert!(is_answered(&mut three));
    // Nothing is asked here: a request that comes just in time is still answered.
    assert!(matches!(two.read(&mut [0; 1024]), Ok(0)), "it was idle for longest");
    assert!(is_answered(&mut one));
}

#[test]
fn connection_past_the_cap_waits_while_all_have_requests_in_progress() {
    let server = Server::with(|app| {
        app.node.connections.connections_max = 2;
        app.node.connections.evictable_after = Duration::from_secs(600);
    });
    let keys = server.tenant(scrip_core::policy::Settings::default());
    let head = format!(
        "POST /tokens HTTP/1.1\r\nHost: x\r\nBT-API-KEY: {}\r\nContent-Type: application/json\r\n\
         Content-Length: 2\r\n\r\n",
        keys.private
    );
    let begin = || {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.write_all(head.as_bytes()).unwrap();
        stream
    };
    let (mut one, _two) = (begin(), begin());
    assert!(crate::metrics::endpoint::eventually(|| server.app.metrics.in_flight.get() == 2));
    let mut three = TcpStream::connect(server.address).unwrap();
    three.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut chunk = [0; 1024];
    three.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    assert!(three.read(&mut chunk).is_err(), "there is no slot");
    // A connection whose request has ended may lose its slot.
    one.write_all(b"{}").unwrap();
    three.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    assert!(matches!(three.read(&mut chunk), Ok(1..)), "there is a slot");
}

fn is_answered(stream: &mut TcpStream) -> bool {
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let asked = stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
    asked.is_ok() && matches!(stream.read(&mut [0; 1024]), Ok(1..))
}
