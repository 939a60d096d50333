//! The tenant: its name, its settings, which count at once, its quotas, and its end.

use std::{sync::Arc, time::Duration};

use scrip_core::{
    audit::{NotedTime, authentic_time::authentic_time},
    operations::tenants::{
        delete_tenant::destroy_due_tenants,
        purge_tenants::{ended_tenants, forged_deletions, purge_tenants},
        restore_tenant::restore_tenant,
    },
    policy::{Mandate, Settings, TenantKind},
    time::KnownTime,
};
use serde_json::{Value, json};

use crate::harness::server::{Keys, SHARED, Server, card, new_number, text};

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
        "rate_limit": "default", "threeds_access": true, "deletion_grace_seconds": 0,
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
    server.runtime.block_on(async { purge_tenants(vault, &[]).await.unwrap() });
    assert_eq!((rows(&server, "tokens", &gone), rows(&server, "tokens", &stays)), (0, 1));
}

const HOUR: Duration = Duration::from_secs(60 * 60);

/// A production tenant with a token, which was just deleted.
fn deleted_with_grace(server: &Server) -> Keys {
    let keys = server.tenant_of(TenantKind::Production, Settings::default());
    server.created(&keys.private, &json!({"id": "same-id", "type": "token", "data": "x"}));
    let deleted = server.remove(&keys.management, "/tenants/self");
    assert_eq!((deleted.status, deleted.text.as_str()), (204, ""));
    keys
}

/// How many tenants lost their keys, as the sweeper does it.
fn destroy_due(server: &Server) -> usize {
    server.runtime.block_on(async {
        let directory = server.app.directory.load_full().unwrap();
        let destroyed = destroy_due_tenants(&server.app.vault, &directory).await.unwrap();
        server.app.reload().await.unwrap();
        destroyed
    })
}

#[test]
fn deleted_production_tenant_keeps_its_keys_until_the_grace_period_ends() {
    let server = Server::start();
    let stays = server.tenant(Settings::default());
    let keys = deleted_with_grace(&server);
    let stopped = || {
        for key in [&keys.private, &keys.public, &keys.management] {
            server.get(key, "same-id").refused(401, "BT-API-KEY");
        }
    };
    stopped();
    server.clock.advance(23 * HOUR);
    assert_eq!(destroy_due(&server), 0);
    for table in ["tenants", "tenant_keys", "lasting_keys", "tokens"] {
        assert!(rows(&server, table, &keys) > 0, "{table}");
    }
    server.clock.advance(HOUR);
    assert_eq!(destroy_due(&server), 1);
    assert_eq!(destroy_due(&server), 0);
    for table in ["tenants", "tenant_keys", "lasting_keys", "applications", "api_keys"] {
        assert_eq!(rows(&server, table, &keys), 0, "{table}");
    }
    stopped();
    server.fetch(&stays.management, "/tenants/self").is(200);
    let vault = &server.app.vault;
    server.runtime.block_on(async { purge_tenants(vault, &[]).await.unwrap() });
    assert_eq!(rows(&server, "tokens", &keys), 0);
}

#[test]
fn restored_tenant_serves_with_the_keys_that_it_had() {
    let server = Server::start();
    let keys = deleted_with_grace(&server);
    server.get(&keys.private, "same-id").refused(401, "BT-API-KEY");
    server.clock.advance(23 * HOUR);
    server.runtime.block_on(async {
        let directory = server.app.directory.load_full().unwrap();
        let tenant = directory.deleting().iter().find(|it| it.id == keys.tenant.id).unwrap();
        let mandate = Mandate::of_operator(Arc::clone(tenant));
        restore_tenant(&server.app.vault, mandate).await.unwrap();
        server.app.reload().await.unwrap();
    });
    assert_eq!(server.get(&keys.private, "same-id").is(200)["data"], "x");
    let log = server.fetch(&keys.management, "/logs?entity_type=tenant&operation=restore_tenant");
    assert_eq!(log.is(200)["data"].as_array().unwrap().len(), 1);
    server.clock.advance(24 * HOUR);
    assert_eq!(destroy_due(&server), 0);
}

#[test]
fn row_that_names_a_living_tenant_as_deleted_purges_nothing() {
    let server = Server::start();
    let keys = server.tenant(Settings::default());
    server.created(&keys.private, &json!({"id": "same-id", "type": "token", "data": "x"}));
    let id = server.engine.id(keys.tenant.id.0);
    let forged = match crate::harness::engine::is_postgres() {
        true => format!("INSERT INTO deleted_tenants (id, deleted_at, mac) VALUES ({id}, 1, '')"),
        false => format!("INSERT INTO deleted_tenants (id, deleted_at, mac) VALUES ({id}, 1, x'')"),
    };
    assert_eq!(server.engine.change(&forged), 1);
    let vault = &server.app.vault;
    server.runtime.block_on(async {
        assert_eq!(purge_tenants(vault, &[]).await.unwrap(), 0);
        // Also when it is named among the tenants whose chains ended.
        assert_eq!(purge_tenants(vault, &[keys.tenant.id]).await.unwrap(), 0);
        assert_eq!(forged_deletions(vault).await.unwrap(), [keys.tenant.id]);
    });
    assert_eq!(server.get(&keys.private, "same-id").is(200)["data"], "x");
}

#[test]
fn deleted_tenant_is_purged_although_its_row_in_the_list_was_altered_or_removed() {
    for tampering in ["UPDATE deleted_tenants SET deleted_at = 1", "DELETE FROM deleted_tenants"] {
        let server = Server::start();
        let keys = server.tenant(Settings::default());
        server.created(&keys.private, &json!({"id": "same-id", "type": "token", "data": "x"}));
        server.remove(&keys.management, "/tenants/self").is(204);
        assert_eq!(server.engine.change(tampering), 1);
        let vault = &server.app.vault;
        server.runtime.block_on(async {
            assert_eq!(purge_tenants(vault, &[]).await.unwrap(), 0, "{tampering}");
            let directory = server.app.directory.load_full().unwrap();
            let ended = ended_tenants(vault, &directory).await.unwrap();
            assert_eq!(ended, [keys.tenant.id]);
            assert!(purge_tenants(vault, &ended).await.unwrap() > 0);
        });
        assert_eq!(rows(&server, "tokens", &keys), 0);
    }
}

#[test]
fn noted_time_that_was_altered_or_removed_is_not_used() {
    let server = Server::start();
    server.tenant(Settings::default());
    let vault = &server.app.vault;
    let found = || {
        let key = vault.audit.key().unwrap();
        server.runtime.block_on(authentic_time(&*vault.store, key)).unwrap()
    };
    let recorded = found().known.unwrap();
    let time = KnownTime { now: recorded.now.after(HOUR), earliest: recorded.now };
    let noted = NotedTime::new(vault.audit.key().unwrap(), time);
    server.runtime.block_on(vault.store.note_time(noted)).unwrap();
    assert_eq!((found().known, found().is_altered), (Some(time), false));
    let alter = "UPDATE clock_state SET now = now + 1000000000, earliest = earliest + 1000000000";
    assert_eq!(server.engine.change(alter), 1);
    let is_by_records = || found().known.unwrap().now < recorded.now.after(HOUR);
    assert_eq!((is_by_records(), found().is_altered), (true, true));
    assert_eq!(server.engine.change("DELETE FROM clock_state"), 1);
    assert_eq!((is_by_records(), found().is_altered), (true, false));
}
