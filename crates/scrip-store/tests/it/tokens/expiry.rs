//! Deletion of expired rows: exactly the expired rows are deleted, with one audit record for each
//! token.

use std::time::Duration;

use scrip_core::{
    audit::SignedWatermark,
    disclosure::Deduplicate,
    idempotency::ClaimOutcome,
    token::{StoredToken, TokenRecord},
    token_batch::CvcChange,
    types::time::ClockWatermark,
};
use scrip_testing::{
    clock::START,
    store_harness::{
        InsertOutcome, SingleUpdate, StoreHarness, cvc_record, revised_record, token_record,
        without_cvc,
    },
};

on_every_engine! {
    StoreHarness;
    expired_tokens_are_deleted_with_an_audit_record_each
    token_is_not_deleted_before_its_expiry
    replaced_expired_token_leaves_an_audit_record
    deleting_an_expired_token_removes_its_data_from_stored_responses
    expired_tokens_are_deleted_by_their_changed_expiry
    expired_cvcs_are_erased_and_their_cards_stay
    replaced_cvc_is_erased_at_its_own_expiry
    clock_watermark_is_the_last_saved
}

const MINUTE: Duration = Duration::from_secs(60);
const MILLISECOND: Duration = Duration::from_millis(1);

fn token_expiring_after(id: &str, lifetime: Duration) -> TokenRecord {
    TokenRecord { expires_at: Some(START.plus(lifetime)), fingerprint: None, ..token_record(id) }
}

async fn expired_tokens_are_deleted_with_an_audit_record_each(harness: StoreHarness) {
    // More tokens than one step deletes, in random order of expiry, mixed with tokens that stay.
    for number in 0..100_u32 {
        harness
            .insert(token_expiring_after(
                &format!("short-{number}"),
                MINUTE + MILLISECOND * (number * 37 % 100),
            ))
            .await;
        harness.insert(token_expiring_after(&format!("long-{number}"), 3 * MINUTE)).await;
        harness
            .insert(TokenRecord { fingerprint: None, ..token_record(&format!("ever-{number}")) })
            .await;
    }
    let [_, _, record_count] = harness.row_counts().await;
    harness.advance(2 * MINUTE);
    assert_eq!(harness.delete_expired_tokens(harness.now()).await, 100);
    assert_eq!(harness.row_counts().await, [200, 0, record_count + 100]);
    assert!(harness.find("long-7").await.is_some() && harness.find("ever-7").await.is_some());
    assert_eq!(harness.delete_expired_tokens(harness.now()).await, 0);
    assert_eq!(harness.row_counts().await, [200, 0, record_count + 100]);
}

async fn token_is_not_deleted_before_its_expiry(harness: StoreHarness) {
    harness.insert(token_expiring_after("one", MINUTE)).await;
    assert_eq!(harness.delete_expired_tokens(START.plus(MINUTE - MILLISECOND)).await, 0);
    assert!(harness.find("one").await.is_some());
    assert_eq!(harness.delete_expired_tokens(START.plus(MINUTE)).await, 1);
    assert_eq!(harness.find("one").await, None);
}

async fn replaced_expired_token_leaves_an_audit_record(harness: StoreHarness) {
    harness.insert(token_expiring_after("one", MINUTE)).await;
    harness.advance(MINUTE);
    let [_, _, record_count] = harness.row_counts().await;
    assert_eq!(harness.insert(token_record("one")).await, InsertOutcome::New);
    // One record for the expiry and one for the creation.
    assert_eq!(harness.row_counts().await, [1, 0, record_count + 2]);
    assert_eq!(harness.delete_expired_tokens(harness.now()).await, 0);
}

async fn deleting_an_expired_token_removes_its_data_from_stored_responses(harness: StoreHarness) {
    let response = harness.idempotency_record([1; 32]);
    let insert = harness.insert_with_record(
        without_cvc(token_expiring_after("one", MINUTE)),
        Box::new(|_| Some(response)),
    );
    assert_eq!(insert.await.unwrap(), InsertOutcome::New);
    harness.delete_expired_tokens(START.plus(MINUTE)).await;
    // The record is found, because its retention has not ended by the clock of the harness.
    let ClaimOutcome::Completed(response) = harness.claim_digest([1; 32]).await else {
        panic!("expected a stored response")
    };
    assert_eq!((response.head.as_bytes(), response.token_data.len()), (b"head".as_slice(), 0));
}

async fn expired_tokens_are_deleted_by_their_changed_expiry(harness: StoreHarness) {
    harness.insert(token_expiring_after("one", MINUTE)).await;
    for expires_at in [None, Some(START.plus(3 * MINUTE))] {
        let stored = harness.find("one").await.unwrap().record;
        let updated = TokenRecord { expires_at, ..revised_record(&stored) };
        harness.revise(updated).await;
        assert_eq!(harness.delete_expired_tokens(START.plus(2 * MINUTE)).await, 0);
    }
    assert_eq!(harness.delete_expired_tokens(START.plus(3 * MINUTE)).await, 1);
}

async fn insert_with_cvc(harness: &StoreHarness, id: &str) {
    let token = StoredToken {
        record: TokenRecord { fingerprint: None, ..token_record(id) },
        cvc: Some(cvc_record("123")),
    };
    let insert = harness.new_insert(token, Deduplicate::No);
    harness.insert_token(insert).await.unwrap();
}

async fn expired_cvcs_are_erased_and_their_cards_stay(harness: StoreHarness) {
    for number in 0..300 {
        insert_with_cvc(&harness, &format!("card-{number}")).await;
    }
    assert_eq!(harness.erase_expired_cvcs(START.plus(MINUTE - MILLISECOND)).await, 0);
    let [_, _, record_count] = harness.row_counts().await;
    assert_eq!(harness.erase_expired_cvcs(START.plus(MINUTE)).await, 300);
    assert_eq!(harness.row_counts().await, [300, 0, record_count]);
    assert_eq!(harness.find("card-0").await.unwrap().cvc, None);
}

async fn replaced_cvc_is_erased_at_its_own_expiry(harness: StoreHarness) {
    insert_with_cvc(&harness, "one").await;
    let mut later_cvc = cvc_record("456");
    later_cvc.expires_at = START.plus(5 * MINUTE);
    let stored = harness.find("one").await.unwrap().record;
    let update = harness.new_update(revised_record(&stored), Deduplicate::No);
    harness.update(SingleUpdate { cvc: CvcChange::Replace(later_cvc.clone()), ..update }).await;
    assert_eq!(harness.erase_expired_cvcs(START.plus(4 * MINUTE)).await, 0);
    assert_eq!(harness.find("one").await.unwrap().cvc, Some(later_cvc));
    assert_eq!(harness.erase_expired_cvcs(START.plus(5 * MINUTE)).await, 1);
}

async fn clock_watermark_is_the_last_saved(harness: StoreHarness) {
    let store = harness.store();
    for minutes in [5, 9, 3] {
        let watermark =
            ClockWatermark { now: START.plus(minutes * MINUTE), earliest: START.plus(MILLISECOND) };
        let signed =
            SignedWatermark::new(harness.vault_harness.vault.audit_trail.key().unwrap(), watermark);
        store.save_watermark(signed).await.unwrap();
        assert_eq!(store.load_watermark().await.unwrap(), Some(signed));
    }
}
