//! What leaves because its time is over: all of that, nothing else, and each with one record.

use std::time::Duration;

use scrip_core::{
    audit::SignedWatermark,
    idempotency::ClaimOutcome,
    time::ClockWatermark,
    token::{CvcChange, Deduplicate, StoredToken, TokenRecord},
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
    expired_tokens_are_swept_with_an_audit_record_each
    token_is_not_swept_before_its_expiry
    replaced_expired_token_leaves_an_audit_record
    sweeping_a_token_removes_its_data_from_stored_responses
    changed_expiry_of_a_token_is_respected_by_the_sweep
    expired_cvcs_are_swept_and_their_cards_stay
    replaced_cvc_is_swept_at_its_own_expiry
    clock_watermark_is_the_last_saved
}

const MINUTE: Duration = Duration::from_secs(60);
const MOMENT: Duration = Duration::from_millis(1);

fn token_expiring_after(id: &str, by: Duration) -> TokenRecord {
    TokenRecord { expires_at: Some(START.plus(by)), fingerprint: None, ..token_record(id) }
}

async fn expired_tokens_are_swept_with_an_audit_record_each(harness: StoreHarness) {
    // More than one step takes, in no order, among others that stay.
    for at in 0..100_u32 {
        harness
            .insert(token_expiring_after(&format!("short-{at}"), MINUTE + MOMENT * (at * 37 % 100)))
            .await;
        harness.insert(token_expiring_after(&format!("long-{at}"), 3 * MINUTE)).await;
        harness
            .insert(TokenRecord { fingerprint: None, ..token_record(&format!("ever-{at}")) })
            .await;
    }
    let [_, _, records] = harness.row_counts().await;
    harness.advance(2 * MINUTE);
    assert_eq!(harness.delete_expired_tokens(harness.now()).await, 100);
    assert_eq!(harness.row_counts().await, [200, 0, records + 100]);
    assert!(harness.find("long-7").await.is_some() && harness.find("ever-7").await.is_some());
    assert_eq!(harness.delete_expired_tokens(harness.now()).await, 0);
    assert_eq!(harness.row_counts().await, [200, 0, records + 100]);
}

async fn token_is_not_swept_before_its_expiry(harness: StoreHarness) {
    harness.insert(token_expiring_after("one", MINUTE)).await;
    assert_eq!(harness.delete_expired_tokens(START.plus(MINUTE - MOMENT)).await, 0);
    assert!(harness.find("one").await.is_some());
    assert_eq!(harness.delete_expired_tokens(START.plus(MINUTE)).await, 1);
    assert_eq!(harness.find("one").await, None);
}

async fn replaced_expired_token_leaves_an_audit_record(harness: StoreHarness) {
    harness.insert(token_expiring_after("one", MINUTE)).await;
    harness.advance(MINUTE);
    let [_, _, records] = harness.row_counts().await;
    assert_eq!(harness.insert(token_record("one")).await, InsertOutcome::New);
    // That it was expired, and that one was created.
    assert_eq!(harness.row_counts().await, [1, 0, records + 2]);
    assert_eq!(harness.delete_expired_tokens(harness.now()).await, 0);
}

async fn sweeping_a_token_removes_its_data_from_stored_responses(harness: StoreHarness) {
    let answer = harness.idempotency_record([1; 32]);
    let inserted = harness.insert_with_record(
        without_cvc(token_expiring_after("one", MINUTE)),
        Box::new(|_| Some(answer)),
    );
    assert_eq!(inserted.await.unwrap(), InsertOutcome::New);
    harness.delete_expired_tokens(START.plus(MINUTE)).await;
    // Not only because it has expired: by this clock it has not.
    let ClaimOutcome::Completed(answer) = harness.claim_digest([1; 32]).await else {
        panic!("it is answered")
    };
    assert_eq!((answer.head.as_bytes(), answer.token_data.len()), (b"head".as_slice(), 0));
}

async fn changed_expiry_of_a_token_is_respected_by_the_sweep(harness: StoreHarness) {
    harness.insert(token_expiring_after("one", MINUTE)).await;
    for expires_at in [None, Some(START.plus(3 * MINUTE))] {
        let before = harness.find("one").await.unwrap().record;
        let after = TokenRecord { expires_at, ..revised_record(&before) };
        harness.update(harness.new_update(after, Deduplicate::No)).await;
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

async fn expired_cvcs_are_swept_and_their_cards_stay(harness: StoreHarness) {
    for at in 0..300 {
        insert_with_cvc(&harness, &format!("card-{at}")).await;
    }
    assert_eq!(harness.erase_expired_cvcs(START.plus(MINUTE - MOMENT)).await, 0);
    let [_, _, records] = harness.row_counts().await;
    assert_eq!(harness.erase_expired_cvcs(START.plus(MINUTE)).await, 300);
    assert_eq!(harness.row_counts().await, [300, 0, records]);
    assert_eq!(harness.find("card-0").await.unwrap().cvc, None);
}

async fn replaced_cvc_is_swept_at_its_own_expiry(harness: StoreHarness) {
    insert_with_cvc(&harness, "one").await;
    let mut later = cvc_record("456");
    later.expires_at = START.plus(5 * MINUTE);
    let before = harness.find("one").await.unwrap().record;
    let change = harness.new_update(revised_record(&before), Deduplicate::No);
    harness.update(SingleUpdate { cvc: CvcChange::Replace(later.clone()), ..change }).await;
    assert_eq!(harness.erase_expired_cvcs(START.plus(4 * MINUTE)).await, 0);
    assert_eq!(harness.find("one").await.unwrap().cvc, Some(later));
    assert_eq!(harness.erase_expired_cvcs(START.plus(5 * MINUTE)).await, 1);
}

async fn clock_watermark_is_the_last_saved(harness: StoreHarness) {
    let store = harness.store();
    for noted in [5, 9, 3] {
        let time = ClockWatermark { now: START.plus(noted * MINUTE), earliest: START.plus(MOMENT) };
        let noted =
            SignedWatermark::new(harness.vault_harness.vault.audit_trail.key().unwrap(), time);
        store.save_watermark(noted).await.unwrap();
        assert_eq!(store.load_watermark().await.unwrap(), Some(noted));
    }
}
