//! Operator commands, without and with a running server.

use std::{
    io::{Read, Write},
    net::TcpStream,
    process::{Output, Stdio},
    time::Duration,
};

use rusqlite::Connection;
use scrip_testing::{
    process::harness::{ProcessHarness, RunningServer, becomes_true},
    requests::assert_members,
};
use serde_json::{Value, json};

/// The output of a command with `--json`.
#[track_caller]
pub(crate) fn run_json(process: &ProcessHarness, arguments: &[&str]) -> Value {
    let output = process.run(&[arguments, &["--json"]].concat());
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[track_caller]
pub(crate) fn run_text(process: &ProcessHarness, arguments: &[&str]) -> String {
    let output = process.run(arguments);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("UTF-8 text")
}

/// What `scrip doctor` prints, whether or not it finds problems.
pub(crate) fn doctor_report(process: &ProcessHarness) -> String {
    String::from_utf8_lossy(&process.run(&["doctor"]).stdout).into_owned()
}

pub(crate) fn value_text(value: &Value) -> String {
    value.as_str().expect("UTF-8 text").to_owned()
}

/// A vault with a tenant and an application with all permissions of its type.
pub(crate) fn create_with_application(kind: &str) -> (ProcessHarness, Value, Value) {
    let process = ProcessHarness::initialized(crate::SCRIP);
    let tenant = run_json(&process, &["tenant", "create", "Acme", "--type", "test"]);
    let create = ["application", "create", "--tenant", "Acme", "--name", "A", "--type", kind];
    let application = run_json(&process, &[&create[..], &["--all"]].concat());
    (process, tenant, application)
}

/// The database of the vault, opened while other processes use it.
pub(crate) fn open_database(process: &ProcessHarness) -> Connection {
    let connection = Connection::open(process.data().join("scrip.db")).unwrap();
    connection.busy_timeout(Duration::from_secs(5)).unwrap();
    connection
}

pub(crate) fn import_key(process: &ProcessHarness, application: &str, key: &str) -> Output {
    let mut command = process.command(&["key", "import", application, "--json"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("run the command");
    child.stdin.take().unwrap().write_all(key.as_bytes()).unwrap();
    child.wait_with_output().expect("run the command")
}

/// The response status of a request with a key, after the vault is open.
fn get_status(server: &RunningServer, path: &str, key: &str) -> u16 {
    server.request("GET", path).api_key(key).send().status
}

/// Starts the server and waits until it has opened the vault. The log also has the lines of earlier
/// servers.
pub(crate) fn serve_unsealed(process: &ProcessHarness) -> RunningServer {
    let count_openings = || process.log().matches("the vault is open").count();
    let earlier_openings = if process.path("log").exists() { count_openings() } else { 0 };
    let server = process.serve();
    let is_open = becomes_true(|| count_openings() > earlier_openings);
    assert!(is_open, "the vault is not open: {}", process.log());
    server
}

/// Expects the status within a second.
#[track_caller]
fn expect_status_soon(server: &RunningServer, path: &str, key: &str, expected: u16) {
    let has_status = becomes_true(|| get_status(server, path, key) == expected);
    assert!(has_status, "{path} does not get the status {expected}");
}

#[test]
fn tenants_can_be_created_read_and_deleted() {
    let process = ProcessHarness::initialized(crate::SCRIP);
    let acme = run_json(&process, &["tenant", "create", "Acme", "--type", "test"]);
    let bank = run_json(&process, &["tenant", "create", "Bank", "--type", "production"]);
    assert_eq!((&acme["type"], &bank["type"]), (&"test".into(), &"production".into()));
    assert_eq!(bank["quotas"]["threeds_access"], false);
    assert_eq!(run_json(&process, &["tenant", "list"])["tenants"], serde_json::json!([acme, bank]));
    assert_eq!(bank["quotas"]["deletion_grace_seconds"], 86_400);
    assert!(run_text(&process, &["tenant", "list"]).contains("Bank"));
    assert_eq!(run_json(&process, &["tenant", "show", &value_text(&acme["id"])]), acme);
    assert!(run_text(&process, &["tenant", "show", "Acme"]).contains("log_retention"));

    process.assert_fails(&["tenant", "show", "Unknown"], "no tenant has this name");
    let duplicate = ["tenant", "create", "Bank", "--type", "test", "--allow-duplicate-name"];
    run_json(&process, &duplicate);
    process.assert_fails(&["tenant", "show", "Bank"], "several tenants have this name");
    process.assert_fails(
        &["tenant", "create", " ", "--type", "test"],
        "name must have 1 to 200 characters",
    );
    process.assert_fails(&["tenant", "delete", "Acme"], "Use --yes");
    assert_eq!(run_json(&process, &["tenant", "show", "Acme"]), acme);
    assert_eq!(run_json(&process, &["tenant", "delete", "Acme", "--yes"])["deleted"], true);
    process.assert_fails(&["tenant", "show", "Acme"], "no tenant has this name");
    process
        .assert_fails(&["tenant", "delete", &value_text(&acme["id"]), "--yes"], "does not exist");
}

#[test]
fn deleted_production_tenant_is_listed_and_can_be_restored() {
    let process = ProcessHarness::initialized(crate::SCRIP);
    let bank = run_json(&process, &["tenant", "create", "Bank", "--type", "production"]);
    let create = ["application", "create", "--tenant", "Bank", "--name", "A", "--type", "private"];
    let application = run_json(&process, &[&create[..], &["--all"]].concat());
    let key = value_text(&application["key"]);
    let server = serve_unsealed(&process);
    assert_eq!(get_status(&server, "/applications/key", &key), 200);
    process.assert_fails(&["tenant", "restore", "Bank"], "no deleted tenant");
    let deleted = run_json(&process, &["tenant", "delete", "Bank", "--yes"]);
    assert!(deleted["keys_destroyed_at"].is_string(), "{deleted}");
    expect_status_soon(&server, "/applications/key", &key, 401);
    let listed = run_json(&process, &["tenant", "list"]);
    assert_eq!(listed["tenants"], serde_json::json!([]));
    assert_eq!(listed["deleted"][0]["id"], bank["id"]);
    assert_eq!(listed["deleted"][0]["keys_destroyed_at"], deleted["keys_destroyed_at"]);
    let text = run_text(&process, &["tenant", "list"]);
    assert!(text.contains("deleted, keys will be destroyed at"), "{text}");
    let row = text.lines().find(|it| it.ends_with("  Bank")).unwrap();
    assert!(row.contains("  production  deleted  "), "{text}");
    process.assert_fails(&["tenant", "show", "Bank"], "no tenant has this name");
    run_json(&process, &["tenant", "restore", &value_text(&bank["id"])]);
    expect_status_soon(&server, "/applications/key", &key, 200);
    run_json(&process, &["tenant", "delete", "Bank", "--yes"]);
    let destroyed = run_json(&process, &["tenant", "delete", "Bank", "--yes", "--now"]);
    assert!(destroyed.get("keys_destroyed_at").is_none(), "{destroyed}");
    process.assert_fails(&["tenant", "restore", "Bank"], "no deleted tenant");
}

#[test]
fn quota_changes_are_atomic() {
    let process = ProcessHarness::initialized(crate::SCRIP);
    run_json(&process, &["tenant", "create", "Acme", "--type", "test"]);
    let set = ["tenant", "quota", "set", "Acme"];
    let some = run_json(&process, &[&set[..], &["log_retention=30d", "rate_limit=200%"]].concat());
    assert_members(&some, &json!({"log_retention_seconds": 2_592_000, "rate_limit": "200%"}));
    let text = run_text(&process, &[&set[..], &["rate_limit=300%", "log_retention=30d"]].concat());
    let changed: Vec<_> = text.lines().filter(|it| it.contains("changed")).collect();
    assert!(changed.len() == 1 && changed[0].ends_with("300%  changed, was 200%"), "{text}");
    run_json(&process, &[&set[..], &["rate_limit=200%"]].concat());
    process.assert_fails(
        &[&set[..], &["tokenize_limit=9", "cvc_retention=2d"]].concat(),
        "cvc_retention must",
    );
    process.assert_fails(&[&set[..], &["tokenize_limit"]].concat(), "NAME=VALUE");
    process.assert_fails(&[&set[..], &["speed=9"]].concat(), "quota must be");
    assert_eq!(run_json(&process, &["tenant", "quota", "show", "Acme"]), some);
}

#[test]
fn application_create_sets_the_given_permissions_and_rules() {
    let process = ProcessHarness::initialized(crate::SCRIP);
    run_json(&process, &["tenant", "create", "Acme", "--type", "test"]);
    let create = ["application", "create", "--tenant", "Acme", "--name", "A", "--type"];
    let with = |more: &[&'static str]| [&create[..], more].concat();
    let rule = r#"{"container":"/pci/","transform":"mask","permissions":["token:read"]}"#;
    let created =
        run_json(&process, &with(&["private", "--permission", "token:create", "--rule", rule]));
    assert_eq!(created["permissions"], serde_json::json!(["token:create"]));
    assert_eq!(created["rules"][0]["container"], "/pci/");
    assert!(value_text(&created["key"]).starts_with("key_test_us_pvt_"));
    let keyless = run_json(&process, &with(&["public", "--all", "--no-key"]));
    assert_eq!((keyless.get("key"), &keyless["keys"]), (None, &serde_json::json!([])));
    let listed = run_json(&process, &["application", "list", "--tenant", "Acme"]);
    assert_eq!(listed["applications"].as_array().unwrap().len(), 2);
    assert!(listed["applications"][0].get("key").is_none(), "the key was returned again");

    process.assert_fails(&with(&["private"]), "the application needs rights: add --permission");
    process.assert_fails(&with(&["public", "--permission", "token:read"]), "cannot have");
    process.assert_fails(&with(&["private", "--permission", "token:fly"]), "is not a permission");
    process.assert_fails(&with(&["private", "--rule", "{}"]), "rules[0].container is required");
    process.assert_fails(&with(&["private", "--rule", "4242"]), "rules[0] must be an object");
    let id = value_text(&keyless["id"]);
    run_json(&process, &["application", "delete", &id]);
    process.assert_fails(
        &["application", "delete", &id],
        "does not exist; run: scrip application list",
    );
}

#[test]
fn application_create_all_grants_permissions_of_existing_features() {
    let process = ProcessHarness::initialized(crate::SCRIP);
    run_json(&process, &["tenant", "create", "Acme", "--type", "test"]);
    let create = ["application", "create", "--tenant", "Acme", "--name", "A", "--type"];
    for (kind, count) in [("public", 4), ("private", 14), ("management", 20)] {
        let created = run_json(&process, &[&create[..], &[kind, "--all"]].concat());
        let permissions = created["permissions"].as_array().unwrap();
        assert_eq!(permissions.len(), count, "{permissions:?}");
    }
    let explicit = [&create[..], &["management", "--permission", "reactor:read"]].concat();
    let output = run_text(&process, &explicit);
    assert!(output.contains("reactor:read has no effect"), "{output}");
    let missing = [&create[..], &["private", "--permission", "documents:read"]].concat();
    process.assert_fails(&missing, "a feature that this server does not have: documents");
}

#[test]
fn running_server_applies_command_changes_within_a_second() {
    let (process, _, application) = create_with_application("private");
    let server = serve_unsealed(&process);
    let (id, key) = (value_text(&application["id"]), value_text(&application["key"]));
    assert_eq!(get_status(&server, "/tokens/none", &key), 404);

    let second = run_json(&process, &["key", "create", &id]);
    expect_status_soon(&server, "/tokens/none", &value_text(&second["key"]), 404);
    run_json(&process, &["key", "delete", &value_text(&second["id"])]);
    expect_status_soon(&server, "/tokens/none", &value_text(&second["key"]), 401);
    assert_eq!(get_status(&server, "/tokens/none", &key), 404, "the other key must still work");

    let legacy = "key_pvt_0123456789abcdefghij";
    let imported = import_key(&process, &id, &format!("{legacy}\n"));
    let imported: Value = serde_json::from_slice(&imported.stdout).expect("JSON");
    assert_eq!(imported["legacy"], true);
    expect_status_soon(&server, "/tokens/none", legacy, 404);
    let again = import_key(&process, &id, legacy);
    assert!(String::from_utf8_lossy(&again.stderr).contains("in use"), "{again:?}");
    let short = import_key(&process, &id, "short");
    assert!(String::from_utf8_lossy(&short.stderr).contains("20 to 256"), "{short:?}");

    run_json(&process, &["application", "delete", &id]);
    expect_status_soon(&server, "/tokens/none", &key, 401);
    expect_status_soon(&server, "/tokens/none", legacy, 401);
    let listed = run_json(&process, &["tenant", "list"]);
    assert_eq!(listed["alterations"], serde_json::json!([]));
}

/// Posts JSON with a key. Returns the status and the body of the response.
pub(crate) fn post_json(
    server: &RunningServer,
    path: &str,
    key: &str,
    body: &Value,
) -> (u16, Value) {
    let response = server.request("POST", path).api_key(key).json(body).send();
    (response.status, serde_json::from_slice(&response.body).unwrap_or_default())
}

#[test]
fn access_sessions_can_be_listed_and_revoked_while_the_server_runs() {
    let (process, _, private) = create_with_application("private");
    let create = ["application", "create", "--tenant", "Acme", "--name", "P", "--type", "public"];
    let public = run_json(&process, &[&create[..], &["--all"]].concat());
    let server = serve_unsealed(&process);
    let (private_key, public_key) = (value_text(&private["key"]), value_text(&public["key"]));
    let authorized = || {
        let (_, session) = post_json(&server, "/sessions", &public_key, &Value::Null);
        let delegated =
            serde_json::json!({"nonce": session["nonce"], "permissions": ["token:read"]});
        assert_eq!(post_json(&server, "/sessions/authorize", &private_key, &delegated).0, 204);
        let key = value_text(&session["session_key"]);
        assert_eq!(get_status(&server, "/v2/tokens", &key), 200);
        key
    };
    let revoked = authorized();
    let listed = run_json(&process, &["access-session", "list", "--tenant", "Acme"]);
    let sessions = listed["access_sessions"].as_array().expect("a list");
    assert_eq!(sessions.len(), 1, "{listed}");
    assert_eq!(sessions[0]["authorized"]["key_id"], private["keys"][0]["id"]);
    assert_eq!(sessions[0]["authorized"]["application_id"], private["id"]);
    assert_eq!(sessions[0]["application_id"], public["id"]);
    assert!(!listed.to_string().contains(&revoked), "the list contains the key of a session");

    let id = value_text(&sessions[0]["id"]);
    let (by_prefix, by_key) = (authorized(), authorized());
    run_text(&process, &["access-session", "revoke", &id]);
    assert_eq!(get_status(&server, "/v2/tokens", &revoked), 401);
    assert_eq!(get_status(&server, "/v2/tokens", &by_prefix), 200);
    assert!(!process.run(&["access-session", "revoke", &id]).status.success());
    assert!(!process.run(&["access-session", "revoke", "zz"]).status.success());
    let left = run_json(&process, &["access-session", "list"]);
    assert_eq!(left["access_sessions"].as_array().map(Vec::len), Some(2));
    for session in left["access_sessions"].as_array().expect("a list") {
        run_text(&process, &["access-session", "revoke", &value_text(&session["id"])[..12]]);
    }
    for key in [&by_prefix, &by_key] {
        assert_eq!(get_status(&server, "/v2/tokens", key), 401);
    }

    // Deleting a key ends its sessions, also on a running server.
    let last = authorized();
    run_text(&process, &["key", "delete", &value_text(&private["keys"][0]["id"])]);
    expect_status_soon(&server, "/v2/tokens", &last, 401);
}

#[test]
fn tenant_created_or_deleted_by_command_is_applied_immediately() {
    let process = ProcessHarness::initialized(crate::SCRIP);
    let server = serve_unsealed(&process);
    run_json(&process, &["tenant", "create", "Acme", "--type", "test"]);
    let create = ["application", "create", "--tenant", "Acme", "--name", "A", "--type"];
    let management = run_json(&process, &[&create[..], &["management", "--all"]].concat());
    let key = value_text(&management["key"]);
    expect_status_soon(&server, "/tenants/self", &key, 200);
    run_json(&process, &["tenant", "quota", "set", "Acme", "tokenize_limit=77"]);
    let read_quotas = || {
        let request = server.request("GET", "/tenants/self/quotas").api_key(&key);
        request.send().expect_status(200).text()
    };
    let is_changed = becomes_true(|| read_quotas().contains("\"tokenize_limit\":77"));
    assert!(is_changed, "{}", read_quotas());
    run_json(&process, &["tenant", "delete", "Acme", "--yes"]);
    expect_status_soon(&server, "/tenants/self", &key, 401);
}

#[test]
fn status_reports_counts_sizes_and_server() {
    let (process, ..) = create_with_application("private");
    let alone = run_json(&process, &["status"]);
    assert_eq!(alone["counts"]["applications"], 1);
    assert_eq!(alone["key_versions"], serde_json::json!([{"version": 1, "tenants": 1}]));
    assert!(alone["schema"].is_number() && alone["sizes_bytes"]["database"].is_number());
    assert_eq!(alone["server"], Value::Null);
    let server = serve_unsealed(&process);
    let served = run_json(&process, &["status"]);
    assert_eq!(served["server"]["pid"], server.child.id());
    // The tasks of the start write too, so that the queue becomes empty only after them.
    let is_queue_empty = || run_json(&process, &["status"])["server"]["write_queue"] == 0;
    assert!(becomes_true(is_queue_empty), "the write queue does not become empty");
    assert!(run_text(&process, &["status"]).contains("queued writes"));
    process.assert_fails(
        &["status", "--data-dir", "nowhere"],
        "data directory nowhere does not exist",
    );
}

#[test]
fn init_creates_the_vault_in_the_directory_of_the_flag() {
    let process = ProcessHarness::new(crate::SCRIP);
    let other = process.path("other");
    let flag = ["--data-dir", other.to_str().unwrap()];
    assert!(process.run(&["init", flag[0], flag[1]]).status.success());
    assert!(other.join("scrip.db").exists() && !process.data().exists());
    let output = process.run(&["doctor", "--json", flag[0], flag[1]]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn altered_policy_is_reported_and_ignored() {
    let (process, tenant, application) = create_with_application("private");
    let server = serve_unsealed(&process);
    let key = value_text(&application["key"]);
    assert_eq!(get_status(&server, "/tokens/none", &key), 404);
    let connection = open_database(&process);
    // An attacker with write access can also raise the version, which makes the server reload.
    let alter = |sql: &str| {
        connection.execute(sql, []).unwrap();
        connection.execute("UPDATE directory_state SET version = version + 1", []).unwrap();
    };
    alter("UPDATE applications SET kind = 'management'");
    process.wait_for_log("policy was altered from outside");
    assert!(process.log().contains(&value_text(&tenant["id"])));
    expect_status_soon(&server, "/tokens/none", &key, 503);
    alter("UPDATE applications SET kind = 'private'");
    expect_status_soon(&server, "/tokens/none", &key, 404);
    process.wait_for_log("policy is authentic again");
}

#[test]
fn help_texts_contain_examples() {
    let process = ProcessHarness::new(crate::SCRIP);
    for (arguments, expected) in [
        (&["--help"][..], "scrip doctor"),
        (&["tenant", "create", "--help"], "scrip application create"),
        (&["application", "create", "--help"], "--rule"),
        (&["key", "import", "--help"], "standard input"),
        (&["tenant", "quota", "set", "--help"], "log_retention=30d"),
        (&["completions", "bash"], "_scrip"),
    ] {
        assert!(run_text(&process, arguments).contains(expected), "{arguments:?}");
    }
}

#[test]
fn requests_are_rejected_while_the_directory_cannot_be_reloaded() {
    let (process, _, application) = create_with_application("private");
    let server = serve_unsealed(&process);
    let key = value_text(&application["key"]);
    assert_eq!(get_status(&server, "/tokens/none", &key), 404);
    let connection = open_database(&process);
    // Authenticated before, with an incomplete body.
    let mut pending = TcpStream::connect(server.address).unwrap();
    let head = format!(
        "POST /tokens HTTP/1.1\r\nHost: x\r\nConnection: close\r\nBT-API-KEY: {key}\r\n\
         Content-Type: application/json\r\nContent-Length: 26\r\n\r\n"
    );
    pending.write_all((head + r#"{"type":"token","data":12"#).as_bytes()).unwrap();
    connection.execute("UPDATE system_keys SET wrapped = x'00'", []).unwrap();
    connection.execute("DELETE FROM directory_state", []).unwrap();
    process.wait_for_log("the vault is sealed");
    assert_eq!(get_status(&server, "/tokens/none", &key), 503);
    assert_eq!(server.status("/readyz"), 503);
    assert_eq!(server.status("/healthz"), 200);
    pending.write_all(b"}").unwrap();
    let mut response = String::new();
    pending.read_to_string(&mut response).unwrap();
    assert!(response.starts_with("HTTP/1.1 503"), "{response}");
    let many = process.log().matches("reloading tenants, applications and keys failed").count();
    assert!(many < 3, "logged {many} times");
}

#[test]
fn altered_tenant_can_be_deleted_and_concurrent_quota_changes_apply() {
    let (process, tenant, _) = create_with_application("private");
    let set = |pair: &str| {
        let mut command = process.command(&["tenant", "quota", "set", "Acme", pair]);
        command.stdout(Stdio::null()).spawn().expect("run the command")
    };
    let both = [set("tokenize_limit=70"), set("detokenize_limit=80")];
    for mut child in both {
        assert!(child.wait().unwrap().success());
    }
    let quotas = run_json(&process, &["tenant", "quota", "show", "Acme"]);
    assert_eq!((&quotas["tokenize_limit"], &quotas["detokenize_limit"]), (&70.into(), &80.into()));
    process.assert_fails(
        &["tenant", "quota", "set", "Acme", "tokenize_limit=1", "tokenize_limit=2"],
        "twice",
    );

    let connection = Connection::open(process.data().join("scrip.db")).unwrap();
    connection.execute("UPDATE applications SET name = 'altered'", []).unwrap();
    let id = value_text(&tenant["id"]);
    process.assert_fails(&["tenant", "show", &id], "was altered");
    process.assert_fails(&["tenant", "delete", &id], "Use --yes");
    run_json(&process, &["tenant", "delete", &id, "--yes"]);
    assert_eq!(run_json(&process, &["tenant", "list"])["alterations"], serde_json::json!([]));
}

#[test]
fn deleted_tenant_rows_put_back_are_not_served() {
    let (process, _, application) = create_with_application("private");
    let server = serve_unsealed(&process);
    let key = value_text(&application["key"]);
    assert_eq!(get_status(&server, "/tokens/none", &key), 404);
    let connection = open_database(&process);
    let keys = ["tenants", "tenant_keys", "permanent_keys"];
    let policy = ["applications", "api_keys", "proxies", "webhooks", "client_keys"];
    let tables = [&keys[..], &policy].concat();
    let each = |what: &str| -> String {
        tables.iter().map(|it| what.replace("{}", it)).collect::<Vec<_>>().join(";")
    };
    connection.execute_batch(&each("CREATE TEMP TABLE held_{} AS SELECT * FROM {}")).unwrap();
    run_json(&process, &["tenant", "delete", "Acme", "--yes"]);
    expect_status_soon(&server, "/tokens/none", &key, 401);
    connection.execute_batch(&each("INSERT INTO {} SELECT * FROM held_{}")).unwrap();
    connection.execute("UPDATE directory_state SET version = version + 1", []).unwrap();
    process.wait_for_log("deleted and its rows are back");
    // The line is written before the directory is replaced.
    expect_status_soon(&server, "/tokens/none", &key, 503);
}

/// `scrip dev` prints its keys, and one of them reveals everything.
#[test]
fn dev_rejects_a_vault_with_production_tenants() {
    let process = ProcessHarness::initialized(crate::SCRIP);
    run_json(&process, &["tenant", "create", "Shop", "--type", "production"]);
    process.assert_fails(&["dev"], "a production tenant");
    assert!(!process.data().join("dev-keys.json").exists());
}
