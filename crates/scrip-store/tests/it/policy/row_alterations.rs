//! Rows of policy that are taken away, added, exchanged, or brought back from earlier.

use std::sync::Arc;

use scrip_core::{
    operations::{
        applications::{delete_api_key::delete_api_key, update_application::update_application},
        tenants::update_tenant::set_tenant_quotas,
    },
    policy::{AccessPolicy, ApiKeyLookup, Directory, DisplayName, PolicyPermit},
};

use crate::policy::{
    column_alterations::{check_rejected, check_unaltered},
    harness::{PolicyHarness, TableRows, principal},
};

const ROW_ALTERATIONS: &[&str] = &[
    // Taken away.
    "DELETE FROM tenants WHERE id = {victim}",
    "DELETE FROM tenant_keys WHERE tenant = {victim}",
    "DELETE FROM lasting_keys WHERE tenant = {victim}",
    "DELETE FROM applications WHERE id = {private}",
    "DELETE FROM applications WHERE tenant = {victim}",
    "DELETE FROM api_keys WHERE application = {private}",
    "DELETE FROM api_keys WHERE tenant = {victim}",
    "DELETE FROM applications WHERE id = {private};
        DELETE FROM api_keys WHERE application = {private}",
    "DELETE FROM applications WHERE tenant = {victim}; DELETE FROM api_keys WHERE tenant = {victim}",
    "DELETE FROM tenants WHERE id = {victim}; DELETE FROM applications WHERE tenant = {victim};
        DELETE FROM api_keys WHERE tenant = {victim}",
    // A second time, under another name.
    "INSERT INTO tenant_keys SELECT tenant, 2, apart, wrapped FROM tenant_keys
        WHERE tenant = {victim}",
    "INSERT INTO applications SELECT tenant, {fresh}, name, kind, access, created_by, created_at,
        modified_by, modified_at, mac FROM applications WHERE id = {manager}",
    "INSERT INTO api_keys SELECT tenant, application, {fresh}, zeroblob(32), created_by,
        created_at, mac FROM api_keys WHERE application = {manager}",
    // Ones that cannot be read.
    "INSERT INTO tenant_keys VALUES ({victim}, -1, zeroblob(1024), x'')",
    "INSERT INTO applications SELECT tenant, {fresh}, name, 'unheard of', access, created_by,
        created_at, modified_by, modified_at, mac FROM applications WHERE id = {manager}",
    "INSERT INTO api_keys SELECT tenant, application, {fresh}, x'00', created_by, created_at, mac
        FROM api_keys WHERE application = {manager}",
    // From another tenant, as they are and as if they were this one's.
    "INSERT INTO tenant_keys SELECT {victim}, 2, apart, wrapped FROM tenant_keys
        WHERE tenant = {other}",
    "INSERT INTO applications SELECT {victim}, id, name, kind, access, created_by, created_at,
        modified_by, modified_at, mac FROM applications WHERE id = {other private}",
    "UPDATE api_keys SET tenant = {victim} WHERE application = {other private}",
    "UPDATE api_keys SET tenant = {victim}, application = {manager}
        WHERE application = {other private}",
    "UPDATE applications SET tenant = {other} WHERE tenant = {victim};
        UPDATE api_keys SET tenant = {other} WHERE tenant = {victim}",
    "DELETE FROM tenants WHERE id = {victim};
        UPDATE tenants SET id = {victim} WHERE id = {other}",
    // Exchanged: a public key for a manager's.
    "CREATE TEMP TABLE held AS SELECT application, digest FROM api_keys WHERE tenant = {victim};
        UPDATE api_keys SET digest = application WHERE tenant = {victim};
        UPDATE api_keys SET digest = (SELECT digest FROM held WHERE application = {public})
            WHERE application = {manager};
        UPDATE api_keys SET digest = (SELECT digest FROM held WHERE application = {manager})
            WHERE application = {public};
        UPDATE api_keys SET digest = (SELECT digest FROM held WHERE application = {private})
            WHERE application = {private};
        DROP TABLE held",
    "UPDATE applications SET id = {fresh} WHERE id = {manager};
        UPDATE applications SET id = {manager} WHERE id = {public};
        UPDATE applications SET id = {public} WHERE id = {fresh}",
    "UPDATE tenants SET id = {fresh} WHERE id = {victim};
        UPDATE tenants SET id = {victim} WHERE id = {other};
        UPDATE tenants SET id = {other} WHERE id = {fresh}",
    "UPDATE tenant_keys SET tenant = {fresh} WHERE tenant = {victim};
        UPDATE tenant_keys SET tenant = {victim} WHERE tenant = {other};
        UPDATE tenant_keys SET tenant = {other} WHERE tenant = {fresh}",
    "UPDATE lasting_keys SET tenant = {fresh} WHERE tenant = {victim};
        UPDATE lasting_keys SET tenant = {victim} WHERE tenant = {other};
        UPDATE lasting_keys SET tenant = {other} WHERE tenant = {fresh}",
    // Two columns that hold together.
    "UPDATE tenants SET modified_by = NULL, modified_at = NULL WHERE id = {victim}",
    "UPDATE applications SET modified_by = NULL, modified_at = NULL WHERE id = {private}",
    "UPDATE applications SET (kind, access, mac) = (SELECT kind, access, mac FROM applications
        WHERE id = {manager}) WHERE id = {private}",
];

