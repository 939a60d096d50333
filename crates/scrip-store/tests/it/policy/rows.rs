//! Rows of policy that are taken away, added, exchanged, or brought back from earlier.

use std::sync::Arc;

use scrip_core::{
    operations::{
        applications::{delete_api_key::delete_api_key, update_application::update_application},
        tenants::update_tenant::set_tenant_quotas,
    },
    policy::{AccessPolicy, Directory, Known, Mandate, Name},
};

use crate::policy::{
    altered::{check_refused, check_sound},
    harness::{PolicyHarness, Rows, principal},
};

const MOVED: &[&str] = &[
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
async fn a_row_taken_added_or_exchanged_is_noticed() {
    let scene = PolicyHarness::open().await;
    let rows = scene.rows();
    for sql in MOVED {
        assert!(scene.write(sql), "{sql}");
        assert_ne!(scene.rows(), rows, "{sql}");
        let refused = check_refused(&scene, sql).await;
        scene.put_back(&rows);
        check_sound(&scene, Some(&refused), sql).await;
    }
    for outcome in scene.try_to_change().await {
        outcome.unwrap();
    }
}

/// A tenant that is gone with all its rows was deleted, as far as anybody can tell. Then nobody of
/// it is known, and nothing of it can be changed.
#[tokio::test]
async fn a_tenant_taken_whole_is_nobody() {
    let scene = PolicyHarness::open().await;
    let rows = scene.rows();
    let sql = "DELETE FROM tenants WHERE id = {victim};
        DELETE FROM tenant_keys WHERE tenant = {victim};
        DELETE FROM lasting_keys WHERE tenant = {victim};
        DELETE FROM applications WHERE tenant = {victim};
        DELETE FROM api_keys WHERE tenant = {victim}";
    assert!(scene.write(sql));
    let directory = scene.world.reload(Some(&scene.before)).await.unwrap();
    assert!(scene.victim.keys().iter().all(|it| directory.authenticate(it).is_none()));
    assert!(scene.try_to_change().await.iter().all(Result::is_err));
    scene.put_back(&rows);
    // As after a deletion: whoever saw it gone does not believe in its return. A new start does.
    let back = scene.world.reload(Some(&directory)).await.unwrap();
    assert!(
        scene.victim.keys().iter().all(|it| matches!(back.authenticate(it), Some(Known::Refused)))
    );
    assert!(back.alterations()[0].what.contains("brought back"));
    check_sound(&scene, None, sql).await;
}

/// The rows of the touched tenant as they are now, and then a change: a key is deleted, and rights
/// are taken away.
async fn changed(scene: &mut PolicyHarness) -> Rows {
    let rows = scene.rows();
    let private = &scene.victim.private;
    let id = private.application;
    let operator = || scene.victim.operator();
    let key = scene.victim.tenant.applications[&id].api_keys[0].id;
    delete_api_key(&scene.world.vault, operator(), id, key).await.unwrap();
    let id = scene.victim.manager.application;
    let fewer = AccessPolicy {
        permissions: [scrip_core::policy::Permission::TenantRead].into_iter().collect(),
        rules: vec![],
    };
    let (name, access) = (Name::parse("fewer").unwrap(), fewer);
    update_application(&scene.world.vault, operator(), id, name, access, None).await.unwrap();
    scene.before = scene.world.reload(Some(&scene.before)).await.unwrap();
    assert!(scene.before.authenticate(&private.key).is_none());
    let tenant = scene.before.tenant(scene.victim.tenant.id).unwrap();
    scene.victim.tenant = Arc::clone(tenant);
    rows
}

fn of<'a>(rows: &'a Rows, table: &str) -> &'a Vec<Vec<rusqlite::types::Value>> {
    &rows.iter().find(|(it, _)| *it == table).unwrap().1
}

