//! Rotation of the vault key after a compromise: old API keys end, data stays readable, and the old
//! keys open nothing that was written since.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    os::unix::{fs::PermissionsExt, net::UnixStream},
    path::Path,
    process::{Output, Stdio},
    thread::sleep,
    time::Duration,
};

use scrip_testing::process::harness::{ProcessHarness, RunningServer, becomes_true};
use serde_json::{Value, json};

use crate::{
    SCRIP,
    keys::{
        CARD, add_file_method, assert_readable, create_token, is_open, open_database,
        shares::{read_share_files, with_share_files},
        stderr,
    },
    operator::commands::{doctor_report, run_json, run_text},
    process::verification_codes::serve_ready,
};

fn harness() -> (ProcessHarness, String) {
    let (process, key) = ProcessHarness::with_api_key(SCRIP);
    let process = process.with_variable("SCRIP_KEYS_PROMOTE_AFTER_SECONDS", "1");
    (process.with_variable("SCRIP_KEYS_DESTROY_AFTER_SECONDS", "1"), key)
}

fn compromise_arguments(file: &str) -> [&str; 7] {
    ["keys", "rotate", "vault", "--compromised", "--yes", "--new-keys", file]
}

/// The new API key in the file, of the same kind of application as the old key.
fn read_new_key(file: &Path, old_key: &str) -> Option<String> {
    let (kind, _) = old_key.rsplit_once('_').unwrap();
    let text = fs::read_to_string(file).ok()?;
    let lines = text.lines().filter(|it| it.starts_with("api_key\t"));
    let mut keys = lines.map(|it| {
        let [_, _tenant, _application, _id, key] =
            it.split('\t').collect::<Vec<_>>().try_into().unwrap();
        key
    });
    keys.find(|it| it.starts_with(kind)).map(str::to_owned)
}

fn status_of_key(server: &RunningServer, key: &str, token: &str) -> u16 {
    assert!(is_open(server), "the vault is sealed");
    server.request("GET", &format!("/tokens/{token}")).api_key(key).send().status
}

fn audit_key_is_current(process: &ProcessHarness) -> bool {
    run_json(process, &["keys", "rotation", "status"])["audit_key"] == "current"
}

#[track_caller]
fn assert_verified(process: &ProcessHarness) {
    let verified = process.run(&["audit", "verify"]);
    assert!(verified.status.success(), "{verified:?}");
}

#[test]
fn compromise_ends_api_keys_and_keeps_tokens_and_the_audit_log() {
    let (process, key) = harness();
    let server = process.serve();
    let token = create_token(&server, &key);
    let pem = server.send("GET", "/.well-known/webhooks.v1.key").text();
    let fingerprint = |key: &str, token: &str| {
        let request = server.request("GET", &format!("/tokens/{token}")).api_key(key);
        request.send().json()["fingerprint"].clone()
    };
    let old_fingerprint = fingerprint(&key, &token);
    let path = process.path("new-keys");
    let file = path.display().to_string();
    let unconfirmed = ["keys", "rotate", "vault", "--compromised", "--new-keys", &file];
    process.assert_fails(&unconfirmed, "Use --yes to confirm");
    assert!(!path.exists());
    let text = run_text(&process, &compromise_arguments(&file));
    for expected in ["from version 1 to version 2", "(over HTTP, by their tenants)"] {
        assert!(text.contains(expected), "{text}");
    }
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let new_key = read_new_key(&path, &key).unwrap();
    assert_ne!(new_key, key);
    assert_eq!(status_of_key(&server, &key, &token), 401);
    assert_readable(&server, &new_key, &token);
    assert_eq!(fingerprint(&new_key, &token), old_fingerprint);
    assert_ne!(server.send("GET", "/.well-known/webhooks.v1.key").text(), pem);
    assert_verified(&process);
    process.assert_fails(&compromise_arguments(&file), "cannot be created");
    assert!(becomes_true(|| audit_key_is_current(&process)));
    assert_verified(&process);
    let tenant_is_idle = || {
        let status = run_json(&process, &["keys", "rotation", "status"]);
        status["tenants"].as_array().unwrap().iter().all(|it| it["state"] == "idle")
    };
    assert!(becomes_true(tenant_is_idle), "{}", process.log());
    let second_token = create_token(&server, &new_key);
    assert_eq!(status_of_key(&server, &key, &second_token), 401);
    let server = process.restart(server);
    assert_readable(&server, &new_key, &token);
    assert_readable(&server, &new_key, &second_token);
    assert_eq!(status_of_key(&server, &key, &token), 401);
    assert_verified(&process);
}

