//! Starting and stopping: what is in flight is answered, what was answered stays, and nobody else
//! gets at the data meanwhile.

#![expect(clippy::indexing_slicing, reason = "an absent member of a JSON value reads as null")]

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

/// The program under test.
const SCRIP: &str = env!("CARGO_BIN_EXE_scrip");

/// The deadline of the server, and a little for a busy machine.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(15);

/// A request of which the server has the head and waits for the body.
struct PendingRequest {
    stream: BufReader<TcpStream>,
    body: String,
}

impl PendingRequest {
    fn start(access: &ServerAddress, number: &str) -> Self {
        let body = json!({ "type": "card", "data": { "number": number } }).to_string();
        let api_key = access.ready_message["keys"]["private"].as_str().expect("a key");
        let head = format!(
            "POST /tokens HTTP/1.1\r\nHost: localhost\r\nBT-API-KEY: {api_key}\r\n\
             Content-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let stream = TcpStream::connect(access.address).expect("it listens");
        stream.set_read_timeout(Some(DRAIN_TIME_MAX)).expect("a deadline can be set");
        let mut pending = Self { stream: BufReader::new(stream), body };
        pending.stream.get_mut().write_all(head.as_bytes()).expect("it reads");
        // The server says so once it wants the body: from here on the request is in flight.
        assert_eq!(pending.read_line(), "HTTP/1.1 100 Continue");
        assert_eq!(pending.read_line(), "");
        pending
    }

    fn read_line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).expect("an answer");
        line.trim_end().to_owned()
    }

    /// Sends the rest; the id of the token that was made. The server must close afterwards.
    fn finish(mut self) -> String {
        self.stream.get_mut().write_all(self.body.as_bytes()).expect("it still reads");
        assert_eq!(self.read_line(), "HTTP/1.1 201 Created");
        let mut rest = String::new();
        self.stream.read_to_string(&mut rest).expect("the connection is closed in order");
        let (_, body) = rest.split_once("\r\n\r\n").expect("a body");
        let body: Value = serde_json::from_str(body).expect("the body is whole");
        body["id"].as_str().expect("an id").to_owned()
    }
}

#[test]
fn requests_in_flight_are_completed_and_stored_during_shutdown() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut server = ServerProcess::start(&mut scrip_dev_command(SCRIP, folder.path()));
    let access = server.server_address.clone();
    let pending: Vec<_> =
        (0..8).map(|_| PendingRequest::start(&access, "4242424242424242")).collect();
    let mut idle = TcpStream::connect(access.address).expect("it listens");
    terminate(&server.child);

    // The listener closes at once, not when the last request is done.
    let rejected = (0..250).any(|_| {
        sleep(Duration::from_millis(20));
        TcpStream::connect(access.address)
            .is_err_and(|it| it.kind() == io::ErrorKind::ConnectionRefused)
    });
    assert!(rejected, "new connections are refused");
    assert!(server.child.try_wait().expect("it is ours").is_none(), "it waits for its requests");
    idle.set_read_timeout(Some(DRAIN_TIME_MAX)).expect("a deadline can be set");
    assert_eq!(idle.read(&mut [0; 1]).unwrap_or(0), 0, "an idle connection is closed");

    let ids: Vec<String> = pending.into_iter().map(PendingRequest::finish).collect();
    let status = wait(&mut server.child, DRAIN_TIME_MAX).expect("it ends");
    assert_eq!(status.code(), Some(0));
    assert!(!folder.path().join("scrip.db-wal").exists(), "the log is tidied away");

    let server = ServerProcess::start(&mut scrip_dev_command(SCRIP, folder.path()));
    let mut client = HttpClient::connect(&server.server_address).expect("it listens");
    for id in ids {
        let response = client.send(&format!("GET /tokens/{id}"), &[], "").expect("an answer");
        assert_eq!(response.status, 200);
        assert!(response.body.contains("4242424242424242"), "it opens with its data");
    }
}

#[test]
fn endless_request_does_not_block_shutdown() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut server = ServerProcess::start(&mut scrip_dev_command(SCRIP, folder.path()));
    let pending = PendingRequest::start(&server.server_address, "4242424242424242");
    terminate(&server.child);
    let status = wait(&mut server.child, DRAIN_TIME_MAX).expect("it ends without the rest");
    assert_eq!(status.code(), Some(0));
    drop(pending);
}

#[test]
fn restart_keeps_the_same_keys_in_private_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let output = || {
        let server = ServerProcess::start(&mut scrip_dev_command(SCRIP, &data));
        assert_ne!(server.server_address.address.port(), 0);
        let hello = &server.server_address.ready_message;
        (hello["tenant_id"].clone(), hello["keys"].clone())
    };
    let first = output();
    assert!(first.1["management"].is_string() && first.1["public"].is_string());
    assert_eq!(first, output());
    for file in ["root.key", "dev-keys.json", "scrip.db", "scrip.db-wal", "scrip.lock"] {
        let mode = fs::metadata(data.join(file)).expect("the file is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
    let mode = fs::metadata(&data).expect("the folder is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[test]
fn second_process_on_the_same_data_directory_is_rejected() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = ServerProcess::start(&mut scrip_dev_command(SCRIP, folder.path()));
    let second =
        scrip_dev_command(SCRIP, folder.path()).stderr(Stdio::piped()).output().expect("it ends");
    assert_eq!(second.status.code(), Some(1));
    assert!(second.stdout.is_empty());
    let complaint = String::from_utf8(second.stderr).expect("it is text");
    assert!(complaint.contains("another process has this data directory open"), "{complaint}");
    // The first is none the worse for it.
    let mut client = HttpClient::connect(&server.server_address).expect("it listens");
    assert_eq!(client.send("GET /readyz", &[], "").expect("an answer").status, 200);
}

#[test]
fn standard_output_is_one_line_of_json() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("stdout");
    let out = File::create(&path).expect("a file");
    let mut command = scrip_dev_command(SCRIP, &folder.path().join("data"));
    let mut child = command.env("SCRIP_LOG", "trace").stdout(out).spawn().expect("it starts");
    let read = || fs::read_to_string(&path).expect("the file reads");
    let ready = (0..500).any(|_| {
        sleep(Duration::from_millis(20));
        read().ends_with('\n')
    });
    terminate(&child);
    let ended = wait(&mut child, DRAIN_TIME_MAX);
    if ended.is_none() {
        drop(child.kill());
    }
    assert!(ready && ended.is_some_and(|it| it.success()));
    assert_eq!(read().lines().count(), 1);
    let line: Value = serde_json::from_str(&read()).expect("it is JSON");
    for name in ["url", "tenant_id", "keys"] {
        assert!(!line[name].is_null(), "{name}");
    }
}
