//! Clients for which the server waits: bodies that do not arrive, and answers that are not read.

use std::{
    io::{Read, Write},
    net::{Ipv4Addr, Shutdown, TcpStream},
    sync::atomic::Ordering,
    time::Duration,
};

use scrip_api::app::{body_memory::BodyMemory, response_memory::ResponseMemory};
use scrip_core::policy::TenantSettings;
use serde_json::json;
use tokio::net::TcpSocket;

use crate::{
    abusive_clients::connections::{
        FIRST_ADDRESS, SECOND_ADDRESS, connect, connect_from, is_served, metrics_key,
        send_raw_request,
    },
    harness::server::TestServer,
    metrics::endpoint::{eventually, scrape},
};

/// A connection of a client whose kernel takes little of an answer that the client does not read.
fn connect_without_reading(server: &TestServer, address: Ipv4Addr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    connect(server, address, socket)
}

/// The head of a notification that needs no key and announces a body.
const NOTIFICATION_HEAD: &str = "POST /3ds/sessions/6fa459ea-ee8a-4ca4-894e-db77e160355e/\
                                 method-notification HTTP/1.1\r\nHost: x\r\n\
                                 Content-Type: application/x-www-form-urlencoded\r\n\
                                 Content-Length: 60000\r\n\r\n";

/// Takes every slot with requests that begin like this, and whether another client is served.
fn is_other_client_served_after(server: &TestServer, request_start: &str) -> bool {
    assert!(eventually(|| server.node.connections.open.load(Ordering::SeqCst) == 0));
    let stalled: Vec<_> = (0..server.node.settings.connections.connections_max)
        .map(|_| {
            let mut stream = connect_from(server, FIRST_ADDRESS);
            stream.write_all(request_start.as_bytes()).unwrap();
            stream
        })
        .collect();
    let expected = u64::try_from(stalled.len()).unwrap();
    let in_flight = || server.app.metrics.in_flight.get();
    assert!(
        eventually(|| in_flight() >= expected),
        "{} of {expected}: {request_start}",
        in_flight()
    );
    is_served(&mut connect_from(server, SECOND_ADDRESS))
}

#[test]
fn requests_that_never_send_their_body_lose_their_slots() {
    let server = TestServer::start_with(|app| {
        app.node.connections.connections_max = 16;
        app.node.connections.connections_network_share = 1;
    });
    let keys = server.create_test_tenant(TenantSettings::default());
    assert!(is_other_client_served_after(&server, NOTIFICATION_HEAD), "keyless");
    let keyed = format!(
        "POST /tokens HTTP/1.1\r\nHost: x\r\nBT-API-KEY: {}\r\nContent-Type: application/json\r\n\
         Content-Length: 1000\r\n\r\n{{",
        keys.private
    );
    assert!(is_other_client_served_after(&server, &keyed), "with a key");
    // The answer is ready, and the rest of the body is drained before it.
    let drained = "GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n";
    assert!(is_other_client_served_after(&server, drained), "drained");
}

#[test]
fn body_that_arrives_a_byte_at_a_time_does_not_protect_its_slot() {
    let server = TestServer::start_with(|app| {
        app.node.connections.connections_max = 8;
        app.node.connections.connections_network_share = 1;
    });
    let mut stalled: Vec<_> = (0..8).map(|_| connect_from(&server, FIRST_ADDRESS)).collect();
    stalled.iter_mut().for_each(|it| it.write_all(NOTIFICATION_HEAD.as_bytes()).unwrap());
    assert!(eventually(|| server.app.metrics.in_flight.get() >= 8));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..40 {
                stalled.iter_mut().for_each(|it| drop(it.write_all(b"x")));
                std::thread::sleep(Duration::from_millis(100));
            }
        });
        let mut other = connect_from(&server, SECOND_ADDRESS);
        other.set_read_timeout(Some(Duration::from_secs(3))).unwrap();
        assert!(is_served(&mut other));
    });
}

#[test]
fn keyless_body_must_arrive_whole_within_its_deadline() {
    let server = TestServer::start_with(|app| {
        app.limits.keyless_body_deadline = Duration::from_millis(500);
    });
    let mut stream = connect_from(&server, FIRST_ADDRESS);
    stream.write_all(NOTIFICATION_HEAD.as_bytes()).unwrap();
    let mut trickling = stream.try_clone().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Fast enough for the minimum rate.
            while trickling.write_all(&[b'x'; 100]).is_ok() {
                std::thread::sleep(Duration::from_millis(100));
            }
        });
        let mut response = [0; 12];
        let read = stream.read_exact(&mut response);
        drop(stream.shutdown(Shutdown::Both));
        assert!(read.is_ok(), "no answer");
        assert_eq!(&response, b"HTTP/1.1 408");
    });
}