#[test]
fn backups_before_a_compromise_are_reported_as_exposed() {
    let (process, _) = harness();
    let server = serve_ready(&process);
    let list = run_json(&process, &["keys", "list"]);
    assert!(list["key_age"]["created_at"].is_string() && list["key_age"]["days"] == 0, "{list}");
    assert!(list["key_age"]["compromised_at"].is_null(), "{list}");
    let backup = process.path("backup").display().to_string();
    run_text(&process, &["backup", &backup]);
    let file = process.path("new-keys").display().to_string();
    run_text(&process, &compromise_arguments(&file));
    let list = run_json(&process, &["keys", "list"]);
    let time = list["key_age"]["compromised_at"].as_str().unwrap().to_owned();
    let expected = format!("backups before {time} are exposed: destroy them");
    let doctor = process.run(&["doctor"]);
    assert!(String::from_utf8_lossy(&doctor.stdout).contains(&expected), "{doctor:?}");
    assert!(run_text(&process, &["keys", "list"]).contains(&expected));
    let restore = ["policy", "restore", "--from", &backup, "--tenant", "Acme"];
    let refused = process.run(&restore);
    assert!(stderr(&refused).contains("are exposed: destroy them"), "{refused:?}");
    drop(server);
    assert!(run_text(&process, &["keys", "list"]).contains(&expected), "without a server");
    let restored = process.run(&["restore", &backup, "--force"]);
    let output = format!("{}{}", String::from_utf8_lossy(&restored.stdout), stderr(&restored));
    assert!(restored.status.success() && output.contains("are exposed"), "{restored:?}");
}

/// An attacker has a copy of the database with the old vault key, and a later copy.
#[test]
fn old_keys_open_nothing_that_was_written_after_a_compromise() {
    let (process, key) = harness();
    let server = process.serve();
    create_token(&server, &key);
    let copy = process.path("copy.db").display().to_string();
    open_database(&process).execute("VACUUM INTO ?1", [&copy]).unwrap();
    let file = process.path("new-keys");
    run_text(&process, &compromise_arguments(&file.display().to_string()));
    // At once, before the background work has begun.
    let new_token = create_token(&server, &read_new_key(&file, &key).unwrap());
    drop(server);
    let database = open_database(&process);
    database.execute("ATTACH ?1 AS copy", [&copy]).unwrap();
    database.execute_batch("PRAGMA foreign_keys = OFF").unwrap();
    for table in [
        "unlocks",
        "vault_state",
        "system_keys",
        "api_keys",
        "applications",
        "tenant_keys",
        "permanent_keys",
        "tenants",
    ] {
        let sql = format!(
            "DELETE FROM main.{table}; INSERT INTO main.{table} SELECT * FROM copy.{table}"
        );
        database.execute_batch(&sql).unwrap();
    }
    drop(database);
    let server = process.serve();
    let unknown = status_of_key(&server, &key, "5f0c1f3e-0000-4000-8000-000000000000");
    assert_eq!(unknown, 404, "the control: the old keys open the old policy");
    let status = status_of_key(&server, &key, &new_token);
    assert!(status >= 500, "the old keys opened a token that was written later: {status}");
}

#[test]
fn old_idempotency_key_and_cursor_are_no_server_error_after_a_compromise() {
    let (process, key) = harness();
    let server = process.serve();
    let create = |key: &str| {
        let request = server.request("POST", "/tokens").api_key(key);
        let request = request.header("content-type", "application/json");
        request.header("bt-idempotency-key", "order-1").body(CARD).send()
    };
    create_token(&server, &key);
    let first = create(&key).json()["id"].clone();
    assert_eq!(create(&key).json()["id"], first, "a replay before the compromise");
    let page = server.request("GET", "/v2/tokens?size=1").api_key(&key).send().json();
    let cursor = page["pagination"]["next"].as_str().unwrap().to_owned();
    let file = process.path("new-keys");
    run_text(&process, &compromise_arguments(&file.display().to_string()));
    let new_key = read_new_key(&file, &key).unwrap();
    let repeated = create(&new_key);
    assert_eq!(repeated.status, 201);
    assert_ne!(repeated.json()["id"], first, "the stored answer is dropped");
    let path = format!("/v2/tokens?size=1&start={cursor}");
    let status = server.request("GET", &path).api_key(&new_key).send().status;
    assert!(status == 200 || (400..500).contains(&status), "{status}");
}

