//! A rotation of fingerprint keys gives every row new digests, on every engine.

use std::sync::Arc;

use scrip_core::{
    keys::RotatedTable,
    operations::key_rotations::rotate_fingerprints::{
        DigestStep, FINGERPRINT_TABLES, finish_fingerprint_rotation, load_renewed_tenant,
        rotate_digests, start_fingerprint_rotation,
    },
    policy::{PolicyPermit, Tenant},
};
use scrip_testing::{
    requests::{card, card_number, create},
    vault::root_key,
};

use crate::key_rotation::harness::RotationHarness;

on_every_engine! {
    RotationHarness;
    fingerprint_rotation_changes_every_row_and_keeps_deduplication
    interrupted_fingerprint_rotation_is_repeated
    rows_with_new_digests_are_not_changed_again
}

async fn start(harness: &RotationHarness) -> Arc<Tenant> {
    let (vault, root) = (harness.vault(), root_key());
    let permit = PolicyPermit::for_operator(harness.tenant().await);
    start_fingerprint_rotation(vault, permit, &root).await.unwrap();
    let tenant = harness.tenant().await;
    load_renewed_tenant(vault, &tenant, &root).await.unwrap()
}

/// Rotates the rows of a table, two at a time; returns the changed and the unopened rows.
async fn rotate_table(
    harness: &RotationHarness,
    renewed: &Arc<Tenant>,
    table: RotatedTable,
) -> (u64, u64) {
    let (mut changed, mut unopened, mut after) = (0, 0, None);
    loop {
        let step = rotate_digests(harness.vault(), renewed, table, after, 2).await.unwrap();
        let DigestStep { last, .. } = step;
        changed += step.changed;
        unopened += step.unopened;
        match last {
            Some(last) => after = Some(last),
            None => return (changed, unopened),
        }
    }
}

async fn finish(harness: &RotationHarness) {
    let permit = PolicyPermit::for_operator(harness.tenant().await);
    finish_fingerprint_rotation(harness.vault(), permit, &root_key()).await.unwrap();
}

async fn fingerprint_rotation_changes_every_row_and_keeps_deduplication(harness: RotationHarness) {
    let cards = harness.create_cards(0..5).await;
    let intent = harness.create_intent().await;
    let mut before = Vec::new();
    for id in &cards {
        before.push(harness.fingerprint(id).await.unwrap());
    }
    assert!(harness.vault_harness.directory().await.check_servable().is_ok());
    let renewed = start(&harness).await;
    assert!(harness.vault_harness.directory().await.check_servable().is_err());
    let [tokens, intents] = FINGERPRINT_TABLES;
    assert_eq!(rotate_table(&harness, &renewed, tokens).await, (5, 0));
    assert_eq!(rotate_table(&harness, &renewed, intents).await, (1, 0));
    finish(&harness).await;
    assert!(harness.vault_harness.directory().await.check_servable().is_ok());
    harness.check_cards(&cards).await;
    harness.check_intent(intent).await;
    let caller = harness.caller().await;
    for (number, (id, old)) in (0_u64..).zip(cards.iter().zip(before)) {
        let fingerprint = harness.fingerprint(id).await.unwrap();
        assert_ne!(fingerprint, old);
        let again = create(harness.vault(), &caller, card(&card_number(number))).await.unwrap();
        assert_eq!(again.token.fingerprint, Some(fingerprint), "an equal card");
    }
}

async fn interrupted_fingerprint_rotation_is_repeated(harness: RotationHarness) {
    let cards = harness.create_cards(0..5).await;
    let renewed = start(&harness).await;
    let tokens = RotatedTable::Tokens;
    let step = rotate_digests(harness.vault(), &renewed, tokens, None, 2).await.unwrap();
    assert_eq!(step.changed, 2);
    // Rows of both keys are readable.
    harness.check_cards(&cards).await;
    let continued = start(&harness).await;
    assert_eq!(continued.keys.index_digest(b"1"), renewed.keys.index_digest(b"1"), "the same keys");
    assert_eq!(rotate_table(&harness, &continued, tokens).await, (3, 0));
    finish(&harness).await;
    assert_eq!(harness.tenant().await.keys.index_digest(b"1"), renewed.keys.index_digest(b"1"));
    harness.check_cards(&cards).await;
}

async fn rows_with_new_digests_are_not_changed_again(harness: RotationHarness) {
    harness.create_cards(0..3).await;
    let renewed = start(&harness).await;
    let tokens = RotatedTable::Tokens;
    assert_eq!(rotate_table(&harness, &renewed, tokens).await, (3, 0));
    assert_eq!(rotate_table(&harness, &renewed, tokens).await, (0, 0));
    finish(&harness).await;
}
