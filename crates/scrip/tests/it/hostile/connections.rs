//! Clients that take connections, memory or time without asking for anything: others are served.

use std::{
    io::{ErrorKind, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    sync::{
        Arc, Barrier,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use scrip_api::{
    app::{body_memory::BodyMemory, limits::MinimumRate},
    middleware::client_address::TrustedProxies,
};
use scrip_core::policy::Settings;
use scrip_server::metrics::{
    key::MetricsKey,
    listener::{Access, OperatorListener},
};
use serde_json::json;
use tokio::net::TcpSocket;

use crate::{
    harness::server::Server,
    metrics::endpoint::{eventually, scrape},
};

const HEALTHZ: &[u8] = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
pub(crate) const FIRST: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
pub(crate) const SECOND: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);

pub(crate) fn metrics_key() -> Option<MetricsKey> {
    MetricsKey::parse("the-key-of-the-operator").ok()
}

/// A connection that comes from this address.
pub(crate) fn connect_from(server: &Server, address: Ipv4Addr) -> TcpStream {
    connect(server, address, TcpSocket::new_v4().unwrap())
}

pub(crate) fn connect(server: &Server, address: Ipv4Addr, socket: TcpSocket) -> TcpStream {
    let stream = server.runtime.block_on(async {
        socket.bind(SocketAddr::from((address, 0))).unwrap();
        socket.connect(server.address).await.unwrap()
    });
    let stream = stream.into_std().unwrap();
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream
}

/// Whether the connection answers a probe.
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

/// Sends a body in a way of its own; the status of the answer.
pub(crate) fn send(server: &Server, from: Ipv4Addr, head: &str, body: &str) -> u16 {
    let mut stream = connect_from(server, from);
    let head = head.replace('\n', "\r\n");
    let request = format!("{head}\r\nHost: x\r\nConnection: close\r\n\r\n{body}");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    drop(stream.read_to_end(&mut answer));
    let answer = String::from_utf8_lossy(&answer);
    answer.split(' ').nth(1).and_then(|it| it.parse().ok()).unwrap_or(0)
}

fn chunked(body: &str) -> String {
    format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len())
}

#[test]
fn announced_keyless_bodies_reserve_no_memory_of_keyed_requests() {
    let server = Server::with(|app| app.body_memory = BodyMemory::new(64 * 1024 * 1024, 1));
    let keys = server.tenant(Settings::default());
    let head = "POST /3ds/sessions/6fa459ea-ee8a-4ca4-894e-db77e160355e/results/x HTTP/1.1\r\n\
                Host: x\r\nContent-Type: application/json\r\nContent-Length: 262144\r\n\r\n";
    let silent: Vec<_> = (0..256)
        .map(|_| {
            let mut stream = connect_from(&server, FIRST);
            stream.write_all(head.as_bytes()).unwrap();
            stream
        })
        .collect();
    assert!(eventually(|| server.app.metrics.in_flight.get() >= 256));
    let large = json!({"type": "token", "data": "x".repeat(100_000)});
    server.created(&keys.private, &large);
    let head = format!(
        "POST /tokens HTTP/1.1\nBT-API-KEY: {}\nContent-Type: application/json\n\
         Transfer-Encoding: chunked",
        keys.private
    );
    assert_eq!(send(&server, SECOND, &head, &chunked(&large.to_string())), 201);
    drop(silent);
}

#[test]
fn body_memory_is_shared_by_client_networks_and_counts_small_bodies() {
    let server = Server::with(|app| {
        app.body_memory = BodyMemory::new(400_000, 2);
        app.node.metrics_key = metrics_key();
    });
    let keys = server.tenant(Settings::default());
    let create = |from: Ipv4Addr, bytes: usize| {
        let body = json!({"type": "token", "data": "x".repeat(bytes)}).to_string();
        let head = format!(
            "POST /tokens HTTP/1.1\nBT-API-KEY: {}\nContent-Type: application/json\n\
             Content-Length: {}",
            keys.private,
            body.len()
        );
        send(&server, from, &head, &body)
    };
    assert_eq!(create(FIRST, 10_000), 201);
    // Parsed, this is more than the network's half of the memory.
    assert_eq!(create(FIRST, 15_000), 503);
    assert_eq!(create(FIRST, 10_000), 201, "memory is given back");

    // A body that stays incomplete holds what has arrived of it.
    let mut slow = connect_from(&server, FIRST);
    let head = format!(
        "POST /tokens HTTP/1.1\r\nHost: x\r\nBT-API-KEY: {}\r\nContent-Type: application/json\r\n\
         Content-Length: 200000\r\n\r\n{}",
        keys.private,
        "x".repeat(150_000)
    );
    slow.write_all(head.as_bytes()).unwrap();
    let free = || scrape(&server).value("scrip_body_memory_free_bytes", &[("pool", "keyed")]);
    assert!(eventually(|| free() == 250_000.0), "{}", free());
    assert_eq!(create(FIRST, 10_000), 503);
    assert_eq!(create(SECOND, 10_000), 201);
    drop(slow);
    assert!(eventually(|| free() == 400_000.0), "{}", free());
    let page = scrape(&server);
    let refused = |reason| page.value("scrip_bodies_refused_total", &[("reason", reason)]);
    assert_eq!((refused("network_share"), refused("pool")), (2.0, 0.0));
}

#[test]
fn content_length_is_required_for_browser_notifications_only() {
    let server = Server::start();
    let keys = server.tenant(Settings::default());
    let session = "/3ds/sessions/6fa459ea-ee8a-4ca4-894e-db77e160355e";
    let post = |path: &str, content_type: &str, key: &str, body: &str| {
        let head = format!(
            "POST {path} HTTP/1.1\nBT-API-KEY: {key}\nContent-Type: {content_type}\n\
             Transfer-Encoding: chunked"
        );
        send(&server, FIRST, &head, &chunked(body))
    };
    let form = "application/x-www-form-urlencoded";
    assert_eq!(post(&format!("{session}/method-notification"), form, "", "a=b"), 411);
    assert_eq!(post(&format!("{session}/challenge-notification"), form, "", "a=b"), 411);
    let json = "application/json";
    let other = post(&format!("{session}/results/x"), json, "", "{}");
    assert_eq!(other, 200, "an error message of EMV");
    assert_eq!(post("/tokens", json, &keys.private, r#"{"type":"token","data":1}"#), 201);
}

#[test]
fn silent_connections_of_one_network_leave_slots_for_others() {
    let server = Server::with(|app| {
        app.node.connections.connections_max = 32;
        app.node.connections.connections_network_share = 4;
        app.node.connections.first_byte_deadline = Duration::from_secs(600);
        app.node.connections.header_deadline = Duration::from_secs(600);
        app.node.metrics_key = metrics_key();
    });
    let silent: Vec<_> = (0..64).map(|_| connect_from(&server, FIRST)).collect();
    assert!(is_served(&mut connect_from(&server, SECOND)));
    let of_network = |page: &scrip_testing::process::prometheus::Page| {
        page.value("scrip_connections_evicted_total", &[("reason", "network_full")])
    };
    let page = scrape(&server);
    assert_eq!(of_network(&page), 56.0);
    assert!(eventually(|| scrape(&server).value("scrip_connections", &[]) <= 12.0));
    drop(silent);
}

#[test]
fn network_with_all_slots_in_progress_is_refused_further_ones() {
    let server = Server::with(|app| {
        app.node.connections.evictable_after = Duration::from_secs(600);
        app.node.connections.connections_max = 32;
        app.node.connections.connections_network_share = 4;
        app.node.metrics_key = metrics_key();
    });
    let keys = server.tenant(Settings::default());
    let head = format!(
        "POST /tokens HTTP/1.1\r\nHost: x\r\nBT-API-KEY: {}\r\nContent-Type: application/json\r\n\
         Content-Length: 9\r\n\r\n",
        keys.private
    );
    let busy: Vec<_> = (0..8)
        .map(|_| {
            let mut stream = connect_from(&server, FIRST);
            stream.write_all(head.as_bytes()).unwrap();
            stream
        })
        .collect();
    assert!(eventually(|| server.app.metrics.in_flight.get() >= 8));
    assert!(is_closed(&mut connect_from(&server, FIRST)));
    assert!(is_served(&mut connect_from(&server, SECOND)));
    let refused =
        scrape(&server).value("scrip_connections_refused_total", &[("reason", "network_full")]);
    assert_eq!(refused, 1.0);
    drop(busy);
}

#[test]
fn trusted_proxy_has_no_connection_cap() {
    let server = Server::with(|app| {
        app.node.connections.connections_max = 32;
        app.node.connections.connections_network_share = 4;
        app.proxies = TrustedProxies(vec!["127.0.0.2/32".parse().unwrap()]);
    });
    let mut of_proxy: Vec<_> = (0..20).map(|_| connect_from(&server, FIRST)).collect();
    let mut of_client: Vec<_> = (0..9).map(|_| connect_from(&server, SECOND)).collect();
    assert!(of_proxy.iter_mut().all(is_served));
    assert!(is_closed(&mut of_client[0]));
    assert!(of_client[1..].iter_mut().all(is_served));
}

#[test]
fn connection_without_first_byte_is_closed_early() {
    let server = Server::with(|app| {
        app.node.connections.first_byte_deadline = Duration::from_millis(100);
        app.node.connections.header_deadline = Duration::from_secs(600);
        app.node.metrics_key = metrics_key();
    });
    let mut begun = connect_from(&server, FIRST);
    begun.write_all(b"GET /heal").unwrap();
    let mut silent = connect_from(&server, FIRST);
    assert!(is_closed(&mut silent));
    begun.write_all(b"thz HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    assert!(!is_closed(&mut begun));
    let cut =
        || scrape(&server).value("scrip_connections_cut_total", &[("reason", "no_first_byte")]);
    assert!(eventually(|| cut() == 1.0));
}

#[test]
fn body_below_minimum_rate_is_given_up_before_its_deadline() {
    let server = Server::with(|app| {
        app.limits.body_deadline = Duration::from_secs(600);
        let window = Duration::from_millis(200);
        app.limits.request_rate = MinimumRate { bytes_per_second: 1000, window };
    });
    let keys = server.tenant(Settings::default());
    let mut stream = connect_from(&server, FIRST);
    let head = format!(
        "POST /tokens HTTP/1.1\r\nHost: x\r\nBT-API-KEY: {}\r\nContent-Type: application/json\r\n\
         Content-Length: 500000\r\n\r\n",
        keys.private
    );
    // The first window has enough, the second has not.
    stream.write_all(format!("{head}{}", " ".repeat(400)).as_bytes()).unwrap();
    let mut answer = Vec::new();
    drop(stream.read_to_end(&mut answer));
    let answer = String::from_utf8_lossy(&answer).to_ascii_lowercase();
    assert!(answer.starts_with("http/1.1 408"), "{answer}");
    assert!(answer.contains("connection: close"), "{answer}");
}

#[test]
fn answer_read_below_minimum_rate_ends_the_connection() {
    let server = Server::with(|app| {
        app.node.connections.header_deadline = Duration::from_secs(600);
        let window = Duration::from_millis(300);
        app.node.connections.answer_rate = MinimumRate { bytes_per_second: 1_000_000_000, window };
        app.node.metrics_key = metrics_key();
    });
    let mut stream = connect_from(&server, FIRST);
    let mut writer = stream.try_clone().unwrap();
    let cut = || scrape(&server).value("scrip_connections_cut_total", &[("reason", "answer_rate")]);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let asked = "GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n".repeat(100);
            while writer.write_all(asked.as_bytes()).is_ok() {}
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

/// Milliseconds of a clock that stands still.
static STOPPED_CLOCK_MS: AtomicU64 = AtomicU64::new(1_000);

fn stopped_clock() -> Duration {
    Duration::from_millis(STOPPED_CLOCK_MS.load(Ordering::SeqCst))
}

#[test]
fn readiness_is_checked_at_most_every_quarter_of_a_second() {
    let server = Server::with(|app| {
        app.ticks = stopped_clock;
        app.node.metrics_key = metrics_key();
    });
    let checks = || scrape(&server).value("scrip_readiness_checks_total", &[]);
    let ask = || {
        std::thread::scope(|scope| {
            for _ in 0..10 {
                scope.spawn(|| assert_eq!(server.ask("GET", "/readyz").send().status, 200));
            }
        });
    };
    ask();
    assert_eq!(checks(), 1.0);
    STOPPED_CLOCK_MS.fetch_add(249, Ordering::SeqCst);
    ask();
    assert_eq!(checks(), 1.0);
    STOPPED_CLOCK_MS.fetch_add(1, Ordering::SeqCst);
    ask();
    assert_eq!(checks(), 2.0);
    // A client that does not wait for the answer does not start another check.
    STOPPED_CLOCK_MS.fetch_add(250, Ordering::SeqCst);
    for _ in 0..10 {
        let mut stream = connect_from(&server, FIRST);
        stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    }
    ask();
    assert_eq!(checks(), 3.0);
}

/// Status of a request to the operator's listener.
fn ask_operator(address: SocketAddr, path: &str, host: &str) -> u16 {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    drop(stream.read_to_string(&mut answer));
    answer.split(' ').nth(1).and_then(|it| it.parse().ok()).unwrap_or(0)
}

fn operator_listener(server: &Server) -> (OperatorListener, SocketAddr) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let access = Access { key: metrics_key(), hosts: vec!["scrip.internal".to_owned()] };
    let clients = server.runtime.handle().clone();
    let node = Arc::clone(&server.node);
    (OperatorListener::start(node, listener, access, clients).unwrap(), address)
}

#[test]
fn operator_listener_answers_probes_while_every_worker_is_busy() {
    let server = Server::start();
    let (listener, address) = operator_listener(&server);
    assert_eq!(ask_operator(address, "/healthz", "localhost"), 200);
    assert_eq!(ask_operator(address, "/readyz", "localhost"), 200);
    let workers = server.runtime.metrics().num_workers();
    let (begun, ended) = (Arc::new(Barrier::new(workers + 1)), Arc::new(Barrier::new(workers + 1)));
    for _ in 0..workers {
        let (begun, ended) = (Arc::clone(&begun), Arc::clone(&ended));
        server.runtime.spawn(async move {
            begun.wait();
            ended.wait();
        });
    }
    begun.wait();
    let mut of_clients = TcpStream::connect(server.address).unwrap();
    of_clients.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let clients_served = is_served(&mut of_clients);
    // Silent connections do not keep a probe out either.
    let silent: Vec<_> = (0..64).map(|_| TcpStream::connect(address).unwrap()).collect();
    let healthz = ask_operator(address, "/healthz", "localhost");
    let readyz = ask_operator(address, "/readyz", "localhost");
    ended.wait();
    assert!(!clients_served, "a worker was free");
    assert_eq!((healthz, readyz), (200, 503));
    assert!(eventually(|| ask_operator(address, "/readyz", "localhost") == 200));
    drop((silent, listener));
    assert!(TcpStream::connect(address).is_err(), "the listener is closed");
}

#[test]
fn operator_listener_refuses_unknown_host_names() {
    let server = Server::start();
    let (_listener, address) = operator_listener(&server);
    for path in ["/healthz", "/readyz", "/metrics"] {
        assert_eq!(ask_operator(address, path, "attacker.example"), 421, "{path}");
        let known = if path == "/metrics" { 401 } else { 200 };
        for host in ["127.0.0.1:9464", "[::1]", "localhost:1", "scrip.internal:9464"] {
            assert_eq!(ask_operator(address, path, host), known, "{path} {host}");
        }
    }
}
