//! The tenant: its name, settings, quotas and deletion. Changed settings apply immediately.

use std::{sync::Arc, time::Duration};

use scrip_core::{
    audit::SignedWatermark,
    log_tasks::load_authentic_time,
    operations::tenants::{
        delete_tenant::destroy_due_tenants,
        purge_tenants::{find_deleted_tenants, find_forged_deletions, purge_tenants},
        restore_tenant::restore_tenant,
    },
    policy::{PolicyPermit, TenantSettings},
    types::{ApplicationKind, Permission, TenantKind, time::ClockWatermark},
};
use scrip_testing::{
    process::harness::becomes_true,
    requests::{assert_members, with_members},
};
use serde_json::{Value, json};

use crate::harness::server::{SERVER, TenantApiKeys, TestServer, card_body, unique_card_number};

const POLICY_TABLES: [&str; 8] = [
    "tenants",
    "tenant_keys",
    "permanent_keys",
    "applications",
    "api_keys",
    "proxies",
    "webhooks",
    "client_keys",
];

fn create_tenant_keys() -> TenantApiKeys {
    SERVER.create_default_tenant()
}

fn get_tenant(keys: &TenantApiKeys) -> Value {
    SERVER.get_path(&keys.management, "/tenants/self").expect_status(200)
}

#[test]
fn allowing_ephemeral_proxies_again_needs_application_update() {
    let keys = create_tenant_keys();
    let updates = [Permission::TenantUpdate];
    let updater = SERVER.key_with_permissions(&keys.tenant, ApplicationKind::Management, &updates);
    let put = |key: &str, settings: &Value| {
        let body = json!({"name": "test", "settings": settings});
        SERVER.put(key, "/tenants/self", &body)
    };
    put(&updater, &json!({"disable_ephemeral_proxy": "true"})).expect_status(200);
    for setting in [json!("false"), Value::Null] {
        let settings = json!({"disable_ephemeral_proxy": setting});
        put(&updater, &settings).expect_problem(403, "application:update");
    }
    let kept = put(&updater, &json!({"deduplicate_tokens": "true"})).expect_status(200);
    assert_eq!(kept["settings"]["disable_ephemeral_proxy"], "true");
    let allowed = put(&keys.management, &json!({"disable_ephemeral_proxy": null}));
    assert_eq!(allowed.expect_status(200)["settings"]["disable_ephemeral_proxy"], "false");
}

#[test]
fn get_tenant_returns_name_settings_and_stamps() {
    let keys = create_tenant_keys();
    let tenant = get_tenant(&keys);
    let settings = json!({
        "fingerprint_tokens": "true", "deduplicate_tokens": "false",
        "token_deduplication_behavior": "read_existing", "disable_ephemeral_proxy": "false",
    });
    let expected = json!({"id": keys.tenant.id.to_string(), "name": "test", "type": "test",
        "settings": settings, "modified_at": null});
    assert_members(&tenant, &expected);
    assert!(tenant["created_at"].is_string());
    let body = json!({"name": " Acme & Söhne ", "type": "production"});
    let updated = SERVER.put(&keys.management, "/tenants/self/", &body).expect_status(200);
    assert_eq!((&updated["name"], &updated["type"]), (&json!("Acme & Söhne"), &tenant["type"]));
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
    for (name, value, expected_value) in steps {
        let body = json!({"name": "n", "settings": {name: value, "unknown": "x", "odd": [7]}});
        let updated = SERVER.put(&keys.management, "/tenants/self", &body).expect_status(200);
        expected[name] = json!(expected_value);
        assert_eq!(updated["settings"], expected, "{name}");
        assert_eq!(get_tenant(&keys)["settings"], expected);
    }
    for settings in [Value::Null, json!({})] {
        let body = json!({"name": "n", "settings": settings});
        let updated = SERVER.put(&keys.management, "/tenants/self", &body).expect_status(200);
        assert_eq!(updated["settings"], expected);
    }
}