#[tokio::test]
async fn removed_added_or_swapped_policy_row_is_detected() {
    let harness = PolicyHarness::open().await;
    let rows = harness.rows();
    for sql in ROW_ALTERATIONS {
        assert!(harness.try_write(sql), "{sql}");
        assert_ne!(harness.rows(), rows, "{sql}");
        let rejected = check_rejected(&harness, sql).await;
        harness.restore(&rows);
        check_unaltered(&harness, Some(&rejected), sql).await;
    }
    for outcome in harness.try_policy_changes().await {
        outcome.unwrap();
    }
}

/// A tenant that is gone with all its rows was deleted, as far as anybody can tell. Then nobody of
/// it is known, and nothing of it can be changed.
#[tokio::test]
async fn tenant_with_all_rows_removed_is_unknown() {
    let harness = PolicyHarness::open().await;
    let rows = harness.rows();
    let sql = "DELETE FROM tenants WHERE id = {victim};
        DELETE FROM tenant_keys WHERE tenant = {victim};
        DELETE FROM lasting_keys WHERE tenant = {victim};
        DELETE FROM applications WHERE tenant = {victim};
        DELETE FROM api_keys WHERE tenant = {victim}";
    assert!(harness.try_write(sql));
    let directory = harness.vault_harness.reload(Some(&harness.loaded)).await.unwrap();
    assert!(harness.victim.keys().iter().all(|it| directory.authenticate(it).is_none()));
    assert!(harness.try_policy_changes().await.iter().all(Result::is_err));
    harness.restore(&rows);
    // As after a deletion: whoever saw it gone does not believe in its return. A new start does.
    let back = harness.vault_harness.reload(Some(&directory)).await.unwrap();
    assert!(
        harness
            .victim
            .keys()
            .iter()
            .all(|it| matches!(back.authenticate(it), Some(ApiKeyLookup::PolicyAltered)))
    );
    assert!(back.alterations()[0].description.contains("brought back"));
    check_unaltered(&harness, None, sql).await;
}

/// The rows of the touched tenant as they are now, and then a change: a key is deleted, and rights
/// are taken away.
async fn change_policy(harness: &mut PolicyHarness) -> TableRows {
    let rows = harness.rows();
    let private = &harness.victim.private;
    let id = private.application;
    let operator = || harness.victim.operator();
    let key = harness.victim.tenant.applications[&id].api_keys[0].id;
    delete_api_key(&harness.vault_harness.vault, operator(), id, key).await.unwrap();
    let id = harness.victim.manager.application;
    let fewer = AccessPolicy {
        parse_permissions: [scrip_core::policy::Permission::TenantRead].into_iter().collect(),
        rules: vec![],
    };
    let (name, access) = (DisplayName::parse("fewer").unwrap(), fewer);
    update_application(&harness.vault_harness.vault, operator(), id, name, access, None)
        .await
        .unwrap();
    harness.loaded = harness.vault_harness.reload(Some(&harness.loaded)).await.unwrap();
    assert!(harness.loaded.authenticate(&private.key).is_none());
    let tenant = harness.loaded.tenant(harness.victim.tenant.id).unwrap();
    harness.victim.tenant = Arc::clone(tenant);
    rows
}

fn rows_of_table<'a>(rows: &'a TableRows, table: &str) -> &'a Vec<Vec<rusqlite::types::Value>> {
    &rows.iter().find(|(it, _)| *it == table).unwrap().1
}

