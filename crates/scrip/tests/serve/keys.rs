//! Unlock methods, their changes, and the rotation of the vault key.

mod adopt;
mod alterations;
mod aws_kms;
mod compromise;
mod dual_control;
mod fingerprints;
mod health;
mod methods;
mod personal_accounts;
mod pkcs11;
#[cfg(target_os = "linux")]
mod postgres;
mod raw_scan;
mod rotation;
mod shares;
mod tenant_rotation;
mod transit;

use std::{fs, path::Path, process::Output};

use rusqlite::Connection;
use scrip_core::types::id::{UnlockId, VaultId};
use scrip_seal::{Place, Sealed, WrappingKey};
use scrip_server::control::status::query_status;
use scrip_testing::process::harness::{ProcessHarness, RunningServer, becomes_true};
use serde_json::Value;
use uuid::Uuid;

use crate::operator::commands::{open_database, run_json};

/// A card number, to recognize a token.
const CARD: &str = r#"{"type":"card","data":{"number":"4242424242424242","expiration_month":12,
    "expiration_year":2030}}"#;

fn is_open(server: &RunningServer) -> bool {
    becomes_true(|| server.status("/readyz") == 200)
}

#[track_caller]
pub(crate) fn create_token(server: &RunningServer, key: &str) -> String {
    assert!(is_open(server), "the vault is sealed");
    let request = server.request("POST", "/tokens").api_key(key);
    let response = request.header("content-type", "application/json").body(CARD).send();
    assert_eq!(response.status, 201);
    response.json()["id"].as_str().unwrap().to_owned()
}

#[track_caller]
pub(crate) fn assert_readable(server: &RunningServer, key: &str, token: &str) {
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

/// Adds a method. Every parameter is `NAME=VALUE`.
#[track_caller]
fn add_method(process: &ProcessHarness, kind: &str, parameters: &[String]) -> String {
    let mut arguments = vec!["keys", "add", kind];
    arguments.extend(parameters.iter().flat_map(|it| ["--set", it.as_str()]));
    text(&run_json(process, &arguments)["method"]["id"])
}

/// Adds a key file, whose name is also the label of its method.
#[track_caller]
fn add_file_method(process: &ProcessHarness, name: &str) -> String {
    let file = process.path(name).display().to_string();
    text(&run_json(process, &["keys", "add", "file", &file, "--label", name])["method"]["id"])
}

/// Removes all methods except one, and the root key file.
#[track_caller]
fn keep_only(process: &ProcessHarness, id: &str) {
    for method in methods(process).iter().filter(|it| it["id"] != id) {
        run_json(process, &["keys", "remove", &text(&method["id"])]);
    }
    fs::remove_file(process.data().join("root.key")).unwrap();
}

fn sealed_cause(process: &ProcessHarness) -> String {
    query_status(&process.data()).and_then(|it| it.sealed_cause).unwrap_or_default()
}

/// Expects that the vault is sealed, and that the server says why.
#[track_caller]
fn assert_sealed(process: &ProcessHarness, server: &RunningServer, cause: &str) {
    let has_cause = becomes_true(|| sealed_cause(process).contains(cause));
    assert!(has_cause, "{cause:?} is not in {:?}: {}", sealed_cause(process), process.log());
    process.wait_for_log(cause);
    assert_eq!(server.status("/readyz"), 503);
    assert_eq!(server.status("/tokens/1"), 503);
}

/// Whether the audit log of the vault gets this number of records with this text.
fn is_recorded(process: &ProcessHarness, text: &str, outcome: &str, expected: i64) -> bool {
    let sql = "SELECT count(*) FROM log_records WHERE operation = 'run_command'
        AND instr(entity, ?1) > 0 AND outcome = ?2";
    let log = Connection::open(process.data().join("read_log.db")).unwrap();
    let count = || log.query_row(sql, [text, outcome], |row| row.get::<_, i64>(0)).unwrap();
    // A record may be written after the vault is open.
    becomes_true(|| count() == expected)
}

/// The vault key and its version, unwrapped by the root key file.
fn read_vault_key(process: &ProcessHarness) -> (Vec<u8>, u32) {
    let sql = "SELECT id, vault_id, wrapped, unlocks.key_version FROM unlocks, vault_state
        WHERE kind = 'file' AND parameters = '{}'";
    let read_row = |row: &rusqlite::Row<'_>| -> rusqlite::Result<([Vec<u8>; 3], u32)> {
        Ok(([row.get(0)?, row.get(1)?, row.get(2)?], row.get(3)?))
    };
    let ([id, vault, wrapped], version) =
        open_database(process).query_row(sql, [], read_row).unwrap();
    let place = Place::new("vault key")
        .text(&VaultId(Uuid::from_slice(&vault).unwrap()).to_string())
        .text(&UnlockId(Uuid::from_slice(&id).unwrap()).to_string())
        .text("file")
        .number(version.into());
    let root_key = WrappingKey::from_file(&process.data().join("root.key")).unwrap();
    let key = root_key.unwrap(&place, &Sealed::from_stored(wrapped)).unwrap();
    (key.expose().to_vec(), version)
}
