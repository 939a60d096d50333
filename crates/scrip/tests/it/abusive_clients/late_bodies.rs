//! A body may arrive slowly. A right that the caller loses before the body is complete no longer
//! applies to the request. The cost of a body grows at most linearly with its length.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

use serde_json::{Value, json};

use crate::harness::server::{SERVER, TestServer, text_field};

/// A request that is sent except for its last byte.
struct IncompleteRequest {
    stream: TcpStream,
    last_byte: u8,
}

fn send_without_last_byte(method: &str, path: &str, key: &str, body: &Value) -> IncompleteRequest {
    let body = body.to_string();
    let content_type =
        if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nBT-API-KEY: {key}\r\n\
         Content-Type: {content_type}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let mut stream = TcpStream::connect(SERVER.address).unwrap();
    let (first_bytes, last_byte) = body.as_bytes().split_at(body.len() - 1);
    stream.write_all(&[head.as_bytes(), first_bytes].concat()).unwrap();
    // Wait long enough for the server to authenticate the key.
    std::thread::sleep(Duration::from_millis(200));
    IncompleteRequest { stream, last_byte: last_byte[0] }
}

impl IncompleteRequest {
    fn finish(mut self) -> u16 {
        self.stream.write_all(&[self.last_byte]).unwrap();
        let mut response = String::new();
        self.stream.read_to_string(&mut response).unwrap();
        response.split(' ').nth(1).unwrap().parse().unwrap()
    }
}

#[test]
fn deleted_application_cannot_finish_a_started_request() {
    let keys = SERVER.create_default_tenant();
    let create_application = |kind: &str, permissions: &[&str]| {
        let body = json!({"name": "x", "type": kind, "permissions": permissions});
        let created = SERVER.post(&keys.management, "/applications", &body).expect_status(201);
        (format!("/applications/{}", text_field(&created, "id")), text_field(&created, "key"))
    };
    SERVER.create_token_ok(&keys.private, &json!({"id": "pending", "type": "token", "data": 1}));
    let (manager_path, manager_key) = create_application("management", &["application:create"]);
    let (writer, writer_key) = create_application("private", &["token:create", "token:update"]);
    let new_application =
        json!({"name": "door", "type": "management", "permissions": ["tenant:read"]});
    let pending_requests = [
        send_without_last_byte("POST", "/applications", &manager_key, &new_application),
        send_without_last_byte(
            "POST",
            "/tokens",
            &writer_key,
            &json!({"type": "token", "data": 1}),
        ),
        send_without_last_byte("PATCH", "/tokens/pending", &writer_key, &json!({"data": 2})),
    ];
    for path in [&manager_path, &writer] {
        assert_eq!(SERVER.delete(&keys.management, path).status, 204);
    }
    assert_eq!(pending_requests.map(IncompleteRequest::finish), [401, 401, 401]);
    assert_eq!(SERVER.get_token(&keys.private, "pending").json()["data"], 1);
}

#[test]
fn removed_permission_applies_to_a_started_request() {
    let keys = SERVER.create_default_tenant();
    let body = json!({"name": "x", "type": "private", "permissions": ["token:create"]});
    let created = SERVER.post(&keys.management, "/applications", &body).expect_status(201);
    let token = json!({"type": "token", "data": 1});
    let pending_request =
        send_without_last_byte("POST", "/tokens", &text_field(&created, "key"), &token);
    let reduced_body = json!({"name": "x", "permissions": ["token:read"]});
    let path = format!("/applications/{}", text_field(&created, "id"));
    SERVER.put(&keys.management, &path, &reduced_body).expect_status(200);
    assert_eq!(pending_request.finish(), 403);
}

#[test]
fn started_request_of_a_deleted_tenant_is_401() {
    let keys = SERVER.create_default_tenant();
    let pending_request = send_without_last_byte(
        "POST",
        "/tokens",
        &keys.private,
        &json!({"type": "token", "data": 1}),
    );
    assert_eq!(SERVER.delete(&keys.management, "/tenants/self").status, 204);
    assert_eq!(pending_request.finish(), 401);
}