/// Kills the server at points of the rotation, and at points of the work that follows it.
#[test]
fn killed_compromise_rotation_leaves_a_vault_with_known_api_keys() {
    let points = if std::env::var_os("SCRIP_TEST_LONG").is_some() { 60 } else { 10 };
    let (process, mut key) = harness();
    let mut server = process.serve();
    let token = create_token(&server, &key);
    let (mut version, mut rotations) = (1, 0);
    for point in 0..points {
        let path = process.path(&format!("new-keys-{point}"));
        let file = path.display().to_string();
        let mut command = process.command(&compromise_arguments(&file));
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut rotation = command.spawn().unwrap();
        sleep(Duration::from_millis(point % 10 * 40));
        server.child.kill().unwrap();
        drop(rotation.wait());
        drop(server);
        let current = run_json(&process, &["keys", "list"])["key_version"].as_u64().unwrap();
        assert!(current == version || current == version + 1, "{version} became {current}");
        if current > version {
            let new_key = read_new_key(&path, &key).expect("the file has the new keys");
            assert_ne!(std::mem::replace(&mut key, new_key), key);
            rotations += 1;
        }
        version = current;
        server = process.serve();
        assert_readable(&server, &key, &token);
        // Kill it again while the audit key changes and rows are encrypted again.
        sleep(Duration::from_millis(point % 10 * 250));
        server.child.kill().unwrap();
        server = process.restart(server);
        assert_readable(&server, &key, &token);
        assert_verified(&process);
        assert!(becomes_true(|| audit_key_is_current(&process)), "{}", process.log());
    }
    assert!(rotations > 0, "no rotation was faster than the kill");
    assert_verified(&process);
}

#[test]
fn removed_method_can_be_followed_by_a_rotation() {
    let process = ProcessHarness::initialized(SCRIP);
    let _server = serve_ready(&process);
    let [first, second] = ["first", "second"].map(|it| add_file_method(&process, it));
    let text = run_text(&process, &["keys", "remove", &first]);
    assert!(text.contains("until the vault key is rotated"), "{text}");
    assert_eq!(run_json(&process, &["keys", "list"])["key_version"], 1);
    let removed = run_json(&process, &["keys", "remove", &second, "--rotate"]);
    assert_eq!(removed["rotated"]["to"], 2);
    assert_eq!(run_json(&process, &["keys", "list"])["key_version"], 2);
}

#[test]
fn old_vault_key_is_reported() {
    let process = ProcessHarness::initialized(SCRIP);
    let long_ago = "UPDATE unlocks SET created_at = 1000";
    open_database(&process).execute_batch(long_ago).unwrap();
    let output = doctor_report(&process);
    assert!(output.contains("older than keys.vault_max_age_days"), "{output}");
    let _server = serve_ready(&process);
    process.wait_for_log("the vault key is older than keys.vault_max_age_days");
    run_json(&process, &["keys", "list"]);
}

/// Sends one request to the control socket.
pub(super) fn send(process: &ProcessHarness, request: &Value) -> Value {
    let mut socket = UnixStream::connect(process.data().join("scrip.sock")).unwrap();
    writeln!(socket, "{request}").unwrap();
    let mut line = String::new();
    BufReader::new(socket).read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap()
}

/// Another rotation may come first while the operator stores the new keys or collects shares.
#[test]
fn waiting_compromise_rotation_is_confirmed_only_by_its_id() {
    let (process, key) = harness();
    let server = process.serve();
    let token = create_token(&server, &key);
    let start = json!({ "command": "rotate_vault", "count": null, "compromised": true });
    let [first, second] = [(), ()].map(|()| send(&process, &start)["result"]["id"].clone());
    assert!(first.is_string() && second.is_string() && first != second);
    let confirm = |id: &Value| {
        send(&process, &json!({ "command": "confirm_rotation", "rotation": id, "shares": [] }))
    };
    let is_refused =
        |it: &Value| it["error"].as_str().is_some_and(|it| it.contains("does not wait any more"));
    assert!(is_refused(&confirm(&first)), "the second one has replaced it");
    assert_eq!(run_json(&process, &["keys", "rotate", "vault"])["to"], 2);
    assert!(is_refused(&confirm(&second)), "the vault key has another version");
    assert_eq!(status_of_key(&server, &key, &token), 200);
}

/// The old keys end with the rotation, so the file with the new ones must be where it was.
#[test]
fn compromise_rotation_without_its_file_changes_nothing() {
    let (process, key) = harness();
    let server = process.serve();
    let token = create_token(&server, &key);
    let add = ["keys", "add", "shamir", "--shares", "2", "--threshold", "2"];
    enter_shares(&process, &add, || ());
    let file = process.path("new-keys");
    let rotate = compromise_arguments(file.to_str().unwrap()).map(str::to_owned);
    let rotate: Vec<&str> = rotate.iter().map(String::as_str).collect();
    // The command waits for shares after it has written the file.
    let output = enter_shares(&process, &rotate, || fs::remove_file(&file).unwrap());
    assert!(stderr(&output).contains("was moved, removed or replaced"), "{output:?}");
    assert_eq!(status_of_key(&server, &key, &token), 200);
}

/// Reads the two shares of a command, does something else, and enters the shares.
fn enter_shares(
    process: &ProcessHarness,
    arguments: &[&str],
    before_entry: impl FnOnce(),
) -> Output {
    let arguments = with_share_files(process, arguments, 2);
    let mut command = process.command(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let shares = read_share_files(&mut stdout, 2).join("\n") + "\n";
    before_entry();
    child.stdin.take().unwrap().write_all(shares.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}
