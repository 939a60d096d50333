//! Rotation of the vault key: the data stays readable, the old key opens nothing.

use std::{fs, process::Stdio, thread::sleep, time::Duration};

use scrip_testing::process::harness::ProcessHarness;

use crate::{
    SCRIP,
    keys::{assert_readable, create_token, files_contain, is_open, methods, open_database, text},
    operator::commands::run_json,
    process::verification_codes::serve_ready,
};

/// The wrapped keys in the database.
const WRAPPED_KEYS: &str = "SELECT wrapped FROM tenant_keys UNION ALL
    SELECT wrapped FROM permanent_keys UNION ALL SELECT wrapped FROM system_keys UNION ALL
    SELECT wrapped FROM unlocks";

fn wrapped_keys(process: &ProcessHarness) -> Vec<Vec<u8>> {
    let database = open_database(process);
    let mut statement = database.prepare(WRAPPED_KEYS).unwrap();
    let rows = statement.query_map([], |row| row.get(0)).unwrap();
    // A long key is on several pages, so only its end is searched.
    let end = |it: Vec<u8>| it[it.len() - 64..].to_vec();
    rows.map(|it| it.map(end)).collect::<Result<_, _>>().unwrap()
}

#[test]
fn rotation_keeps_data_readable_and_leaves_no_key_of_the_old_version() {
    let (process, key) = ProcessHarness::with_api_key(SCRIP);
    let server = process.serve();
    let token = create_token(&server, &key);
    // The key pair for webhooks is wrapped too.
    assert_eq!(server.status("/.well-known/webhooks.v1.key"), 200);
    let pem = server.send("GET", "/.well-known/webhooks.v1.key").text();
    let old_keys = wrapped_keys(&process);
    assert!(old_keys.len() >= 6 && old_keys.iter().all(|it| files_contain(&process, it)));
    let rotated = run_json(&process, &["keys", "rotate", "vault"]);
    assert_eq!((&rotated["from"], &rotated["to"]), (&1.into(), &2.into()));
    assert_readable(&server, &key, &token);
    for old_key in &old_keys {
        assert!(!files_contain(&process, old_key), "a key of the old version is left");
    }
    let second_token = create_token(&server, &key);
    run_json(&process, &["tenant", "create", "Later", "--type", "test"]);
    assert_eq!(run_json(&process, &["keys", "rotate", "vault"])["to"], 3);
    let server = process.restart(server);
    assert_readable(&server, &key, &token);
    assert_readable(&server, &key, &second_token);
    assert_eq!(server.send("GET", "/.well-known/webhooks.v1.key").text(), pem);
    assert_eq!(run_json(&process, &["keys", "list"])["key_version"], 3);
    let verified = process.run(&["audit", "verify"]);
    assert!(verified.status.success(), "{verified:?}");
}

#[test]
fn old_vault_key_opens_nothing_after_a_rotation() {
    let process = ProcessHarness::initialized(SCRIP);
    let (database, server) = (open_database(&process), process.serve());
    assert!(is_open(&server));
    database.execute_batch("CREATE TEMP TABLE old AS SELECT * FROM unlocks").unwrap();
    run_json(&process, &["keys", "rotate", "vault"]);
    drop(server);
    database
        .execute_batch(
            "DELETE FROM unlocks; INSERT INTO unlocks SELECT * FROM old;
            UPDATE vault_state SET key_version = 1",
        )
        .unwrap();
    let server = process.serve();
    process.wait_for_log("returned a key that does not open this vault");
    assert_eq!(server.status("/readyz"), 503);
}

#[test]
fn rotation_gives_the_new_key_to_no_altered_method() {
    let process = ProcessHarness::initialized(SCRIP);
    let _server = serve_ready(&process);
    let known_key = process.path("known.key").display().to_string();
    fs::copy(process.data().join("root.key"), &known_key).unwrap();
    let sql = format!("UPDATE unlocks SET parameters = '{{\"path\":\"{known_key}\"}}'");
    open_database(&process).execute_batch(&sql).unwrap();
    process.assert_fails(&["keys", "rotate", "vault"], "was altered outside the vault");
    assert_eq!(run_json(&process, &["keys", "list"])["key_version"], 1);
}

#[test]
fn rotation_with_an_unavailable_method_changes_nothing() {
    let process = ProcessHarness::initialized(SCRIP);
    let _server = serve_ready(&process);
    let before = wrapped_keys(&process);
    let file = process.data().join("root.key");
    fs::rename(&file, process.path("moved")).unwrap();
    process.assert_fails(&["keys", "rotate", "vault"], "nothing was rotated");
    assert_eq!(wrapped_keys(&process), before);
    fs::rename(process.path("moved"), &file).unwrap();
    assert_eq!(run_json(&process, &["keys", "rotate", "vault"])["to"], 2);
}

/// Kills the server at points of a rotation. The full loop has more of them.
#[test]
fn killed_rotation_leaves_a_vault_that_opens() {
    let points = if std::env::var_os("SCRIP_TEST_LONG").is_some() { 100 } else { 10 };
    let (process, key) = ProcessHarness::with_api_key(SCRIP);
    let file = process.path("unlock.key").display().to_string();
    let server = process.serve();
    let token = create_token(&server, &key);
    run_json(&process, &["keys", "add", "file", &file, "--label", "second"]);
    drop(server);
    let mut version = 1;
    for point in 0..points {
        let mut server = process.serve();
        assert_readable(&server, &key, &token);
        let mut command = process.command(&["keys", "rotate", "vault"]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut rotation = command.spawn().unwrap();
        sleep(Duration::from_millis(point % 10 * 6));
        server.child.kill().unwrap();
        drop(rotation.wait());
        drop(server);
        let list = run_json(&process, &["keys", "list"]);
        let current = list["key_version"].as_u64().unwrap();
        assert!(current == version || current == version + 1, "{version} became {current}");
        assert_eq!(methods(&process).len(), 2);
        let versions = list["methods"].as_array().unwrap();
        assert!(versions.iter().all(|it| it["key_version"] == current), "{list}");
        version = current;
    }
    let server = process.serve();
    assert_readable(&server, &key, &token);
    let [first, second] = methods(&process).try_into().unwrap();
    run_json(&process, &["keys", "remove", &text(&first["id"])]);
    process.assert_fails(&["keys", "remove", &text(&second["id"])], "is the last unlock method");
}
