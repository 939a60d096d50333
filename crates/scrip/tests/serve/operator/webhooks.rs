//! `scrip webhook`, and `scrip policy restore` of webhooks from a backup and from an export.

use scrip_testing::{process::harness::ProcessHarness, requests::assert_members};
use serde_json::{Value, json};

use crate::operator::{
    commands::{
        create_with_application, open_database, post_json, run_json, run_text, serve_unsealed,
        value_text,
    },
    policy_restore::create_backup,
};

#[test]
fn policy_restore_brings_altered_and_deleted_webhooks_back() {
    let (process, tenant, application) = create_with_application("management");
    let key = value_text(&application["key"]);
    let server = serve_unsealed(&process);
    let body = json!({
        "name": "Orders", "url": "https://shop.example/webhooks", "events": ["token.created"],
    });
    let (status, webhook) = post_json(&server, "/webhooks", &key, &body);
    assert_eq!(status, 201, "{webhook}");
    drop(server);
    let backup = create_backup(&process, "backup");
    let export = process.path("export").display().to_string();
    run_text(&process, &["export", &export]);
    let connection = open_database(&process);
    let tenant_id = value_text(&tenant["id"]);
    for (alteration, source) in [
        ("UPDATE webhooks SET status = 'disabled'", &backup),
        ("UPDATE webhooks SET settings = secrets", &export),
        ("UPDATE webhooks SET events = 'token.read'", &backup),
        ("UPDATE webhooks SET name = ''", &export),
        ("DELETE FROM webhooks", &backup),
        ("DELETE FROM webhooks", &export),
    ] {
        assert!(connection.execute(alteration, []).unwrap() > 0, "{alteration}");
        assert!(!process.run(&["doctor"]).status.success(), "{alteration}");
        let restore = ["policy", "restore", "--from", source, "--tenant", &tenant_id, "--yes"];
        let restored = run_json(&process, &restore);
        let kinds: Vec<_> =
            restored["changes"].as_array().unwrap().iter().map(|it| it["kind"].clone()).collect();
        assert_eq!(kinds, ["webhook"], "{alteration}: {restored}");
        let listed = run_json(&process, &["tenant", "list"]);
        assert_eq!(listed["alterations"], json!([]), "{alteration}");
    }
    assert_eq!(run_json(&process, &["status"])["counts"]["webhooks"], 1);
    let server = serve_unsealed(&process);
    let path = format!("/webhooks/{}", value_text(&webhook["id"]));
    let response = server.request("GET", &path).api_key(&key).send();
    let shown: Value = serde_json::from_slice(&response.body).unwrap();
    for name in ["name", "url", "events", "status", "created_at"] {
        assert_eq!(shown[name], webhook[name], "{name}");
    }
}

/// A vault that delivers nothing, with one webhook and the delivery of one test event.
fn create_with_delivery() -> (ProcessHarness, String, String) {
    let (process, _, application) = create_with_application("management");
    let process = process.with_variable("SCRIP_WEBHOOKS_DELIVER", "false");
    let key = value_text(&application["key"]);
    let server = serve_unsealed(&process);
    let body = json!({
        "name": "Orders", "url": "https://shop.example/s3cr3t", "events": ["token.created"],
    });
    let (status, webhook) = post_json(&server, "/webhooks", &key, &body);
    assert_eq!(status, 201, "{webhook}");
    let id = value_text(&webhook["id"]);
    let (status, delivery) = post_json(&server, &format!("/webhooks/{id}/test"), &key, &json!({}));
    assert_eq!(status, 202, "{delivery}");
    (process, key, id)
}

