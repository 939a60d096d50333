//! `scrip policy restore` and `scrip doctor` for deleted tenants: a restoration must not undo a
//! deletion.

use rusqlite::Connection;
use scrip_testing::process::harness::ProcessHarness;
use serde_json::{Value, json};

use crate::operator::{
    commands::{
        create_with_application, open_database, run_json, run_text, serve_unsealed, value_text,
    },
    policy_restore::{blob, create_backup, failure},
};

/// A junk row of a tenant, made from the keys of another tenant.
fn insert_leftover(connection: &Connection, tenant: &Value) {
    connection.execute_batch("PRAGMA foreign_keys = OFF").unwrap();
    let sql = "INSERT INTO permanent_keys \
               SELECT ?1, padding, randomblob(length(wrapped)) FROM permanent_keys LIMIT 1";
    assert_eq!(connection.execute(sql, (blob(tenant),)).unwrap(), 1);
}

fn count_rows(connection: &Connection, table: &str, tenant: &Value) -> i64 {
    let sql = format!("SELECT count(*) FROM {table} WHERE tenant = ?1");
    connection.query_row(&sql, (blob(tenant),), |row| row.get(0)).unwrap()
}

/// A destroyed tenant with a token, and a backup from before its deletion.
struct DestroyedTenant {
    process: ProcessHarness,
    id: Value,
    key: String,
    backup: String,
}

impl DestroyedTenant {
    fn new() -> Self {
        let (process, tenant, application) = create_with_application("private");
        let (id, key) = (tenant["id"].clone(), value_text(&application["key"]));
        run_json(&process, &["tenant", "create", "Other", "--type", "test"]);
        let server = serve_unsealed(&process);
        let body = json!({"id": "token-1", "type": "token", "data": "secret"});
        assert_eq!(server.request("POST", "/tokens").json(&body).api_key(&key).send().status, 201);
        drop(server);
        let backup = create_backup(&process, "backup");
        run_json(&process, &["tenant", "delete", &value_text(&id), "--yes"]);
        Self { process, id, key, backup }
    }

    /// The message of the refused restoration; the token must stay unreadable.
    #[track_caller]
    fn refused_restore(&self, flags: &[&str]) -> String {
        let id = value_text(&self.id);
        let restore = ["policy", "restore", "--from", &self.backup, "--tenant", &id, "--yes"];
        let message = failure(&self.process, &[&restore[..], flags].concat());
        let server = serve_unsealed(&self.process);
        assert_ne!(server.request("GET", "/tokens/token-1").api_key(&self.key).send().status, 200);
        message
    }
}

#[test]
fn policy_restore_does_not_bring_back_a_destroyed_tenant() {
    let vault = DestroyedTenant::new();
    let connection = open_database(&vault.process);
    insert_leftover(&connection, &vault.id);
    let message = vault.refused_restore(&[]);
    assert!(message.contains("was deleted on purpose"), "{message}");
    assert!(message.contains("scrip tenant delete"), "{message}");

    // The signed list is purged or removed: the closed chain in the audit log proves the deletion.
    connection.execute("DELETE FROM deleted_tenants", []).unwrap();
    let message = vault.refused_restore(&["--ignore-audit-log"]);
    assert!(message.contains("was deleted on purpose"), "{message}");
}

#[test]
fn policy_restore_refuses_a_missing_tenant_without_an_authentic_audit_log() {
    let vault = DestroyedTenant::new();
    let connection = open_database(&vault.process);
    insert_leftover(&connection, &vault.id);
    connection.execute("DELETE FROM deleted_tenants", []).unwrap();
    connection.execute("UPDATE chain_heads SET retention_seconds = NULL", []).unwrap();
    assert!(vault.refused_restore(&[]).contains("audit log"), "altered head");
    for table in ["chain_heads", "log_records"] {
        let sql = format!("DELETE FROM {table} WHERE tenant = ?1");
        connection.execute(&sql, (blob(&vault.id),)).unwrap();
        assert!(vault.refused_restore(&[]).contains("audit log"), "{table}");
    }
}

/// An older head with a valid MAC comes back with its older records. The head file has the newer
/// head.
#[test]
fn policy_restore_refuses_when_the_audit_log_of_the_tenant_was_rolled_back() {
    let vault = DestroyedTenant::new();
    let connection = open_database(&vault.process);
    insert_leftover(&connection, &vault.id);
    connection.execute("DELETE FROM deleted_tenants", []).unwrap();
    connection.execute("ATTACH ?1 AS backup", (&vault.backup,)).unwrap();
    for table in ["chain_heads", "log_records"] {
        let id = blob(&vault.id);
        connection.execute(&format!("DELETE FROM {table} WHERE tenant = ?1"), (&id,)).unwrap();
        let sql = format!("INSERT INTO {table} SELECT * FROM backup.{table} WHERE tenant = ?1");
        connection.execute(&sql, (&id,)).unwrap();
    }
    assert!(vault.refused_restore(&[]).contains("rolled back"));
}

