//! Clients that make the server wait: request bodies that do not arrive and responses that are not
//! read.

use std::{
    io::{Read, Write},
    net::{Ipv4Addr, Shutdown, TcpStream},
    sync::atomic::Ordering,
    time::Duration,
};

use scrip_api::app::{body_memory::BodyMemory, response_memory::ResponseMemory};
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

/// Opens a connection with a small receive buffer, for a client that does not read responses.
fn connect_without_reading(server: &TestServer, address: Ipv4Addr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    connect(server, address, socket)
}

/// Builds the head of a notification, which needs no key, with an announced body.
const NOTIFICATION_HEAD: &str = "POST /3ds/sessions/6fa459ea-ee8a-4ca4-894e-db77e160355e/\
                                 method-notification HTTP/1.1\r\nHost: x\r\n\
                                 Content-Type: application/x-www-form-urlencoded\r\n\
                                 Content-Length: 60000\r\n\r\n";

/// Occupies every slot with connections that send this start of a request. Returns whether another
/// client is still served.
fn is_other_client_served_after(server: &TestServer, request_start: &str) -> bool {
    assert!(eventually(|| server.node.connection_counts.open.load(Ordering::SeqCst) == 0));
    let stalled: Vec<_> = (0..server.node.settings.connection_limits.connections_max)
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
        app.node.connection_limits.connections_max = 16;
        app.node.connection_limits.connections_network_share = 1;
    });
    let keys = server.create_default_tenant();
    assert!(is_other_client_served_after(&server, NOTIFICATION_HEAD), "keyless");
    let keyed = format!(
        "POST /tokens HTTP/1.1\r\nHost: x\r\nBT-API-KEY: {}\r\nContent-Type: application/json\r\n\
         Content-Length: 1000\r\n\r\n{{",
        keys.private
    );
    assert!(is_other_client_served_after(&server, &keyed), "with a key");
    // The response is ready, but the server drains the rest of the body first.
    let drained = "GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n";
    assert!(is_other_client_served_after(&server, drained), "drained");
}

#[test]
fn body_that_arrives_a_byte_at_a_time_does_not_protect_its_slot() {
    let server = TestServer::start_with(|app| {
        app.node.connection_limits.connections_max = 8;
        app.node.connection_limits.connections_network_share = 1;
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
        let mut other_client = connect_from(&server, SECOND_ADDRESS);
        other_client.set_read_timeout(Some(Duration::from_secs(3))).unwrap();
        assert!(is_served(&mut other_client));
    });
}

#[test]
fn keyless_body_must_arrive_whole_within_its_deadline() {
    let server = TestServer::start_with(|app| {
        app.settings.limits.keyless_body_deadline = Duration::from_millis(500);
    });
    let mut stream = connect_from(&server, FIRST_ADDRESS);
    stream.write_all(NOTIFICATION_HEAD.as_bytes()).unwrap();
    let mut trickling = stream.try_clone().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // The body arrives fast enough for the minimum rate.
            while trickling.write_all(&[b'x'; 100]).is_ok() {
                std::thread::sleep(Duration::from_millis(100));
            }
        });
        let mut response = [0; 12];
        let read_result = stream.read_exact(&mut response);
        drop(stream.shutdown(Shutdown::Both));
        assert!(read_result.is_ok(), "no response");
        assert_eq!(&response, b"HTTP/1.1 408");
    });
}

/// Occupies every slot with clients that do not read their response. Returns whether another client
/// is still served.
fn is_other_client_served_after_unread_responses(
    evictable_after: Duration,
    wait_max: Duration,
) -> bool {
    let server = TestServer::start_with(|app| {
        app.node.connection_limits.connections_max = 8;
        app.node.connection_limits.connections_network_share = 1;
        app.node.connection_limits.header_deadline = Duration::from_secs(600);
        app.node.connection_limits.evictable_after = evictable_after;
    });
    let request = "GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n".repeat(200);
    let not_reading: Vec<_> = (0..8)
        .map(|_| {
            let mut stream = connect_from(&server, FIRST_ADDRESS);
            stream.write_all(request.as_bytes()).unwrap();
            stream
        })
        .collect();
    // Wait until the kernel buffers are full.
    std::thread::sleep(Duration::from_secs(1));
    let mut other_client = connect_from(&server, SECOND_ADDRESS);
    other_client.set_read_timeout(Some(wait_max)).unwrap();
    let is_served = is_served(&mut other_client);
    drop(not_reading);
    is_served
}

