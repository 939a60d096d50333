//! Operators with own accounts in the group of the control socket: the server executes their actions.

use std::fs;

use scrip_testing::process::harness::ProcessHarness;
use serde_json::json;

use crate::{
    SCRIP,
    keys::{
        dual_control::{
            GROUP, SECOND_USER, THIRD_USER, audit_entries, harness, request, run_as, second_user,
            second_user_fails,
        },
        stderr, text,
    },
    operator::commands::run_json,
    process::verification_codes::serve_ready,
};

/// Runs a command of another user that must wait, and returns the id of its request.
#[track_caller]
fn request_as(process: &ProcessHarness, uid: u32, arguments: &[&str]) -> String {
    let output = run_as(process, uid, GROUP, &[arguments, &["--wait", "0s"]].concat());
    let message = stderr(&output);
    assert!(message.contains("is not approved yet"), "{arguments:?}: {message}");
    let id = message.split("request ").nth(1).unwrap();
    id.split(' ').next().unwrap().to_owned()
}

#[track_caller]
fn third_user(process: &ProcessHarness, arguments: &[&str]) {
    let output = run_as(process, THIRD_USER, GROUP, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
}

/// The server runs the actions, so neither operator can read the data directory.
#[test]
fn two_personal_accounts_request_and_approve_every_approved_action() {
    let Some((process, application)) = harness("true") else { return };
    let _server = serve_ready(&process);
    let tenant = text(&second_user(&process, &["tenant", "list"])["tenants"][0]["id"]);
    fs::write(process.path("key.txt"), "key_test_imported_0123456789abcdef").unwrap();
    let key_file = process.path("key.txt").display().to_string();
    let create =
        ["application", "create", "--tenant", &tenant, "--name", "x", "--type", "private", "--all"];
    let commands: [&[&str]; 7] = [
        &create,
        &["key", "create", &application],
        &["key", "import", &application, "--file", &key_file],
        &["tenant", "quota", "set", &tenant, "log_retention=30d"],
        &["keys", "rotate", "tenant", &tenant],
        &["tenant", "quota", "set", &tenant, "deletion_grace=30d"],
        &["tenant", "delete", &tenant, "--yes"],
    ];
    for command in commands {
        let id = request_as(&process, SECOND_USER, command);
        second_user_fails(&process, &["approve", &id, "--yes"], "another user must approve it");
        third_user(&process, &["approve", &id, "--yes"]);
        second_user(&process, command);
        assert_ne!(request_as(&process, SECOND_USER, command), id, "an approval is used once");
    }
    let restore = ["tenant", "restore", &tenant];
    let id = request_as(&process, SECOND_USER, &restore);
    third_user(&process, &["reject", &id, "--yes"]);
    let next = request_as(&process, SECOND_USER, &restore);
    assert_ne!(next, id, "a rejected request does not come back");
    third_user(&process, &["approve", &next, "--yes"]);
    second_user(&process, &restore);
    let log = rusqlite::Connection::open(process.data().join("read_log.db")).unwrap();
    let sql = "SELECT DISTINCT os_user FROM log_records WHERE entity = 'key create'";
    let os_user: String = log.query_row(sql, [], |row| row.get(0)).unwrap();
    assert_eq!(os_user, "nobody", "the record names the person, not the user of the server");
    let entries = audit_entries(&process);
    let names_both = format!("use by uid {SECOND_USER}, approved by uid {THIRD_USER}: key create");
    assert!(entries.contains(&names_both), "{entries}");
}

/// These commands open the vault themselves, so the user of the server requests them.
#[test]
fn personal_account_approves_every_action_of_the_user_of_the_server() {
    let Some((process, _)) = harness("true") else { return };
    let server = serve_ready(&process);
    let tenant = text(&second_user(&process, &["tenant", "list"])["tenants"][0]["id"]);
    let [backup, unrecorded, exported] =
        ["backup", "unrecorded", "exported"].map(|it| process.path(it).display().to_string());
    let with_server: [&[&str]; 3] = [
        &["backup", &backup, "--force"],
        &["backup", &unrecorded, "--force", "--without-root-key"],
        &["policy", "restore", "--from", &backup, "--tenant", &tenant, "--yes"],
    ];
    for command in with_server {
        let id = request(&process, command);
        third_user(&process, &["approve", &id, "--yes"]);
        run_json(&process, command);
        assert_ne!(request(&process, command), id, "an approval is used once");
    }
    let without_server: [&[&str]; 3] = [
        &["backup", &unrecorded, "--force"],
        &["export", &exported, "--force"],
        &["keys", "rotate", "fingerprints", "--yes"],
    ];
    for command in without_server {
        let id = request(&process, command);
        third_user(&process, &["approve", &id, "--yes"]);
    }
    process.assert_fails(without_server[2], "is approved. Stop every server");
    drop(server);
    for command in without_server {
        run_json(&process, command);
        process.assert_fails(command, "this command is not approved");
    }
    let uses = format!("use by uid 0, approved by uid {THIRD_USER}");
    let entries = audit_entries(&process);
    assert_eq!(entries.matches(&uses).count(), 6, "{entries}");
}

/// What has no second operator must not widen access.
#[test]
fn operator_with_a_personal_account_stops_a_leaked_key_alone() {
    let Some((process, application)) = harness("true") else { return };
    let _server = serve_ready(&process);
    let key = text(&second_user(&process, &["key", "list"])["keys"][0]["id"]);
    second_user(&process, &["key", "delete", &key]);
    let keys = ["key", "list", "--application", &application];
    assert_eq!(second_user(&process, &keys)["keys"], json!([]));
}

#[test]
fn operator_with_a_personal_account_changes_nothing_while_dual_control_is_off() {
    let Some((process, application)) = harness("false") else { return };
    let _server = serve_ready(&process);
    let key = text(&second_user(&process, &["key", "list"])["keys"][0]["id"]);
    let refusal = "only the user of the server may change something";
    second_user_fails(&process, &["key", "delete", &key], refusal);
    second_user_fails(&process, &["key", "create", &application], refusal);
    second_user_fails(&process, &["tenant", "create", "x", "--type", "test"], refusal);
}

#[test]
fn approval_is_kept_if_the_server_is_killed_or_the_start_cannot_be_recorded() {
    let Some((process, application)) = harness("true") else { return };
    let server = serve_ready(&process);
    let file = process.path("backup").display().to_string();
    let backup = ["backup", &file];
    let create = ["key", "create", &application];
    for id in [request(&process, &backup), request_as(&process, SECOND_USER, &create)] {
        third_user(&process, &["approve", &id, "--yes"]);
    }
    // Dropping the server kills it.
    drop(server);
    let _server = serve_ready(&process);
    let log = rusqlite::Connection::open(process.data().join("read_log.db")).unwrap();
    let trigger = "CREATE TRIGGER reject_start BEFORE INSERT ON log_records \
         WHEN NEW.outcome = 'started' BEGIN SELECT RAISE(ABORT, 'rejected'); END";
    log.execute_batch(trigger).unwrap();
    let refusal = "cannot be recorded in the audit log and was not run";
    second_user_fails(&process, &create, refusal);
    process.assert_fails(&backup, refusal);
    log.execute_batch("DROP TRIGGER reject_start").unwrap();
    assert!(second_user(&process, &create)["key"].is_string(), "the approval was not used");
    run_json(&process, &backup);
    request_as(&process, SECOND_USER, &create);
}

#[test]
fn new_key_works_when_the_command_returns() {
    let (process, application) = {
        let (process, _) = ProcessHarness::with_api_key(SCRIP);
        let applications = run_json(&process, &["application", "list"]);
        let application = text(&applications["applications"][0]["id"]);
        (process, application)
    };
    let server = serve_ready(&process);
    for _ in 0..5 {
        let created = run_json(&process, &["key", "create", &application]);
        let key = text(&created["key"]);
        let status = || server.request("GET", "/tokens/none").api_key(&key).send().status;
        assert_eq!(status(), 403, "the key is known, and lacks the permission");
        run_json(&process, &["key", "delete", &text(&created["id"])]);
        assert_eq!(status(), 401);
    }
}