#[test]
fn doctor_names_leftovers_of_a_deleted_tenant_and_tenant_delete_removes_them() {
    let vault = DestroyedTenant::new();
    let (process, connection) = (&vault.process, open_database(&vault.process));
    insert_leftover(&connection, &vault.id);
    let id = value_text(&vault.id);
    let report = String::from_utf8(process.run(&["doctor"]).stdout).unwrap();
    let line = report.lines().find(|it| it.contains(&id)).unwrap();
    assert!(line.contains("leftover") && !line.contains("policy restore"), "{line}");
    assert!(line.contains(&format!("scrip tenant delete {id} --yes")), "{line}");
    for command in [&["tenant", "list"][..], &["key", "list"], &["status"]] {
        let text = run_text(process, command);
        let advice = format!("to delete them run: scrip tenant delete {id} --yes");
        assert!(text.contains(&advice) && !text.contains("policy restore"), "{text}");
    }
    for command in [&["tenant", "show", &id][..], &["tenant", "show", "Unknown"]] {
        let message = failure(process, command);
        assert!(!message.contains("policy restore"), "{message}");
        assert!(message.contains(&format!("scrip tenant delete {id} --yes")), "{message}");
    }

    run_json(process, &["tenant", "delete", &id, "--yes"]);
    assert_eq!(count_rows(&connection, "permanent_keys", &vault.id), 0);
    run_text(process, &["doctor"]);
    run_text(process, &["audit", "verify"]);
    // The deletion is still proven after the second one.
    connection.execute("DELETE FROM deleted_tenants", []).unwrap();
    insert_leftover(&connection, &vault.id);
    assert!(vault.refused_restore(&[]).contains("was deleted on purpose"));
}

#[test]
fn forged_row_of_deleted_tenants_does_not_prevent_a_deletion() {
    let (process, tenant, _) = create_with_application("private");
    let connection = open_database(&process);
    let sql = "INSERT INTO deleted_tenants (id, deleted_at, mac) VALUES (?1, 1, x'')";
    connection.execute(sql, (blob(&tenant["id"]),)).unwrap();
    run_json(&process, &["tenant", "delete", "Acme", "--yes"]);
    run_text(&process, &["doctor"]);
}

/// A tenant that is deleted with a grace period after the backup.
fn create_pending_deletion() -> (ProcessHarness, Value, String) {
    let process = ProcessHarness::initialized(crate::SCRIP);
    let tenant = run_json(&process, &["tenant", "create", "Bank", "--type", "production"]);
    let backup = create_backup(&process, "backup");
    run_json(&process, &["tenant", "delete", "Bank", "--yes"]);
    (process, tenant["id"].clone(), backup)
}

#[test]
fn policy_restore_keeps_a_deletion_in_its_grace_period() {
    let (process, id, backup) = create_pending_deletion();
    let connection = open_database(&process);
    let id_text = value_text(&id);
    let restore = ["policy", "restore", "--from", &backup, "--tenant", &id_text];
    for alteration in [
        "UPDATE tenants SET created_at = created_at - 1",
        "UPDATE tenants SET created_at = created_at - 1, deletes_at = NULL",
        "UPDATE tenants SET deletes_at = 1",
    ] {
        assert_eq!(connection.execute(alteration, []).unwrap(), 1);
        let plan = failure(&process, &restore);
        assert!(plan.contains("the deletion stays"), "{alteration}: {plan}");
        assert!(plan.contains(&format!("scrip tenant restore {id_text}")), "{alteration}: {plan}");
        let restored = run_json(&process, &[&restore[..], &["--yes"]].concat());
        assert_eq!(restored["deletion"]["stays"], true, "{alteration}");
        assert_eq!(run_json(&process, &["tenant", "list"])["tenants"], json!([]), "{alteration}");
        let doctor = run_text(&process, &["doctor"]);
        assert!(doctor.contains("its keys will be destroyed at"), "{alteration}: {doctor}");
    }
    // The plan names a deletion that was undone later, too.
    run_json(&process, &["tenant", "restore", &id_text]);
    connection.execute("UPDATE tenants SET deletes_at = 1", []).unwrap();
    let plan = failure(&process, &restore);
    assert!(plan.contains("no deletion was requested"), "{plan}");
    run_json(&process, &[&restore[..], &["--yes"]].concat());
    let tenants = run_json(&process, &["tenant", "list"])["tenants"].clone();
    assert_eq!(tenants[0]["id"], id);
}

#[test]
fn policy_restore_needs_a_flag_when_the_audit_log_cannot_show_a_deletion() {
    let (process, id, backup) = create_pending_deletion();
    let connection = open_database(&process);
    connection.execute("UPDATE tenants SET deletes_at = NULL", []).unwrap();
    let sql =
        "UPDATE log_records SET operation = 'update_tenant' WHERE operation = 'delete_tenant'";
    assert_eq!(connection.execute(sql, []).unwrap(), 1);
    let id = value_text(&id);
    let restore = ["policy", "restore", "--from", &backup, "--tenant", &id, "--yes"];
    let message = failure(&process, &restore);
    assert!(message.contains("--ignore-audit-log"), "{message}");
    let restored = run_json(&process, &[&restore[..], &["--ignore-audit-log"]].concat());
    assert_eq!(restored["deletion"]["stays"], false);
}
