//! Clients that occupy connections, memory or time must not block other clients.

use std::{
    io::{ErrorKind, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    sync::{
        Arc, Barrier,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use scrip_api::app::{
    body_memory::BodyMemory, limits::MinimumRate, trusted_proxies::TrustedProxies,
};
use scrip_server::{
    metrics::listener::{OperatorAccess, OperatorListener},
    node::metrics_key::MetricsKey,
};
use serde_json::json;
use tokio::net::TcpSocket;

use crate::{
    harness::server::TestServer,
    metrics::endpoint::{eventually, scrape},
};

const HEALTHZ: &[u8] = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
pub(crate) const FIRST_ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
pub(crate) const SECOND_ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);

pub(crate) fn metrics_key() -> Option<MetricsKey> {
    MetricsKey::parse("the-key-of-the-operator").ok()
}

/// Opens a connection from this client address.
pub(crate) fn connect_from(server: &TestServer, address: Ipv4Addr) -> TcpStream {
    connect(server, address, TcpSocket::new_v4().unwrap())
}

pub(crate) fn connect(server: &TestServer, address: Ipv4Addr, socket: TcpSocket) -> TcpStream {
    let stream = server.runtime.block_on(async {
        socket.bind(SocketAddr::from((address, 0))).unwrap();
        socket.connect(server.address).await.unwrap()
    });
    let stream = stream.into_std().unwrap();
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream
}

/// Whether the server responds to a probe on this connection.
pub(crate) fn is_served(stream: &mut TcpStream) -> bool {
    if stream.write_all(HEALTHZ).is_err() {
        return false;
    }
    let mut chunk = [0; 1024];
    matches!(stream.read(&mut chunk), Ok(1..)) && chunk.starts_with(b"HTTP/1.1 200")
}

/// Whether the server has closed the connection.
fn is_closed(stream: &mut TcpStream) -> bool {
    match stream.read(&mut [0; 1024]) {
        Ok(count) => count == 0,
        Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
    }
}

/// Sends a request with a hand-written head and body, and returns the response status.
pub(crate) fn send_raw_request(
    server: &TestServer,
    client_address: Ipv4Addr,
    head: &str,
    body: &str,
) -> u16 {
    let mut stream = connect_from(server, client_address);
    let head = head.replace('\n', "\r\n");
    let request = format!("{head}\r\nHost: x\r\nConnection: close\r\n\r\n{body}");
    stream.write_all(request.as_bytes()).unwrap();
    let mut response = Vec::new();
    drop(stream.read_to_end(&mut response));
    let response = String::from_utf8_lossy(&response);
    response.split(' ').nth(1).and_then(|it| it.parse().ok()).unwrap_or(0)
}

fn chunked_body(body: &str) -> String {
    format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len())
}

#[test]
fn announced_keyless_bodies_reserve_no_body_memory() {
    let server =
        TestServer::start_with(|app| app.memory.bodies = BodyMemory::new(64 * 1024 * 1024, 1));
    let keys = server.create_default_tenant();
    let head = "POST /3ds/sessions/6fa459ea-ee8a-4ca4-894e-db77e160355e/results/x HTTP/1.1\r\n\
                Host: x\r\nContent-Type: application/json\r\nContent-Length: 262144\r\n\r\n";
    let silent_connections: Vec<_> = (0..256)
        .map(|_| {
            let mut stream = connect_from(&server, FIRST_ADDRESS);
            stream.write_all(head.as_bytes()).unwrap();
            stream
        })
        .collect();
    assert!(eventually(|| server.app.metrics.in_flight.get() >= 256));
    let large_body = json!({"type": "token", "data": "x".repeat(100_000)});
    server.create_token_ok(&keys.private, &large_body);
    let head = format!(
        "POST /tokens HTTP/1.1\nBT-API-KEY: {}\nContent-Type: application/json\n\
         Transfer-Encoding: chunked",
        keys.private
    );
    assert_eq!(
        send_raw_request(&server, SECOND_ADDRESS, &head, &chunked_body(&large_body.to_string())),
        201
    );
    drop(silent_connections);
}

#[test]
fn body_memory_is_shared_by_client_networks_and_counts_small_bodies() {
    let server = TestServer::start_with(|app| {
        app.memory.bodies = BodyMemory::new(400_000, 2);
        app.node.metrics_key = metrics_key();
    });
    let keys = server.create_default_tenant();
    let create_token = |client_address: Ipv4Addr, bytes: usize| {
        let body = json!({"type": "token", "data": "x".repeat(bytes)}).to_string();
        let head = format!(
            "POST /tokens HTTP/1.1\nBT-API-KEY: {}\nContent-Type: application/json\n\
             Content-Length: {}",
            keys.private,
            body.len()
        );
        send_raw_request(&server, client_address, &head, &body)
    };
    assert_eq!(create_token(FIRST_ADDRESS, 10_000), 201);
    // The parsed body needs more than the memory share of the network.
    assert_eq!(create_token(FIRST_ADDRESS, 15_000), 503);
    assert_eq!(create_token(FIRST_ADDRESS, 10_000), 201, "body memory was not released");

    // An incomplete body reserves memory for the received part.
    let mut slow = connect_from(&server, FIRST_ADDRESS);
    let head = format!(
        "POST /tokens HTTP/1.1\r\nHost: x\r\nBT-API-KEY: {}\r\nContent-Type: application/json\r\n\
         Content-Length: 200000\r\n\r\n{}",
        keys.private,
        "x".repeat(150_000)
    );
    slow.write_all(head.as_bytes()).unwrap();
    let get_free_bytes =
        || scrape(&server).value("scrip_body_memory_free_bytes", &[("pool", "keyed")]);
    assert!(eventually(|| get_free_bytes() == 250_000.0), "{}", get_free_bytes());
    assert_eq!(create_token(FIRST_ADDRESS, 10_000), 503);
    assert_eq!(create_token(SECOND_ADDRESS, 10_000), 201);
    drop(slow);
    assert!(eventually(|| get_free_bytes() == 400_000.0), "{}", get_free_bytes());
    let page = scrape(&server);
    let rejected =
        |reason| page.value("scrip_request_bodies_rejected_total", &[("reason", reason)]);
    assert_eq!((rejected("network_share"), rejected("pool")), (2.0, 0.0));
}

#[test]
fn content_length_is_required_for_browser_notifications_only() {
    let (server, keys) = TestServer::start_with_tenant();
    let session = "/3ds/sessions/6fa459ea-ee8a-4ca4-894e-db77e160355e";
    let post = |path: &str, content_type: &str, key: &str, body: &str| {
        let head = format!(
            "POST {path} HTTP/1.1\nBT-API-KEY: {key}\nContent-Type: {content_type}\n\
             Transfer-Encoding: chunked"
        );
        send_raw_request(&server, FIRST_ADDRESS, &head, &chunked_body(body))
    };
    let form_type = "application/x-www-form-urlencoded";
    assert_eq!(post(&format!("{session}/method-notification"), form_type, "", "a=b"), 411);
    assert_eq!(post(&format!("{session}/challenge-notification"), form_type, "", "a=b"), 411);
    let json = "application/json";
    let result_status = post(&format!("{session}/results/x"), json, "", "{}");
    assert_eq!(result_status, 200, "an EMV error message is sent with status 200");
    assert_eq!(post("/tokens", json, &keys.private, r#"{"type":"token","data":1}"#), 201);
}

#[test]
fn silent_connections_of_one_network_leave_slots_for_others() {
    let server = TestServer::start_with(|app| {
        app.node.connection_limits.connections_max = 32;
        app.node.connection_limits.connections_network_share = 4;
        app.node.connection_limits.first_byte_deadline = Duration::from_secs(600);
        app.node.connection_limits.header_deadline = Duration::from_secs(600);
        app.node.metrics_key = metrics_key();
    });
    let silent_connections: Vec<_> =
        (0..64).map(|_| connect_from(&server, FIRST_ADDRESS)).collect();
    assert!(is_served(&mut connect_from(&server, SECOND_ADDRESS)));
    let of_network = |page: &scrip_testing::process::prometheus::ParsedMetricsPage| {
        page.value("scrip_connections_evicted_total", &[("reason", "network_full")])
    };
    let page = scrape(&server);
    assert_eq!(of_network(&page), 56.0);
    assert!(eventually(|| scrape(&server).value("scrip_connections", &[]) <= 12.0));
    drop(silent_connections);
}

#[test]
fn network_with_all_slots_busy_gets_no_further_connection() {
    let server = TestServer::start_with(|app| {
        app.node.connection_limits.evictable_after = Duration::from_secs(600);
        app.node.connection_limits.connections_max = 32;
        app.node.connection_limits.connections_network_share = 4;
        app.node.metrics_key = metrics_key();
    });
    let keys = server.create_default_tenant();
    let head = format!(
        "POST /tokens HTTP/1.1\r\nHost: x\r\nBT-API-KEY: {}\r\nContent-Type: application/json\r\n\
         Content-Length: 9\r\n\r\n",
        keys.private
    );
    let busy: Vec<_> = (0..8)
        .map(|_| {
            let mut stream = connect_from(&server, FIRST_ADDRESS);
            stream.write_all(head.as_bytes()).unwrap();
            stream
        })
        .collect();
    assert!(eventually(|| server.app.metrics.in_flight.get() >= 8));
    assert!(is_closed(&mut connect_from(&server, FIRST_ADDRESS)));
    assert!(is_served(&mut connect_from(&server, SECOND_ADDRESS)));
    let rejected =
        scrape(&server).value("scrip_connections_rejected_total", &[("reason", "network_full")]);
    assert_eq!(rejected, 1.0);
    drop(busy);
}

#[test]
fn trusted_proxy_has_no_connection_cap() {
    let server = TestServer::start_with(|app| {
        app.node.connection_limits.connections_max = 32;
        app.node.connection_limits.connections_network_share = 4;
        app.settings.trusted_proxies = TrustedProxies(vec!["127.0.0.2/32".parse().unwrap()]);
    });
    let mut of_proxy: Vec<_> = (0..20).map(|_| connect_from(&server, FIRST_ADDRESS)).collect();
    let mut of_client: Vec<_> = (0..9).map(|_| connect_from(&server, SECOND_ADDRESS)).collect();
    assert!(of_proxy.iter_mut().all(is_served));
    assert!(is_closed(&mut of_client[0]));
    assert!(of_client[1..].iter_mut().all(is_served));
}

#[test]
fn connection_without_first_byte_is_closed_early() {
    let server = TestServer::start_with(|app| {
        app.node.connection_limits.first_byte_deadline = Duration::from_millis(100);
        app.node.connection_limits.header_deadline = Duration::from_secs(600);
        app.node.metrics_key = metrics_key();
    });
    let mut started_connection = connect_from(&server, FIRST_ADDRESS);
    started_connection.write_all(b"GET /heal").unwrap();
    let mut silent_connection = connect_from(&server, FIRST_ADDRESS);
    assert!(is_closed(&mut silent_connection));
    started_connection.write_all(b"thz HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    assert!(!is_closed(&mut started_connection));
    let count_closed =
        || scrape(&server).value("scrip_connections_closed_total", &[("reason", "no_first_byte")]);
    assert!(eventually(|| count_closed() == 1.0));
}

#[test]
fn body_below_minimum_rate_is_aborted_before_its_deadline() {
    let server = TestServer::start_with(|app| {
        app.settings.limits.body_deadline = Duration::from_secs(600);
        let window = Duration::from_millis(200);
        app.settings.limits.request_rate = MinimumRate { bytes_per_second: 1000, window };
    });
    let keys = server.create_default_tenant();
    let mut stream = connect_from(&server, FIRST_ADDRESS);
    let head = format!(
        "POST /tokens HTTP/1.1\r\nHost: x\r\nBT-API-KEY: {}\r\nContent-Type: application/json\r\n\
         Content-Length: 500000\r\n\r\n",
        keys.private
    );
    // The first window meets the minimum rate, the second does not.
    stream.write_all(format!("{head}{}", " ".repeat(400)).as_bytes()).unwrap();
    let mut response = Vec::new();
    drop(stream.read_to_end(&mut response));
    let response = String::from_utf8_lossy(&response).to_ascii_lowercase();
    assert!(response.starts_with("http/1.1 408"), "{response}");
    assert!(response.contains("connection: close"), "{response}");
}

#[test]
fn response_read_below_minimum_rate_closes_the_connection() {
    let server = TestServer::start_with(|app| {
        app.node.connection_limits.header_deadline = Duration::from_secs(600);
        let window = Duration::from_millis(300);
        app.node.connection_limits.response_rate =
            MinimumRate { bytes_per_second: 1_000_000_000, window };
        app.node.metrics_key = metrics_key();
    });
    let mut stream = connect_from(&server, FIRST_ADDRESS);
    let mut writer = stream.try_clone().unwrap();
    let cut =
        || scrape(&server).value("scrip_connections_closed_total", &[("reason", "response_rate")]);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let request = "GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n".repeat(100);
            while writer.write_all(request.as_bytes()).is_ok() {}
        });
        scope.spawn(|| {
            let mut chunk = vec![0; 64 * 1024];
            while matches!(stream.read(&mut chunk), Ok(1..)) {
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        assert!(eventually(|| cut() == 1.0));
    });
}

/// Returns the time of a clock that only a test advances.
static STOPPED_CLOCK_MS: AtomicU64 = AtomicU64::new(1_000);

fn stopped_clock() -> Duration {
    Duration::from_millis(STOPPED_CLOCK_MS.load(Ordering::SeqCst))
}

#[test]
fn readiness_is_checked_at_most_every_quarter_of_a_second() {
    let server = TestServer::start_with(|app| {
        app.ticks = stopped_clock;
        app.node.metrics_key = metrics_key();
    });
    let checks = || scrape(&server).value("scrip_readiness_checks_total", &[]);
    let probe = || {
        std::thread::scope(|scope| {
            for _ in 0..10 {
                scope.spawn(|| assert_eq!(server.request("GET", "/readyz").send().status, 200));
            }
        });
    };
    probe();
    assert_eq!(checks(), 1.0);
    STOPPED_CLOCK_MS.fetch_add(249, Ordering::SeqCst);
    probe();
    assert_eq!(checks(), 1.0);
    STOPPED_CLOCK_MS.fetch_add(1, Ordering::SeqCst);
    probe();
    assert_eq!(checks(), 2.0);
    // A client that does not wait for the response does not start another check.
    STOPPED_CLOCK_MS.fetch_add(250, Ordering::SeqCst);
    for _ in 0..10 {
        let mut stream = connect_from(&server, FIRST_ADDRESS);
        stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    }
    probe();
    assert_eq!(checks(), 3.0);
}

/// Returns the response status of a request to the operator listener.
fn request_operator_status(address: SocketAddr, path: &str, host: &str) -> u16 {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut response = String::new();
    drop(stream.read_to_string(&mut response));
    response.split(' ').nth(1).and_then(|it| it.parse().ok()).unwrap_or(0)
}

fn operator_listener(server: &TestServer) -> (OperatorListener, SocketAddr) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let access = OperatorAccess { key: metrics_key(), hosts: vec!["scrip.internal".to_owned()] };
    let clients = server.runtime.handle().clone();
    let node = Arc::clone(&server.node);
    (OperatorListener::start(node, listener, access, clients).unwrap(), address)
}

#[test]
fn operator_listener_responds_to_probes_while_every_worker_is_busy() {
    let server = TestServer::start();
    let (listener, address) = operator_listener(&server);
    assert_eq!(request_operator_status(address, "/healthz", "localhost"), 200);
    assert_eq!(request_operator_status(address, "/readyz", "localhost"), 200);
    let workers = server.runtime.metrics().num_workers();
    let (started, ended) =
        (Arc::new(Barrier::new(workers + 1)), Arc::new(Barrier::new(workers + 1)));
    for _ in 0..workers {
        let (started, ended) = (Arc::clone(&started), Arc::clone(&ended));
        server.runtime.spawn(async move {
            started.wait();
            ended.wait();
        });
    }
    started.wait();
    let mut of_clients = TcpStream::connect(server.address).unwrap();
    of_clients.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let clients_served = is_served(&mut of_clients);
    // Silent connections do not block probes either.
    let silent_connections: Vec<_> =
        (0..64).map(|_| TcpStream::connect(address).unwrap()).collect();
    let healthz = request_operator_status(address, "/healthz", "localhost");
    let readyz = request_operator_status(address, "/readyz", "localhost");
    ended.wait();
    assert!(!clients_served, "a worker is free, so this test proves nothing");
    assert_eq!((healthz, readyz), (200, 503));
    assert!(eventually(|| request_operator_status(address, "/readyz", "localhost") == 200));
    drop((silent_connections, listener));
    assert!(TcpStream::connect(address).is_err(), "the listener still accepts connections");
}

#[test]
fn operator_listener_rejects_unknown_host_names() {
    let server = TestServer::start();
    let (_listener, address) = operator_listener(&server);
    for path in ["/healthz", "/readyz", "/metrics"] {
        assert_eq!(request_operator_status(address, path, "attacker.example"), 421, "{path}");
        let expected_status = if path == "/metrics" { 401 } else { 200 };
        for host in ["127.0.0.1:9464", "[::1]", "localhost:1", "scrip.internal:9464"] {
            let status = request_operator_status(address, path, host);
            assert_eq!(status, expected_status, "path {path}, host {host}");
        }
    }
}
