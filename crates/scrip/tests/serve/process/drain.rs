//! Start and shutdown: requests in flight complete, acknowledged writes are stored, and a second
//! process cannot open the data directory.

use std::{
    fs::{self, File},
    io::{self, BufRead, BufReader, Read, Write},
    net::TcpStream,
    os::unix::fs::PermissionsExt,
    process::Stdio,
    thread::sleep,
    time::Duration,
};

use scrip_testing::process::{
    ServerProcess,
    client::{HttpClient, ServerAddress},
    scrip_dev_command, terminate, wait,
};
use serde_json::{Value, json};

use crate::SCRIP;

/// The drain deadline of the server, plus a margin for a busy machine.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(15);

/// A request with a complete head. The server still waits for the body.
struct PendingRequest {
    stream: BufReader<TcpStream>,
    body: String,
}

impl PendingRequest {
    fn start(address: &ServerAddress, number: &str) -> Self {
        let body = json!({ "type": "card", "data": { "number": number } }).to_string();
        let api_key = address.ready_message["keys"]["private"].as_str().expect("a key");
        let head = format!(
            "POST /tokens HTTP/1.1\r\nHost: localhost\r\nBT-API-KEY: {api_key}\r\n\
             Content-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let stream = TcpStream::connect(address.address).expect("the server listens");
        stream.set_read_timeout(Some(DRAIN_TIME_MAX)).expect("set the read timeout");
        let mut request = Self { stream: BufReader::new(stream), body };
        request.stream.get_mut().write_all(head.as_bytes()).expect("the server reads the head");
        // The server sends this line when it wants the body: from here on the request is in flight.
        assert_eq!(request.read_line(), "HTTP/1.1 100 Continue");
        assert_eq!(request.read_line(), "");
        request
    }

    fn read_line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).expect("a response");
        line.trim_end().to_owned()
    }

    /// Sends the rest of the request and returns the id of the created token. The server must close
    /// the connection afterwards.
    fn finish(mut self) -> String {
        self.stream.get_mut().write_all(self.body.as_bytes()).expect("the server reads the body");
        assert_eq!(self.read_line(), "HTTP/1.1 201 Created");
        let mut response_text = String::new();
        self.stream
            .read_to_string(&mut response_text)
            .expect("the server closes the connection cleanly");
        let (_, body) = response_text.split_once("\r\n\r\n").expect("a body");
        let body: Value = serde_json::from_str(body).expect("a complete JSON body");
        body["id"].as_str().expect("an id").to_owned()
    }
}

#[test]
fn requests_in_flight_are_completed_and_stored_during_shutdown() {
    let folder = tempfile::tempdir().expect("create a folder");
    let mut server = ServerProcess::start(&mut scrip_dev_command(SCRIP, folder.path()));
    let address = server.server_address.clone();
    let pending_requests: Vec<_> =
        (0..8).map(|_| PendingRequest::start(&address, "4242424242424242")).collect();
    let mut idle = TcpStream::connect(address.address).expect("the server listens");
    terminate(&server.child);

    // The listener closes immediately, not after the last request.
    let is_rejected = (0..250).any(|_| {
        sleep(Duration::from_millis(20));
        TcpStream::connect(address.address)
            .is_err_and(|it| it.kind() == io::ErrorKind::ConnectionRefused)
    });
    assert!(is_rejected, "the server still accepts new connections");
    let status = server.child.try_wait().expect("poll the child process");
    assert!(status.is_none(), "the server stopped before its requests completed");
    idle.set_read_timeout(Some(DRAIN_TIME_MAX)).expect("set the read timeout");
    assert_eq!(idle.read(&mut [0; 1]).unwrap_or(0), 0, "the idle connection is still open");

    let ids: Vec<String> = pending_requests.into_iter().map(PendingRequest::finish).collect();
    let status = wait(&mut server.child, DRAIN_TIME_MAX).expect("wait for the process to end");
    assert_eq!(status.code(), Some(0));
    let has_wal = folder.path().join("scrip.db-wal").exists();
    assert!(!has_wal, "the WAL was not checkpointed and removed");

    let server = ServerProcess::start(&mut scrip_dev_command(SCRIP, folder.path()));
    let mut client = HttpClient::connect(&server.server_address).expect("the server listens");
    for id in ids {
        let response = client.send(&format!("GET /tokens/{id}"), &[], "").expect("a response");
        assert_eq!(response.status, 200);
        assert!(response.body.contains("4242424242424242"), "the token lost its data");
    }
}