/// A client that is still writing its body receives the response and can use the connection again.
#[test]
fn unknown_path_reads_the_body_and_keeps_the_connection() {
    for (line, status) in [("POST /nowhere", 404), ("PUT /tokens/x", 405), ("POST /healthz", 405)] {
        let mut stream = TcpStream::connect(SERVER.address).unwrap();
        let head = format!("{line} HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        // A server that does not wait for the body would respond within this time.
        std::thread::sleep(Duration::from_millis(200));
        let next_request = "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        stream.write_all(format!("{{}}{next_request}").as_bytes()).unwrap();
        let mut responses = String::new();
        stream.read_to_string(&mut responses).unwrap();
        assert!(responses.starts_with(&format!("HTTP/1.1 {status}")), "{line}: {responses}");
        assert!(responses.contains("HTTP/1.1 200"), "{line}: {responses}");
    }
}

#[test]
fn body_with_many_errors_gets_a_short_response() {
    let keys = SERVER.create_default_tenant();
    let bodies = [
        json!({"nonce": "x", "rules": vec![json!({}); 90_000]}),
        json!({"nonce": "x", "rules": vec![1; 90_000]}),
        json!({"nonce": "x", "permissions": vec!["x"; 90_000]}),
        json!({"nonce": "x", "rules": [{"permissions": vec!["x"; 90_000]}]}),
    ];
    for body in &bodies {
        // A quadratic algorithm took hours for these bodies.
        let response = SERVER.post(&keys.private, "/sessions/authorize", body);
        assert_eq!(response.status, 400);
        assert!(response.text.len() < 16 * 1024, "{} bytes", response.text.len());
    }
    let containers = json!({"type": "token", "data": 1, "containers": vec!["x"; 90_000]});
    let response = SERVER.create_token(&keys.private, &containers);
    response.expect_problem(400, "containers");
    assert!(response.text.len() < 16 * 1024, "{} bytes", response.text.len());
}

/// Sends a body in chunks of this length. Returns the response.
fn send_chunks(head: &str, body: &str, chunk_length: usize) -> String {
    let chunks = body.as_bytes().chunks(chunk_length);
    let chunks = chunks.map(|it| [format!("{:x}\r\n", it.len()).as_bytes(), it, b"\r\n"].concat());
    let head = format!(
        "{}\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n",
        head.replace('\n', "\r\n")
    );
    let next_request = "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let chunks: Vec<_> = chunks.collect();
    let bytes = [head.as_bytes(), &chunks.concat(), b"0\r\n\r\n", next_request.as_bytes()].concat();
    SERVER.send_raw(&bytes)
}

/// Each chunk costs as much time as a kilobyte.
#[test]
fn body_with_too_many_small_chunks_is_not_read_to_its_end() {
    let keys = SERVER.create_default_tenant();
    let private = &keys.private;
    let heads = [
        ("POST /tokens HTTP/1.1".to_owned(), 401),
        ("POST /nowhere HTTP/1.1".to_owned(), 404),
        (format!("POST /tokens HTTP/1.1\nBT-API-KEY: {private}"), 400),
        (
            format!(
                "POST /proxy HTTP/1.1\nBT-API-KEY: {private}\nBT-PROXY-URL: https://p.example/"
            ),
            400,
        ),
    ];
    let body = |length: usize| json!({"type": "token", "data": "x".repeat(length)}).to_string();
    for (head, status) in &heads {
        let response = send_chunks(head, &body(1_100), 1);
        assert!(response.starts_with(&format!("HTTP/1.1 {status} ")), "{head}: {response}");
        let (first, rest) = response.split_once("\r\n\r\n").unwrap();
        assert!(first.to_ascii_lowercase().contains("connection: close"), "{head}: {response}");
        assert!(!rest.contains("HTTP/1.1 200"), "{head}: {response}");
        if *status == 400 {
            assert!(rest.contains("too many small chunks"), "{head}: {response}");
        }
    }
    let keyed = &heads[2].0;
    for (length, chunk_length) in [(900, 1), (200_000, 64), (200_000, 10_000)] {
        let response = send_chunks(keyed, &body(length), chunk_length);
        assert!(response.starts_with("HTTP/1.1 201 "), "{length}, {chunk_length}: {response}");
        assert!(response.contains("HTTP/1.1 200"), "{length}, {chunk_length}: {response}");
    }
}

#[test]
fn client_that_never_reads_loses_its_connection() {
    let server = TestServer::start_with(|app| {
        app.node.connection_limits.connections_max = 2;
        app.node.connection_limits.header_deadline = Duration::from_secs(1);
    });
    let request = "GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n".repeat(1000);
    let not_reading: Vec<_> = (0..2)
        .map(|_| {
            let mut stream = TcpStream::connect(server.address).unwrap();
            stream.set_nonblocking(true).unwrap();
            // Write until the server stops reading because it cannot write its responses.
            let mut failed_writes = 0;
            while failed_writes < 100 {
                if stream.write(request.as_bytes()).is_err() {
                    failed_writes += 1;
                    std::thread::sleep(Duration::from_millis(5));
                }
            }
            stream
        })
        .collect();
    let healthy = || {
        let request = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        server.send_raw(request).contains("200 OK")
    };
    assert!((0..10).any(|_| healthy()), "no connection slot is free again");
    drop(not_reading);
}
