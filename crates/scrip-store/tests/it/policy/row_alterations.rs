//! Policy rows that are deleted, added, swapped, or restored from an earlier state.

use std::sync::Arc;

use scrip_core::{
    operations::{
        applications::{
            delete_api_key::delete_api_key,
            update_application::{ApplicationUpdate, update_application},
        },
        tenants::update_tenant::set_tenant_quotas,
    },
    policy::{AccessPolicy, ApiKeyLookup, Directory, DisplayName, PolicyPermit},
};

use crate::policy::{
    column_alterations::{check_rejected, check_unaltered},
    harness::{PolicyHarness, TableRows, expect_principal},
};

const ROW_ALTERATIONS: &[&str] = &[
    // Deleted rows.
    "DELETE FROM tenants WHERE id = {victim}",
    "DELETE FROM tenant_keys WHERE tenant = {victim}",
    "DELETE FROM permanent_keys WHERE tenant = {victim}",
    "DELETE FROM applications WHERE id = {private}",
    "DELETE FROM applications WHERE tenant = {victim}",
    "DELETE FROM api_keys WHERE application = {private}",
    "DELETE FROM api_keys WHERE tenant = {victim}",
    "DELETE FROM applications WHERE id = {private};
        DELETE FROM api_keys WHERE application = {private}",
    "DELETE FROM applications WHERE tenant = {victim}; DELETE FROM api_keys WHERE tenant = {victim}",
    "DELETE FROM tenants WHERE id = {victim}; DELETE FROM applications WHERE tenant = {victim};
        DELETE FROM api_keys WHERE tenant = {victim}",
    "DELETE FROM proxies WHERE id = {proxy}",
    "DELETE FROM webhooks WHERE id = {webhook}",
    "UPDATE applications SET origins = NULL WHERE id = {public}",
    "DELETE FROM client_keys WHERE id = {client key}",
    "INSERT INTO client_keys SELECT tenant, {fresh}, expires_at, private_key, created_by, created_at,
        mac FROM client_keys WHERE id = {client key}",
    "UPDATE client_keys SET tenant = {victim} WHERE id = {other client key}",
    "UPDATE client_keys SET (private_key, mac) = (SELECT private_key, mac FROM client_keys
        WHERE id = {other client key}) WHERE id = {client key}",
    // Duplicated rows with another key.
    "INSERT INTO tenant_keys SELECT tenant, 2, padding, wrapped FROM tenant_keys
        WHERE tenant = {victim}",
    "INSERT INTO applications SELECT tenant, {fresh}, name, kind, access, created_by, created_at,
        modified_by, modified_at, mac, origins FROM applications WHERE id = {manager}",
    "INSERT INTO api_keys SELECT tenant, application, {fresh}, zeroblob(32), created_by,
        created_at, mac FROM api_keys WHERE application = {manager}",
    "INSERT INTO proxies SELECT tenant, {fresh}, zeroblob(32), name, application, require_auth,
        disable_detokenization, NULL, settings, secrets, created_by, created_at, modified_by,
        modified_at, mac FROM proxies WHERE id = {proxy}",
    "INSERT INTO webhooks SELECT tenant, {fresh}, name, status, events, settings, secrets,
        created_by, created_at, modified_by, modified_at, mac FROM webhooks WHERE id = {webhook}",
    // Unreadable rows.
    "INSERT INTO tenant_keys VALUES ({victim}, -1, zeroblob(1024), x'')",
    "INSERT INTO applications SELECT tenant, {fresh}, name, 'unheard of', access, created_by,
        created_at, modified_by, modified_at, mac, origins FROM applications WHERE id = {manager}",
    "INSERT INTO api_keys SELECT tenant, application, {fresh}, x'00', created_by, created_at, mac
        FROM api_keys WHERE application = {manager}",
    "INSERT INTO proxies SELECT tenant, {fresh}, x'00', name, application, require_auth,
        disable_detokenization, NULL, settings, secrets, created_by, created_at, modified_by,
        modified_at, mac FROM proxies WHERE id = {proxy}",
    "INSERT INTO webhooks SELECT tenant, {fresh}, name, status, 'token.fly', settings, secrets,
        created_by, created_at, modified_by, modified_at, mac FROM webhooks WHERE id = {webhook}",
    // Rows of another tenant, unchanged or with this tenant's id.
    "UPDATE webhooks SET tenant = {victim} WHERE id = {other webhook}",
    "UPDATE proxies SET tenant = {victim} WHERE id = {other proxy}",
    "INSERT INTO tenant_keys SELECT {victim}, 2, padding, wrapped FROM tenant_keys
        WHERE tenant = {other}",
    "INSERT INTO applications SELECT {victim}, id, name, kind, access, created_by, created_at,
        modified_by, modified_at, mac, origins FROM applications WHERE id = {other private}",
    "UPDATE api_keys SET tenant = {victim} WHERE application = {other private}",
    "UPDATE api_keys SET tenant = {victim}, application = {manager}
        WHERE application = {other private}",
    "UPDATE applications SET tenant = {other} WHERE tenant = {victim};
        UPDATE api_keys SET tenant = {other} WHERE tenant = {victim}",
    "DELETE FROM tenants WHERE id = {victim};
        UPDATE tenants SET id = {victim} WHERE id = {other}",
    // Swapped rows: a public key for a manager's key.
    "CREATE TEMP TABLE saved AS SELECT application, digest FROM api_keys WHERE tenant = {victim};
        UPDATE api_keys SET digest = application WHERE tenant = {victim};
        UPDATE api_keys SET digest = (SELECT digest FROM saved WHERE application = {public})
            WHERE application = {manager};
        UPDATE api_keys SET digest = (SELECT digest FROM saved WHERE application = {manager})
            WHERE application = {public};
        UPDATE api_keys SET digest = (SELECT digest FROM saved WHERE application = {private})
            WHERE application = {private};
        DROP TABLE saved",
    "UPDATE applications SET id = {fresh} WHERE id = {manager};
        UPDATE applications SET id = {manager} WHERE id = {public};
        UPDATE applications SET id = {public} WHERE id = {fresh}",
    "UPDATE tenants SET id = {fresh} WHERE id = {victim};
        UPDATE tenants SET id = {victim} WHERE id = {other};
        UPDATE tenants SET id = {other} WHERE id = {fresh}",
    "UPDATE tenant_keys SET tenant = {fresh} WHERE tenant = {victim};
        UPDATE tenant_keys SET tenant = {victim} WHERE tenant = {other};
        UPDATE tenant_keys SET tenant = {other} WHERE tenant = {fresh}",
    "UPDATE permanent_keys SET tenant = {fresh} WHERE tenant = {victim};
        UPDATE permanent_keys SET tenant = {victim} WHERE tenant = {other};
        UPDATE permanent_keys SET tenant = {other} WHERE tenant = {fresh}",
    "UPDATE proxies SET host = 'saved.example' WHERE id = {proxy};
        UPDATE proxies SET host = 'victim.shop.example' WHERE id = {other proxy};
        UPDATE proxies SET host = 'other.shop.example' WHERE id = {proxy}",
    // Two related columns.
    "UPDATE webhooks SET modified_by = NULL, modified_at = NULL WHERE id = {webhook}",
    "UPDATE webhooks SET (settings, secrets, mac) = (SELECT settings, secrets, mac FROM webhooks
        WHERE id = {other webhook}) WHERE id = {webhook}",
    "UPDATE proxies SET modified_by = NULL, modified_at = NULL WHERE id = {proxy}",
    "UPDATE proxies SET (settings, secrets, mac) = (SELECT settings, secrets, mac FROM proxies
        WHERE id = {other proxy}) WHERE id = {proxy}",
    "UPDATE tenants SET modified_by = NULL, modified_at = NULL WHERE id = {victim}",
    "UPDATE applications SET modified_by = NULL, modified_at = NULL WHERE id = {private}",
    "UPDATE applications SET (kind, access, mac) = (SELECT kind, access, mac FROM applications
        WHERE id = {manager}) WHERE id = {private}",
];

