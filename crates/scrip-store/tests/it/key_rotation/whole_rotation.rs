//! A rotation from its start to the destruction of the old version.

use std::{collections::BTreeSet, time::Duration};

use scrip_core::{
    Error,
    audit::LogKind,
    idempotency::{RenderedResponse, ResponseRecorder},
    keys::{RotatedTable, SealedRow, key_rotation::RotationPhase},
    operations::{
        claim_idempotency_key::{ClaimDecision, RESPONSE_RETENTION, claim_idempotency_key},
        tokens::create_token::create_token,
    },
    token::WrittenToken,
    types::Operation,
};
use scrip_testing::requests::{CREATE_REQUEST, card, card_number, create};

use crate::key_rotation::harness::RotationHarness;

on_every_engine! {
    RotationHarness;
    rotation_seals_every_row_again_and_destroys_the_old_version
    new_version_seals_only_after_its_promotion
    second_start_of_a_rotation_is_rejected
    copy_with_the_old_key_opens_nothing_that_was_sealed_since
    stored_response_keeps_the_old_version_until_it_expires
    old_values_keep_the_old_version
    second_rotation_follows_the_first
}

async fn rotation_seals_every_row_again_and_destroys_the_old_version(harness: RotationHarness) {
    let policy = harness.create_policy().await;
    let cards = harness.create_cards(0..5).await;
    let fingerprint = harness.fingerprint(&cards[0]).await;
    let intent = harness.create_intent().await;
    assert_eq!(harness.start().await.unwrap().to_version, 2);
    harness.promote().await;
    let rotation = harness.reseal_all().await;
    assert_eq!(rotation.progress.unopened, 0);
    assert!(rotation.progress.resealed >= 11, "{:?}", rotation.progress);
    assert_eq!(harness.finish().await, []);
    assert_eq!(harness.tenant().await.keys.versions(), [2]);
    assert!(harness.rotation().await.finished_at.is_some());
    let counts = harness.counts().await;
    let columns: BTreeSet<_> = counts.iter().map(|it| it.column.as_str()).collect();
    for column in [
        "tokens.body",
        "token_intents.body",
        "deliveries.body",
        "proxies.settings",
        "proxies.secrets",
        "webhooks.settings",
        "webhooks.secrets",
        "client_keys.private_key",
    ] {
        assert!(columns.contains(column), "{column} has no row");
    }
    assert!(counts.iter().all(|it| it.version == 2), "{counts:?}");
    harness.check_cards(&cards).await;
    harness.check_intent(intent).await;
    harness.check_policy(&policy).await;
    assert_eq!(harness.open_deliveries(&policy).await, 5);
    // The permanent key stays: equal data has the same fingerprint before and after.
    assert_eq!(harness.fingerprint(&cards[0]).await, fingerprint);
    let again = create(harness.vault(), &harness.caller().await, card(&card_number(0))).await;
    assert_eq!(again.unwrap().token.fingerprint, fingerprint);
    check_audit_records(&harness, rotation.progress.resealed).await;
}

async fn check_audit_records(harness: &RotationHarness, rows: u64) {
    let store = &harness.vault().store;
    let records = store.list_records(LogKind::Audit, harness.id, 0, 100).await.unwrap();
    let names = ["start_key_rotation", "promote_sealing_key", "finish_key_rotation"];
    let found: Vec<_> =
        records.iter().filter(|it| names.contains(&it.operation.as_str())).collect();
    assert_eq!(found.iter().map(|it| it.operation.as_str()).collect::<Vec<_>>(), names);
    assert_eq!(found[2].repeats, Some(i64::try_from(rows).unwrap()));
}

async fn new_version_seals_only_after_its_promotion(harness: RotationHarness) {
    let version_of_new_card = async |number| {
        let ids = harness.create_cards(number..number + 1).await;
        let store = &harness.vault().store;
        let page = store.list_sealed_rows(harness.id, RotatedTable::Tokens, None, 100).await;
        let is_new = |it: &&SealedRow| it.key().to_text() == ids[0].as_str();
        page.unwrap().rows.iter().find(is_new).unwrap().body().key_version().unwrap()
    };
    assert_eq!(version_of_new_card(0).await, 1);
    harness.start().await.unwrap();
    let tenant = harness.tenant().await;
    assert_eq!(RotationPhase::for_tenant(&tenant), RotationPhase::Added);
    assert_eq!((tenant.keys.versions(), tenant.keys.current_version()), (vec![1, 2], 1));
    assert_eq!(version_of_new_card(1).await, 1);
    // A node that has not reloaded yet can be written to by one that has: it opens both.
    let early_caller = harness.caller().await;
    harness.promote().await;
    assert_eq!(RotationPhase::for_tenant(&*harness.tenant().await), RotationPhase::Promoted);
    let id = harness.create_cards(2..3).await.remove(0);
    scrip_testing::requests::get(harness.vault(), &early_caller, &id).await;
    assert_eq!(version_of_new_card(3).await, 2);
}

