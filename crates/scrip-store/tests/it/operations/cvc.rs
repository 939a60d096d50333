//! A CVC is visible during its retention to callers with a reveal transform.

use std::{sync::Arc, time::Duration};

use scrip_core::{
    operations::tenants::update_tenant::set_tenant_quotas,
    policy::{Caller, PolicyPermit, Tenant},
    token::TokenPatch,
    types::id::TokenId,
};
use scrip_testing::{
    policy::TOKENS,
    requests::{VISA, card_with_cvc, create, data_patch, get, update, visible_cvc, visible_data},
    vault_harness::VaultHarness,
};
use serde_json::json;

on_every_engine! {
    VaultHarness;
    cvc_is_visible_until_its_retention_ends
    cvc_cannot_be_decrypted_after_a_restart
    cvc_is_lost_when_its_epoch_key_is_destroyed
    replacing_a_cvc_restarts_its_retention
    changed_cvc_retention_applies_to_new_cvcs_only
    null_removes_the_cvc
    cvc_never_appears_in_a_mask
}

const MINUTE: Duration = Duration::from_secs(60);

/// Sets the CVC retention of the tenant and returns a caller of the tenant.
async fn caller_with_cvc_retention(
    harness: &VaultHarness,
    tenant: &Arc<Tenant>,
    retention: &str,
) -> Caller {
    let mut quotas = tenant.quotas;
    quotas.set("cvc_retention", retention).unwrap();
    let permit = PolicyPermit::for_operator(Arc::clone(tenant));
    let record =
        set_tenant_quotas(&harness.vault, permit, Box::new(move |_| quotas)).await.unwrap();
    let tenant = Arc::clone(harness.directory().await.tenant(record.id).unwrap());
    harness.revealing_caller(&tenant, TOKENS).await
}

async fn create_card_with_cvc(harness: &VaultHarness) -> (Caller, TokenId) {
    let tenant = harness.default_tenant().await;
    let caller = caller_with_cvc_retention(harness, &tenant, "10m").await;
    let written = create(&harness.vault, &caller, card_with_cvc(VISA, "123")).await.unwrap();
    assert_eq!(visible_cvc(&written.token).as_deref(), Some("123"));
    // The CVC is not part of the data, even when the data is visible.
    assert_eq!(visible_data(&written.token), Some(json!({"number": VISA})));
    (caller, written.token.id)
}

async fn read_cvc(harness: &VaultHarness, caller: &Caller, id: &TokenId) -> Option<String> {
    let view = get(&harness.vault, caller, id).await;
    assert_eq!(visible_data(&view).unwrap()["number"], VISA);
    visible_cvc(&view)
}

async fn cvc_is_visible_until_its_retention_ends(harness: VaultHarness) {
    let (caller, id) = create_card_with_cvc(&harness).await;
    harness.clock.advance(10 * MINUTE - Duration::from_millis(1));
    assert_eq!(read_cvc(&harness, &caller, &id).await.as_deref(), Some("123"));
    harness.clock.advance(Duration::from_millis(1));
    assert_eq!(read_cvc(&harness, &caller, &id).await, None);
    // An update does not extend the retention.
    let month_patch = data_patch(json!({"expiration_month": 7}));
    let written = update(&harness.vault, &caller, &id, month_patch).await.unwrap();
    assert_eq!(visible_cvc(&written.token), None);
}

async fn cvc_cannot_be_decrypted_after_a_restart(harness: VaultHarness) {
    let (caller, id) = create_card_with_cvc(&harness).await;
    let restarted_vault = harness.restart();
    let view = get(&restarted_vault, &caller, &id).await;
    assert_eq!((visible_cvc(&view), visible_data(&view)), (None, Some(json!({"number": VISA}))));
    assert_eq!(read_cvc(&harness, &caller, &id).await.as_deref(), Some("123"));
    // After a restart a new CVC can be stored.
    let patch = data_patch(json!({"cvc": "456"}));
    update(&restarted_vault, &caller, &id, patch).await.unwrap();
    assert_eq!(visible_cvc(&get(&restarted_vault, &caller, &id).await).as_deref(), Some("456"));
}

