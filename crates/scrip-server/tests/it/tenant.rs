//! The tenant: its name, its settings, which count at once, its quotas, and its end.

use scrip_core::tenant::Settings;
use serde_json::{Value, json};

use crate::server::{Keys, SHARED, Server, card, new_number, text};

fn tenant() -> Keys {
    SHARED.tenant(Settings::default())
}

fn read(keys: &Keys) -> Value {
    SHARED.fetch(&keys.management, "/tenants/self").is(200)
}

#[test]
fn what_is_told_of_a_tenant() {
    let keys = tenant();
    let found = read(&keys);
    let settings = json!({
        "fingerprint_tokens": "true", "deduplicate_tokens": "false",
        "token_deduplication_behavior": "read_existing", "disable_ephemeral_proxy": "false",
    });
    let expected = [
        ("id", json!(keys.tenant.id.to_string())),
        ("name", json!("test")),
        ("type", json!("test")),
        ("settings", settings),
        ("modified_at", Value::Null),
    ];
    for (name, expected) in expected {
        assert_eq!(found[name], expected, "{name}");
    }
    assert!(found["created_at"].is_string());
    let body =
        json!({"name": " Acme & Söhne ", "id": "mine", "type": "production", "created_at": null});
    let updated = SHARED.put(&keys.management, "/tenants/self/", &body).is(200);
    let myself = SHARED.fetch(&keys.management, "/applications/key").is(200);
    assert_eq!(updated["name"], "Acme & Söhne");
    assert_eq!(updated["modified_by"], myself["id"]);
    assert!(updated["modified_at"].is_string());
    for same in ["id", "type", "settings", "created_at"] {
        assert_eq!(updated[same], found[same], "{same}");
    }
    assert_eq!(read(&keys), updated);
}

#[test]
fn named_settings_change_and_the_others_stay() {
    let keys = tenant();
    let mut expected = read(&keys)["settings"].clone();
    let steps = [
        ("deduplicate_tokens", json!("true"), "true"),
        ("fingerprint_tokens", json!("false"), "false"),
        ("token_deduplication_behavior", json!("update_existing"), "update_existing"),
        ("disable_ephemeral_proxy", json!("true"), "true"),
        ("deduplicate_tokens", Value::Null, "false"),
        ("fingerprint_tokens", Value::Null, "true"),
        ("token_deduplication_behavior", Value::Null, "read_existing"),
        ("disable_ephemeral_proxy", json!("false"), "false"),
    ];
    for (name, value, reads) in steps {
        let body = json!({"name": "n", "settings": {name: value, "unknown": "x", "odd": [7]}});
        let updated = SHARED.put(&keys.management, "/tenants/self", &body).is(200);
        expected[name] = json!(reads);
        assert_eq!(updated["settings"], expected, "{name}");
        assert_eq!(read(&keys)["settings"], expected);
    }
    for settings in [Value::Null, json!({})] {
        let body = json!({"name": "n", "settings": settings});
        let updated = SHARED.put(&keys.management, "/tenants/self", &body).is(200);
        assert_eq!(updated["settings"], expected);
    }
}

#[test]
fn what_is_wrong_is_named_and_nothing_is_kept() {
    let keys = tenant();
    let before = read(&keys);
    let long = "x".repeat(201);
    let table = [
        (json!({}), "name"),
        (json!({"name": null}), "name"),
        (json!({"name": ""}), "name"),
        (json!({"name": long}), "name"),
        (json!({"name": 7}), "name"),
        (json!({"name": "n", "settings": []}), "settings"),
        (json!({"name": "n", "settings": "x"}), "settings"),
        (setting("deduplicate_tokens", json!(true)), "settings.deduplicate_tokens"),
        (setting("deduplicate_tokens", json!("True")), "settings.deduplicate_tokens"),
        (setting("deduplicate_tokens", json!("")), "settings.deduplicate_tokens"),
        (setting("fingerprint_tokens", json!(1)), "settings.fingerprint_tokens"),
        (setting("disable_ephemeral_proxy", json!("no")), "settings.disable_ephemeral_proxy"),
        (
            setting("token_deduplication_behavior", json!("keep")),
            "settings.token_deduplication_behavior",
        ),
    ];
    for (body, attribute) in table {
        SHARED.put(&keys.management, "/tenants/self", &body).invalid(attribute);
    }
    let half =
        json!({"name": "n", "settings": {"deduplicate_tokens": "true", "fingerprint_tokens": "x"}});
    SHARED.put(&keys.management, "/tenants/self", &half).invalid("settings.fingerprint_tokens");
    assert_eq!(read(&keys), before);
}

