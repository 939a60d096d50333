//! Rows of keys that a person with write access to the database takes from an older copy or from
//! another vault.

use std::fs;

use scrip_testing::process::harness::{ProcessHarness, becomes_true};

use crate::{
    SCRIP,
    keys::{
        add_file_method, assert_readable, create_token, methods, open_database, read_vault_key,
        stderr, text,
    },
    operator::commands::{doctor_report, run_json},
    process::verification_codes::serve_ready,
};

#[test]
fn row_of_a_removed_method_does_not_get_the_next_vault_key() {
    let (process, key) = ProcessHarness::with_api_key(SCRIP);
    let server = process.serve();
    let token = create_token(&server, &key);
    let leaked = add_file_method(&process, "leaked");
    let database = open_database(&process);
    let copy_row = "CREATE TEMP TABLE copy AS SELECT * FROM unlocks WHERE label = 'leaked'";
    database.execute_batch(copy_row).unwrap();
    run_json(&process, &["keys", "remove", &leaked]);
    database.execute_batch("INSERT INTO unlocks SELECT * FROM copy").unwrap();

    process.assert_fails(&["keys", "rotate", "vault"], "was altered outside the vault");
    let report = doctor_report(&process);
    let is_reported =
        |it: &str| it.contains("leaked") && it.contains("was altered outside the vault");
    assert!(report.lines().any(is_reported), "{report}");
    // The row can be removed again, and then the vault key is rotated.
    run_json(&process, &["keys", "remove", &leaked]);
    assert_eq!(run_json(&process, &["keys", "rotate", "vault"])["to"], 2);
    assert_eq!(methods(&process).len(), 1);
    assert_readable(&server, &key, &token);
    // A row of an older version opens nothing.
    database.execute_batch("INSERT INTO unlocks SELECT * FROM copy").unwrap();
    drop(server);
    fs::rename(process.data().join("root.key"), process.path("away")).unwrap();
    let server = process.serve();
    process.wait_for_log("cannot be used");
    assert_eq!(server.status("/readyz"), 503);
}

/// An older form of the audit key does not have the removal.
#[test]
fn running_server_rejects_an_older_audit_key() {
    let (process, key) = ProcessHarness::with_api_key(SCRIP);
    let server = process.serve();
    let leaked = add_file_method(&process, "leaked");
    let database = open_database(&process);
    database
        .execute_batch(
            "CREATE TEMP TABLE copy AS SELECT * FROM unlocks WHERE label = 'leaked';
            CREATE TEMP TABLE keys AS SELECT * FROM system_keys",
        )
        .unwrap();
    run_json(&process, &["keys", "remove", &leaked]);
    database
        .execute_batch(
            "INSERT INTO unlocks SELECT * FROM copy;
            UPDATE system_keys SET wrapped = keys.wrapped FROM keys WHERE keys.name = system_keys.name;
            UPDATE directory_state SET version = version + 1",
        )
        .unwrap();
    process.wait_for_log("rows were replaced outside the vault");
    let output = process.run(&["keys", "rotate", "vault"]);
    assert!(!output.status.success(), "{}", stderr(&output));
    let (_, version) = read_vault_key(&process);
    assert_eq!(version, 1);
    drop((server, key));
}

#[test]
fn method_is_not_removed_if_no_other_one_opens_the_vault_now() {
    let (process, key) = ProcessHarness::with_api_key(SCRIP);
    let server = process.serve();
    let token = create_token(&server, &key);
    let first = text(&methods(&process)[0]["id"]);
    let second = add_file_method(&process, "second");
    fs::rename(process.path("second"), process.path("away")).unwrap();
    let expected = "no other unlock method opens the vault now";
    process.assert_fails(&["keys", "remove", &first], expected);
    assert_eq!(methods(&process).len(), 2);
    fs::rename(process.path("away"), process.path("second")).unwrap();
    // An altered row does not count.
    let database = open_database(&process);
    database.execute("UPDATE unlocks SET label = 'x' WHERE label = 'second'", []).unwrap();
    process.assert_fails(&["keys", "remove", &first], "was altered outside the vault");
    database.execute("UPDATE unlocks SET label = 'second' WHERE label = 'x'", []).unwrap();
    run_json(&process, &["keys", "remove", &first]);
    process.assert_fails(&["keys", "remove", &second], "is the last unlock method");
    assert_readable(&server, &key, &token);
}

/// Rows without a method that can be asked must not stop the time.
#[test]
fn altered_rows_do_not_prevent_sealing_after_the_loss_of_all_sources() {
    for sql in [
        "DELETE FROM unlocks",
        "UPDATE unlocks SET state = 'pending'",
        "UPDATE vault_state SET key_version = key_version + 1",
        "DELETE FROM unlocks; DELETE FROM vault_state",
    ] {
        let process = ProcessHarness::initialized(SCRIP)
            .with_variable("SCRIP_KEYS_CHECK_EVERY", "1s")
            .with_variable("SCRIP_KEYS_SEAL_WHEN_SOURCE_LOST", "2s");
        let server = serve_ready(&process);
        fs::remove_file(process.data().join("root.key")).unwrap();
        open_database(&process).execute_batch(sql).unwrap();
        assert!(becomes_true(|| server.status("/readyz") == 503), "{sql}");
        process.wait_for_log("sealing the vault");
    }
}