/// Every mac of these rows is as good as ever; the seal over all of them is not.
#[tokio::test]
async fn restored_old_policy_row_is_detected() {
    for table in ["api_keys", "applications", "tenants"] {
        let mut harness = PolicyHarness::open().await;
        let old = change_policy(&mut harness).await;
        let rows = harness.rows();
        let mut mixed = rows.clone();
        for (name, rows) in &mut mixed {
            if *name == table {
                rows.clone_from(rows_of_table(&old, table));
            }
        }
        harness.restore(&mixed);
        let directory = harness.vault_harness.reload(None).await.unwrap();
        for key in harness.victim.keys() {
            let known = directory.authenticate(key);
            assert!(
                matches!(known, None | Some(ApiKeyLookup::PolicyAltered)),
                "{table}: {known:?}"
            );
        }
        assert!(!directory.alterations().is_empty(), "{table}");
        let rejected = set_tenant_quotas(
            &harness.vault_harness.vault,
            harness.victim.operator(),
            Box::new(|it| it),
        );
        assert!(rejected.await.is_err(), "{table}");
        harness.restore(&rows);
        let directory = harness.vault_harness.reload(Some(&directory)).await.unwrap();
        assert_eq!(directory.alterations(), [], "{table}");
        principal(directory.authenticate(&harness.victim.public.key));
    }
}

#[track_caller]
fn assert_rejected(harness: &PolicyHarness, directory: &Directory) {
    for key in harness.victim.keys() {
        let known = directory.authenticate(key);
        assert!(matches!(known, None | Some(ApiKeyLookup::PolicyAltered)), "{known:?}");
    }
    for key in harness.witness.keys() {
        principal(directory.authenticate(key));
    }
    let victim = Some(harness.victim.tenant.id);
    assert!(directory.alterations().iter().any(|it| it.tenant == victim));
}

async fn try_set_quotas(harness: &PolicyHarness, permit: PolicyPermit) -> bool {
    let quotas = harness.victim.tenant.quotas;
    set_tenant_quotas(&harness.vault_harness.vault, permit, Box::new(move |_| quotas)).await.is_ok()
}

/// All rows together are one that we wrote; whoever saw a later one knows better.
#[tokio::test]
async fn restored_old_policy_is_detected() {
    let mut harness = PolicyHarness::open().await;
    let old = change_policy(&mut harness).await;
    let rows = harness.rows();
    harness.restore(&old);
    let rejected = harness.vault_harness.reload(Some(&harness.loaded)).await.unwrap();
    assert_rejected(&harness, &rejected);
    // Nor at the second look.
    let rejected = harness.vault_harness.reload(Some(&rejected)).await.unwrap();
    assert_rejected(&harness, &rejected);
    assert!(
        !try_set_quotas(&harness, harness.victim.operator()).await,
        "an old policy was sealed as ours"
    );
    assert_eq!(rows_of_table(&harness.rows(), "tenants"), rows_of_table(&old, "tenants"));
    harness.restore(&rows);
    let directory = harness.vault_harness.reload(Some(&rejected)).await.unwrap();
    assert_eq!(directory.alterations(), []);
    principal(directory.authenticate(&harness.victim.public.key));
    assert!(try_set_quotas(&harness, harness.victim.operator()).await);
}

/// While it was away, nobody forgot how far it had come.
#[tokio::test]
async fn restored_old_policy_is_detected_after_the_tenant_was_unreadable() {
    for sql in [
        "DELETE FROM tenants WHERE id = {victim}",
        "UPDATE tenants SET name = '' WHERE id = {victim}",
        "UPDATE tenants SET policy_counter = 0 WHERE id = {victim}",
    ] {
        let mut harness = PolicyHarness::open().await;
        let old = change_policy(&mut harness).await;
        assert!(harness.try_write(sql), "{sql}");
        let without = harness.vault_harness.reload(Some(&harness.loaded)).await.unwrap();
        assert_rejected(&harness, &without);
        harness.restore(&old);
        let rejected = harness.vault_harness.reload(Some(&without)).await.unwrap();
        assert_rejected(&harness, &rejected);
    }
}

/// Somebody who started after it was brought back cannot know, and changes it in good faith. Whoever
/// saw the other policy of the same count does know.
#[tokio::test]
async fn two_policies_with_the_same_counter_are_detected() {
    let mut harness = PolicyHarness::open().await;
    let old = change_policy(&mut harness).await;
    harness.restore(&old);
    let started = harness.vault_harness.reload(None).await.unwrap();
    let tenant = started.tenant(harness.victim.tenant.id).unwrap();
    // As many changes as were lost.
    for _ in 0..2 {
        assert!(try_set_quotas(&harness, PolicyPermit::for_operator(Arc::clone(tenant))).await);
    }
    assert_eq!(harness.vault_harness.reload(Some(&started)).await.unwrap().alterations(), []);
    let rejected = harness.vault_harness.reload(Some(&harness.loaded)).await.unwrap();
    assert_rejected(&harness, &rejected);
}