/// Takes every slot with clients that do not read, and whether another client is served.
fn is_other_client_served_after_unread_responses(evictable_after: Duration) -> bool {
    let server = TestServer::start_with(|app| {
        app.node.connections.connections_max = 8;
        app.node.connections.connections_network_share = 1;
        app.node.connections.header_deadline = Duration::from_secs(600);
        app.node.connections.evictable_after = evictable_after;
    });
    let request = "GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n".repeat(200);
    let deaf: Vec<_> = (0..8)
        .map(|_| {
            let mut stream = connect_from(&server, FIRST_ADDRESS);
            stream.write_all(request.as_bytes()).unwrap();
            stream
        })
        .collect();
    // Until the kernel's buffers are full.
    std::thread::sleep(Duration::from_secs(1));
    let mut other = connect_from(&server, SECOND_ADDRESS);
    other.set_read_timeout(Some(Duration::from_secs(3))).unwrap();
    let is_served = is_served(&mut other);
    drop(deaf);
    is_served
}

#[test]
fn connections_with_unread_responses_lose_their_slots() {
    assert!(!is_other_client_served_after_unread_responses(Duration::from_secs(600)));
    assert!(is_other_client_served_after_unread_responses(Duration::from_secs(1)));
}

#[test]
fn unread_responses_use_only_the_share_of_their_network() {
    let server = TestServer::start_with(|app| {
        app.response_memory = ResponseMemory::new(40 * 1024 * 1024, 4);
        app.node.metrics_key = metrics_key();
    });
    let keys = server.create_test_tenant(TenantSettings::default());
    // A page is more than the kernel's buffers take.
    let large = json!({"type": "token", "data": "x".repeat(150_000)});
    (0..30).for_each(|_| drop(server.create_token_ok(&keys.private, &large)));
    let free = || scrape(&server).value("scrip_answer_memory_free_bytes", &[]);
    let whole = 40.0 * 1024.0 * 1024.0;
    assert!(eventually(|| free() == whole), "{}", free());

    let list = format!("GET /v2/tokens?size=30 HTTP/1.1\nBT-API-KEY: {}", keys.private);
    let deaf: Vec<_> = (0..8)
        .map(|_| {
            let mut stream = connect_without_reading(&server, FIRST_ADDRESS);
            let request = format!("{}\r\nHost: x\r\n\r\n", list.replace('\n', "\r\n"));
            stream.write_all(request.as_bytes()).unwrap();
            stream
        })
        .collect();
    let rejected = || {
        let labels = &[("reason", "network_share")];
        scrape(&server).value("scrip_answers_refused_total", labels)
    };
    assert!(eventually(|| rejected() >= 1.0), "{} bytes are free", free());
    assert!(free() < whole && free() >= whole * 3.0 / 4.0, "{} bytes are free", free());
    assert_eq!(send_raw_request(&server, FIRST_ADDRESS, &list, ""), 503);
    // Small answers need no memory, and a write is answered whatever it takes.
    let small = format!("GET /permissions HTTP/1.1\nBT-API-KEY: {}", keys.private);
    assert_eq!(send_raw_request(&server, FIRST_ADDRESS, &small, ""), 200);
    let body = large.to_string();
    let create = format!(
        "POST /tokens HTTP/1.1\nBT-API-KEY: {}\nContent-Type: application/json\nContent-Length: {}",
        keys.private,
        body.len()
    );
    assert_eq!(send_raw_request(&server, FIRST_ADDRESS, &create, &body), 201);
    assert_eq!(send_raw_request(&server, SECOND_ADDRESS, &list, ""), 200);
    drop(deaf);
    assert!(eventually(|| free() == whole), "{}", free());
    assert_eq!(send_raw_request(&server, FIRST_ADDRESS, &list, ""), 200);
}

#[test]
fn incomplete_keyless_bodies_of_some_networks_leave_memory_for_others() {
    let server = TestServer::start_with(|app| {
        app.keyless_body_memory = BodyMemory::with_body_size(65_536, 4 * 1024 * 1024, 4);
    });
    let held: Vec<_> = (0..80)
        .map(|at| {
            let mut stream = connect_from(&server, Ipv4Addr::new(127, 0, 12, at / 16 + 1));
            stream.write_all(NOTIFICATION_HEAD.as_bytes()).unwrap();
            stream.write_all(&[b'x'; 59_000]).unwrap();
            stream
        })
        .collect();
    // What is past the share is refused; what is held stays.
    let free = || server.app.keyless_body_memory.free_bytes();
    std::thread::sleep(Duration::from_millis(500));
    assert!(free() < 4 * 1024 * 1024);
    let notify = |bytes: usize| {
        let body = format!("threeDSMethodData={}", "x".repeat(bytes));
        let head = NOTIFICATION_HEAD.split("\r\nHost").next().unwrap();
        let head = format!(
            "{head}\nContent-Type: application/x-www-form-urlencoded\nContent-Length: {}",
            body.len()
        );
        send_raw_request(&server, SECOND_ADDRESS, &head, &body)
    };
    assert_eq!(notify(200), 400, "{} bytes are free", free());
    assert_eq!(notify(40_000), 400, "{} bytes are free", free());
    drop(held);
}