#[test]
fn endless_request_does_not_block_shutdown() {
    let folder = tempfile::tempdir().expect("create a folder");
    let mut server = ServerProcess::start(&mut scrip_dev_command(SCRIP, folder.path()));
    let pending_request = PendingRequest::start(&server.server_address, "4242424242424242");
    terminate(&server.child);
    let status = wait(&mut server.child, DRAIN_TIME_MAX)
        .expect("the server stops without the rest of the request");
    assert_eq!(status.code(), Some(0));
    drop(pending_request);
}

#[test]
fn restart_keeps_the_same_keys_in_private_files() {
    let folder = tempfile::tempdir().expect("create a folder");
    let data = folder.path().join("data");
    let output = || {
        let server = ServerProcess::start(&mut scrip_dev_command(SCRIP, &data));
        assert_ne!(server.server_address.address.port(), 0);
        let ready_message = &server.server_address.ready_message;
        (ready_message["tenant_id"].clone(), ready_message["keys"].clone())
    };
    let first = output();
    assert!(first.1["management"].is_string() && first.1["public"].is_string());
    assert_eq!(first, output());
    for file in ["root.key", "dev-keys.json", "scrip.db", "scrip.db-wal", "scrip.lock"] {
        let mode = fs::metadata(data.join(file)).expect("the file exists").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
    let mode = fs::metadata(&data).expect("the folder exists").permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[test]
fn second_process_on_the_same_data_directory_is_rejected() {
    let folder = tempfile::tempdir().expect("create a folder");
    let server = ServerProcess::start(&mut scrip_dev_command(SCRIP, folder.path()));
    let second_process = scrip_dev_command(SCRIP, folder.path())
        .stderr(Stdio::piped())
        .output()
        .expect("wait for the process to end");
    assert_eq!(second_process.status.code(), Some(1));
    assert!(second_process.stdout.is_empty());
    let stderr = String::from_utf8(second_process.stderr).expect("standard error is UTF-8");
    assert!(stderr.contains("another process has this data directory open"), "{stderr}");
    // The first process still serves requests.
    let mut client = HttpClient::connect(&server.server_address).expect("the server listens");
    assert_eq!(client.send("GET /readyz", &[], "").expect("a response").status, 200);
}

#[test]
fn standard_output_is_one_line_of_json() {
    let folder = tempfile::tempdir().expect("create a folder");
    let path = folder.path().join("stdout");
    let out = File::create(&path).expect("a file");
    let mut command = scrip_dev_command(SCRIP, &folder.path().join("data"));
    let mut child =
        command.env("SCRIP_LOG", "trace").stdout(out).spawn().expect("start the program");
    let read_output = || fs::read_to_string(&path).expect("read the file");
    let is_ready = (0..500).any(|_| {
        sleep(Duration::from_millis(20));
        read_output().ends_with('\n')
    });
    terminate(&child);
    let exit_status = wait(&mut child, DRAIN_TIME_MAX);
    if exit_status.is_none() {
        drop(child.kill());
    }
    assert!(is_ready && exit_status.is_some_and(|it| it.success()));
    assert_eq!(read_output().lines().count(), 1);
    let line: Value = serde_json::from_str(&read_output()).expect("it is JSON");
    for name in ["url", "tenant_id", "keys"] {
        assert!(!line[name].is_null(), "{name}");
    }
}

#[test]
fn dev_server_that_stops_during_its_start_announces_nothing_afterwards() {
    for delay_ms in (5..=100).step_by(5) {
        let folder = tempfile::tempdir().unwrap();
        let mut command = scrip_dev_command(SCRIP, folder.path());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().expect("run the program");
        sleep(Duration::from_millis(delay_ms));
        terminate(&child);
        let output = child.wait_with_output().expect("wait for the process to end");
        let log = String::from_utf8(output.stderr).expect("the log is UTF-8");
        let log_after_stop = log.split_once("\"stopping\"").map_or("", |(_, after)| after);
        assert!(!log_after_stop.contains("\"listening\""), "{log}");
    }
}

#[test]
fn damaged_file_of_development_keys_is_reported_without_its_content() {
    let folder = tempfile::tempdir().unwrap();
    drop(ServerProcess::start(&mut scrip_dev_command(SCRIP, folder.path())));
    let file = folder.path().join("dev-keys.json");
    for (content, expected) in [
        (&br#"{"tenant_id":"x","keys":"key_test_secret"}"#[..], "is damaged at line 1, column"),
        (b"\xff", "is damaged at line 1, column"),
    ] {
        fs::write(&file, content).unwrap();
        let mut command = scrip_dev_command(SCRIP, folder.path());
        let output = command.stderr(Stdio::piped()).output().expect("run the program");
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{message}");
        assert!(message.contains("dev-keys.json") && message.contains(expected), "{message}");
        assert!(!message.contains("key_test_secret"), "{message}");
    }
}
