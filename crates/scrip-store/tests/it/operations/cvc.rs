//! The card verification code: shown to whoever may see everything, for as long as it may be kept.

use std::{sync::Arc, time::Duration};

use scrip_core::{
    id::TokenId,
    operations::tenants::update_tenant::set_tenant_quotas,
    policy::{Caller, Mandate, Settings, Tenant, Transform},
    token::TokenPatch,
};
use scrip_testing::{
    policy::{TOKENS, plain, rule, ruled},
    requests::{VISA, card_with_cvc, create, cvc, data, get, patch_of, update},
    vault_harness::VaultHarness,
};
use serde_json::json;

on_every_engine! {
    VaultHarness;
    it_is_shown_until_the_instant_its_time_ends
    another_process_cannot_open_it
    its_key_dies_with_its_epoch
    a_new_code_has_a_clock_of_its_own
    another_retention_counts_for_new_codes
    null_removes_it
    it_never_shows_under_a_mask
}

const MINUTE: Duration = Duration::from_secs(60);

/// Somebody of that tenant, where codes are kept for so long from now on.
async fn keeping(world: &VaultHarness, tenant: &Arc<Tenant>, retention: &str) -> Caller {
    let mut quotas = tenant.quotas;
    quotas.set("cvc_retention", retention).unwrap();
    let mandate = Mandate::of_operator(Arc::clone(tenant));
    let record = set_tenant_quotas(&world.vault, mandate, Box::new(move |_| quotas)).await.unwrap();
    let tenant = Arc::clone(world.directory().await.tenant(record.id).unwrap());
    world.caller(&tenant, ruled([rule("/", Transform::Reveal, TOKENS)])).await
}

async fn card_of(world: &VaultHarness) -> (Caller, TokenId) {
    let tenant = world.tenant(Settings::default()).await;
    let caller = keeping(world, &tenant, "10m").await;
    let written = create(&world.vault, &caller, card_with_cvc(VISA, "123")).await.unwrap();
    assert_eq!(cvc(&written.token).as_deref(), Some("123"));
    // Apart from the data, even when it is shown.
    assert_eq!(data(&written.token), Some(json!({"number": VISA})));
    (caller, written.token.id)
}

async fn code(world: &VaultHarness, caller: &Caller, id: &TokenId) -> Option<String> {
    let view = get(&world.vault, caller, id).await;
    assert_eq!(data(&view).unwrap()["number"], VISA);
    cvc(&view)
}

async fn it_is_shown_until_the_instant_its_time_ends(world: VaultHarness) {
    let (caller, id) = card_of(&world).await;
    world.clock.advance(10 * MINUTE - Duration::from_millis(1));
    assert_eq!(code(&world, &caller, &id).await.as_deref(), Some("123"));
    world.clock.advance(Duration::from_millis(1));
    assert_eq!(code(&world, &caller, &id).await, None);
    // An update does not prolong it.
    let month = patch_of(json!({"expiration_month": 7}));
    let written = update(&world.vault, &caller, &id, month).await.unwrap();
    assert_eq!(cvc(&written.token), None);
}

async fn another_process_cannot_open_it(world: VaultHarness) {
    let (caller, id) = card_of(&world).await;
    let restarted = world.restarted();
    let view = get(&restarted, &caller, &id).await;
    assert_eq!((cvc(&view), data(&view)), (None, Some(json!({"number": VISA}))));
    assert_eq!(code(&world, &caller, &id).await.as_deref(), Some("123"));
    // The new process takes a new one.
    let patch = patch_of(json!({"cvc": "456"}));
    update(&restarted, &caller, &id, patch).await.unwrap();
    assert_eq!(cvc(&get(&restarted, &caller, &id).await).as_deref(), Some("456"));
}

async fn its_key_dies_with_its_epoch(world: VaultHarness) {
    let (caller, id) = card_of(&world).await;
    let now = world.vault.clock.now();
    world.vault.epochs.destroy_ended(now.unix_ms).unwrap();
    assert_eq!(code(&world, &caller, &id).await.as_deref(), Some("123"));
    // Even were the clock set back: what is destroyed does not come back.
    world.vault.epochs.destroy_ended(now.after(20 * MINUTE).unix_ms).unwrap();
    assert_eq!(code(&world, &caller, &id).await, None);
}

async fn a_new_code_has_a_clock_of_its_own(world: VaultHarness) {
    let (caller, id) = card_of(&world).await;
    world.clock.advance(6 * MINUTE);
    let month = patch_of(json!({"expiration_month": 7}));
    update(&world.vault, &caller, &id, month).await.unwrap();
    assert_eq!(code(&world, &caller, &id).await.as_deref(), Some("123"));
    let written = update(&world.vault, &caller, &id, patch_of(json!({"cvc": "456"}))).await;
    assert_eq!(cvc(&written.unwrap().token).as_deref(), Some("456"));

    world.clock.advance(10 * MINUTE - Duration::from_millis(1));
    assert_eq!(code(&world, &caller, &id).await.as_deref(), Some("456"));
    world.clock.advance(Duration::from_millis(1));
    assert_eq!(code(&world, &caller, &id).await, None);
}

async fn another_retention_counts_for_new_codes(world: VaultHarness) {
    let (caller, id) = card_of(&world).await;
    let tenant = Arc::clone(world.directory().await.tenant(caller.tenant().id).unwrap());
    let shorter = keeping(&world, &tenant, "2m").await;
    let new = create(&world.vault, &shorter, card_with_cvc(VISA, "456")).await.unwrap().token.id;
    world.clock.advance(2 * MINUTE - Duration::from_millis(1));
    assert_eq!(code(&world, &shorter, &new).await.as_deref(), Some("456"));
    world.clock.advance(Duration::from_millis(1));
    assert_eq!(code(&world, &shorter, &new).await, None);
    // The one that was there keeps its end.
    world.clock.advance(8 * MINUTE - Duration::from_millis(1));
    assert_eq!(code(&world, &shorter, &id).await.as_deref(), Some("123"));
    world.clock.advance(Duration::from_millis(1));
    assert_eq!(code(&world, &shorter, &id).await, None);
}

async fn null_removes_it(world: VaultHarness) {
    let (caller, id) = card_of(&world).await;
    let null = patch_of(json!({"cvc": null}));
    let written = update(&world.vault, &caller, &id, null).await.unwrap();
    assert_eq!(cvc(&written.token), None);
    assert_eq!(code(&world, &caller, &id).await, None);
}

async fn it_never_shows_under_a_mask(world: VaultHarness) {
    let tenant = world.tenant(Settings::default()).await;
    let caller = world.caller(&tenant, plain(TOKENS)).await;
    let mut new = card_with_cvc(VISA, "987");
    new.mask = Some(json!({"code": "{{ data.cvc }}", "all": "{{ data | stringify }}"}));
    let written = create(&world.vault, &caller, new).await.unwrap();
    let read = get(&world.vault, &caller, &written.token.id).await;
    let nothing = TokenPatch::default();
    let updated = update(&world.vault, &caller, &read.id, nothing).await.unwrap();
    for view in [written.token, read, updated.token] {
        assert_eq!(cvc(&view), None);
        assert!(!data(&view).unwrap().to_string().contains("987"));
    }
}
