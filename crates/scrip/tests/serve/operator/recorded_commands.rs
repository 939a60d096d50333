//! Commands with audit records that cannot be written.

use scrip_testing::process::harness::ProcessHarness;
use serde_json::{Value, json};

use crate::operator::{
    commands::{create_with_application, run_json, value_text},
    policy_restore::failure,
};

/// Makes the read log reject the records of commands with this outcome, as a full disk does at a
/// later time.
fn reject_outcome(process: &ProcessHarness, outcome: &str) {
    let log = rusqlite::Connection::open(process.data().join("read_log.db")).unwrap();
    let sql = format!(
        "CREATE TRIGGER reject_outcome BEFORE INSERT ON log_records \
         WHEN NEW.outcome = '{outcome}' BEGIN SELECT RAISE(ABORT, 'rejected'); END"
    );
    log.execute_batch(&sql).unwrap();
}

fn accept_outcomes(process: &ProcessHarness) {
    let log = rusqlite::Connection::open(process.data().join("read_log.db")).unwrap();
    log.execute_batch("DROP TRIGGER reject_outcome").unwrap();
}

#[test]
fn command_prints_its_result_when_its_outcome_cannot_be_recorded() {
    let (process, _, application) = create_with_application("private");
    let application_id = value_text(&application["id"]);
    reject_outcome(&process, "completed");
    let run = |arguments: &[&str]| -> Value {
        let output = process.run(&[arguments, &["--json"]].concat());
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{arguments:?}: {message}");
        let expected = "warning: the command was run, but its outcome is not recorded in the audit \
                        log: ";
        assert!(message.contains(expected), "{arguments:?}: {message}");
        assert!(!message.contains("was not run"), "{arguments:?}: {message}");
        serde_json::from_slice(&output.stdout).expect("JSON")
    };
    let created = run(&["key", "create", &application_id]);
    assert!(value_text(&created["key"]).starts_with("key_test_"), "{created}");
    let key_count = || run(&["key", "list"])["keys"].as_array().unwrap().len();
    assert_eq!(key_count(), 2);
    run(&["key", "delete", &value_text(&created["id"])]);
    assert_eq!(key_count(), 1);
    let file = process.path("backup");
    assert_eq!(run(&["backup", &file.display().to_string()])["file"], json!(file));
    let file = process.path("export");
    assert_eq!(run(&["export", &file.display().to_string()])["file"], json!(file));
}

#[test]
fn command_without_a_start_record_says_that_it_was_not_run() {
    let (process, _, application) = create_with_application("private");
    let application_id = value_text(&application["id"]);
    reject_outcome(&process, "started");
    let backup = process.path("backup").display().to_string();
    for command in [&["key", "create", &application_id][..], &["backup", &backup]] {
        let message = "cannot be recorded in the audit log and was not run";
        process.assert_fails(command, message);
    }
    accept_outcomes(&process);
    assert_eq!(run_json(&process, &["key", "list"])["keys"].as_array().unwrap().len(), 1);
}

/// The error of the command is the answer; the missing record is only a warning.
#[test]
fn failed_command_reports_its_error_when_its_outcome_cannot_be_recorded() {
    let (process, ..) = create_with_application("private");
    reject_outcome(&process, "aborted");
    let message = failure(&process, &["tenant", "show", "Unknown"]);
    let warning = "warning: the failure of this command is not recorded in the audit log: ";
    assert!(message.contains(warning) && !message.contains("was run"), "{message}");
    assert!(message.contains("no tenant has this name"), "{message}");
}

#[test]
fn reports_print_no_progress_outside_of_a_terminal() {
    let (process, tenant, _) = create_with_application("private");
    let backup = process.path("backup").display().to_string();
    run_json(&process, &["backup", &backup]);
    for command in [&["audit", "verify"][..], &["backup", "verify", &backup]] {
        let output = process.run(command);
        assert!(output.status.success(), "{output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{command:?}");
    }
    let database = rusqlite::Connection::open(process.data().join("scrip.db")).unwrap();
    database.execute("UPDATE applications SET name = 'altered'", []).unwrap();
    let tenant = value_text(&tenant["id"]);
    let output = process.run(&["policy", "restore", "--from", &backup, "--tenant", &tenant]);
    let plan = String::from_utf8_lossy(&output.stderr);
    assert!(plan.contains("nothing was changed. Use --yes"), "{plan}");
    assert!(!plan.contains('%') && !plan.contains("reading the database"), "{plan}");
}