fn setting(name: &str, value: Value) -> Value {
    json!({"name": "n", "settings": {name: value}})
}

#[test]
fn settings_count_at_the_next_request() {
    let keys = tenant();
    let set = |name: &str, value: &str| {
        SHARED.put(&keys.management, "/tenants/self", &setting(name, json!(value))).is(200);
    };
    let number = new_number();
    let create = |note: &str| {
        let mut body = card(&number);
        body["metadata"] = json!({"note": note});
        SHARED.created(&keys.private, &body)
    };
    let first = create("first");
    assert_ne!(create("second")["id"], first["id"]);
    set("deduplicate_tokens", "true");
    let third = create("third");
    assert_eq!(third["id"], first["id"]);
    assert_eq!(third["metadata"]["note"], "first");
    set("token_deduplication_behavior", "update_existing");
    let fourth = create("fourth");
    assert_eq!((&fourth["id"], &fourth["metadata"]["note"]), (&first["id"], &json!("fourth")));
    set("deduplicate_tokens", "false");
    set("fingerprint_tokens", "false");
    let fifth = create("fifth");
    assert_ne!(fifth["id"], first["id"]);
    assert!(first["fingerprint"].is_string() && fifth.get("fingerprint").is_none());
}

#[test]
fn quotas_are_read_and_the_operators() {
    let keys = tenant();
    let found = SHARED.fetch(&keys.management, "/tenants/self/quotas/").is(200);
    let expected = json!({
        "log_retention_seconds": 86_400, "tokenize_limit": 5, "detokenize_limit": 5,
        "cvc_retention_seconds": 3_600, "token_intent_retention_seconds": 86_400,
        "rate_limit": "default", "threeds_access": true,
    });
    assert_eq!(found, expected);
    let body = json!({"tokenize_limit": 1000, "name": "n", "quotas": {"tokenize_limit": 1000}});
    SHARED.put(&keys.management, "/tenants/self/quotas", &body).refused(405, "method");
    SHARED.put(&keys.management, "/tenants/self", &body).is(200);
    assert_eq!(SHARED.fetch(&keys.management, "/tenants/self/quotas").is(200), expected);
}

/// How many rows of a table are a tenant's.
fn rows(server: &Server, table: &str, keys: &Keys) -> i64 {
    let column = if table == "tenants" { "id" } else { "tenant" };
    let tenant = server.engine.id(keys.tenant.id.0);
    server.engine.count(&format!("SELECT count(*) FROM {table} WHERE {column} = {tenant}"))
}

#[test]
fn a_deleted_tenant_takes_its_keys_along_and_nothing_of_others() {
    let server = Server::start();
    let (gone, stays) = (server.tenant(Settings::default()), server.tenant(Settings::default()));
    for keys in [&gone, &stays] {
        server.created(&keys.private, &json!({"id": "same-id", "type": "token", "data": "x"}));
    }
    let begin = |keys: &Keys| {
        let session = server.ask("POST", "/sessions").key(&keys.public).send().is(201);
        let body = json!({"nonce": session["nonce"], "permissions": ["token:read"]});
        server.post(&keys.private, "/sessions/authorize", &body).is(204);
        text(&session, "session_key")
    };
    let (gone_session, stays_session) = (begin(&gone), begin(&stays));
    let policy = ["tenants", "tenant_keys", "lasting_keys", "applications", "api_keys"];
    for table in policy {
        assert!(rows(&server, table, &gone) > 0, "{table}");
    }

    let deleted = server.remove(&gone.management, "/tenants/self");
    assert_eq!((deleted.status, deleted.text.as_str()), (204, ""));
    for key in [&gone.private, &gone.public, &gone.management, &gone_session] {
        server.get(key, "same-id").refused(401, "BT-API-KEY");
        server.fetch(key, "/applications/key").refused(401, "BT-API-KEY");
    }
    server.remove(&gone.management, "/tenants/self").refused(401, "BT-API-KEY");
    // Without its keys nothing of it opens, whatever is still there.
    for table in policy {
        assert_eq!(rows(&server, table, &gone), 0, "{table}");
    }

    assert_eq!(server.get(&stays.private, "same-id").is(200)["data"], "x");
    server.get(&stays_session, "same-id").is(200);
    server.fetch(&stays.management, "/tenants/self").is(200);
    let vault = &server.app.vault;
    let now = vault.clock.now();
    server.runtime.block_on(async { vault.store.purge_tenants(now).await.unwrap() });
    assert_eq!((rows(&server, "tokens", &gone), rows(&server, "tokens", &stays)), (0, 1));
}
