//! A compromise of the vault key replaces the keys below it, on every engine.

use std::{sync::Arc, time::Duration};

use scrip_core::{
    Error, Vault,
    audit::{ChainHead, LogKind},
    keys::{KeyOwner, KeyRenewal, VaultKeyRotation, WrappedKeys},
    operations::key_rotations::advance_audit_key::advance_audit_key,
    policy::{ApiKeyLookup, Directory, ProxyLookup, proxy::ProxyDetails, webhook::WebhookDetails},
    store::open_directory,
    types::id::UnlockId,
};
use scrip_seal::{AuditKeyPhase, Mac, Secret, TenantKeys, VaultKey};
use scrip_testing::vault::root_key;
use uuid::Uuid;

use crate::{
    key_rotation::harness::RotationHarness,
    policy::unlocks::{adopt_vault, method},
};

on_every_engine! {
    RotationHarness;
    compromise_replaces_every_key_except_those_of_fingerprints
    compromise_with_a_changed_api_key_is_a_conflict
    audit_chains_stay_valid_while_the_audit_key_changes
}

fn new_key() -> [VaultKey; 2] {
    let key = VaultKey::generate(2);
    let copy = VaultKey::from_secret(2, Secret::new(key.secret().expose().to_vec())).unwrap();
    [key, copy]
}

async fn prepare(vault: &Vault, new: &VaultKey) -> KeyRenewal {
    let records = vault.store.load_directory().await.unwrap();
    let old = root_key().into_vault_key();
    let now = vault.clock.now();
    KeyRenewal::prepare(&records, false, [&old, new], vault.fill_random, now).unwrap()
}

async fn rotate(vault: &Vault, renewal: KeyRenewal, new: VaultKey) -> Result<(), Error> {
    let old = root_key().into_vault_key();
    let rewrap = Box::new(move |keys: WrappedKeys| renewal.apply(keys, &old, &new));
    let replaced = vec![UnlockId(Uuid::from_u128(1))];
    let methods = vec![method(1, 2)];
    let rotation = VaultKeyRotation { from: 1, to: 2, replaced, methods, rewrap };
    vault.store.rotate_vault_key(rotation).await.unwrap()
}

/// The text of the new key of an application, and of a proxy.
fn issued_texts(renewal: &KeyRenewal) -> [String; 2] {
    let find = |is_proxy: bool| {
        let keys = renewal.issued_keys();
        let key = keys.iter().find(|(it, _)| matches!(it.owner, KeyOwner::Proxy(_)) == is_proxy);
        key.unwrap().1.to_owned()
    };
    [find(false), find(true)]
}

async fn compromise_replaces_every_key_except_those_of_fingerprints(harness: RotationHarness) {
    let vault = harness.vault();
    adopt_vault(&harness.vault_harness).await;
    harness.create_policy().await;
    let (before, old_records) =
        (harness.tenant().await, vault.store.load_directory().await.unwrap());
    let [new, key] = new_key();
    let renewal = prepare(vault, &new).await;
    let [api_key, proxy_key] = issued_texts(&renewal);
    rotate(vault, renewal, new).await.unwrap();
    let records = vault.store.load_directory().await.unwrap();
    let directory = Directory::open(records.clone(), &key, None).unwrap();
    assert_eq!(directory.alterations(), []);
    let tenant = directory.tenant(harness.id).unwrap();
    assert_eq!((tenant.keys.versions(), tenant.keys.current_version()), (vec![1, 2], 2));
    let (old_keys, keys) = (&before.keys, &tenant.keys);
    assert_eq!(keys.fingerprint("card", b"1"), old_keys.fingerprint("card", b"1"));
    assert_eq!(keys.index_digest(b"1"), old_keys.index_digest(b"1"));
    assert_ne!(keys.idempotency_digest(b"a", b"1"), old_keys.idempotency_digest(b"a", b"1"));
    assert_ne!(keys.request_digest(&[b"1"]), old_keys.request_digest(&[b"1"]));
    assert_ne!(keys.guess_digest(&[b"1"]), old_keys.guess_digest(&[b"1"]));
    assert!(records.tenants.iter().all(|it| it.find_alterations(keys).is_empty()));
    assert!(records.tenants.iter().all(|it| !it.find_alterations(old_keys).is_empty()));
    // The rows of the policy open with the new version alone.
    for webhook in tenant.webhooks.values() {
        assert_eq!(webhook.secrets.key_version(), Ok(2));
        WebhookDetails::open(keys, webhook.as_ref().clone()).unwrap();
    }
    for proxy in tenant.proxies.values() {
        assert_eq!(proxy.secrets.key_version(), Ok(2));
        let details = ProxyDetails::open(keys, proxy.as_ref().clone()).unwrap();
        assert!(matches!(directory.find_proxy_by_key(&proxy_key), Some(ProxyLookup::Found(_))));
        drop(details);
    }
    for client_key in tenant.client_keys.values() {
        client_key.public_key_pem(keys).unwrap();
    }
    assert!(matches!(directory.authenticate(&api_key), Some(ApiKeyLookup::Found { .. })));
    assert!(directory.authenticate(harness.api_key()).is_none(), "the old API key ends");
    // The old vault key with the old rows opens nothing of the new version.
    let old = root_key().into_vault_key();
    assert!(Directory::open(records.clone(), &old, None).is_err());
    let (old_row, new_row) = (&old_records.tenants[0].tenant.record, &records.tenants[0]);
    let id = harness.id.to_string();
    assert!(TenantKeys::unwrap(&old, &id, &new_row.tenant.record.keys).is_err());
    let old_keys = TenantKeys::unwrap(&old, &id, &old_row.keys).unwrap();
    assert_eq!(old_keys.versions(), [1]);
    let history = directory.audit_key().history();
    assert_eq!(history.compromised_ms, Some(vault.clock.now().unix_ms));
}