#[tokio::test]
async fn removed_added_or_swapped_policy_row_is_detected() {
    let harness = PolicyHarness::open().await;
    let rows = harness.read_rows();
    for sql in ROW_ALTERATIONS {
        assert!(harness.try_write(sql), "{sql}");
        assert_ne!(harness.read_rows(), rows, "{sql}");
        let altered_directory = check_rejected(&harness, sql).await;
        harness.restore(&rows);
        check_unaltered(&harness, Some(&altered_directory), sql).await;
    }
    for outcome in harness.try_policy_changes().await {
        outcome.unwrap();
    }
}

/// A tenant without any rows is indistinguishable from a deleted tenant. Its keys are unknown, and
/// it cannot be changed.
#[tokio::test]
async fn tenant_with_all_rows_removed_is_unknown() {
    let harness = PolicyHarness::open().await;
    let rows = harness.read_rows();
    let sql = "DELETE FROM tenants WHERE id = {victim};
        DELETE FROM tenant_keys WHERE tenant = {victim};
        DELETE FROM permanent_keys WHERE tenant = {victim};
        DELETE FROM applications WHERE tenant = {victim};
        DELETE FROM api_keys WHERE tenant = {victim};
        DELETE FROM proxies WHERE tenant = {victim};
        DELETE FROM webhooks WHERE tenant = {victim};
        DELETE FROM client_keys WHERE tenant = {victim}";
    assert!(harness.try_write(sql));
    let directory_without_tenant =
        harness.vault_harness.reload(Some(&harness.loaded_directory)).await.unwrap();
    assert!(
        harness.victim.keys().iter().all(|it| directory_without_tenant.authenticate(it).is_none())
    );
    assert!(harness.try_policy_changes().await.iter().all(Result::is_err));
    harness.restore(&rows);
    // A server that loaded the policy without the tenant rejects the returned rows, as after a
    // deletion. A restarted server accepts them.
    let directory_with_returned_tenant =
        harness.vault_harness.reload(Some(&directory_without_tenant)).await.unwrap();
    assert!(harness.victim.keys().iter().all(|it| matches!(
        directory_with_returned_tenant.authenticate(it),
        Some(ApiKeyLookup::PolicyAltered)
    )));
    assert!(
        directory_with_returned_tenant.alterations()[0].description.contains("its rows are back")
    );
    check_unaltered(&harness, None, sql).await;
}