async fn cvc_is_lost_when_its_epoch_key_is_destroyed(harness: VaultHarness) {
    let (caller, id) = create_card_with_cvc(&harness).await;
    let now = harness.vault.clock.now();
    harness.vault.epoch_keys.destroy_expired(now.unix_ms).unwrap();
    assert_eq!(read_cvc(&harness, &caller, &id).await.as_deref(), Some("123"));
    // Setting the clock back does not restore a destroyed key.
    harness.vault.epoch_keys.destroy_expired(now.plus(20 * MINUTE).unix_ms).unwrap();
    assert_eq!(read_cvc(&harness, &caller, &id).await, None);
}

async fn replacing_a_cvc_restarts_its_retention(harness: VaultHarness) {
    let (caller, id) = create_card_with_cvc(&harness).await;
    harness.clock.advance(6 * MINUTE);
    let month_patch = data_patch(json!({"expiration_month": 7}));
    update(&harness.vault, &caller, &id, month_patch).await.unwrap();
    assert_eq!(read_cvc(&harness, &caller, &id).await.as_deref(), Some("123"));
    let written = update(&harness.vault, &caller, &id, data_patch(json!({"cvc": "456"}))).await;
    assert_eq!(visible_cvc(&written.unwrap().token).as_deref(), Some("456"));

    harness.clock.advance(10 * MINUTE - Duration::from_millis(1));
    assert_eq!(read_cvc(&harness, &caller, &id).await.as_deref(), Some("456"));
    harness.clock.advance(Duration::from_millis(1));
    assert_eq!(read_cvc(&harness, &caller, &id).await, None);
}

async fn changed_cvc_retention_applies_to_new_cvcs_only(harness: VaultHarness) {
    let (caller, id) = create_card_with_cvc(&harness).await;
    let tenant = Arc::clone(harness.directory().await.tenant(caller.tenant().id).unwrap());
    let caller_with_short_retention = caller_with_cvc_retention(&harness, &tenant, "2m").await;
    let new_id = create(&harness.vault, &caller_with_short_retention, card_with_cvc(VISA, "456"))
        .await
        .unwrap()
        .token
        .id;
    harness.clock.advance(2 * MINUTE - Duration::from_millis(1));
    assert_eq!(
        read_cvc(&harness, &caller_with_short_retention, &new_id).await.as_deref(),
        Some("456")
    );
    harness.clock.advance(Duration::from_millis(1));
    assert_eq!(read_cvc(&harness, &caller_with_short_retention, &new_id).await, None);
    // The existing CVC keeps its expiry.
    harness.clock.advance(8 * MINUTE - Duration::from_millis(1));
    assert_eq!(read_cvc(&harness, &caller_with_short_retention, &id).await.as_deref(), Some("123"));
    harness.clock.advance(Duration::from_millis(1));
    assert_eq!(read_cvc(&harness, &caller_with_short_retention, &id).await, None);
}

async fn null_removes_the_cvc(harness: VaultHarness) {
    let (caller, id) = create_card_with_cvc(&harness).await;
    let remove_cvc = data_patch(json!({"cvc": null}));
    let written = update(&harness.vault, &caller, &id, remove_cvc).await.unwrap();
    assert_eq!(visible_cvc(&written.token), None);
    assert_eq!(read_cvc(&harness, &caller, &id).await, None);
}

async fn cvc_never_appears_in_a_mask(harness: VaultHarness) {
    let (_, caller) = harness.tenant_with_default_caller().await;
    let mut token = card_with_cvc(VISA, "987");
    token.mask = Some(json!({"code": "{{ data.cvc }}", "all": "{{ data | stringify }}"}));
    let created = create(&harness.vault, &caller, token).await.unwrap();
    let read = get(&harness.vault, &caller, &created.token.id).await;
    let empty_patch = TokenPatch::default();
    let updated = update(&harness.vault, &caller, &read.id, empty_patch).await.unwrap();
    for view in [created.token, read, updated.token] {
        assert_eq!(visible_cvc(&view), None);
        assert!(!visible_data(&view).unwrap().to_string().contains("987"));
    }
}
