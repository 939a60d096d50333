//! A process with few file descriptors: silent clients do not use them up.

use std::{
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    time::Duration,
};

use scrip_testing::process::harness::{ProcessHarness, RunningServer};
use tokio::{net::TcpSocket, runtime};

/// Opens connections from this address. Returns the connections that succeed.
fn connect_from(server: &RunningServer, address: Ipv4Addr, count: usize) -> Vec<TcpStream> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let connect = || {
        runtime.block_on(async {
            let socket = TcpSocket::new_v4().unwrap();
            socket.bind(SocketAddr::from((address, 0))).unwrap();
            let stream = socket.connect(server.address).await.ok()?.into_std().ok()?;
            stream.set_nonblocking(false).unwrap();
            Some(stream)
        })
    };
    (0..count).map_while(|_| connect()).collect()
}

#[track_caller]
fn check_healthz_while_silent(process: &ProcessHarness, networks: u8) {
    let server = process.serve();
    process.wait_for_log("the vault is open");
    let silent_connections: Vec<_> = (0..networks)
        .flat_map(|it| connect_from(&server, Ipv4Addr::new(127, 0, 3, it + 1), 200))
        .collect();
    let mut other_connection = connect_from(&server, Ipv4Addr::new(127, 0, 0, 3), 1).remove(0);
    other_connection.set_read_timeout(Some(Duration::from_secs(3))).unwrap();
    other_connection.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut response = [0; 12];
    assert!(other_connection.read_exact(&mut response).is_ok(), "no response: {}", process.log());
    assert_eq!(&response, b"HTTP/1.1 200");
    drop(silent_connections);
}

#[test]
fn connections_max_is_lowered_to_the_descriptor_limit() {
    let process = ProcessHarness::initialized(crate::SCRIP).with_descriptors(512);
    check_healthz_while_silent(&process, 3);
    let log = process.log();
    assert!(log.contains("server.connections_max is reduced"), "{log}");
    assert!(!log.contains("accept failed"), "{log}");
}

#[test]
fn accept_without_descriptors_closes_the_idlest_connection() {
    // Half of these descriptors are for connections, which leaves too few for the files of the
    // process.
    let process = ProcessHarness::initialized(crate::SCRIP).with_descriptors(48);
    check_healthz_while_silent(&process, 8);
    assert!(process.log().contains("accept failed"), "{}", process.log());
}