#[test]
fn connections_with_unread_responses_lose_their_slots() {
    let seconds = Duration::from_secs;
    assert!(!is_other_client_served_after_unread_responses(seconds(600), seconds(3)));
    assert!(is_other_client_served_after_unread_responses(seconds(1), seconds(20)));
}

#[test]
fn unread_responses_use_only_the_share_of_their_network() {
    let server = TestServer::start_with(|app| {
        app.memory.responses = ResponseMemory::new(40 * 1024 * 1024, 4);
        app.node.metrics_key = metrics_key();
    });
    let keys = server.create_default_tenant();
    // A page is larger than the kernel buffers.
    let large_body = json!({"type": "token", "data": "x".repeat(150_000)});
    (0..30).for_each(|_| drop(server.create_token_ok(&keys.private, &large_body)));
    let get_free_bytes = || scrape(&server).value("scrip_response_memory_free_bytes", &[]);
    let total_bytes = 40.0 * 1024.0 * 1024.0;
    assert!(eventually(|| get_free_bytes() == total_bytes), "{}", get_free_bytes());

    let list_head = format!("GET /v2/tokens?size=30 HTTP/1.1\nBT-API-KEY: {}", keys.private);
    let not_reading: Vec<_> = (0..8)
        .map(|_| {
            let mut stream = connect_without_reading(&server, FIRST_ADDRESS);
            let request = format!("{}\r\nHost: x\r\n\r\n", list_head.replace('\n', "\r\n"));
            stream.write_all(request.as_bytes()).unwrap();
            stream
        })
        .collect();
    let count_rejected = || {
        let labels = &[("reason", "network_share")];
        scrape(&server).value("scrip_responses_rejected_total", labels)
    };
    assert!(eventually(|| count_rejected() >= 1.0), "{} bytes are free", get_free_bytes());
    assert!(
        get_free_bytes() < total_bytes && get_free_bytes() >= total_bytes * 3.0 / 4.0,
        "{} bytes are free",
        get_free_bytes()
    );
    assert_eq!(send_raw_request(&server, FIRST_ADDRESS, &list_head, ""), 503);
    // Small responses reserve no response memory. The response to a write is sent regardless of its
    // size.
    let small_head = format!("GET /permissions HTTP/1.1\nBT-API-KEY: {}", keys.private);
    assert_eq!(send_raw_request(&server, FIRST_ADDRESS, &small_head, ""), 200);
    let body = large_body.to_string();
    let create_head = format!(
        "POST /tokens HTTP/1.1\nBT-API-KEY: {}\nContent-Type: application/json\nContent-Length: {}",
        keys.private,
        body.len()
    );
    assert_eq!(send_raw_request(&server, FIRST_ADDRESS, &create_head, &body), 201);
    assert_eq!(send_raw_request(&server, SECOND_ADDRESS, &list_head, ""), 200);
    drop(not_reading);
    assert!(eventually(|| get_free_bytes() == total_bytes), "{}", get_free_bytes());
    assert_eq!(send_raw_request(&server, FIRST_ADDRESS, &list_head, ""), 200);
}

#[test]
fn incomplete_keyless_bodies_of_some_networks_leave_memory_for_others() {
    let server = TestServer::start_with(|app| {
        app.memory.keyless_bodies = BodyMemory::with_body_size(65_536, 4 * 1024 * 1024, 4);
    });
    let pending_connections: Vec<_> = (0..80)
        .map(|index| {
            let mut stream = connect_from(&server, Ipv4Addr::new(127, 0, 12, index / 16 + 1));
            stream.write_all(NOTIFICATION_HEAD.as_bytes()).unwrap();
            stream.write_all(&[b'x'; 59_000]).unwrap();
            stream
        })
        .collect();
    // A body above the share is rejected. Memory that is already reserved stays reserved.
    let get_free_bytes = || server.app.memory.keyless_bodies.free_bytes();
    assert!(eventually(|| get_free_bytes() < 4 * 1024 * 1024));
    let notify = |bytes: usize| {
        let body = format!("threeDSMethodData={}", "x".repeat(bytes));
        let head = NOTIFICATION_HEAD.split("\r\nHost").next().unwrap();
        let head = format!(
            "{head}\nContent-Type: application/x-www-form-urlencoded\nContent-Length: {}",
            body.len()
        );
        send_raw_request(&server, SECOND_ADDRESS, &head, &body)
    };
    assert_eq!(notify(200), 400, "{} bytes are free", get_free_bytes());
    assert_eq!(notify(40_000), 400, "{} bytes are free", get_free_bytes());
    drop(pending_connections);
}