/// Changes the policy of the attacked tenant: deletes a key and revokes rights. Returns the rows
/// from before the change.
async fn change_policy(harness: &mut PolicyHarness) -> TableRows {
    let rows = harness.read_rows();
    let private = &harness.victim.private;
    let id = private.application;
    let operator = || harness.victim.operator();
    let key = harness.victim.tenant.applications[&id].api_keys[0].id;
    delete_api_key(&harness.vault_harness.vault, operator(), id, key).await.unwrap();
    let id = harness.victim.manager.application;
    let fewer_rights = AccessPolicy {
        permissions: [scrip_core::types::Permission::TenantRead].into_iter().collect(),
        rules: vec![],
    };
    let (name, access) = (DisplayName::parse("fewer").unwrap(), fewer_rights);
    update_application(
        &harness.vault_harness.vault,
        operator(),
        id,
        ApplicationUpdate { name, access, origins: None },
        None,
    )
    .await
    .unwrap();
    harness.loaded_directory =
        harness.vault_harness.reload(Some(&harness.loaded_directory)).await.unwrap();
    assert!(harness.loaded_directory.authenticate(&private.key).is_none());
    let tenant = harness.loaded_directory.tenant(harness.victim.tenant.id).unwrap();
    harness.victim.tenant = Arc::clone(tenant);
    rows
}

fn find_table_rows<'a>(rows: &'a TableRows, table: &str) -> &'a Vec<Vec<rusqlite::types::Value>> {
    &rows.iter().find(|(it, _)| *it == table).unwrap().1
}

/// The MAC of each row is valid; the seal over all rows is not.
#[tokio::test]
async fn restored_old_policy_row_is_detected() {
    for table in ["api_keys", "applications", "tenants"] {
        let mut harness = PolicyHarness::open().await;
        let old_rows = change_policy(&mut harness).await;
        let rows = harness.read_rows();
        let mut mixed_rows = rows.clone();
        for (name, rows) in &mut mixed_rows {
            if *name == table {
                rows.clone_from(find_table_rows(&old_rows, table));
            }
        }
        harness.restore(&mixed_rows);
        let directory = harness.vault_harness.reload(None).await.unwrap();
        for key in harness.victim.keys() {
            let lookup = directory.authenticate(key);
            assert!(
                matches!(lookup, None | Some(ApiKeyLookup::PolicyAltered)),
                "{table}: {lookup:?}"
            );
        }
        assert!(!directory.alterations().is_empty(), "{table}");
        let policy_change = set_tenant_quotas(
            &harness.vault_harness.vault,
            harness.victim.operator(),
            Box::new(|it| it),
        );
        assert!(policy_change.await.is_err(), "{table}");
        harness.restore(&rows);
        let directory = harness.vault_harness.reload(Some(&directory)).await.unwrap();
        assert_eq!(directory.alterations(), [], "{table}");
        expect_principal(directory.authenticate(&harness.victim.public.key));
    }
}

