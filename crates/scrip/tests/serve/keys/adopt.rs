//! A vault without unlock methods, as earlier versions created it.

use std::{fs, os::unix::fs::DirBuilderExt};

use scrip_core::{policy::SystemKeys, store::DirectoryStore};
use scrip_seal::{AuditKey, Pepper, RootKey};
use scrip_store::SqliteStore;
use scrip_testing::process::harness::ProcessHarness;

use crate::{
    SCRIP,
    keys::{assert_readable, create_token, is_open, methods, stderr},
    operator::commands::{run_json, run_text, value_text},
};

/// A vault in the form of an earlier version: the root key itself wraps the stored keys.
pub(super) fn legacy_vault() -> (ProcessHarness, String) {
    let process = ProcessHarness::new(SCRIP);
    let data = process.data();
    fs::DirBuilder::new().mode(0o700).create(&data).unwrap();
    RootKey::create_file(&data.join("root.key")).unwrap();
    let root = RootKey::from_file(&data.join("root.key")).unwrap();
    let ((_, pepper), (_, audit_key)) =
        (Pepper::create(&root).unwrap(), AuditKey::create(&root).unwrap());
    let store = SqliteStore::open(&data.join("scrip.db")).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(store.insert_system_keys(SystemKeys { pepper, audit_key })).unwrap();
    drop(store);
    assert!(run_text(&process, &["init"]).contains("a vault exists"));
    run_json(&process, &["tenant", "create", "Acme", "--type", "test"]);
    let rule = r#"{"description":"all","priority":1,"container":"/","transform":"reveal",
        "permissions":["token:create","token:read"]}"#;
    let create = ["application", "create", "--tenant", "Acme", "--name", "A", "--type", "private"];
    let created = run_json(&process, &[&create[..], &["--rule", rule]].concat());
    let key = value_text(&created["key"]);
    (process, key)
}

#[test]
fn vault_of_an_earlier_version_is_served_by_its_root_key_until_it_is_adopted() {
    let (process, key) = legacy_vault();
    let server = process.serve();
    let token = create_token(&server, &key);
    assert!(run_text(&process, &["keys", "list"]).contains("scrip keys adopt"));
    assert!(run_text(&process, &["doctor"]).contains("run: scrip keys adopt"));
    process.assert_fails(&["keys", "rotate", "vault"], "Run first: scrip keys adopt");
    // The server keeps running.
    let output = process.run(&["keys", "adopt"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_readable(&server, &key, &token);
    assert_eq!(methods(&process).len(), 1);
    process.assert_fails(&["keys", "adopt"], "has unlock methods already");
    drop(server);

    let data = process.data();
    fs::rename(data.join("root.key"), process.path("old.key")).unwrap();
    let server = process.serve();
    assert_readable(&server, &key, &token);
    run_json(&process, &["tenant", "create", "Other", "--type", "test"]);
    drop(server);

    // The new key file is needed now.
    fs::rename(data.join("unlock.key"), process.path("new.key")).unwrap();
    fs::rename(process.path("old.key"), data.join("root.key")).unwrap();
    let server = process.serve();
    process.wait_for_log("unlock.key cannot be used");
    fs::rename(process.path("new.key"), data.join("unlock.key")).unwrap();
    assert!(is_open(&server));
}

#[test]
fn adopted_vault_opens_with_a_variable() {
    let (process, key) = legacy_vault();
    let unlock_key = "ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8=";
    process.assert_fails(&["keys", "adopt", "--with", "env"], "SCRIP_UNLOCK_KEY is not set");
    let process = process.with_variable("SCRIP_UNLOCK_KEY", unlock_key);
    run_json(&process, &["keys", "adopt", "--with", "env"]);
    fs::remove_file(process.data().join("root.key")).unwrap();
    let server = process.serve();
    let token = create_token(&server, &key);
    assert_readable(&server, &key, &token);
}
