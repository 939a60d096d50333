//! A server without its root key reports that it is sealed, and unseals when it gets the key.

use std::{
    fs::{self, Permissions},
    io::{Read, Write},
    net::TcpStream,
    os::unix::fs::PermissionsExt,
    thread::sleep,
    time::Duration,
};

use scrip_testing::process::harness::{ProcessHarness, RunningServer, becomes_true};

const FOREIGN_KEY: &str = "ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8=";

#[track_caller]
fn expect_sealed(server: &RunningServer) {
    assert_eq!(server.status("/healthz"), 200);
    let request = [
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
    for (method, path) in request {
        let response = server.send(method, path);
        assert_eq!(response.status, 503, "{method} {path}");
        assert_eq!(response.headers["content-type"], "application/problem+json");
        assert!(response.header("retry-after").is_some(), "{method} {path}");
    }
}

/// A client that writes its whole body before it reads gets the response, too.
#[track_caller]
fn expect_response_after_body(server: &RunningServer) {
    let mut stream = TcpStream::connect(server.address).unwrap();
    let head = "POST /tokens HTTP/1.1\r\nHost: localhost\r\nContent-Length: 300000\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    sleep(Duration::from_millis(200));
    stream.write_all(&[b' '; 300_000]).expect("the server reads the request");
    let next_request = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(next_request.as_bytes()).expect("the server reads the request");
    let mut responses = String::new();
    stream.read_to_string(&mut responses).expect("the server responds");
    assert!(responses.starts_with("HTTP/1.1 503"), "{responses}");
    assert!(responses.contains("HTTP/1.1 200"), "{responses}");
}

#[track_caller]
fn expect_unsealed(server: &RunningServer) {
    assert!(becomes_true(|| server.status("/readyz") == 200), "it opens");
    assert_eq!(server.status("/tokens/1"), 401);
    assert_eq!(server.status("/there/is/no/such/path"), 404);
}

#[test]
fn root_key_that_appears_later_unseals_the_vault() {
    let process = ProcessHarness::initialized(crate::SCRIP);
    let (file, moved_file) = (process.data().join("root.key"), process.path("moved"));
    fs::rename(&file, &moved_file).unwrap();
    let server = process.serve();
    expect_sealed(&server);
    process.wait_for_log("the vault is sealed");
    // Wait for further attempts, which have the same result.
    sleep(Duration::from_secs(1));
    fs::rename(&moved_file, &file).unwrap();
    expect_unsealed(&server);
    let log = process.log();
    let messages = log.matches("the vault is sealed").count();
    assert_eq!(messages, 1, "the cause was logged more than once: {log}");
    assert!(log.contains("root.key cannot be used: No such file or directory"), "{log}");
    assert_eq!(log.matches("No such file or directory").count(), 1, "{log}");
    process.wait_for_log("the vault is open");
}

/// Expects that the vault is sealed with this key file, that the cause is logged, and that the
/// right file unseals it.
fn check_sealed_by(damage: impl FnOnce(&std::path::Path), cause: &str) {
    let process = ProcessHarness::initialized(crate::SCRIP);
    let file = process.data().join("root.key");
    let key = fs::read(&file).unwrap();
    damage(&file);
    let server = process.serve();
    process.wait_for_log(cause);
    expect_sealed(&server);
    fs::write(&file, key).unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    expect_unsealed(&server);
}

#[test]
fn root_key_of_another_vault_keeps_the_vault_sealed() {
    check_sealed_by(
        |it| fs::write(it, FOREIGN_KEY).unwrap(),
        "this is the root key of another vault",
    );
}

#[test]
fn malformed_root_key_keeps_the_vault_sealed() {
    check_sealed_by(|it| fs::write(it, "a key").unwrap(), "which is base64 of 32 bytes");
}

#[test]
fn root_key_of_zeros_keeps_the_vault_sealed_and_the_message_asks_for_a_copy_first() {
    let zeros = format!("{}=", "A".repeat(43));
    let cause = "is not random: it has fewer than 8 different bytes. An existing vault needs its \
                 own root key";
    check_sealed_by(|it| fs::write(it, zeros).unwrap(), cause);
}

#[test]
fn root_key_readable_by_others_keeps_the_vault_sealed() {
    let make_readable = |it: &std::path::Path| {
        fs::set_permissions(it, Permissions::from_mode(0o644)).unwrap();
    };
    check_sealed_by(make_readable, "chmod 600");
}

#[test]
fn empty_vault_stays_sealed_and_serve_creates_no_key() {
    let process = ProcessHarness::new(crate::SCRIP);
    process.assert_fails(&["serve"], "does not exist. If this vault existed before");
    fs::create_dir(process.data()).unwrap();
    for command in [&["serve"][..], &["status"], &["tenant", "list"]] {
        process.assert_fails(command, "contains no vault. If this vault existed before");
    }
    let files = fs::read_dir(process.data()).unwrap().count();
    assert_eq!(files, 0, "files were created at a wrong path");
    // This is the state after an interrupted first start.
    assert!(process.run(&["init"]).status.success());
    fs::remove_file(process.data().join("root.key")).unwrap();
    let database = rusqlite::Connection::open(process.data().join("scrip.db")).unwrap();
    assert_eq!(database.execute("DELETE FROM system_keys", []).unwrap(), 2);
    database.execute_batch("DELETE FROM unlocks; DELETE FROM vault_state").unwrap();
    drop(database);
    let mut server = process.serve();
    process.wait_for_log("run: scrip init");
    expect_sealed(&server);
    expect_response_after_body(&server);
    assert!(!process.data().join("root.key").exists());
    // A sealed server stops as an unsealed server does.
    server.stop();
    assert_eq!(server.remaining_output(), "", "standard output has more than the address");

    let server = process.serve();
    assert!(process.run(&["init"]).status.success(), "init failed while a sealed server runs");
    expect_unsealed(&server);
}

#[test]
fn init_creates_missing_parts_and_changes_nothing_else() {
    let process = ProcessHarness::initialized(crate::SCRIP);
    let file = process.data().join("root.key");
    let read_mode = |it: &std::path::Path| fs::metadata(it).unwrap().permissions().mode() & 0o777;
    assert_eq!(read_mode(&process.data()), 0o700);
    assert_eq!(read_mode(&file), 0o600);
    let key = fs::read_to_string(&file).unwrap();
    assert!(process.run(&["init"]).status.success());
    assert_eq!(fs::read_to_string(&file).unwrap(), key);

    fs::write(&file, FOREIGN_KEY).unwrap();
    process.assert_fails(&["init"], "this is the root key of another vault");
    fs::remove_file(&file).unwrap();
    process.assert_fails(&["init"], "restore that file");
    assert!(!file.exists(), "a new key would hide the loss of the old one");
    // If the key comes from the environment, no file is created.
    let process = process.with_variable("SCRIP_ROOT_KEY", key.trim());
    assert!(process.run(&["init"]).status.success());
    assert!(!file.exists());
    expect_unsealed(&process.serve());
}
