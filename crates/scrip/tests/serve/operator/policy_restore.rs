//! An altered policy: who reports it, and `scrip policy restore`.

use std::fs;

use rusqlite::Connection;
use scrip_testing::process::harness::{ProcessHarness, becomes_true};
use serde_json::{Value, json};

use crate::operator::commands::{
    create_with_application, open_database, run_json, run_text, serve_unsealed, value_text,
};

/// The content of these tables, as one text.
fn dump(connection: &Connection, tables: &[&str]) -> String {
    let mut text = String::new();
    for table in tables {
        let mut statement = connection.prepare(&format!("SELECT * FROM {table}")).unwrap();
        let count = statement.column_count();
        let mut rows = statement.query([]).unwrap();
        while let Some(row) = rows.next().unwrap() {
            for index in 0..count {
                text += &format!("{:?} ", row.get_ref(index).unwrap());
            }
            text.push('\n');
        }
    }
    text
}

const POLICY_TABLES: &[&str] = &[
    "tenants",
    "tenant_keys",
    "permanent_keys",
    "applications",
    "api_keys",
    "proxies",
    "webhooks",
    "client_keys",
    "directory_state",
];
const TOKEN_TABLES: &[&str] = &["tokens", "token_index", "usage_types", "usage_months"];

pub(crate) fn create_backup(process: &ProcessHarness, name: &str) -> String {
    let file = process.path(name).display().to_string();
    run_text(process, &["backup", &file]);
    file
}

