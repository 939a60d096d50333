//! A server without its key answers that it has none, and opens when it gets it.

use std::{
    fs::{self, Permissions},
    io::{Read, Write},
    net::TcpStream,
    os::unix::fs::PermissionsExt,
    thread::sleep,
    time::Duration,
};

use scrip_testing::process::{
    harness::{ProcessHarness, Running, eventually},
    terminate, wait,
};

const FOREIGN: &str = "ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8=";

#[track_caller]
fn is_sealed(server: &Running) {
    assert_eq!(server.status("/healthz"), 200);
    let asked = [
        ("GET", "/readyz"),
        ("GET", "/openapi.json"),
        ("GET", "/docs"),
        ("GET", "/"),
        ("GET", "/tokens/1"),
        ("DELETE", "/tokens/1"),
        ("POST", "/healthz"),
        ("GET", "/there/is/no/such/path"),
        ("GET", "/tokens/"),
    ];
    for (method, path) in asked {
        let reply = server.ask(method, path);
        assert_eq!(reply.status, 503, "{method} {path}");
        assert_eq!(reply.kind, "application/problem+json");
        assert!(reply.retry_after.is_some(), "{method} {path}");
    }
}

/// A client that writes its whole body before it listens gets the answer too.
#[track_caller]
fn answers_after_a_body(server: &Running) {
    let mut stream = TcpStream::connect(server.address).unwrap();
    let head = "POST /tokens HTTP/1.1\r\nHost: localhost\r\nContent-Length: 300000\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    sleep(Duration::from_millis(200));
    stream.write_all(&[b' '; 300_000]).expect("it is still read");
    let next = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(next.as_bytes()).expect("it is still read");
    let mut answers = String::new();
    stream.read_to_string(&mut answers).expect("it is answered");
    assert!(answers.starts_with("HTTP/1.1 503"), "{answers}");
    assert!(answers.contains("HTTP/1.1 200"), "{answers}");
}

#[track_caller]
fn opens(server: &Running) {
    assert!(eventually(|| server.status("/readyz") == 200), "it opens");
    assert_eq!(server.status("/tokens/1"), 401);
    assert_eq!(server.status("/there/is/no/such/path"), 404);
}

#[test]
fn a_key_that_comes_late_opens_the_vault() {
    let house = ProcessHarness::founded(crate::SCRIP);
    let (file, away) = (house.data().join("root.key"), house.path("away"));
    fs::rename(&file, &away).unwrap();
    let server = house.serve();
    is_sealed(&server);
    house.logged("the vault is sealed");
    // Time for another look or two, which find the same.
    sleep(Duration::from_secs(1));
    fs::rename(&away, &file).unwrap();
    opens(&server);
    let log = house.log();
    assert_eq!(log.matches("the vault is sealed").count(), 1, "a cause is told once: {log}");
    assert!(log.contains("root.key cannot be used"), "{log}");
    assert!(log.contains("the vault is open"));
}

/// Sealed with this file, and the cause is told; open with the right one.
fn sealed_with(spoil: impl FnOnce(&std::path::Path), cause: &str) {
    let house = ProcessHarness::founded(crate::SCRIP);
    let file = house.data().join("root.key");
    let key = fs::read(&file).unwrap();
    spoil(&file);
    let server = house.serve();
    house.logged(cause);
    is_sealed(&server);
    fs::write(&file, key).unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    opens(&server);
}

#[test]
fn the_key_of_another_vault_opens_nothing() {
    sealed_with(|it| fs::write(it, FOREIGN).unwrap(), "did not wrap the keys of this vault");
}

#[test]
fn a_malformed_key_opens_nothing() {
    sealed_with(|it| fs::write(it, "a key").unwrap(), "not the base64 text of 32 bytes");
}

#[test]
fn a_key_that_others_can_read_opens_nothing() {
    let expose = |it: &std::path::Path| {
        fs::set_permissions(it, Permissions::from_mode(0o644)).unwrap();
    };
    sealed_with(expose, "chmod 600");
}

#[test]
fn an_empty_vault_stays_sealed_and_gets_no_key() {
    let house = ProcessHarness::new(crate::SCRIP);
    house.refused(&["serve"], "there is no data directory");
    fs::create_dir(house.data()).unwrap();
    for command in [&["serve"][..], &["status"], &["tenant", "list"]] {
        house.refused(command, "there is no vault in");
    }
    assert_eq!(fs::read_dir(house.data()).unwrap().count(), 0, "a wrong path stays as it is");
    // As a first start that was cut short leaves it.
    assert!(house.run(&["init"]).status.success());
    fs::remove_file(house.data().join("root.key")).unwrap();
    let database = rusqlite::Connection::open(house.data().join("scrip.db")).unwrap();
    assert_eq!(database.execute("DELETE FROM system_keys", []).unwrap(), 2);
    drop(database);
    let mut server = house.serve();
    house.logged("run: scrip init");
    is_sealed(&server);
    answers_after_a_body(&server);
    assert!(!house.data().join("root.key").exists());
    // A sealed server stops like any other.
    terminate(&server.child);
    let status = wait(&mut server.child, Duration::from_secs(15)).expect("it ends");
    assert_eq!(status.code(), Some(0));
    assert_eq!(server.rest(), "", "nothing but the address is on standard output");

    let server = house.serve();
    assert!(house.run(&["init"]).status.success(), "beside the server that waits for it");
    opens(&server);
}

#[test]
fn init_makes_what_is_missing_and_changes_nothing() {
    let house = ProcessHarness::founded(crate::SCRIP);
    let file = house.data().join("root.key");
    let mode = |it: &std::path::Path| fs::metadata(it).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&house.data()), 0o700);
    assert_eq!(mode(&file), 0o600);
    let key = fs::read_to_string(&file).unwrap();
    assert!(house.run(&["init"]).status.success());
    assert_eq!(fs::read_to_string(&file).unwrap(), key);

    fs::write(&file, FOREIGN).unwrap();
    house.refused(&["init"], "did not wrap the keys of this vault");
    fs::remove_file(&file).unwrap();
    house.refused(&["init"], "put it back");
    assert!(!file.exists(), "a new key would hide that the old one is gone");
    // Where the key comes from the environment, no file is made.
    let house = house.set("SCRIP_ROOT_KEY", key.trim());
    assert!(house.run(&["init"]).status.success());
    assert!(!file.exists());
    opens(&house.serve());
}
