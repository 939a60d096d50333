//! The control socket: one line for the owner of the data directory.

use std::{
    fs,
    io::Read,
    net::TcpStream,
    os::unix::{fs::PermissionsExt, net::UnixStream},
    time::Duration,
};

use scrip_testing::process::{
    harness::{ProcessHarness, eventually},
    terminate, wait,
};
use serde_json::Value;

fn status(house: &ProcessHarness) -> Value {
    let mut stream = UnixStream::connect(house.data().join("scrip.sock")).expect("it listens");
    let mut line = String::new();
    stream.read_to_string(&mut line).expect("it tells");
    assert!(line.ends_with('\n'));
    serde_json::from_str(&line).expect("JSON")
}

#[test]
fn a_server_tells_about_itself() {
    let house = ProcessHarness::founded(crate::SCRIP);
    let (file, away) = (house.data().join("root.key"), house.path("away"));
    fs::rename(&file, &away).unwrap();
    let mut server = house.serve();
    let socket = house.data().join("scrip.sock");
    assert!(eventually(|| socket.exists()));
    assert_eq!(fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    let said = status(&house);
    assert_eq!(said["pid"], server.child.id());
    assert_eq!(said["url"], server.own_url.as_str());
    assert_eq!(said["sealed"], true);
    assert_eq!(said["connections"], 0);
    assert!(said["version"].is_string() && said["started_at"].is_string());

    fs::rename(&away, &file).unwrap();
    assert!(eventually(|| status(&house)["sealed"] == false));
    let held: Vec<_> = (0..3).map(|_| TcpStream::connect(server.address).unwrap()).collect();
    assert!(eventually(|| status(&house)["connections"] == 3));
    drop(held);
    assert!(eventually(|| status(&house)["connections"] == 0));

    house.refused(&["serve"], &format!("is served by process {}", server.child.id()));
    terminate(&server.child);
    assert!(wait(&mut server.child, Duration::from_secs(15)).is_some());
    assert!(!socket.exists(), "it is taken away");
}

#[test]
fn a_stale_socket_is_replaced() {
    let house = ProcessHarness::founded(crate::SCRIP);
    let socket = house.data().join("scrip.sock");
    let server = house.serve();
    assert!(eventually(|| socket.exists()));
    drop(server);
    assert!(socket.exists(), "a process that was killed leaves it");
    let server = house.serve();
    let answered = || UnixStream::connect(&socket).is_ok();
    assert!(eventually(answered));
    assert_eq!(status(&house)["pid"], server.child.id());
}