async fn compromise_with_a_changed_api_key_is_a_conflict(harness: RotationHarness) {
    let vault = harness.vault();
    adopt_vault(&harness.vault_harness).await;
    let [new, _] = new_key();
    let renewal = prepare(vault, &new).await;
    harness.create_policy().await;
    let before = vault.store.load_directory().await.unwrap();
    let result = rotate(vault, renewal, new).await;
    assert!(matches!(result, Err(Error::Conflict { .. })), "{result:?}");
    let after = vault.store.load_directory().await.unwrap();
    assert_eq!((after.system_keys, after.tenants), (before.system_keys, before.tenants));
    assert_eq!(after.unlocks.key_version(), 1);
}

async fn heads(vault: &Vault) -> Vec<(LogKind, ChainHead)> {
    let mut heads = Vec::new();
    for log in [LogKind::Audit, LogKind::Read] {
        heads.extend(vault.store.list_heads(log).await.unwrap().into_iter().map(|it| (log, it)));
    }
    heads
}

async fn audit_chains_stay_valid_while_the_audit_key_changes(harness: RotationHarness) {
    let vault = harness.vault();
    adopt_vault(&harness.vault_harness).await;
    harness.create_cards(0..2).await;
    let old_key = Arc::clone(harness.vault_harness.directory().await.audit_key());
    let [new, key] = new_key();
    let renewal = prepare(vault, &new).await;
    rotate(vault, renewal, new).await.unwrap();
    let mut directory = open_directory(&*vault.store, &key, None).await.unwrap();
    for expected in [AuditKeyPhase::Added, AuditKeyPhase::Active, AuditKeyPhase::Closed] {
        assert_eq!(directory.audit_key().history().phase, expected);
        vault.audit_trail.set_key(directory.audit_key());
        vault.record_command("test", "completed").await.unwrap();
        for (log, head) in heads(vault).await {
            assert!(head.has_valid_mac(directory.audit_key(), log), "{expected:?} {head:?}");
            // A node that has not loaded the new key yet continues the chains.
            let is_old = head.has_valid_mac(&old_key, log);
            assert!(is_old || expected != AuditKeyPhase::Added, "{head:?}");
            assert!(!is_old || expected != AuditKeyPhase::Closed, "{head:?}");
            let mut previous_link = Mac([0; 32]);
            for record in vault.store.list_records(log, head.tenant, 0, 100).await.unwrap() {
                let row = record.to_row();
                assert!(row.has_valid_link(directory.audit_key(), log, previous_link));
                previous_link = record.link;
            }
            assert_eq!(head.link, previous_link);
        }
        let advanced = advance_audit_key(vault, &directory, &key, Duration::ZERO).await.unwrap();
        let is_last = expected == AuditKeyPhase::Closed;
        assert_eq!(advanced.is_none(), is_last);
        directory = open_directory(&*vault.store, &key, Some(&directory)).await.unwrap();
    }
}
