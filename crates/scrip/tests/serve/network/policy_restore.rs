//! The policy of a tenant on PostgreSQL, restored from an export.

use scrip_testing::{postgres::cluster::Cluster, process::harness::becomes_true};
use serde_json::{Value, json};

use crate::{
    network::postgres::{NO_FSYNC, create_vault},
    operator::commands::{run_json, run_text},
};

#[test]
fn policy_on_postgres_is_restored_from_an_export_while_a_server_runs() {
    let cluster = Cluster::start(&[NO_FSYNC]);
    let (process, application) = create_vault(&cluster);
    let key = application["key"].as_str().unwrap();
    let file = process.path("export").display().to_string();
    run_text(&process, &["export", &file]);
    let server = process.serve();
    let status = |key: &str| server.request("GET", "/applications/key").api_key(key).send().status;
    assert!(becomes_true(|| status(key) == 200), "{}", process.log());
    let body = json!({"id": "token-1", "type": "token", "data": "secret"});
    assert_eq!(server.request("POST", "/tokens").json(&body).api_key(key).send().status, 201);
    let tokens = || cluster.query_primary("SELECT md5(string_agg(t::text, ',')) FROM tokens AS t");
    let tokens_before = format!("{:?}", tokens());

    cluster.query_primary("UPDATE applications SET kind = 'management'");
    cluster.query_primary("UPDATE tenant_keys SET wrapped = wrapped || '\\x00'");
    assert!(becomes_true(|| status(key) == 503), "the alteration is not detected");
    let alterations = run_json(&process, &["tenant", "list"])["alterations"].clone();
    assert_ne!(alterations, Value::Array(Vec::new()));
    let restore = ["policy", "restore", "--from", &file, "--tenant", "Acme"];
    process.assert_fails(&restore, "nothing was changed");
    run_json(&process, &[&restore[..], &["--yes"]].concat());
    assert!(becomes_true(|| status(key) == 200), "{}", process.log());
    let read = server.request("GET", "/tokens/token-1").api_key(key).send();
    assert_eq!(read.status, 200);
    assert_eq!(format!("{:?}", tokens()), tokens_before);
    assert!(run_text(&process, &["audit", "verify"]).contains("no problems"));
}

/// PostgreSQL writes a changed row to another place, and a scan of the whole table then returns the
/// rows in another order than the scan of one tenant.
#[test]
fn policy_on_postgres_is_restored_after_rows_changed_their_places() {
    let cluster = Cluster::start(&[NO_FSYNC]);
    let (process, _) = create_vault(&cluster);
    for name in ["B", "C", "D"] {
        let create = ["application", "create", "--tenant", "Acme", "--name", name];
        run_json(&process, &[&create[..], &["--type", "private", "--all"]].concat());
    }
    for table in ["applications", "api_keys"] {
        // The first row in the table, which moves behind all others.
        let first_row = format!("(SELECT id FROM {table} ORDER BY ctid LIMIT 1)");
        cluster.query_primary(&format!("UPDATE {table} SET mac = mac WHERE id = {first_row}"));
        let file = process.path(table).display().to_string();
        run_text(&process, &["export", &file]);
        run_json(&process, &["policy", "restore", "--from", &file, "--tenant", "Acme", "--yes"]);
    }
    assert!(run_text(&process, &["audit", "verify"]).contains("no problems"));
}