async fn second_start_of_a_rotation_is_rejected(harness: RotationHarness) {
    harness.start().await.unwrap();
    let outcome = harness.start().await;
    assert!(matches!(outcome, Err(Error::Conflict { .. })), "{outcome:?}");
    harness.promote().await;
    assert!(matches!(harness.start().await, Err(Error::Conflict { .. })));
    assert_eq!(harness.tenant().await.keys.versions(), [1, 2]);
}

/// A copy of the database, the root key before and the old tenant keys open nothing that was written
/// or sealed again since.
async fn copy_with_the_old_key_opens_nothing_that_was_sealed_since(harness: RotationHarness) {
    let policy = harness.create_policy().await;
    harness.create_cards(0..3).await;
    harness.create_intent().await;
    let old_tenant = harness.tenant().await;
    harness.start().await.unwrap();
    harness.promote().await;
    harness.create_cards(3..4).await;
    harness.reseal_all().await;
    for table in RotatedTable::ALL {
        let rows = harness.vault().store.list_sealed_rows(harness.id, table, None, 100).await;
        for row in rows.unwrap().rows {
            let current_keys = &harness.tenant().await.keys;
            assert!(row.reseal(current_keys, harness.id).unwrap().is_none());
            row.reseal(&old_tenant.keys, harness.id).unwrap_err();
        }
    }
    let tenant = harness.tenant().await;
    for webhook in tenant.webhooks.values() {
        let opened = scrip_core::policy::webhook::WebhookDetails::open(
            &old_tenant.keys,
            webhook.as_ref().clone(),
        );
        assert!(opened.is_err());
    }
    harness.check_policy(&policy).await;
}

async fn stored_response_keeps_the_old_version_until_it_expires(harness: RotationHarness) {
    let (vault, caller) = (harness.vault(), harness.caller().await);
    let claimed =
        claim_idempotency_key(vault, &caller, Operation::CreateToken, b"order-7", CREATE_REQUEST);
    let ClaimDecision::Proceed(claim) = claimed.await.unwrap() else { panic!("the key is new") };
    let render =
        |it: &WrittenToken| RenderedResponse::for_token(201, it.token.id.as_str().to_owned());
    let recorder = Some(ResponseRecorder::new(claim, render));
    create_token(vault, &caller, card(&card_number(0)), recorder).await.unwrap();
    harness.rotate_rows().await;
    let old = harness.finish().await;
    assert_eq!(
        old.iter().map(|it| it.column.as_str()).collect::<Vec<_>>(),
        ["idempotency_records.head", "response_token_data.sealed"]
    );
    assert_eq!(harness.tenant().await.keys.versions(), [1, 2]);
    harness.vault_harness.clock.advance(RESPONSE_RETENTION + Duration::from_secs(1));
    let before = harness.vault().clock.now().minus(RESPONSE_RETENTION);
    assert_eq!(harness.vault().store.delete_expired_responses(before).await.unwrap(), 1);
    assert_eq!(harness.finish().await, []);
    assert_eq!(harness.tenant().await.keys.versions(), [2]);
}

async fn old_values_keep_the_old_version(harness: RotationHarness) {
    let cards = harness.create_cards(0..3).await;
    harness.start().await.unwrap();
    harness.promote().await;
    let old = harness.finish().await;
    assert_eq!(old.len(), 1, "{old:?}");
    assert_eq!((old[0].column.as_str(), old[0].version, old[0].rows), ("tokens.body", 1, 3));
    assert_eq!(harness.tenant().await.keys.versions(), [1, 2]);
    harness.check_cards(&cards).await;
}

async fn second_rotation_follows_the_first(harness: RotationHarness) {
    let cards = harness.create_cards(0..3).await;
    for version in [2, 3] {
        assert_eq!(harness.start().await.unwrap().to_version, version);
        harness.promote().await;
        harness.reseal_and_finish().await;
        assert_eq!(harness.tenant().await.keys.versions(), [version]);
        harness.check_cards(&cards).await;
    }
}