#[test]
fn invalid_tenant_update_names_the_attribute_and_changes_nothing() {
    let keys = create_tenant_keys();
    let tenant_before = get_tenant(&keys);
    let long_name = "x".repeat(201);
    let table = [
        (json!({"name": long_name}), "name"),
        (json!({"name": "n", "settings": []}), "settings"),
        (json!({"name": "n", "settings": "x"}), "settings"),
    ];
    for (body, attribute) in table {
        SERVER.put(&keys.management, "/tenants/self", &body).expect_invalid(attribute);
    }
    for (setting, value) in [
        ("deduplicate_tokens", json!(true)),
        ("deduplicate_tokens", json!("True")),
        ("deduplicate_tokens", json!("")),
        ("fingerprint_tokens", json!(1)),
        ("disable_ephemeral_proxy", json!("no")),
        ("token_deduplication_behavior", json!("keep")),
    ] {
        let body = update_with_setting(setting, value);
        let response = SERVER.put(&keys.management, "/tenants/self", &body);
        response.expect_invalid(&format!("settings.{setting}"));
    }
    let partly_invalid_body =
        json!({"name": "n", "settings": {"deduplicate_tokens": "true", "fingerprint_tokens": "x"}});
    let response = SERVER.put(&keys.management, "/tenants/self", &partly_invalid_body);
    response.expect_invalid("settings.fingerprint_tokens");
    assert_eq!(get_tenant(&keys), tenant_before);
}

fn update_with_setting(name: &str, value: Value) -> Value {
    json!({"name": "n", "settings": {name: value}})
}

#[test]
fn changed_tenant_setting_applies_to_the_next_request() {
    let keys = create_tenant_keys();
    let set_setting = |name: &str, value: &str| {
        let body = update_with_setting(name, json!(value));
        SERVER.put(&keys.management, "/tenants/self", &body).expect_status(200);
    };
    let number = unique_card_number();
    let create_card = |note: &str| {
        let body = with_members(card_body(&number), &json!({"metadata": {"note": note}}));
        SERVER.create_token_ok(&keys.private, &body)
    };
    let first = create_card("first");
    assert_ne!(create_card("second")["id"], first["id"]);
    set_setting("deduplicate_tokens", "true");
    let third = create_card("third");
    assert_eq!(third["id"], first["id"]);
    assert_eq!(third["metadata"]["note"], "first");
    set_setting("token_deduplication_behavior", "update_existing");
    let fourth = create_card("fourth");
    assert_eq!((&fourth["id"], &fourth["metadata"]["note"]), (&first["id"], &json!("fourth")));
    set_setting("deduplicate_tokens", "false");
    set_setting("fingerprint_tokens", "false");
    let fifth = create_card("fifth");
    assert_ne!(fifth["id"], first["id"]);
    assert!(first["fingerprint"].is_string() && fifth.get("fingerprint").is_none());
}

#[test]
fn quotas_can_be_read_but_not_changed_by_the_tenant() {
    let keys = create_tenant_keys();
    let quotas = SERVER.get_path(&keys.management, "/tenants/self/quotas/").expect_status(200);
    let expected = json!({
        "log_retention_seconds": 86_400, "tokenize_limit": 5, "detokenize_limit": 5,
        "proxy_token_limit": 20,
        "webhook_limit": 5,
        "cvc_retention_seconds": 3_600, "token_intent_retention_seconds": 86_400,
        "rate_limit": "default", "threeds_access": true, "deletion_grace_seconds": 0,
    });
    assert_eq!(quotas, expected);
    let body = json!({"tokenize_limit": 1000, "name": "n", "quotas": {"tokenize_limit": 1000}});
    SERVER.put(&keys.management, "/tenants/self/quotas", &body).expect_problem(405, "method");
    SERVER.put(&keys.management, "/tenants/self", &body).expect_status(200);
    let unchanged = SERVER.get_path(&keys.management, "/tenants/self/quotas");
    assert_eq!(unchanged.expect_status(200), expected);
}

fn create_same_token(server: &TestServer, keys: &TenantApiKeys) {
    server.create_token_ok(&keys.private, &json!({"id": "same-id", "type": "token", "data": "x"}));
}

/// Counts the rows of a table that belong to a tenant.
fn count_tenant_rows(server: &TestServer, table: &str, keys: &TenantApiKeys) -> i64 {
    let column = if table == "tenants" { "id" } else { "tenant" };
    let tenant = server.engine.sql_id(keys.tenant.id.0);
    server.engine.query_count(&format!("SELECT count(*) FROM {table} WHERE {column} = {tenant}"))
}

