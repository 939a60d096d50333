//! The control socket: one line of status for the owner of the data directory.

use std::{
    fs,
    io::Read,
    net::TcpStream,
    os::unix::{fs::PermissionsExt, net::UnixStream},
    time::Duration,
};

use scrip_testing::process::{
    harness::{ProcessHarness, becomes_true},
    terminate, wait,
};
use serde_json::Value;

fn read_status(process: &ProcessHarness) -> Value {
    let mut stream =
        UnixStream::connect(process.data().join("scrip.sock")).expect("the server listens");
    let mut line = String::new();
    stream.read_to_string(&mut line).expect("it tells");
    assert!(line.ends_with('\n'));
    serde_json::from_str(&line).expect("JSON")
}

#[test]
fn control_socket_reports_the_server_status() {
    let process = ProcessHarness::initialized(crate::SCRIP);
    let (file, moved_file) = (process.data().join("root.key"), process.path("moved"));
    fs::rename(&file, &moved_file).unwrap();
    let mut server = process.serve();
    let socket = process.data().join("scrip.sock");
    assert!(becomes_true(|| socket.exists()));
    assert_eq!(fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    let output = read_status(&process);
    assert_eq!(output["pid"], server.child.id());
    assert_eq!(output["url"], server.own_url.as_str());
    assert_eq!(output["sealed"], true);
    assert_eq!(output["connections"], 0);
    assert!(output["version"].is_string() && output["started_at"].is_string());

    fs::rename(&moved_file, &file).unwrap();
    assert!(becomes_true(|| read_status(&process)["sealed"] == false));
    let connections: Vec<_> = (0..3).map(|_| TcpStream::connect(server.address).unwrap()).collect();
    assert!(becomes_true(|| read_status(&process)["connections"] == 3));
    drop(connections);
    assert!(becomes_true(|| read_status(&process)["connections"] == 0));

    process.assert_fails(&["serve"], &format!("is in use by server process {}", server.child.id()));
    terminate(&server.child);
    assert!(wait(&mut server.child, Duration::from_secs(15)).is_some());
    assert!(!socket.exists(), "the socket still exists");
}

#[test]
fn stale_control_socket_is_replaced() {
    let process = ProcessHarness::initialized(crate::SCRIP);
    let socket = process.data().join("scrip.sock");
    let server = process.serve();
    assert!(becomes_true(|| socket.exists()));
    drop(server);
    assert!(socket.exists(), "a killed process must leave its socket");
    let server = process.serve();
    let response = || UnixStream::connect(&socket).is_ok();
    assert!(becomes_true(response));
    assert_eq!(read_status(&process)["pid"], server.child.id());
}
