//! Unlock methods, their changes, and the rotation of the vault key.

mod adopt;
mod methods;
mod rotation;
mod shares;
mod tenant_rotation;

use std::{fs, path::Path, process::Output, time::Duration};

use rusqlite::Connection;
use scrip_testing::process::harness::{ProcessHarness, RunningServer, becomes_true};
use serde_json::Value;

use crate::operator::commands::run_json;

/// A card number, to recognize a token.
const CARD: &str = r#"{"type":"card","data":{"number":"4242424242424242","expiration_month":12,
    "expiration_year":2030}}"#;

fn is_open(server: &RunningServer) -> bool {
    becomes_true(|| server.status("/readyz") == 200)
}

#[track_caller]
fn create_token(server: &RunningServer, key: &str) -> String {
    assert!(is_open(server), "the vault is sealed");
    let request = server.request("POST", "/tokens").api_key(key);
    let response = request.header("content-type", "application/json").body(CARD).send();
    assert_eq!(response.status, 201);
    response.json()["id"].as_str().unwrap().to_owned()
}

#[track_caller]
fn assert_readable(server: &RunningServer, key: &str, token: &str) {
    assert!(is_open(server), "the vault is sealed");
    let response = server.request("GET", &format!("/tokens/{token}")).api_key(key).send();
    assert_eq!(response.status, 200);
    assert_eq!(response.json()["data"]["number"], "4242424242424242");
}

fn methods(process: &ProcessHarness) -> Vec<Value> {
    run_json(process, &["keys", "list"])["methods"].as_array().unwrap().clone()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

fn open_database(process: &ProcessHarness) -> Connection {
    let connection = Connection::open(process.data().join("scrip.db")).unwrap();
    connection.busy_timeout(Duration::from_secs(5)).unwrap();
    connection
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Whether a file of the data directory or the log contains these bytes.
fn files_contain(process: &ProcessHarness, bytes: &[u8]) -> bool {
    let contains = |path: &Path| {
        let content = fs::read(path).unwrap_or_default();
        content.windows(bytes.len()).any(|it| it == bytes)
    };
    let names = ["scrip.db", "scrip.db-wal", "read_log.db", "read_log.db-wal"];
    names.iter().any(|it| contains(&process.data().join(it))) || contains(&process.path("log"))
}
