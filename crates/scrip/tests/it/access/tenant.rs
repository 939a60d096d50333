//! The tenant: its name, its settings, which count at once, its quotas, and its end.

use std::{sync::Arc, time::Duration};

use scrip_core::{
    audit::{SignedWatermark, authentic_time::load_authentic_time},
    operations::tenants::{
        delete_tenant::destroy_due_tenants,
        purge_tenants::{find_deleted_tenants, find_forged_deletions, purge_tenants},
        restore_tenant::restore_tenant,
    },
    policy::{PolicyPermit, TenantKind, TenantSettings},
    time::ClockWatermark,
};
use serde_json::{Value, json};

use crate::harness::server::{
    SHARED_SERVER, TenantApiKeys, TestServer, card_body, text_field, unique_card_number,
};

fn create_tenant_keys() -> TenantApiKeys {
    SHARED_SERVER.create_test_tenant(TenantSettings::default())
}

fn get_tenant(keys: &TenantApiKeys) -> Value {
    SHARED_SERVER.get_path(&keys.management, "/tenants/self").expect_status(200)
}

#[test]
fn get_tenant_returns_name_settings_and_stamps() {
    let keys = create_tenant_keys();
    let found = get_tenant(&keys);
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
    let updated = SHARED_SERVER.put(&keys.management, "/tenants/self/", &body).expect_status(200);
    let myself = SHARED_SERVER.get_path(&keys.management, "/applications/key").expect_status(200);
    assert_eq!(updated["name"], "Acme & Söhne");
    assert_eq!(updated["modified_by"], myself["id"]);
    assert!(updated["modified_at"].is_string());
    for same in ["id", "type", "settings", "created_at"] {
        assert_eq!(updated[same], found[same], "{same}");
    }
    assert_eq!(get_tenant(&keys), updated);
}

#[test]
fn update_tenant_changes_only_named_settings() {
    let keys = create_tenant_keys();
    let mut expected = get_tenant(&keys)["settings"].clone();
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
        let updated =
            SHARED_SERVER.put(&keys.management, "/tenants/self", &body).expect_status(200);
        expected[name] = json!(reads);
        assert_eq!(updated["settings"], expected, "{name}");
        assert_eq!(get_tenant(&keys)["settings"], expected);
    }
    for settings in [Value::Null, json!({})] {
        let body = json!({"name": "n", "settings": settings});
        let updated =
            SHARED_SERVER.put(&keys.management, "/tenants/self", &body).expect_status(200);
        assert_eq!(updated["settings"], expected);
    }
}

#[test]
fn invalid_tenant_update_names_the_attribute_and_changes_nothing() {
    let keys = create_tenant_keys();
    let before = get_tenant(&keys);
    let long = "x".repeat(201);
    let table = [
        (json!({}), "name"),
        (json!({"name": null}), "name"),
        (json!({"name": ""}), "name"),
        (json!({"name": long}), "name"),
        (json!({"name": 7}), "name"),
        (json!({"name": "n", "settings": []}), "settings"),
        (json!({"name": "n", "settings": "x"}), "settings"),
        (update_with_setting("deduplicate_tokens", json!(true)), "settings.deduplicate_tokens"),
        (update_with_setting("deduplicate_tokens", json!("True")), "settings.deduplicate_tokens"),
        (update_with_setting("deduplicate_tokens", json!("")), "settings.deduplicate_tokens"),
        (update_with_setting("fingerprint_tokens", json!(1)), "settings.fingerprint_tokens"),
        (
            update_with_setting("disable_ephemeral_proxy", json!("no")),
            "settings.disable_ephemeral_proxy",
        ),
        (
            update_with_setting("token_deduplication_behavior", json!("keep")),
            "settings.token_deduplication_behavior",
        ),
    ];
    for (body, attribute) in table {
        SHARED_SERVER.put(&keys.management, "/tenants/self", &body).expect_invalid(attribute);
    }
    let half =
        json!({"name": "n", "settings": {"deduplicate_tokens": "true", "fingerprint_tokens": "x"}});
    SHARED_SERVER
        .put(&keys.management, "/tenants/self", &half)
        .expect_invalid("settings.fingerprint_tokens");
    assert_eq!(get_tenant(&keys), before);
}

