//! A body may take its time to arrive. Whoever loses a right meanwhile has lost it for that request
//! too; and a body cannot be made to cost more than it is long.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

use scrip_core::policy::Settings;
use serde_json::{Value, json};

use crate::harness::server::{SHARED, Server, text};

/// A request without its last byte.
struct Held {
    stream: TcpStream,
    last: u8,
}

fn hold(method: &str, path: &str, key: &str, body: &Value) -> Held {
    let body = body.to_string();
    let form = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nBT-API-KEY: {key}\r\n\
         Content-Type: {form}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let mut stream = TcpStream::connect(SHARED.address).unwrap();
    let (first, last) = body.as_bytes().split_at(body.len() - 1);
    stream.write_all(&[head.as_bytes(), first].concat()).unwrap();
    // Long enough that the key has been looked at.
    std::thread::sleep(Duration::from_millis(200));
    Held { stream, last: last[0] }
}

impl Held {
    fn release(mut self) -> u16 {
        self.stream.write_all(&[self.last]).unwrap();
        let mut answer = String::new();
        self.stream.read_to_string(&mut answer).unwrap();
        answer.split(' ').nth(1).unwrap().parse().unwrap()
    }
}

#[test]
fn a_deleted_application_cannot_finish_what_it_began() {
    let keys = SHARED.tenant(Settings::default());
    let make = |kind: &str, permissions: &[&str]| {
        let body = json!({"name": "x", "type": kind, "permissions": permissions});
        let made = SHARED.post(&keys.management, "/applications", &body).is(201);
        (format!("/applications/{}", text(&made, "id")), text(&made, "key"))
    };
    SHARED.created(&keys.private, &json!({"id": "held", "type": "token", "data": 1}));
    let (manager, manager_key) = make("management", &["application:create"]);
    let (writer, writer_key) = make("private", &["token:create", "token:update"]);
    let new = json!({"name": "door", "type": "management", "permissions": ["tenant:read"]});
    let held = [
        hold("POST", "/applications", &manager_key, &new),
        hold("POST", "/tokens", &writer_key, &json!({"type": "token", "data": 1})),
        hold("PATCH", "/tokens/held", &writer_key, &json!({"data": 2})),
    ];
    for path in [&manager, &writer] {
        assert_eq!(SHARED.remove(&keys.management, path).status, 204);
    }
    assert_eq!(held.map(Held::release), [401, 401, 401]);
    assert_eq!(SHARED.get(&keys.private, "held").json()["data"], 1);
}

#[test]
fn a_right_that_was_taken_away_is_gone_at_once() {
    let keys = SHARED.tenant(Settings::default());
    let body = json!({"name": "x", "type": "private", "permissions": ["token:create"]});
    let made = SHARED.post(&keys.management, "/applications", &body).is(201);
    let token = json!({"type": "token", "data": 1});
    let held = hold("POST", "/tokens", &text(&made, "key"), &token);
    let fewer = json!({"name": "x", "permissions": ["token:read"]});
    let path = format!("/applications/{}", text(&made, "id"));
    SHARED.put(&keys.management, &path, &fewer).is(200);
    assert_eq!(held.release(), 403);
}

#[test]
fn a_deleted_tenant_takes_no_token() {
    let keys = SHARED.tenant(Settings::default());
    let held = hold("POST", "/tokens", &keys.private, &json!({"type": "token", "data": 1}));
    assert_eq!(SHARED.remove(&keys.management, "/tenants/self").status, 204);
    assert_eq!(held.release(), 401);
}

/// A client that is still writing gets its answer, and can ask again.
#[test]
fn a_path_that_is_not_there_takes_its_body() {
    for (line, status) in [("POST /nowhere", 404), ("PUT /tokens/x", 405), ("POST /healthz", 405)] {
        let mut stream = TcpStream::connect(SHARED.address).unwrap();
        let head = format!("{line} HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        // Long enough to be answered by a server that does not wait for the body.
        std::thread::sleep(Duration::from_millis(200));
        let next = "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        stream.write_all(format!("{{}}{next}").as_bytes()).unwrap();
        let mut answers = String::new();
        stream.read_to_string(&mut answers).unwrap();
        assert!(answers.starts_with(&format!("HTTP/1.1 {status}")), "{line}: {answers}");
        assert!(answers.contains("HTTP/1.1 200"), "{line}: {answers}");
    }
}

#[test]
fn many_mistakes_cost_no_more_than_one() {
    let keys = SHARED.tenant(Settings::default());
    let bodies = [
        json!({"nonce": "x", "rules": vec![json!({}); 300_000]}),
        json!({"nonce": "x", "rules": vec![1; 300_000]}),
        json!({"nonce": "x", "permissions": vec!["x"; 200_000]}),
        json!({"nonce": "x", "rules": [{"permissions": vec!["x"; 200_000]}]}),
    ];
    for body in &bodies {
        // What grew with the square took hours over these.
        let reply = SHARED.post(&keys.private, "/sessions/authorize", body);
        assert_eq!(reply.status, 400);
        assert!(reply.text.len() < 16 * 1024, "{} bytes", reply.text.len());
    }
    let containers = json!({"type": "token", "data": 1, "containers": vec!["x"; 200_000]});
    let reply = SHARED.create(&keys.private, &containers);
    reply.refused(400, "containers");
    assert!(reply.text.len() < 16 * 1024, "{} bytes", reply.text.len());
}

#[test]
fn whoever_never_reads_loses_the_connection() {
    let server = Server::with(|app| {
        app.node.connections.connections_max = 2;
        app.node.connections.header_deadline = Duration::from_secs(1);
    });
    let asked = "GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n".repeat(1000);
    let deaf: Vec<_> = (0..2)
        .map(|_| {
            let mut stream = TcpStream::connect(server.address).unwrap();
            stream.set_nonblocking(true).unwrap();
            // Until the server, which cannot write, stops reading too.
            let mut refused = 0;
            while refused < 100 {
                if stream.write(asked.as_bytes()).is_err() {
                    refused += 1;
                    std::thread::sleep(Duration::from_millis(5));
                }
            }
            stream
        })
        .collect();
    let healthy = || {
        let asked = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        server.raw(asked).contains("200 OK")
    };
    assert!((0..10).any(|_| healthy()), "there is no room again");
    drop(deaf);
}
