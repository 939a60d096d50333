//! `scrip proxy host`, and `scrip policy restore` of proxies.

use scrip_testing::{
    process::harness::{ProcessHarness, becomes_true},
    requests::assert_members,
};
use serde_json::{Value, json};

use crate::operator::{
    commands::{
        create_with_application, open_database, post_json, run_json, run_text, serve_unsealed,
        value_text,
    },
    policy_restore::create_backup,
};

/// A vault with a management application, and two of its proxies.
fn create_with_proxies() -> (ProcessHarness, Value, String, [Value; 2]) {
    let (process, tenant, application) = create_with_application("management");
    let key = value_text(&application["key"]);
    let server = serve_unsealed(&process);
    let create = |name: &str, require_auth: bool| {
        let body = json!({
            "name": name, "destination_url": "https://psp.example/v1", "require_auth": require_auth,
            "configuration": {"secret": "s3cr3t"},
        });
        let (status, proxy) = post_json(&server, "/proxies", &key, &body);
        assert_eq!(status, 201, "{proxy}");
        proxy
    };
    let proxies = [create("Charges", true), create("Inbound", false)];
    drop(server);
    (process, tenant, key, proxies)
}

#[test]
fn proxy_host_can_be_added_listed_and_removed_while_the_server_runs() {
    let (process, tenant, key, [charges, inbound]) = create_with_proxies();
    let [id, other_id] = [&charges, &inbound].map(|it| value_text(&it["id"]));
    let server = serve_unsealed(&process);
    let added = run_json(&process, &["proxy", "host", "add", "Pay.Shop.example", &id]);
    assert_eq!(added, json!({"host": "pay.shop.example", "proxy_id": id}));
    let path = format!("/proxies/{id}");
    let shown_host = || {
        let response = server.request("GET", &path).api_key(&key).send();
        serde_json::from_slice::<Value>(&response.body).unwrap()["proxy_host"].clone()
    };
    assert!(becomes_true(|| shown_host() == "pay.shop.example"), "{}", shown_host());
    process.assert_fails(&["proxy", "host", "add", "pay.shop.example", &other_id], "another proxy");
    process.assert_fails(&["proxy", "host", "add", "localhost", &id], "DNS name");
    process.assert_fails(&["proxy", "host", "add", "10.0.0.1", &id], "IP address");
    process.assert_fails(&["proxy", "host", "add", "a.example", "x"], "not the id of a proxy");
    let unknown = "0b6c9d52-7e41-4a38-8f19-3d2a5e7c6b90";
    process.assert_fails(&["proxy", "host", "add", "a.example", unknown], "does not exist");
    let warning = run_text(&process, &["proxy", "host", "add", "in.shop.example", &other_id]);
    assert!(warning.contains("needs no API key"), "{warning}");
    let listed = run_json(&process, &["proxy", "host", "list", "--tenant", "Acme"]);
    let row = |host: &str, proxy: &str, name: &str| {
        json!({
            "host": host, "proxy_id": proxy, "name": name, "tenant_id": tenant["id"],
            "tenant": "Acme",
        })
    };
    let expected = json!([
        row("in.shop.example", &other_id, "Inbound"),
        row("pay.shop.example", &id, "Charges"),
    ]);
    assert_eq!(listed["hosts"], expected);
    assert!(run_text(&process, &["proxy", "host", "list"]).contains("pay.shop.example"));
    run_text(&process, &["proxy", "host", "remove", "PAY.shop.example"]);
    assert!(becomes_true(|| shown_host().is_null()), "{}", shown_host());
    process.assert_fails(&["proxy", "host", "remove", "pay.shop.example"], "no proxy has the host");
    let records = open_database(&process);
    let sql = "SELECT group_concat(operation) FROM (SELECT operation FROM log_records
        WHERE operation LIKE '%_proxy_host' ORDER BY sequence)";
    let operations: String = records.query_row(sql, [], |row| row.get(0)).unwrap();
    assert_eq!(operations, "add_proxy_host,add_proxy_host,remove_proxy_host");
}

#[test]
fn policy_restore_brings_altered_and_deleted_proxies_back() {
    let (process, tenant, key, [charges, inbound]) = create_with_proxies();
    let id = value_text(&charges["id"]);
    run_text(&process, &["proxy", "host", "add", "pay.shop.example", &id]);
    let backup = create_backup(&process, "backup");
    let connection = open_database(&process);
    let tenant_id = value_text(&tenant["id"]);
    let restore = ["policy", "restore", "--from", &backup, "--tenant", &tenant_id, "--yes"];
    for alteration in [
        "UPDATE proxies SET require_auth = 0 WHERE host IS NOT NULL",
        "UPDATE proxies SET settings = secrets",
        "UPDATE proxies SET host = 'attacker.example' WHERE host IS NOT NULL",
        "UPDATE proxies SET name = ''",
        "DELETE FROM proxies",
    ] {
        assert!(connection.execute(alteration, []).unwrap() > 0, "{alteration}");
        assert!(!process.run(&["doctor"]).status.success(), "{alteration}");
        let restored = run_json(&process, &restore);
        let kinds: Vec<_> =
            restored["changes"].as_array().unwrap().iter().map(|it| it["kind"].clone()).collect();
        assert!(kinds.iter().all(|it| it == "proxy") && !kinds.is_empty(), "{restored}");
        let listed = run_json(&process, &["proxy", "host", "list"]);
        assert_eq!(listed["alterations"], json!([]), "{alteration}");
        assert_eq!(listed["hosts"][0]["host"], "pay.shop.example", "{alteration}");
    }
    let server = serve_unsealed(&process);
    for proxy in [&charges, &inbound] {
        let path = format!("/proxies/{}", value_text(&proxy["id"]));
        let response = server.request("GET", &path).api_key(&key).send();
        let shown: Value = serde_json::from_slice(&response.body).unwrap();
        assert_members(
            &shown,
            &json!({"key": proxy["key"], "configuration": proxy["configuration"]}),
        );
    }
}
