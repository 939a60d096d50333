//! Rows of unlock methods that a person with write access to the database has altered.

mod replaced_rows;

use std::{process::Stdio, thread};

use rusqlite::Connection;
use scrip_testing::process::harness::{ProcessHarness, becomes_true};

use crate::{
    SCRIP,
    keys::{
        add_file_method, assert_sealed, is_open, methods, open_database, sealed_cause, stderr, text,
    },
    operator::commands::{doctor_report, run_json},
    process::verification_codes::serve_ready,
};

const REJECTED: &str = "this is the root key of another vault, or the stored keys of this vault";
const NO_METHOD: &str = "the vault has no active unlock method for version";
const SAVE_ROWS: &str = "CREATE TEMP TABLE old_unlocks AS SELECT * FROM unlocks;
    CREATE TEMP TABLE old_state AS SELECT * FROM vault_state";
const RESTORE_ROWS: &str = "DELETE FROM unlocks; INSERT INTO unlocks SELECT * FROM old_unlocks;
    DELETE FROM vault_state; INSERT INTO vault_state SELECT * FROM old_state";

/// A vault that is not served, with one or two methods, and its database.
fn vault_with_methods(count: usize) -> (ProcessHarness, Connection) {
    let process = ProcessHarness::initialized(SCRIP);
    if count == 2 {
        let server = serve_ready(&process);
        add_file_method(&process, "second");
        drop(server);
    }
    let database = open_database(&process);
    database.execute_batch(SAVE_ROWS).unwrap();
    (process, database)
}

#[track_caller]
fn expect_sealed_by(process: &ProcessHarness, database: &Connection, sql: &str, cause: &str) {
    database.execute_batch(sql).unwrap();
    let server = process.serve();
    let has_cause = becomes_true(|| sealed_cause(process).contains(cause));
    assert!(has_cause, "{sql}: {:?}", sealed_cause(process));
    assert_sealed(process, &server, cause);
    database.execute_batch(RESTORE_ROWS).unwrap();
    assert!(is_open(&server), "{sql}: the restored rows open the vault");
}

#[test]
fn altered_column_keeps_the_vault_sealed_with_a_message() {
    let (process, database) = vault_with_methods(1);
    for (sql, cause) in [
        ("UPDATE unlocks SET id = randomblob(16)", REJECTED),
        ("UPDATE unlocks SET wrapped = randomblob(length(wrapped))", REJECTED),
        ("UPDATE unlocks SET wrapped = substr(wrapped, 1, 20)", REJECTED),
        ("UPDATE unlocks SET kind = 'env'", "the parameters are not those of a method of kind env"),
        ("UPDATE unlocks SET kind = 'usb'", NO_METHOD),
        ("UPDATE unlocks SET parameters = '{\"path\":\"/missing\"}'", "/missing cannot be used"),
        ("UPDATE unlocks SET parameters = '['", "the parameters are not those of a method"),
        ("UPDATE unlocks SET key_version = 2", NO_METHOD),
        ("UPDATE unlocks SET state = 'pending'", NO_METHOD),
        ("UPDATE unlocks SET key_version = 2; UPDATE vault_state SET key_version = 2", REJECTED),
        ("UPDATE vault_state SET vault_id = randomblob(16)", REJECTED),
        ("UPDATE vault_state SET key_version = 2", NO_METHOD),
        ("DELETE FROM vault_state", "the row of vault_state is missing or altered"),
        ("DELETE FROM unlocks", NO_METHOD),
        // The vault then looks like one of an earlier version.
        ("DELETE FROM unlocks; DELETE FROM vault_state", "this is the root key of another vault"),
    ] {
        expect_sealed_by(&process, &database, sql, cause);
    }
}

/// A new key would make the tokens of the tenants unreadable.
#[test]
fn deleted_keys_of_a_vault_with_tenants_are_reported_and_not_created_again() {
    let (process, _key) = ProcessHarness::with_api_key(SCRIP);
    let database = open_database(&process);
    let delete = "CREATE TEMP TABLE old_keys AS SELECT * FROM system_keys; DELETE FROM system_keys";
    database.execute_batch(delete).unwrap();
    let cause = "the keys of this vault are missing, but it has tenants: they were deleted or \
                 damaged; restore a backup";
    process.assert_fails(&["init"], cause);
    let stored: i64 =
        database.query_row("SELECT count(*) FROM system_keys", [], |row| row.get(0)).unwrap();
    assert_eq!(stored, 0, "init created keys");
    process.assert_fails(&["tenant", "list"], cause);
    let server = process.serve();
    assert_sealed(&process, &server, cause);
    let detail = server.request("GET", "/readyz").send().json()["detail"].clone();
    assert!(detail.as_str().unwrap().contains("its stored keys or policies were altered"));
    let report = process.run(&["doctor"]);
    assert!(String::from_utf8_lossy(&report.stdout).contains(cause), "{report:?}");
    database.execute_batch("INSERT INTO system_keys SELECT * FROM old_keys").unwrap();
    assert!(is_open(&server), "the restored rows open the vault");
}