/// The error message of a command.
#[track_caller]
pub(crate) fn failure(process: &ProcessHarness, arguments: &[&str]) -> String {
    let output = process.run(arguments);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn running_server_serves_again_after_policy_restore_and_tokens_are_unchanged() {
    let (process, tenant, application) = create_with_application("private");
    let (id, key) = (value_text(&tenant["id"]), value_text(&application["key"]));
    let application_id = value_text(&application["id"]);
    let second_key = run_json(&process, &["key", "create", &application_id]);
    let server = serve_unsealed(&process);
    let body = json!({"id": "token-1", "type": "token", "data": "secret"});
    assert_eq!(server.request("POST", "/tokens").json(&body).api_key(&key).send().status, 201);
    let backup = create_backup(&process, "backup");
    // After the backup: a key is deleted, and an application is created.
    let second_key_id = value_text(&second_key["id"]);
    run_json(&process, &["key", "delete", &second_key_id]);
    let create = ["application", "create", "--tenant", "Acme", "--name", "New", "--type", "public"];
    let created = run_json(&process, &[&create[..], &["--all"]].concat());
    let new_application = value_text(&created["id"]);

    let connection = open_database(&process);
    let tokens = dump(&connection, TOKEN_TABLES);
    let status_of = |key: &str| {
        let response = server.request("GET", "/tokens/token-1").api_key(key).send();
        response.status
    };
    assert_eq!(status_of(&key), 200);
    // The server remembers the counter of the newest policy that it loaded.
    let new_key = value_text(&created["key"]);
    assert!(becomes_true(|| status_of(&new_key) != 401), "the new application is not loaded");
    // Without a new version of the directory; the lower counter must not prevent the restoration.
    connection.execute("UPDATE applications SET kind = 'management'", []).unwrap();
    connection.execute("UPDATE tenants SET policy_counter = 0", []).unwrap();
    assert!(becomes_true(|| status_of(&key) == 503), "the alteration is not detected");

    let restore = ["policy", "restore", "--from", &backup, "--tenant", &id];
    let plan = failure(&process, &restore);
    for expected in [
        format!("comes back: key {second_key_id}"),
        format!("goes away: application {new_application}"),
        format!("changes: application {application_id} (A, private)"),
        "work again".to_owned(),
        "nothing was changed".to_owned(),
    ] {
        assert!(plan.contains(&expected), "{expected}: {plan}");
    }
    assert_eq!(status_of(&key), 503);
    let restored = run_json(&process, &[&restore[..], &["--yes"]].concat());
    assert_eq!(restored["tenant_id"], json!(id));
    assert!(becomes_true(|| status_of(&key) == 200), "{}", process.log());
    assert_eq!(status_of(&value_text(&second_key["key"])), 200);
    assert_eq!(dump(&connection, TOKEN_TABLES), tokens);
    drop(server);

    let sql = "SELECT count(*) FROM log_records WHERE operation = 'restore_policy'";
    let records: i64 = connection.query_row(sql, [], |row| row.get(0)).unwrap();
    assert_eq!(records, 1);
    run_text(&process, &["audit", "verify"]);
    run_text(&process, &["doctor"]);
}

#[test]
fn every_command_names_the_cause_of_an_altered_policy() {
    let (process, tenant, application) = create_with_application("private");
    let (id, application_id) = (value_text(&tenant["id"]), value_text(&application["id"]));
    let connection = open_database(&process);
    connection.execute("UPDATE applications SET name = 'altered'", []).unwrap();
    let cause = format!("the row of application {application_id} was altered");
    let key_id = value_text(&application["key_id"]);
    for command in [
        &["tenant", "show", "Acme"][..],
        &["tenant", "show", &id],
        &["tenant", "quota", "show", "Acme"],
        &["tenant", "restore", "Acme"],
        &["application", "list", "--tenant", "Acme"],
        &["application", "delete", &application_id],
        &["key", "create", &application_id],
        &["key", "delete", &key_id],
        &["key", "list", "--tenant", "Acme"],
        &["access-session", "revoke", "00000000"],
    ] {
        let message = failure(&process, command);
        assert!(message.contains(&cause), "{command:?}: {message}");
        assert!(message.contains("scrip policy restore"), "{command:?}: {message}");
    }
    for command in [
        &["tenant", "list"][..],
        &["application", "list"],
        &["key", "list"],
        &["access-session", "list"],
        &["status"],
    ] {
        let text = run_text(&process, command);
        assert!(text.contains(&cause) && text.contains("scrip policy restore"), "{text}");
        let alterations = run_json(&process, command)["alterations"].clone();
        assert_eq!(alterations.as_array().map(Vec::len), Some(1), "{command:?}");
    }
    let doctor = process.run(&["doctor"]);
    let report = String::from_utf8(doctor.stdout).unwrap();
    assert!(report.contains(&cause) && report.contains("scrip policy restore"), "{report}");
}

#[test]
fn policy_restore_repairs_every_kind_of_alteration() {
    let (process, tenant, application) = create_with_application("private");
    let id = value_text(&tenant["id"]);
    let backup = create_backup(&process, "backup");
    let connection = open_database(&process);
    connection.execute("PRAGMA foreign_keys = OFF", []).unwrap();
    let restore = ["policy", "restore", "--from", &backup, "--tenant", &id, "--yes"];
    for alteration in [
        "UPDATE applications SET access = replace(access, 'token', 'tokex')",
        "UPDATE applications SET kind = 'robot'",
        "UPDATE api_keys SET created_at = created_at - 1",
        "DELETE FROM api_keys",
        "DELETE FROM applications",
        "INSERT INTO api_keys SELECT tenant, application, zeroblob(16), zeroblob(32), created_by, \
         created_at, mac FROM api_keys",
        "UPDATE tenants SET created_at = created_at - 1",
        "UPDATE tenants SET quotas = 'unreadable'",
        "UPDATE tenants SET policy_counter = 9223372036854775807",
        "UPDATE tenant_keys SET wrapped = randomblob(length(wrapped))",
        "INSERT INTO tenant_keys SELECT tenant, 9, padding, wrapped FROM tenant_keys",
        "DELETE FROM permanent_keys",
        "DELETE FROM tenants",
    ] {
        assert!(connection.execute(alteration, []).unwrap() > 0, "{alteration}");
        assert!(!process.run(&["doctor"]).status.success(), "{alteration}");
        run_json(&process, &restore);
        let listed = run_json(&process, &["tenant", "list"]);
        assert_eq!(listed["alterations"], json!([]), "{alteration}");
        assert_eq!(listed["tenants"], json!([tenant_with_applications(&tenant, 1)]));
        let keys = run_json(&process, &["key", "list"])["keys"].clone();
        assert_eq!(keys[0]["id"], application["key_id"], "{alteration}");
    }
}

fn tenant_with_applications(tenant: &Value, count: usize) -> Value {
    let mut tenant = tenant.clone();
    tenant["applications"] = json!(count);
    tenant
}

#[test]
fn policy_restore_refuses_unsuitable_backups() {
    let (process, tenant, _) = create_with_application("private");
    let id = value_text(&tenant["id"]);
    let connection = open_database(&process);
    let early_backup = create_backup(&process, "early");
    let later = value_text(&run_json(&process, &["tenant", "create", "B", "--type", "test"])["id"]);
    connection.execute("UPDATE applications SET name = 'altered'", []).unwrap();
    let altered_backup = create_backup(&process, "altered");
    let mut damaged = fs::read(&early_backup).unwrap();
    damaged[5000] ^= 1;
    fs::write(process.path("damaged"), damaged).unwrap();
    fs::write(process.path("text"), "no backup").unwrap();

    let other_vault = |root_key: bool| {
        let other = ProcessHarness::new(crate::SCRIP);
        if root_key {
            fs::create_dir(other.data()).unwrap();
            fs::copy(process.data().join("root.key"), other.data().join("root.key")).unwrap();
        }
        run_text(&other, &["init"]);
        run_json(&other, &["tenant", "create", "Acme", "--type", "test"]);
        let file = create_backup(&other, "backup");
        (other, file)
    };
    let (_other_vault, other_backup) = other_vault(false);
    let (_same_key_vault, same_key_backup) = other_vault(true);

    let rows = dump(&connection, POLICY_TABLES);
    for (file, tenant, expected) in [
        (other_backup.as_str(), id.as_str(), "backup of another vault"),
        (&same_key_backup, &id, "backup of another vault"),
        (&altered_backup, &id, "altered in this backup too: the row of application"),
        (&early_backup, &later, "the backup has no tenant"),
        (&early_backup, "Unknown", "no tenant of the backup"),
        ("damaged", &id, "damaged"),
        ("text", &id, "not a usable backup"),
        ("missing", &id, "cannot be read"),
    ] {
        let arguments = ["policy", "restore", "--from", file, "--tenant", tenant, "--yes"];
        let message = failure(&process, &arguments);
        assert!(message.contains(expected), "{expected}: {message}");
    }
    assert_eq!(dump(&connection, POLICY_TABLES), rows, "a refused restore changed the policy");

    // The name of the tenant in the backup works too. A deleted tenant does not come back.
    run_json(
        &process,
        &["policy", "restore", "--from", &early_backup, "--tenant", "Acme", "--yes"],
    );
    run_json(&process, &["tenant", "delete", &id, "--yes"]);
    let arguments = ["policy", "restore", "--from", &early_backup, "--tenant", &id, "--yes"];
    assert!(failure(&process, &arguments).contains("has no rows in this vault"));
}

/// With the highest number, every later change would look like a rollback.
#[test]
fn forged_chain_head_does_not_raise_the_counter_of_a_restored_policy() {
    let (process, tenant, _) = create_with_application("private");
    let (id, backup) = (value_text(&tenant["id"]), create_backup(&process, "backup"));
    let connection = open_database(&process);
    connection.execute("UPDATE chain_heads SET sequence = 9223372036854775806", []).unwrap();
    run_text(&process, &["policy", "restore", "--from", &backup, "--tenant", &id, "--yes"]);
    let sql = "SELECT max(policy_counter) FROM tenants";
    let counter: i64 = connection.query_row(sql, [], |row| row.get(0)).unwrap();
    assert!(counter < 1000, "{counter}");
}

#[test]
fn policy_of_a_deleted_tenant_is_not_restored() {
    let process = ProcessHarness::initialized(crate::SCRIP);
    let tenant = run_json(&process, &["tenant", "create", "Bank", "--type", "production"]);
    let (id, backup) = (value_text(&tenant["id"]), create_backup(&process, "backup"));
    run_json(&process, &["tenant", "delete", "Bank", "--yes"]);
    let message =
        failure(&process, &["policy", "restore", "--from", &backup, "--tenant", &id, "--yes"]);
    assert!(message.contains(&format!("run first: scrip tenant restore {id}")), "{message}");
}

#[test]
fn key_that_was_moved_to_another_tenant_is_named_by_policy_restore() {
    let (process, tenant, application) = create_with_application("private");
    let (id, backup) = (value_text(&tenant["id"]), create_backup(&process, "backup"));
    let other = run_json(&process, &["tenant", "create", "Other", "--type", "test"]);
    let connection = open_database(&process);
    connection.execute_batch("PRAGMA foreign_keys = OFF").unwrap();
    let (from, to) = (blob(&tenant["id"]), blob(&other["id"]));
    let moved =
        connection.execute("UPDATE api_keys SET tenant = ?2 WHERE tenant = ?1", (&from, &to));
    assert_eq!(moved.unwrap(), 1, "{application}");
    let message =
        failure(&process, &["policy", "restore", "--from", &backup, "--tenant", &id, "--yes"]);
    assert!(message.contains("is in a row of another tenant"), "{message}");
    connection.execute("DELETE FROM api_keys WHERE tenant = ?1", (&to,)).unwrap();
    run_text(&process, &["policy", "restore", "--from", &backup, "--tenant", &id, "--yes"]);
}

/// The stored form of an id.
pub(crate) fn blob(id: &Value) -> Vec<u8> {
    uuid::Uuid::parse_str(id.as_str().unwrap()).unwrap().as_bytes().to_vec()
}