fn update_with_setting(name: &str, value: Value) -> Value {
    json!({"name": "n", "settings": {name: value}})
}

#[test]
fn changed_tenant_setting_applies_to_the_next_request() {
    let keys = create_tenant_keys();
    let set = |name: &str, value: &str| {
        SHARED_SERVER
            .put(&keys.management, "/tenants/self", &update_with_setting(name, json!(value)))
            .expect_status(200);
    };
    let number = unique_card_number();
    let create = |note: &str| {
        let mut body = card_body(&number);
        body["metadata"] = json!({"note": note});
        SHARED_SERVER.create_token_ok(&keys.private, &body)
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
fn quotas_can_be_read_but_not_changed_by_the_tenant() {
    let keys = create_tenant_keys();
    let found =
        SHARED_SERVER.get_path(&keys.management, "/tenants/self/quotas/").expect_status(200);
    let expected = json!({
        "log_retention_seconds": 86_400, "tokenize_limit": 5, "detokenize_limit": 5,
        "cvc_retention_seconds": 3_600, "token_intent_retention_seconds": 86_400,
        "rate_limit": "default", "threeds_access": true, "deletion_grace_seconds": 0,
    });
    assert_eq!(found, expected);
    let body = json!({"tokenize_limit": 1000, "name": "n", "quotas": {"tokenize_limit": 1000}});
    SHARED_SERVER
        .put(&keys.management, "/tenants/self/quotas", &body)
        .expect_problem(405, "method");
    SHARED_SERVER.put(&keys.management, "/tenants/self", &body).expect_status(200);
    assert_eq!(
        SHARED_SERVER.get_path(&keys.management, "/tenants/self/quotas").expect_status(200),
        expected
    );
}

/// How many rows of a table are a tenant's.
fn count_tenant_rows(server: &TestServer, table: &str, keys: &TenantApiKeys) -> i64 {
    let column = if table == "tenants" { "id" } else { "tenant" };
    let tenant = server.engine.sql_id(keys.tenant.id.0);
    server.engine.query_count(&format!("SELECT count(*) FROM {table} WHERE {column} = {tenant}"))
}

#[test]
fn delete_tenant_removes_its_keys_and_data_only() {
    let server = TestServer::start();
    let (gone, stays) = (
        server.create_test_tenant(TenantSettings::default()),
        server.create_test_tenant(TenantSettings::default()),
    );
    for keys in [&gone, &stays] {
        server.create_token_ok(
            &keys.private,
            &json!({"id": "same-id", "type": "token", "data": "x"}),
        );
    }
    let begin = |keys: &TenantApiKeys| {
        let session =
            server.request("POST", "/sessions").key(&keys.public).send().expect_status(201);
        let body = json!({"nonce": session["nonce"], "permissions": ["token:read"]});
        server.post(&keys.private, "/sessions/authorize", &body).expect_status(204);
        text_field(&session, "session_key")
    };
    let (gone_session, stays_session) = (begin(&gone), begin(&stays));
    let policy = ["tenants", "tenant_keys", "lasting_keys", "applications", "api_keys"];
    for table in policy {
        assert!(count_tenant_rows(&server, table, &gone) > 0, "{table}");
    }

    let deleted = server.delete(&gone.management, "/tenants/self");
    assert_eq!((deleted.status, deleted.text.as_str()), (204, ""));
    for key in [&gone.private, &gone.public, &gone.management, &gone_session] {
        server.get_token(key, "same-id").expect_problem(401, "BT-API-KEY");
        server.get_path(key, "/applications/key").expect_problem(401, "BT-API-KEY");
    }
    server.delete(&gone.management, "/tenants/self").expect_problem(401, "BT-API-KEY");
    // Without its keys nothing of it opens, whatever is still there.
    for table in policy {
        assert_eq!(count_tenant_rows(&server, table, &gone), 0, "{table}");
    }

    assert_eq!(server.get_token(&stays.private, "same-id").expect_status(200)["data"], "x");
    server.get_token(&stays_session, "same-id").expect_status(200);
    server.get_path(&stays.management, "/tenants/self").expect_status(200);
    let vault = &server.app.vault;
    server.runtime.block_on(async { purge_tenants(vault, &[]).await.unwrap() });
    assert_eq!(
        (count_tenant_rows(&server, "tokens", &gone), count_tenant_rows(&server, "tokens", &stays)),
        (0, 1)
    );
}

const HOUR: Duration = Duration::from_secs(60 * 60);

/// A production tenant with a token, which was just deleted.
fn deleted_with_grace(server: &TestServer) -> TenantApiKeys {
    let keys = server.create_tenant_of_kind(TenantKind::Production, TenantSettings::default());
    server.create_token_ok(&keys.private, &json!({"id": "same-id", "type": "token", "data": "x"}));
    let deleted = server.delete(&keys.management, "/tenants/self");
    assert_eq!((deleted.status, deleted.text.as_str()), (204, ""));
    keys
}

/// How many tenants lost their keys, as the sweeper does it.
fn destroy_due_keys(server: &TestServer) -> usize {
    server.runtime.block_on(async {
        let directory = server.app.directory.load_full().unwrap();
        let destroyed = destroy_due_tenants(&server.app.vault, &directory).await.unwrap();
        server.app.reload().await.unwrap();
        destroyed
    })
}

#[test]
fn deleted_production_tenant_keeps_its_keys_until_the_grace_period_ends() {
    let server = TestServer::start();
    let stays = server.create_test_tenant(TenantSettings::default());
    let keys = deleted_with_grace(&server);
    let stopped = || {
        for key in [&keys.private, &keys.public, &keys.management] {
            server.get_token(key, "same-id").expect_problem(401, "BT-API-KEY");
        }
    };
    stopped();
    server.clock.advance(23 * HOUR);
    assert_eq!(destroy_due_keys(&server), 0);
    for table in ["tenants", "tenant_keys", "lasting_keys", "tokens"] {
        assert!(count_tenant_rows(&server, table, &keys) > 0, "{table}");
    }
    server.clock.advance(HOUR);
    assert_eq!(destroy_due_keys(&server), 1);
    assert_eq!(destroy_due_keys(&server), 0);
    for table in ["tenants", "tenant_keys", "lasting_keys", "applications", "api_keys"] {
        assert_eq!(count_tenant_rows(&server, table, &keys), 0, "{table}");
    }
    stopped();
    server.get_path(&stays.management, "/tenants/self").expect_status(200);
    let vault = &server.app.vault;
    server.runtime.block_on(async { purge_tenants(vault, &[]).await.unwrap() });
    assert_eq!(count_tenant_rows(&server, "tokens", &keys), 0);
}

#[test]
fn restored_tenant_works_with_its_previous_keys() {
    let server = TestServer::start();
    let keys = deleted_with_grace(&server);
    server.get_token(&keys.private, "same-id").expect_problem(401, "BT-API-KEY");
    server.clock.advance(23 * HOUR);
    server.runtime.block_on(async {
        let directory = server.app.directory.load_full().unwrap();
        let tenant =
            directory.pending_deletion().iter().find(|it| it.id == keys.tenant.id).unwrap();
        let permit = PolicyPermit::for_operator(Arc::clone(tenant));
        restore_tenant(&server.app.vault, permit).await.unwrap();
        server.app.reload().await.unwrap();
    });
    assert_eq!(server.get_token(&keys.private, "same-id").expect_status(200)["data"], "x");
    let log =
        server.get_path(&keys.management, "/logs?entity_type=tenant&operation=restore_tenant");
    assert_eq!(log.expect_status(200)["data"].as_array().unwrap().len(), 1);
    server.clock.advance(24 * HOUR);
    assert_eq!(destroy_due_keys(&server), 0);
}

#[test]
fn forged_deleted_tenant_row_purges_nothing() {
    let server = TestServer::start();
    let keys = server.create_test_tenant(TenantSettings::default());
    server.create_token_ok(&keys.private, &json!({"id": "same-id", "type": "token", "data": "x"}));
    let id = server.engine.sql_id(keys.tenant.id.0);
    let forged = match crate::harness::engine::is_postgres() {
        true => format!("INSERT INTO deleted_tenants (id, deleted_at, mac) VALUES ({id}, 1, '')"),
        false => format!("INSERT INTO deleted_tenants (id, deleted_at, mac) VALUES ({id}, 1, x'')"),
    };
    assert_eq!(server.engine.execute(&forged), 1);
    let vault = &server.app.vault;
    server.runtime.block_on(async {
        assert_eq!(purge_tenants(vault, &[]).await.unwrap(), 0);
        // Also when it is named among the tenants whose chains ended.
        assert_eq!(purge_tenants(vault, &[keys.tenant.id]).await.unwrap(), 0);
        assert_eq!(find_forged_deletions(vault).await.unwrap(), [keys.tenant.id]);
    });
    assert_eq!(server.get_token(&keys.private, "same-id").expect_status(200)["data"], "x");
}

#[test]
fn deleted_tenant_is_purged_even_if_its_deletion_row_was_altered() {
    for tampering in ["UPDATE deleted_tenants SET deleted_at = 1", "DELETE FROM deleted_tenants"] {
        let server = TestServer::start();
        let keys = server.create_test_tenant(TenantSettings::default());
        server.create_token_ok(
            &keys.private,
            &json!({"id": "same-id", "type": "token", "data": "x"}),
        );
        server.delete(&keys.management, "/tenants/self").expect_status(204);
        assert_eq!(server.engine.execute(tampering), 1);
        let vault = &server.app.vault;
        server.runtime.block_on(async {
            assert_eq!(purge_tenants(vault, &[]).await.unwrap(), 0, "{tampering}");
            let directory = server.app.directory.load_full().unwrap();
            let ended = find_deleted_tenants(vault, &directory).await.unwrap();
            assert_eq!(ended, [keys.tenant.id]);
            assert!(purge_tenants(vault, &ended).await.unwrap() > 0);
        });
        assert_eq!(count_tenant_rows(&server, "tokens", &keys), 0);
    }
}

#[test]
fn altered_or_removed_clock_watermark_is_not_used() {
    let server = TestServer::start();
    server.create_test_tenant(TenantSettings::default());
    let vault = &server.app.vault;
    let found = || {
        let key = vault.audit_trail.key().unwrap();
        server.runtime.block_on(load_authentic_time(&*vault.store, key)).unwrap()
    };
    let recorded = found().watermark.unwrap();
    let time = ClockWatermark { now: recorded.now.plus(HOUR), earliest: recorded.now };
    let noted = SignedWatermark::new(vault.audit_trail.key().unwrap(), time);
    server.runtime.block_on(vault.store.save_watermark(noted)).unwrap();
    assert_eq!((found().watermark, found().is_altered), (Some(time), false));
    let alter = "UPDATE clock_state SET now = now + 1000000000, earliest = earliest + 1000000000";
    assert_eq!(server.engine.execute(alter), 1);
    let is_by_records = || found().watermark.unwrap().now < recorded.now.plus(HOUR);
    assert_eq!((is_by_records(), found().is_altered), (true, true));
    assert_eq!(server.engine.execute("DELETE FROM clock_state"), 1);
    assert_eq!((is_by_records(), found().is_altered), (true, false));
}