#[test]
fn delete_tenant_removes_its_keys_and_data_only() {
    let server = TestServer::start();
    let (deleted_keys, remaining) =
        (server.create_default_tenant(), server.create_default_tenant());
    for keys in [&deleted_keys, &remaining] {
        create_same_token(&server, keys);
        let proxy = json!({"name": "x", "destination_url": "https://psp.example"});
        server.post(&keys.management, "/proxies", &proxy).expect_status(201);
        let webhook = json!({"name": "x", "url": "https://shop.example", "events": ["token.read"]});
        server.post(&keys.management, "/webhooks", &webhook).expect_status(201);
        server.post(&keys.management, "/keys", &json!({})).expect_status(201);
    }
    let [deleted_session, remaining_session] = [&deleted_keys, &remaining].map(|keys| {
        let permissions = json!({"permissions": ["token:read"]});
        server.create_access_session(&keys.public, &keys.private, &permissions)
    });
    for table in POLICY_TABLES {
        assert!(count_tenant_rows(&server, table, &deleted_keys) > 0, "{table}");
    }

    let deleted = server.delete(&deleted_keys.management, "/tenants/self");
    assert_eq!((deleted.status, deleted.text.as_str()), (204, ""));
    for key in
        [&deleted_keys.private, &deleted_keys.public, &deleted_keys.management, &deleted_session]
    {
        server.get_token(key, "same-id").expect_problem(401, "BT-API-KEY");
        server.get_path(key, "/applications/key").expect_problem(401, "BT-API-KEY");
    }
    server.delete(&deleted_keys.management, "/tenants/self").expect_problem(401, "BT-API-KEY");
    // Without its keys the remaining rows of the tenant cannot be decrypted.
    for table in POLICY_TABLES {
        assert_eq!(count_tenant_rows(&server, table, &deleted_keys), 0, "{table}");
    }

    assert_eq!(server.get_token(&remaining.private, "same-id").expect_status(200)["data"], "x");
    server.get_token(&remaining_session, "same-id").expect_status(200);
    server.get_path(&remaining.management, "/tenants/self").expect_status(200);
    let vault = &server.app.vault;
    server.runtime.block_on(async { purge_tenants(vault, &[]).await.unwrap() });
    for (keys, count) in [(&deleted_keys, 0), (&remaining, 1)] {
        assert_eq!(count_tenant_rows(&server, "tokens", keys), count, "of {count} tokens");
    }
}

const HOUR: Duration = Duration::from_secs(60 * 60);

/// Creates a production tenant with a token and deletes the tenant.
fn deleted_with_grace(server: &TestServer) -> TenantApiKeys {
    let keys = server.create_tenant_of_kind(TenantKind::Production, TenantSettings::default());
    create_same_token(server, &keys);
    let deleted = server.delete(&keys.management, "/tenants/self");
    assert_eq!((deleted.status, deleted.text.as_str()), (204, ""));
    keys
}

/// Destroys due tenant keys as the sweeper does. Returns the number of tenants.
fn destroy_due_keys(server: &TestServer) -> usize {
    server.runtime.block_on(async {
        let directory = server.app.directory.load_full().unwrap();
        let destroyed_tenants = destroy_due_tenants(&server.app.vault, &directory).await.unwrap();
        server.app.reload().await.unwrap();
        destroyed_tenants
    })
}