#[test]
fn altered_identity_of_the_vault_that_cannot_be_read_is_reported() {
    let (process, database) = vault_with_methods(1);
    for sql in
        ["UPDATE vault_state SET vault_id = x'00'", "UPDATE vault_state SET key_version = -1"]
    {
        database.execute_batch(sql).unwrap();
        let server = process.serve();
        assert!(becomes_true(|| !sealed_cause(&process).is_empty()), "{sql}: {}", process.log());
        assert_eq!(server.status("/readyz"), 503, "{sql}");
        database.execute_batch(RESTORE_ROWS).unwrap();
        assert!(is_open(&server), "{sql}");
    }
}

/// These columns do not decide which key opens the vault, but the MAC covers them.
#[test]
fn altered_column_under_the_mac_is_reported_and_gets_no_new_key() {
    let (process, database) = vault_with_methods(1);
    let server = serve_ready(&process);
    let root_key = process.data().join("root.key").display().to_string();
    let parameters = format!("UPDATE unlocks SET parameters = '{{\"path\":\"{root_key}\"}}'");
    for sql in [
        "UPDATE unlocks SET label = 'x'",
        parameters.as_str(),
        "UPDATE unlocks SET created_at = created_at + 1",
        "UPDATE unlocks SET mac = randomblob(32)",
    ] {
        database.execute_batch(sql).unwrap();
        process.assert_fails(&["keys", "rotate", "vault"], "was altered outside the vault");
        let report = doctor_report(&process);
        assert!(report.contains("was altered outside the vault; add a new"), "{sql}: {report}");
        database.execute_batch(RESTORE_ROWS).unwrap();
    }
    // An unreadable row stops a rotation, too.
    database.execute_batch("UPDATE unlocks SET mac = x'00'").unwrap();
    process.assert_fails(&["keys", "rotate", "vault"], "it was altered outside the vault");
    database.execute_batch(RESTORE_ROWS).unwrap();
    database.execute_batch("UPDATE unlocks SET checked_at = 1").unwrap();
    assert_eq!(run_json(&process, &["keys", "rotate", "vault"])["to"], 2);
    drop(server);
    database.execute_batch("UPDATE unlocks SET label = 'x'").unwrap();
    let _server = serve_ready(&process);
    process.wait_for_log("an unlock method was altered outside the vault");
}

fn swap(columns: &[&str]) -> String {
    let assignments: Vec<_> = columns
        .iter()
        .map(|it| format!("{it} = (SELECT {it} FROM old_unlocks WHERE id <> unlocks.id)"))
        .collect();
    format!("UPDATE unlocks SET {}", assignments.join(", "))
}

#[test]
fn columns_swapped_between_methods_are_rejected() {
    let (process, database) = vault_with_methods(2);
    for columns in [&["wrapped"][..], &["parameters"], &["parameters", "wrapped", "mac"]] {
        expect_sealed_by(&process, &database, &swap(columns), REJECTED);
    }
    let _server = serve_ready(&process);
    for column in ["mac", "label", "created_at"] {
        database.execute_batch(&swap(&[column])).unwrap();
        let output = process.run(&["keys", "rotate", "vault"]);
        assert!(stderr(&output).contains("was altered outside the vault"), "{column}");
        database.execute_batch(RESTORE_ROWS).unwrap();
    }
}

#[test]
fn two_removals_at_the_same_time_leave_one_method() {
    let (process, _database) = vault_with_methods(2);
    let _server = serve_ready(&process);
    for round in 0..3 {
        let removals: Vec<_> = methods(&process)
            .iter()
            .map(|it| {
                let mut command = process.command(&["keys", "remove", &text(&it["id"])]);
                command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
            })
            .collect();
        let results: Vec<_> = thread::scope(|scope| {
            let handles: Vec<_> = removals
                .into_iter()
                .map(|it| scope.spawn(move || it.wait_with_output().unwrap()))
                .collect();
            handles.into_iter().map(|it| it.join().unwrap()).collect()
        });
        let (removed, rejected): (Vec<_>, Vec<_>) =
            results.iter().partition(|it| it.status.success());
        assert_eq!((removed.len(), methods(&process).len()), (1, 1));
        assert!(stderr(rejected[0]).contains("is the last unlock method"));
        add_file_method(&process, &format!("round {round}"));
    }
}