/// Every mac of these rows is as good as ever; the seal over all of them is not.
#[tokio::test]
async fn an_old_row_does_not_come_back() {
    for table in ["api_keys", "applications", "tenants"] {
        let mut scene = PolicyHarness::open().await;
        let old = changed(&mut scene).await;
        let rows = scene.rows();
        let mut mixed = rows.clone();
        for (name, rows) in &mut mixed {
            if *name == table {
                rows.clone_from(of(&old, table));
            }
        }
        scene.put_back(&mixed);
        let directory = scene.world.reload(None).await.unwrap();
        for key in scene.victim.keys() {
            let known = directory.authenticate(key);
            assert!(matches!(known, None | Some(Known::Refused)), "{table}: {known:?}");
        }
        assert!(!directory.alterations().is_empty(), "{table}");
        let refused =
            set_tenant_quotas(&scene.world.vault, scene.victim.operator(), Box::new(|it| it));
        assert!(refused.await.is_err(), "{table}");
        scene.put_back(&rows);
        let directory = scene.world.reload(Some(&directory)).await.unwrap();
        assert_eq!(directory.alterations(), [], "{table}");
        principal(directory.authenticate(&scene.victim.public.key));
    }
}

#[track_caller]
fn assert_refused(scene: &PolicyHarness, directory: &Directory) {
    for key in scene.victim.keys() {
        let known = directory.authenticate(key);
        assert!(matches!(known, None | Some(Known::Refused)), "{known:?}");
    }
    for key in scene.witness.keys() {
        principal(directory.authenticate(key));
    }
    let victim = Some(scene.victim.tenant.id);
    assert!(directory.alterations().iter().any(|it| it.tenant == victim));
}

async fn change(scene: &PolicyHarness, mandate: Mandate) -> bool {
    let quotas = scene.victim.tenant.quotas;
    set_tenant_quotas(&scene.world.vault, mandate, Box::new(move |_| quotas)).await.is_ok()
}

/// All rows together are one that we wrote; whoever saw a later one knows better.
#[tokio::test]
async fn an_old_policy_does_not_come_back() {
    let mut scene = PolicyHarness::open().await;
    let old = changed(&mut scene).await;
    let rows = scene.rows();
    scene.put_back(&old);
    let refused = scene.world.reload(Some(&scene.before)).await.unwrap();
    assert_refused(&scene, &refused);
    // Nor at the second look.
    let refused = scene.world.reload(Some(&refused)).await.unwrap();
    assert_refused(&scene, &refused);
    assert!(!change(&scene, scene.victim.operator()).await, "an old policy was sealed as ours");
    assert_eq!(of(&scene.rows(), "tenants"), of(&old, "tenants"));
    scene.put_back(&rows);
    let directory = scene.world.reload(Some(&refused)).await.unwrap();
    assert_eq!(directory.alterations(), []);
    principal(directory.authenticate(&scene.victim.public.key));
    assert!(change(&scene, scene.victim.operator()).await);
}

/// While it was away, nobody forgot how far it had come.
#[tokio::test]
async fn an_old_policy_does_not_come_back_by_way_of_none() {
    for sql in [
        "DELETE FROM tenants WHERE id = {victim}",
        "UPDATE tenants SET name = '' WHERE id = {victim}",
        "UPDATE tenants SET policy_counter = 0 WHERE id = {victim}",
    ] {
        let mut scene = PolicyHarness::open().await;
        let old = changed(&mut scene).await;
        assert!(scene.write(sql), "{sql}");
        let without = scene.world.reload(Some(&scene.before)).await.unwrap();
        assert_refused(&scene, &without);
        scene.put_back(&old);
        let refused = scene.world.reload(Some(&without)).await.unwrap();
        assert_refused(&scene, &refused);
    }
}

/// Somebody who started after it was brought back cannot know, and changes it in good faith. Whoever
/// saw the other policy of the same count does know.
#[tokio::test]
async fn two_policies_of_one_count_are_one_too_many() {
    let mut scene = PolicyHarness::open().await;
    let old = changed(&mut scene).await;
    scene.put_back(&old);
    let started = scene.world.reload(None).await.unwrap();
    let tenant = started.tenant(scene.victim.tenant.id).unwrap();
    // As many changes as were lost.
    for _ in 0..2 {
        assert!(change(&scene, Mandate::of_operator(Arc::clone(tenant))).await);
    }
    assert_eq!(scene.world.reload(Some(&started)).await.unwrap().alterations(), []);
    let refused = scene.world.reload(Some(&scene.before)).await.unwrap();
    assert_refused(&scene, &refused);
}
