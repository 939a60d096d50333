//! Stored client encryption keys: loaded as stored, limited, deleted when they expire.

use std::{sync::Arc, time::Duration};

use scrip_core::{
    Error, Timestamp,
    operations::client_keys::{
        create_client_key::{CreatedClientKey, create_client_key},
        delete_client_key::delete_client_key,
        expire_client_key::expire_client_keys,
        list_client_keys::{get_client_key, list_client_keys},
    },
    policy::{CLIENT_KEY_LIFETIME_MAX, CLIENT_KEYS_MAX, Tenant},
};
use scrip_testing::{policy::operator, vault_harness::VaultHarness};

on_every_engine! {
    VaultHarness;
    client_key_is_loaded_as_it_was_stored
    client_key_lives_at_most_one_year
    tenant_has_at_most_100_client_keys
    expired_client_key_is_hidden_and_then_deleted
    client_key_of_another_tenant_is_not_found
}

async fn create(
    harness: &VaultHarness,
    tenant: &Arc<Tenant>,
    expires_at: Option<Timestamp>,
) -> Result<CreatedClientKey, Error> {
    create_client_key(&harness.vault, operator(tenant), expires_at, None).await
}

/// The tenant with its current policy.
async fn reload(harness: &VaultHarness, tenant: &Arc<Tenant>) -> Arc<Tenant> {
    let directory = harness.directory().await;
    assert_eq!(directory.alterations(), []);
    Arc::clone(directory.tenant(tenant.id).unwrap())
}

async fn client_key_is_loaded_as_it_was_stored(harness: VaultHarness) {
    let tenant = harness.default_tenant().await;
    let created = create(&harness, &tenant, None).await.unwrap();
    assert!(created.public_key_pem.starts_with("-----BEGIN PUBLIC KEY-----\n"));
    let loaded = reload(&harness, &tenant).await;
    let record = &loaded.client_keys[&created.id];
    assert_eq!((record.tenant, record.expires_at), (tenant.id, created.expires_at));
    assert!(record.private_key.as_bytes().len() > 32);
    delete_client_key(&harness.vault, operator(&loaded), created.id).await.unwrap();
    assert!(reload(&harness, &tenant).await.client_keys.is_empty());
}

async fn client_key_lives_at_most_one_year(harness: VaultHarness) {
    let tenant = harness.default_tenant().await;
    let now = harness.vault.clock.now();
    let latest = now.plus(CLIENT_KEY_LIFETIME_MAX);
    assert_eq!(create(&harness, &tenant, Some(latest)).await.unwrap().expires_at, latest);
    for invalid in [now, now.minus(Duration::from_secs(1)), latest.plus(Duration::from_secs(60))] {
        let outcome = create(&harness, &tenant, Some(invalid)).await;
        assert!(matches!(&outcome, Err(Error::Invalid(it)) if it[0].field == "expires_at"));
    }
}

async fn tenant_has_at_most_100_client_keys(harness: VaultHarness) {
    let tenant = harness.default_tenant().await;
    let mut last = None;
    for _ in 0..CLIENT_KEYS_MAX {
        last = Some(create(&harness, &tenant, None).await.unwrap().id);
    }
    let outcome = create(&harness, &tenant, None).await;
    assert!(matches!(outcome, Err(Error::Unprocessable { .. })), "{outcome:?}");
    delete_client_key(&harness.vault, operator(&tenant), last.unwrap()).await.unwrap();
    create(&harness, &tenant, None).await.unwrap();
}

async fn expired_client_key_is_hidden_and_then_deleted(harness: VaultHarness) {
    let tenant = harness.default_tenant().await;
    let in_an_hour = harness.vault.clock.now().plus(Duration::from_secs(3600));
    let expiring = create(&harness, &tenant, Some(in_an_hour)).await.unwrap().id;
    let live = create(&harness, &tenant, None).await.unwrap().id;
    let loaded = reload(&harness, &tenant).await;
    let vault = &harness.vault;
    let permit = operator(&loaded);
    assert_eq!(list_client_keys(vault, &permit).await.unwrap().len(), 2);
    assert_eq!(expire_client_keys(vault, &harness.directory().await).await.unwrap(), 0);
    harness.clock.advance(Duration::from_secs(3601));
    let listed = list_client_keys(vault, &permit).await.unwrap();
    assert_eq!(listed.iter().map(|it| it.id).collect::<Vec<_>>(), [live]);
    assert!(matches!(get_client_key(vault, &permit, expiring).await, Err(Error::NotFound)));
    let outcome = delete_client_key(vault, operator(&loaded), expiring).await;
    assert!(matches!(outcome, Err(Error::NotFound)), "{outcome:?}");
    let directory = harness.directory().await;
    assert_eq!(expire_client_keys(vault, &directory).await.unwrap(), 1);
    // Another node with the older policy finds nothing to delete.
    assert_eq!(expire_client_keys(vault, &directory).await.unwrap(), 0);
    let loaded = reload(&harness, &tenant).await;
    assert_eq!(loaded.client_keys.keys().copied().collect::<Vec<_>>(), [live]);
}

async fn client_key_of_another_tenant_is_not_found(harness: VaultHarness) {
    let (owner, stranger) = (harness.default_tenant().await, harness.default_tenant().await);
    let id = create(&harness, &owner, None).await.unwrap().id;
    let stranger = reload(&harness, &stranger).await;
    let vault = &harness.vault;
    let deleted = delete_client_key(vault, operator(&stranger), id).await;
    assert!(matches!(deleted, Err(Error::NotFound)), "{deleted:?}");
    let found = get_client_key(vault, &operator(&stranger), id).await;
    assert!(matches!(found, Err(Error::NotFound)), "{found:?}");
    assert!(reload(&harness, &owner).await.client_keys.contains_key(&id));
}
