//! `scrip policy restore` of webhooks, from a backup and from an export.

use serde_json::{Value, json};

use crate::operator::{
    commands::{
        create_with_application, post_json, run_json, run_text, serve_unsealed, value_text,
    },
    policy_restore::{create_backup, open_database},
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