#[test]
fn webhooks_and_their_deliveries_are_listed_and_replayed() {
    let (process, _, id) = create_with_delivery();
    let listed = run_json(&process, &["webhook", "list", "--tenant", "Acme"]);
    let webhook = &listed["webhooks"][0];
    assert_eq!(webhook["id"], id);
    assert_eq!((&webhook["name"], &webhook["host"]), (&json!("Orders"), &json!("shop.example")));
    assert_eq!(webhook["events"], json!(["token.created"]));
    let text = run_text(&process, &["webhook", "list"]);
    assert!(text.contains("enabled") && text.contains("shop.example"), "{text}");
    assert!(!text.contains("s3cr3t") && !listed.to_string().contains("s3cr3t"), "{text}");
    process.assert_fails(&["webhook", "list", "--tenant", "Unknown"], "no tenant has this name");

    let deliveries = || run_json(&process, &["webhook", "deliveries", &id])["deliveries"].clone();
    let pending = deliveries();
    assert_eq!(pending.as_array().unwrap().len(), 1, "{pending}");
    assert_members(&pending[0], &json!({"event_type": "webhook.test", "status": "pending"}));
    let text = run_text(&process, &["webhook", "deliveries", &id, "--limit", "1"]);
    assert!(text.contains("webhook.test") && text.contains("pending"), "{text}");

    let replay = ["webhook", "replay", &id, "--from", "2020-01-01T00:00:00Z"];
    assert_eq!(run_json(&process, &replay)["replayed"], 0);
    let database = open_database(&process);
    database.execute("UPDATE deliveries SET state = 'delivered', attempts = 1", []).unwrap();
    assert_eq!(deliveries()[0]["status"], "delivered");
    let text = run_text(&process, &replay);
    assert!(text.starts_with("replayed 1 delivery of webhook "), "{text}");
    assert_eq!(deliveries()[0]["status"], "pending");
    assert_eq!(deliveries()[0]["event_id"], pending[0]["event_id"]);

    let sql = "SELECT count(*) FROM log_records WHERE actor_kind = 'operator'
        AND operation = 'replay_webhook_deliveries'";
    let records: i64 = database.query_row(sql, [], |row| row.get(0)).unwrap();
    assert_eq!(records, 2);
    let log = rusqlite::Connection::open(process.data().join("read_log.db")).unwrap();
    let count = |command: &str| -> i64 {
        let sql = "SELECT count(*) FROM log_records WHERE operation = 'run_command' AND entity = ?1
            AND outcome = 'completed'";
        log.query_row(sql, [command], |row| row.get(0)).unwrap()
    };
    assert_eq!((count("webhook list"), count("webhook replay")), (2, 2));
}

#[test]
fn webhook_commands_reject_unknown_ids_bad_times_and_disabled_webhooks() {
    let (process, key, id) = create_with_delivery();
    let unknown = "0b6c9d52-7e41-4a38-8f19-3d2a5e7c6b90";
    for command in [&["webhook", "deliveries"][..], &["webhook", "enable"]] {
        process.assert_fails(&[command, &["x"]].concat(), "not the id of a webhook");
        process.assert_fails(&[command, &[unknown]].concat(), "does not exist");
    }
    let replay = |from: &str, expected: &str| {
        process.assert_fails(&["webhook", "replay", &id, "--from", from], expected);
    };
    replay("yesterday", "the time must be a date and time");
    replay("2999-01-01T00:00:00Z", "must not be in the future");
    let server = serve_unsealed(&process);
    let body = json!({
        "name": "Orders", "url": "https://shop.example/s3cr3t", "events": ["token.created"],
        "status": "disabled",
    });
    let path = format!("/webhooks/{id}");
    let response = server.request("PUT", &path).api_key(&key).json(&body).send();
    assert_eq!(response.status, 200);
    replay("2020-01-01T00:00:00Z", "is disabled; run: scrip webhook enable");
    assert_eq!(run_json(&process, &["webhook", "enable", &id])["status"], "enabled");
    let status = || run_json(&process, &["webhook", "list"])["webhooks"][0]["status"].clone();
    assert_eq!(status(), "enabled");
    run_text(&process, &["webhook", "replay", &id, "--from", "2020-01-01T00:00:00Z"]);
}
