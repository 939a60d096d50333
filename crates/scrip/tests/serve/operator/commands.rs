//! The operator's commands, alone and beside a running server.

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    os::unix::fs::PermissionsExt,
    process::{Output, Stdio},
    thread::sleep,
    time::Duration,
};

use scrip_testing::process::harness::{ProcessHarness, Running};
use serde_json::Value;

/// What a command says with `--json`.
#[track_caller]
pub(crate) fn json(house: &ProcessHarness, arguments: &[&str]) -> Value {
    let output = house.run(&[arguments, &["--json"]].concat());
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[track_caller]
pub(crate) fn text(house: &ProcessHarness, arguments: &[&str]) -> String {
    let output = house.run(arguments);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

fn said(value: &Value) -> String {
    value.as_str().expect("text").to_owned()
}

/// A vault with a tenant and an application that may do all that its type can.
fn with_application(kind: &str) -> (ProcessHarness, Value, Value) {
    let house = ProcessHarness::founded(crate::SCRIP);
    let tenant = json(&house, &["tenant", "create", "Acme"]);
    let create = ["application", "create", "--tenant", "Acme", "--name", "A", "--type", kind];
    let application = json(&house, &[&create[..], &["--all"]].concat());
    (house, tenant, application)
}

/// The vault's database, beside the server.
fn database(house: &ProcessHarness) -> rusqlite::Connection {
    let connection = rusqlite::Connection::open(house.data().join("scrip.db")).unwrap();
    connection.busy_timeout(Duration::from_secs(5)).unwrap();
    connection
}

fn import(house: &ProcessHarness, application: &str, key: &str) -> Output {
    let mut command = house.command(&["key", "import", application, "--json"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it runs");
    child.stdin.take().unwrap().write_all(key.as_bytes()).unwrap();
    child.wait_with_output().expect("it ran")
}

/// The answer to a question with a key, once the server has opened.
fn status(server: &Running, path: &str, key: &str) -> u16 {
    let config = ureq::Agent::config_builder().http_status_as_error(false).build();
    let agent: ureq::Agent = config.into();
    let asked = agent.get(format!("{}{path}", server.url)).header("BT-API-KEY", key).call();
    asked.expect("an answer").status().as_u16()
}

pub(crate) fn opened(house: &ProcessHarness) -> Running {
    let server = house.serve();
    house.logged("the vault is open");
    server
}

/// Whether that becomes the answer within a second.
#[track_caller]
fn soon(server: &Running, path: &str, key: &str, expected: u16) {
    let came = (0..40).any(|_| {
        sleep(Duration::from_millis(20));
        status(server, path, key) == expected
    });
    assert!(came, "{expected} did not come within a second");
}

#[test]
fn tenants_are_made_shown_and_deleted() {
    let house = ProcessHarness::founded(crate::SCRIP);
    let acme = json(&house, &["tenant", "create", "Acme"]);
    let bank = json(&house, &["tenant", "create", "Bank", "--type", "production"]);
    assert_eq!((&acme["type"], &bank["type"]), (&"test".into(), &"production".into()));
    assert_eq!(bank["quotas"]["threeds_access"], false);
    assert_eq!(json(&house, &["tenant", "list"])["tenants"], serde_json::json!([acme, bank]));
    assert_eq!(bank["quotas"]["deletion_grace_seconds"], 86_400);
    assert!(text(&house, &["tenant", "list"]).contains("Bank"));
    assert_eq!(json(&house, &["tenant", "show", &said(&acme["id"])]), acme);
    assert!(text(&house, &["tenant", "show", "Acme"]).contains("log_retention"));

    house.refused(&["tenant", "show", "Nobody"], "there is no tenant of that name");
    json(&house, &["tenant", "create", "Bank"]);
    house.refused(&["tenant", "show", "Bank"], "several tenants have that name");
    house.refused(&["tenant", "create", " "], "name must have 1 to 200 characters");
    house.refused(&["tenant", "delete", "Acme"], "Say --yes");
    assert_eq!(json(&house, &["tenant", "show", "Acme"]), acme);
    assert_eq!(json(&house, &["tenant", "delete", "Acme", "--yes"])["deleted"], true);
    house.refused(&["tenant", "show", "Acme"], "there is no tenant");
    house.refused(&["tenant", "delete", &said(&acme["id"]), "--yes"], "there is no tenant");
}

#[test]
fn deleted_production_tenant_is_listed_and_can_be_restored() {
    let house = ProcessHarness::founded(crate::SCRIP);
    let bank = json(&house, &["tenant", "create", "Bank", "--type", "production"]);
    let create = ["application", "create", "--tenant", "Bank", "--name", "A", "--type", "private"];
    let application = json(&house, &[&create[..], &["--all"]].concat());
    let key = said(&application["key"]);
    let server = opened(&house);
    assert_eq!(status(&server, "/applications/key", &key), 200);
    house.refused(&["tenant", "restore", "Bank"], "there is no deleted tenant");
    let deleted = json(&house, &["tenant", "delete", "Bank", "--yes"]);
    assert!(deleted["keys_destroyed_at"].is_string(), "{deleted}");
    soon(&server, "/applications/key", &key, 401);
    let listed = json(&house, &["tenant", "list"]);
    assert_eq!(listed["tenants"], serde_json::json!([]));
    assert_eq!(listed["deleted"][0]["id"], bank["id"]);
    assert_eq!(listed["deleted"][0]["keys_destroyed_at"], deleted["keys_destroyed_at"]);
    assert!(text(&house, &["tenant", "list"]).contains("deleted, and its keys are destroyed at"));
    house.refused(&["tenant", "show", "Bank"], "there is no tenant");
    json(&house, &["tenant", "restore", &said(&bank["id"])]);
    soon(&server, "/applications/key", &key, 200);
    json(&house, &["tenant", "delete", "Bank", "--yes"]);
    let destroyed = json(&house, &["tenant", "delete", "Bank", "--yes", "--now"]);
    assert!(destroyed.get("keys_destroyed_at").is_none(), "{destroyed}");
    house.refused(&["tenant", "restore", "Bank"], "there is no deleted tenant");
}

#[test]
fn quotas_are_set_together_or_not_at_all() {
    let house = ProcessHarness::founded(crate::SCRIP);
    json(&house, &["tenant", "create", "Acme"]);
    let set = ["tenant", "quota", "set", "Acme"];
    let some = json(&house, &[&set[..], &["log_retention=30d", "rate_limit=200%"]].concat());
    assert_eq!(
        (&some["log_retention_seconds"], &some["rate_limit"]),
        (&2_592_000.into(), &"200%".into())
    );
    house.refused(
        &[&set[..], &["tokenize_limit=9", "cvc_retention=2d"]].concat(),
        "cvc_retention must",
    );
    house.refused(&[&set[..], &["tokenize_limit"]].concat(), "NAME=VALUE");
    house.refused(&[&set[..], &["speed=9"]].concat(), "quota must be");
    assert_eq!(json(&house, &["tenant", "quota", "show", "Acme"]), some);
}

#[test]
fn applications_have_the_rights_that_were_said() {
    let house = ProcessHarness::founded(crate::SCRIP);
    json(&house, &["tenant", "create", "Acme"]);
    let create = ["application", "create", "--tenant", "Acme", "--name", "A", "--type"];
    let with = |more: &[&'static str]| [&create[..], more].concat();
    let rule = r#"{"container":"/pci/","transform":"mask","permissions":["token:read"]}"#;
    let made = json(&house, &with(&["private", "--permission", "token:create", "--rule", rule]));
    assert_eq!(made["permissions"], serde_json::json!(["token:create"]));
    assert_eq!(made["rules"][0]["container"], "/pci/");
    assert!(said(&made["key"]).starts_with("key_test_us_pvt_"));
    let keyless = json(&house, &with(&["public", "--all", "--no-key"]));
    assert_eq!((keyless.get("key"), &keyless["keys"]), (None, &serde_json::json!([])));
    let listed = json(&house, &["application", "list", "--tenant", "Acme"]);
    assert_eq!(listed["applications"].as_array().unwrap().len(), 2);
    assert!(listed["applications"][0].get("key").is_none(), "shown once");

    house.refused(&with(&["private"]), "permissions must not be empty");
    house.refused(&with(&["public", "--permission", "token:read"]), "cannot hold");
    house.refused(&with(&["private", "--permission", "token:fly"]), "is not a permission");
    house.refused(&with(&["private", "--rule", "{}"]), "rules[0].container is required");
    house.refused(&with(&["private", "--rule", "4242"]), "rules[0] must be an object");
    let id = said(&keyless["id"]);
    json(&house, &["application", "delete", &id]);
    house.refused(&["application", "delete", &id], "there is no application");
}

#[test]
fn a_running_server_obeys_within_a_second() {
    let (house, _, application) = with_application("private");
    let server = opened(&house);
    let (id, key) = (said(&application["id"]), said(&application["key"]));
    assert_eq!(status(&server, "/tokens/none", &key), 404);

    let second = json(&house, &["key", "create", &id]);
    soon(&server, "/tokens/none", &said(&second["key"]), 404);
    json(&house, &["key", "delete", &said(&second["id"])]);
    soon(&server, "/tokens/none", &said(&second["key"]), 401);
    assert_eq!(status(&server, "/tokens/none", &key), 404, "the other key goes on");

    let legacy = "key_pvt_0123456789abcdefghij";
    let imported = import(&house, &id, &format!("{legacy}\n"));
    let imported: Value = serde_json::from_slice(&imported.stdout).expect("JSON");
    assert_eq!(imported["legacy"], true);
    soon(&server, "/tokens/none", legacy, 404);
    let again = import(&house, &id, legacy);
    assert!(String::from_utf8_lossy(&again.stderr).contains("in use"), "{again:?}");
    let short = import(&house, &id, "short");
    assert!(String::from_utf8_lossy(&short.stderr).contains("20 to 256"), "{short:?}");

    json(&house, &["application", "delete", &id]);
    soon(&server, "/tokens/none", &key, 401);
    soon(&server, "/tokens/none", legacy, 401);
    let listed = json(&house, &["tenant", "list"]);
    assert_eq!(listed["alterations"], serde_json::json!([]));
}

/// Posts JSON with a key: the status, and the body of the answer.
fn post(server: &Running, path: &str, key: &str, body: &Value) -> (u16, Value) {
    let config = ureq::Agent::config_builder().http_status_as_error(false).build();
    let agent: ureq::Agent = config.into();
    let asked = agent.post(format!("{}{path}", server.url)).header("BT-API-KEY", key);
    let mut answer = asked.send_json(body).expect("an answer");
    let text = answer.body_mut().read_to_string().expect("a body");
    (answer.status().as_u16(), serde_json::from_str(&text).unwrap_or_default())
}

#[test]
fn access_sessions_are_listed_and_revoked_beside_a_server() {
    let (house, _, private) = with_application("private");
    let create = ["application", "create", "--tenant", "Acme", "--name", "P", "--type", "public"];
    let public = json(&house, &[&create[..], &["--all"]].concat());
    let server = opened(&house);
    let (private_key, public_key) = (said(&private["key"]), said(&public["key"]));
    let authorized = || {
        let (_, session) = post(&server, "/sessions", &public_key, &Value::Null);
        let lent = serde_json::json!({"nonce": session["nonce"], "permissions": ["token:read"]});
        assert_eq!(post(&server, "/sessions/authorize", &private_key, &lent).0, 204);
        let key = said(&session["session_key"]);
        assert_eq!(status(&server, "/v2/tokens", &key), 200);
        key
    };
    let revoked = authorized();
    let listed = json(&house, &["access-session", "list", "--tenant", "Acme"]);
    let sessions = listed["access_sessions"].as_array().expect("a list");
    assert_eq!(sessions.len(), 1, "{listed}");
    assert_eq!(sessions[0]["authorized"]["key_id"], private["keys"][0]["id"]);
    assert_eq!(sessions[0]["authorized"]["application_id"], private["id"]);
    assert_eq!(sessions[0]["application_id"], public["id"]);
    assert!(!listed.to_string().contains(&revoked), "the key of a session is never shown");

    let id = said(&sessions[0]["id"]);
    let (by_prefix, by_key) = (authorized(), authorized());
    text(&house, &["access-session", "revoke", &id]);
    assert_eq!(status(&server, "/v2/tokens", &revoked), 401);
    assert_eq!(status(&server, "/v2/tokens", &by_prefix), 200);
    assert!(!house.run(&["access-session", "revoke", &id]).status.success());
    assert!(!house.run(&["access-session", "revoke", "zz"]).status.success());
    let left = json(&house, &["access-session", "list"]);
    assert_eq!(left["access_sessions"].as_array().map(Vec::len), Some(2));
    for session in left["access_sessions"].as_array().expect("a list") {
        text(&house, &["access-session", "revoke", &said(&session["id"])[..12]]);
    }
    for key in [&by_prefix, &by_key] {
        assert_eq!(status(&server, "/v2/tokens", key), 401);
    }

    // A deleted key takes its sessions with it, also those of a server that runs.
    let last = authorized();
    text(&house, &["key", "delete", &said(&private["keys"][0]["id"])]);
    soon(&server, "/v2/tokens", &last, 401);
}

#[test]
fn a_tenant_made_and_deleted_beside_a_server() {
    let house = ProcessHarness::founded(crate::SCRIP);
    let server = opened(&house);
    json(&house, &["tenant", "create", "Acme"]);
    let create = ["application", "create", "--tenant", "Acme", "--name", "A", "--type"];
    let management = json(&house, &[&create[..], &["management", "--all"]].concat());
    let key = said(&management["key"]);
    soon(&server, "/tenants/self", &key, 200);
    json(&house, &["tenant", "quota", "set", "Acme", "tokenize_limit=77"]);
    sleep(Duration::from_secs(1));
    let agent = ureq::Agent::new_with_defaults();
    let asked = agent.get(format!("{}/tenants/self/quotas", server.url)).header("BT-API-KEY", &key);
    let quotas = asked.call().unwrap().into_body().read_to_string().unwrap();
    assert!(quotas.contains("\"tokenize_limit\":77"), "{quotas}");
    json(&house, &["tenant", "delete", "Acme", "--yes"]);
    soon(&server, "/tenants/self", &key, 401);
}

#[test]
fn status_tells_what_there_is() {
    let (house, ..) = with_application("private");
    let alone = json(&house, &["status"]);
    assert_eq!(alone["counts"]["applications"], 1);
    assert_eq!(alone["key_versions"], serde_json::json!([{"version": 1, "tenants": 1}]));
    assert!(alone["schema"].is_number() && alone["sizes_bytes"]["database"].is_number());
    assert_eq!(alone["server"], Value::Null);
    let server = opened(&house);
    let served = json(&house, &["status"]);
    assert_eq!(served["server"]["pid"], server.child.id());
    assert_eq!(served["server"]["queue"], 0);
    assert!(text(&house, &["status"]).contains("writes that wait"));
    house.refused(&["status", "--data-dir", "nowhere"], "there is no data directory nowhere");
}

/// The verdicts of one check.
fn verdicts(report: &Value, check: &str) -> Vec<String> {
    let checks = report["checks"].as_array().expect("checks");
    checks.iter().filter(|it| it["check"] == check).map(|it| said(&it["verdict"])).collect()
}

/// The doctor's report, whatever it found.
fn examined(house: &ProcessHarness) -> (bool, Value) {
    let output = house.run(&["doctor", "--json"]);
    let report = serde_json::from_slice(&output.stdout).expect("JSON");
    (output.status.success(), report)
}

#[test]
fn the_doctor_finds_what_is_wrong() {
    let (house, ..) = with_application("private");
    let (well, report) = examined(&house);
    assert!(well, "{report}");
    assert_eq!(verdicts(&report, "root key"), ["warning"], "it lies beside the data");
    assert_eq!(verdicts(&report, "policy"), ["good"]);

    let database = house.data().join("scrip.db");
    let mode = |mode| fs::set_permissions(&database, fs::Permissions::from_mode(mode)).unwrap();
    mode(0o644);
    let (well, report) = examined(&house);
    assert_eq!((well, verdicts(&report, "permissions")), (false, vec!["bad".to_owned()]));
    mode(0o600);

    let connection = rusqlite::Connection::open(&database).unwrap();
    let alter = |sql: &str| assert_eq!(connection.execute(sql, []).unwrap(), 1, "{sql}");
    alter("UPDATE applications SET name = 'altered'");
    let (well, report) = examined(&house);
    assert_eq!((well, verdicts(&report, "policy")), (false, vec!["bad".to_owned()]));
    let refused = house.run(&["key", "create", "00000000-0000-0000-0000-000000000000"]);
    assert!(!refused.status.success());
    alter("UPDATE applications SET name = 'A'");
    assert!(examined(&house).0);

    // A head that was altered says nothing about the time; the trail is for `audit verify`.
    alter("UPDATE audit_heads SET at = at + 3600000");
    let (_, report) = examined(&house);
    assert_eq!(verdicts(&report, "clock"), ["good"]);
    alter("UPDATE audit_heads SET at = at - 3600000");
    alter("INSERT INTO clock_state (one, now, earliest, mac) VALUES (1, 1, 1, x'')");
    let (well, report) = examined(&house);
    assert_eq!((well, verdicts(&report, "clock")), (false, vec!["bad".to_owned()]));
    alter("DELETE FROM clock_state");
    alter("INSERT INTO deleted_tenants (id, deleted_at, mac) SELECT id, 1, x'' FROM tenants");
    let (well, report) = examined(&house);
    assert_eq!((well, verdicts(&report, "deletions")), (false, vec!["bad".to_owned()]));
    alter("DELETE FROM deleted_tenants");

    fs::remove_file(house.data().join("root.key")).unwrap();
    let (well, report) = examined(&house);
    assert_eq!((well, verdicts(&report, "root key")), (false, vec!["bad".to_owned()]));
}

#[test]
fn what_was_altered_is_reported_and_not_obeyed() {
    let (house, tenant, application) = with_application("private");
    let server = opened(&house);
    let key = said(&application["key"]);
    assert_eq!(status(&server, "/tokens/none", &key), 404);
    let connection = database(&house);
    // Whoever can write here can raise the version too, and so make the server look.
    let alter = |sql: &str| {
        connection.execute(sql, []).unwrap();
        connection.execute("UPDATE directory_state SET version = version + 1", []).unwrap();
    };
    alter("UPDATE applications SET kind = 'management'");
    house.logged("policy was altered from outside");
    assert!(house.log().contains(&said(&tenant["id"])));
    soon(&server, "/tokens/none", &key, 503);
    alter("UPDATE applications SET kind = 'private'");
    soon(&server, "/tokens/none", &key, 404);
    house.logged("policy is as it was written again");
}

#[test]
fn help_teaches() {
    let house = ProcessHarness::new(crate::SCRIP);
    for (arguments, expected) in [
        (&["--help"][..], "scrip doctor"),
        (&["tenant", "create", "--help"], "scrip application create"),
        (&["application", "create", "--help"], "--rule"),
        (&["key", "import", "--help"], "standard input"),
        (&["tenant", "quota", "set", "--help"], "log_retention=30d"),
        (&["completions", "bash"], "_scrip"),
    ] {
        assert!(text(&house, arguments).contains(expected), "{arguments:?}");
    }
}

#[test]
fn rights_that_cannot_be_followed_are_not_believed() {
    let (house, _, application) = with_application("private");
    let server = opened(&house);
    let key = said(&application["key"]);
    assert_eq!(status(&server, "/tokens/none", &key), 404);
    let connection = database(&house);
    // Let in before, with a body that is still on its way.
    let mut held = TcpStream::connect(server.address).unwrap();
    let head = format!(
        "POST /tokens HTTP/1.1\r\nHost: x\r\nConnection: close\r\nBT-API-KEY: {key}\r\n\
         Content-Type: application/json\r\nContent-Length: 26\r\n\r\n"
    );
    held.write_all((head + r#"{"type":"token","data":12"#).as_bytes()).unwrap();
    connection.execute("UPDATE system_keys SET wrapped = x'00'", []).unwrap();
    connection.execute("DELETE FROM directory_state", []).unwrap();
    house.logged("the vault is sealed");
    assert_eq!(status(&server, "/tokens/none", &key), 503);
    assert_eq!(server.status("/readyz"), 503);
    assert_eq!(server.status("/healthz"), 200);
    held.write_all(b"}").unwrap();
    let mut answer = String::new();
    held.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    let many = house.log().matches("could not be followed").count();
    assert!(many < 3, "told {many} times");
}

#[test]
fn an_altered_tenant_can_be_deleted_and_changes_at_once_both_count() {
    let (house, tenant, _) = with_application("private");
    let set = |pair: &str| {
        let mut command = house.command(&["tenant", "quota", "set", "Acme", pair]);
        command.stdout(Stdio::null()).spawn().expect("it runs")
    };
    let both = [set("tokenize_limit=70"), set("detokenize_limit=80")];
    for mut child in both {
        assert!(child.wait().unwrap().success());
    }
    let quotas = json(&house, &["tenant", "quota", "show", "Acme"]);
    assert_eq!((&quotas["tokenize_limit"], &quotas["detokenize_limit"]), (&70.into(), &80.into()));
    house.refused(
        &["tenant", "quota", "set", "Acme", "tokenize_limit=1", "tokenize_limit=2"],
        "twice",
    );

    let connection = rusqlite::Connection::open(house.data().join("scrip.db")).unwrap();
    connection.execute("UPDATE applications SET name = 'altered'", []).unwrap();
    let id = said(&tenant["id"]);
    house.refused(&["tenant", "show", &id], "was altered");
    house.refused(&["tenant", "delete", &id], "Say --yes");
    json(&house, &["tenant", "delete", &id, "--yes"]);
    assert_eq!(json(&house, &["tenant", "list"])["alterations"], serde_json::json!([]));
}

#[test]
fn a_deleted_tenant_does_not_come_back() {
    let (house, _, application) = with_application("private");
    let server = opened(&house);
    let key = said(&application["key"]);
    assert_eq!(status(&server, "/tokens/none", &key), 404);
    let connection = database(&house);
    let tables = ["tenants", "tenant_keys", "lasting_keys", "applications", "api_keys"];
    let each = |what: &str| -> String {
        tables.iter().map(|it| what.replace("{}", it)).collect::<Vec<_>>().join(";")
    };
    connection.execute_batch(&each("CREATE TEMP TABLE held_{} AS SELECT * FROM {}")).unwrap();
    json(&house, &["tenant", "delete", "Acme", "--yes"]);
    soon(&server, "/tokens/none", &key, 401);
    connection.execute_batch(&each("INSERT INTO {} SELECT * FROM held_{}")).unwrap();
    connection.execute("UPDATE directory_state SET version = version + 1", []).unwrap();
    house.logged("deleted, and brought back");
    assert_eq!(status(&server, "/tokens/none", &key), 503);
}

/// Its keys stand in clear, and one of them sees everything.
#[test]
fn dev_makes_no_keys_in_a_vault_of_production() {
    let house = ProcessHarness::founded(crate::SCRIP);
    json(&house, &["tenant", "create", "Shop", "--type", "production"]);
    house.refused(&["dev"], "a tenant of production");
    assert!(!house.data().join("dev-keys.json").exists());
}