#[test]
fn deleted_production_tenant_keeps_its_keys_until_the_grace_period_ends() {
    let server = TestServer::start();
    let remaining = server.create_default_tenant();
    let keys = deleted_with_grace(&server);
    let expect_unauthorized = || {
        for key in [&keys.private, &keys.public, &keys.management] {
            server.get_token(key, "same-id").expect_problem(401, "BT-API-KEY");
        }
    };
    expect_unauthorized();
    server.clock.advance(23 * HOUR);
    assert_eq!(destroy_due_keys(&server), 0);
    for table in ["tenants", "tenant_keys", "permanent_keys", "tokens"] {
        assert!(count_tenant_rows(&server, table, &keys) > 0, "{table}");
    }
    server.clock.advance(HOUR);
    assert_eq!(destroy_due_keys(&server), 1);
    assert_eq!(destroy_due_keys(&server), 0);
    for table in POLICY_TABLES {
        assert_eq!(count_tenant_rows(&server, table, &keys), 0, "{table}");
    }
    expect_unauthorized();
    server.get_path(&remaining.management, "/tenants/self").expect_status(200);
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
    let (server, keys) = TestServer::start_with_tenant();
    create_same_token(&server, &keys);
    let id = server.engine.sql_id(keys.tenant.id.0);
    let insert_statement = match crate::harness::engine::is_postgres() {
        true => format!("INSERT INTO deleted_tenants (id, deleted_at, mac) VALUES ({id}, 1, '')"),
        false => format!("INSERT INTO deleted_tenants (id, deleted_at, mac) VALUES ({id}, 1, x'')"),
    };
    assert_eq!(server.engine.execute(&insert_statement), 1);
    let vault = &server.app.vault;
    server.runtime.block_on(async {
        assert_eq!(purge_tenants(vault, &[]).await.unwrap(), 0);
        // The result is the same when the tenant id is passed explicitly.
        assert_eq!(purge_tenants(vault, &[keys.tenant.id]).await.unwrap(), 0);
        assert_eq!(find_forged_deletions(vault).await.unwrap(), [keys.tenant.id]);
    });
    assert_eq!(server.get_token(&keys.private, "same-id").expect_status(200)["data"], "x");
}

/// Waits for the sweep that the server runs when it starts. That sweep must not purge the tenant of
/// a test, which deletes and tampers with its row in two steps.
fn wait_for_first_sweep(server: &TestServer) {
    let is_finished = || {
        let mut sweeps = server.app.metrics.sweep_finished.iter();
        sweeps.any(|(target, finished_at)| target == "deleted_tenants" && finished_at.get() > 0)
    };
    assert!(becomes_true(is_finished), "the first sweep did not end");
}

#[test]
fn deleted_tenant_is_purged_even_if_its_deletion_row_was_altered() {
    for statement in ["UPDATE deleted_tenants SET deleted_at = 1", "DELETE FROM deleted_tenants"] {
        let server = TestServer::start();
        wait_for_first_sweep(&server);
        let keys = server.create_default_tenant();
        create_same_token(&server, &keys);
        server.delete(&keys.management, "/tenants/self").expect_status(204);
        assert_eq!(server.engine.execute(statement), 1);
        let vault = &server.app.vault;
        server.runtime.block_on(async {
            assert_eq!(purge_tenants(vault, &[]).await.unwrap(), 0, "{statement}");
            let directory = server.app.directory.load_full().unwrap();
            let deleted_tenants = find_deleted_tenants(vault, &directory).await.unwrap();
            assert_eq!(deleted_tenants, [keys.tenant.id]);
            assert!(purge_tenants(vault, &deleted_tenants).await.unwrap() > 0);
        });
        assert_eq!(count_tenant_rows(&server, "tokens", &keys), 0);
    }
}

#[test]
fn altered_or_removed_clock_watermark_is_not_used() {
    let server = TestServer::start();
    server.create_default_tenant();
    let vault = &server.app.vault;
    let load_time = || {
        let key = vault.audit_trail.key().unwrap();
        server.runtime.block_on(load_authentic_time(&*vault.store, key)).unwrap()
    };
    let recorded_watermark = load_time().watermark.unwrap();
    let time =
        ClockWatermark { now: recorded_watermark.now.plus(HOUR), earliest: recorded_watermark.now };
    let signed_watermark = SignedWatermark::new(vault.audit_trail.key().unwrap(), time);
    server.runtime.block_on(vault.store.save_watermark(signed_watermark)).unwrap();
    assert_eq!((load_time().watermark, load_time().is_altered), (Some(time), false));
    let alter_watermark =
        "UPDATE clock_watermark SET now = now + 1000000000, earliest = earliest + 1000000000";
    assert_eq!(server.engine.execute(alter_watermark), 1);
    let is_by_records = || load_time().watermark.unwrap().now < recorded_watermark.now.plus(HOUR);
    assert_eq!((is_by_records(), load_time().is_altered), (true, true));
    assert_eq!(server.engine.execute("DELETE FROM clock_watermark"), 1);
    assert_eq!((is_by_records(), load_time().is_altered), (true, false));
}