#[track_caller]
fn assert_rejected(harness: &PolicyHarness, directory: &Directory) {
    for key in harness.victim.keys() {
        let lookup = directory.authenticate(key);
        assert!(matches!(lookup, None | Some(ApiKeyLookup::PolicyAltered)), "{lookup:?}");
    }
    for key in harness.witness.keys() {
        expect_principal(directory.authenticate(key));
    }
    let victim = Some(harness.victim.tenant.id);
    assert!(directory.alterations().iter().any(|it| it.tenant == victim));
}

async fn try_set_quotas(harness: &PolicyHarness, permit: PolicyPermit) -> bool {
    let quotas = harness.victim.tenant.quotas;
    set_tenant_quotas(&harness.vault_harness.vault, permit, Box::new(move |_| quotas)).await.is_ok()
}

/// All rows together are an authentic older policy. A server that loaded a later policy rejects it.
#[tokio::test]
async fn restored_old_policy_is_detected() {
    let mut harness = PolicyHarness::open().await;
    let old_rows = change_policy(&mut harness).await;
    let rows = harness.read_rows();
    harness.restore(&old_rows);
    let altered_directory =
        harness.vault_harness.reload(Some(&harness.loaded_directory)).await.unwrap();
    assert_rejected(&harness, &altered_directory);
    // The second reload must reject it too.
    let altered_directory = harness.vault_harness.reload(Some(&altered_directory)).await.unwrap();
    assert_rejected(&harness, &altered_directory);
    assert!(!try_set_quotas(&harness, harness.victim.operator()).await, "an old policy was signed");
    assert_eq!(
        find_table_rows(&harness.read_rows(), "tenants"),
        find_table_rows(&old_rows, "tenants")
    );
    harness.restore(&rows);
    let directory = harness.vault_harness.reload(Some(&altered_directory)).await.unwrap();
    assert_eq!(directory.alterations(), []);
    expect_principal(directory.authenticate(&harness.victim.public.key));
    assert!(try_set_quotas(&harness, harness.victim.operator()).await);
}

/// The server remembers the policy counter while the tenant is unreadable.
#[tokio::test]
async fn restored_old_policy_is_detected_after_the_tenant_was_unreadable() {
    for sql in [
        "DELETE FROM tenants WHERE id = {victim}",
        "UPDATE tenants SET name = '' WHERE id = {victim}",
        "UPDATE tenants SET policy_counter = 0 WHERE id = {victim}",
    ] {
        let mut harness = PolicyHarness::open().await;
        let old_rows = change_policy(&mut harness).await;
        assert!(harness.try_write(sql), "{sql}");
        let directory_without_tenant =
            harness.vault_harness.reload(Some(&harness.loaded_directory)).await.unwrap();
        assert_rejected(&harness, &directory_without_tenant);
        harness.restore(&old_rows);
        let altered_directory =
            harness.vault_harness.reload(Some(&directory_without_tenant)).await.unwrap();
        assert_rejected(&harness, &altered_directory);
    }
}

/// A server that starts after the rollback cannot detect it and signs new changes. A server that
/// loaded the other policy with the same counter detects it.
#[tokio::test]
async fn two_policies_with_the_same_counter_are_detected() {
    let mut harness = PolicyHarness::open().await;
    let old_rows = change_policy(&mut harness).await;
    harness.restore(&old_rows);
    let new_server_directory = harness.vault_harness.reload(None).await.unwrap();
    let tenant = new_server_directory.tenant(harness.victim.tenant.id).unwrap();
    // The rollback removed two changes.
    for _ in 0..2 {
        assert!(try_set_quotas(&harness, PolicyPermit::for_operator(Arc::clone(tenant))).await);
    }
    assert_eq!(
        harness.vault_harness.reload(Some(&new_server_directory)).await.unwrap().alterations(),
        []
    );
    let altered_directory =
        harness.vault_harness.reload(Some(&harness.loaded_directory)).await.unwrap();
    assert_rejected(&harness, &altered_directory);
}
