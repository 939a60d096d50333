//! Claims and stored responses: one effect per idempotency key, and no data without a token.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use scrip_core::{
    disclosure::Deduplicate,
    idempotency::{ClaimOutcome, IdempotencyLookup, IdempotencyRecord, StoredResponse},
    token::TokenRecord,
    token_batch::BuildIdempotencyRecord,
    types::StoreError,
};
use scrip_seal::{Fingerprint, Sealed};
use scrip_testing::{
    clock::START,
    store_harness::{
        DAY, DEDUPLICATE, InsertOutcome, SingleUpdate, StoreHarness, UpdateOutcome, revised_record,
        token_record, without_cvc,
    },
};

on_every_engine! {
    StoreHarness;
    idempotency_claim_is_exclusive_until_dropped
    stored_response_is_found_after_its_commit
    stored_response_is_not_found_after_its_retention
    idempotency_record_is_built_from_every_successful_outcome
    write_without_effect_stores_no_response
    second_write_with_one_idempotency_key_is_rolled_back
    stored_token_data_is_removed_with_its_token
    stored_token_data_of_a_duplicate_is_removed_with_the_existing_token
    stored_response_without_token_data_outlives_its_token
    expired_responses_are_deleted
    stored_response_of_another_tenant_is_not_found
}

const MINUTE: Duration = Duration::from_secs(60);
const KEY: [u8; 32] = [1; 32];

fn record_builder(record: IdempotencyRecord) -> BuildIdempotencyRecord {
    Box::new(move |_| Some(record))
}

#[track_caller]
fn expect_completed(outcome: ClaimOutcome) -> StoredResponse {
    match outcome {
        ClaimOutcome::Completed(response) => response,
        ClaimOutcome::Claimed(_) | ClaimOutcome::InFlight => {
            panic!("no response is stored: {outcome:?}")
        }
    }
}

async fn find_token_data(harness: &StoreHarness, digest: [u8; 32]) -> Option<Sealed> {
    let response = expect_completed(harness.claim_digest(digest).await);
    assert_eq!(response.head.as_bytes(), b"head");
    assert!(response.token_data.len() <= 1);
    response.token_data.into_iter().next().map(|it| it.sealed)
}

async fn insert_with_response(
    harness: &StoreHarness,
    token: TokenRecord,
    digest: [u8; 32],
) -> InsertOutcome {
    harness
        .insert_with_record(without_cvc(token), record_builder(harness.idempotency_record(digest)))
        .await
        .unwrap()
}

async fn idempotency_claim_is_exclusive_until_dropped(harness: StoreHarness) {
    let ClaimOutcome::Claimed(claim) = harness.claim_digest(KEY).await else {
        panic!("the key should be free")
    };
    assert_eq!(claim.digests.key, KEY);
    assert!(matches!(harness.claim_digest(KEY).await, ClaimOutcome::InFlight));
    assert!(matches!(harness.claim_digest([2; 32]).await, ClaimOutcome::Claimed(_)));
    drop(claim);
    assert!(matches!(harness.claim_digest(KEY).await, ClaimOutcome::Claimed(_)));
}

async fn stored_response_is_found_after_its_commit(harness: StoreHarness) {
    let claim = harness.claim_digest(KEY).await;
    assert_eq!(insert_with_response(&harness, token_record("one"), KEY).await, InsertOutcome::New);
    // The first request has not ended yet, so its outcome is unknown.
    assert!(matches!(harness.claim_digest(KEY).await, ClaimOutcome::InFlight));
    drop(claim);
    for _ in 0..2 {
        let response = expect_completed(harness.claim_digest(KEY).await);
        assert_eq!(response.digest, KEY);
        assert_eq!(response.head.as_bytes(), b"head");
        assert_eq!(response.token_data[0].sealed.as_bytes(), b"data");
    }
}

async fn stored_response_is_not_found_after_its_retention(harness: StoreHarness) {
    insert_with_response(&harness, token_record("one"), KEY).await;
    harness.advance(DAY - Duration::from_millis(1));
    assert!(find_token_data(&harness, KEY).await.is_some());
    harness.advance(Duration::from_millis(1));
    let claim = harness.claim_digest(KEY).await;
    assert!(matches!(claim, ClaimOutcome::Claimed(_)));

    // The expired record was not deleted, but the key can be used again.
    let second_token = TokenRecord { fingerprint: None, ..token_record("two") };
    let later_record = IdempotencyRecord {
        head: Sealed::from_stored(b"again".to_vec()),
        ..harness.idempotency_record(KEY)
    };
    let outcome = harness
        .insert_with_record(without_cvc(second_token), record_builder(later_record))
        .await
        .unwrap();
    assert_eq!(outcome, InsertOutcome::New);
    drop(claim);
    assert_eq!(expect_completed(harness.claim_digest(KEY).await).head.as_bytes(), b"again");
    // The data belongs to the second token now.
    harness.delete("one", 0).await;
    assert!(expect_completed(harness.claim_digest(KEY).await).token_data.len() == 1);
    harness.delete("two", 0).await;
    assert!(expect_completed(harness.claim_digest(KEY).await).token_data.is_empty());
}

async fn idempotency_record_is_built_from_every_successful_outcome(harness: StoreHarness) {
    let outcomes = Arc::new(Mutex::new(Vec::new()));
    let outcome_recorder = |digest: [u8; 32]| {
        let (outcomes, record) = (Arc::clone(&outcomes), harness.idempotency_record(digest));
        move |outcome: String| {
            outcomes.lock().unwrap().push(outcome);
            Some(record)
        }
    };
    for (digest, id) in [([1; 32], "one"), ([2; 32], "two")] {
        let record_outcome = outcome_recorder(digest);
        let build_record: BuildIdempotencyRecord =
            Box::new(move |it| record_outcome(format!("{it:?}")));
        harness.insert_with_record(without_cvc(token_record(id)), build_record).await.unwrap();
    }
    let third_token =
        TokenRecord { fingerprint: Some(Fingerprint([8; 32])), ..token_record("three") };
    harness.insert(third_token.clone()).await;
    let duplicate = TokenRecord {
        fingerprint: token_record("one").fingerprint,
        ..revised_record(&third_token)
    };
    for (digest, updated) in [([3; 32], duplicate), ([4; 32], revised_record(&third_token))] {
        let record_outcome = outcome_recorder(digest);
        let build_record: BuildIdempotencyRecord =
            Box::new(move |it| record_outcome(format!("{it:?}")));
        let update = harness.new_update(updated, DEDUPLICATE);
        harness.update(SingleUpdate { build_record: Some(build_record), ..update }).await;
    }
    let expected = ["[New", "[Existing", "[Existing", "[Updated"];
    let outcomes = outcomes.lock().unwrap().clone();
    assert_eq!(outcomes.len(), expected.len());
    for (outcome, expected) in outcomes.iter().zip(expected) {
        assert!(outcome.starts_with(expected), "{outcome}");
    }
    for number in 1..=4 {
        assert!(find_token_data(&harness, [number; 32]).await.is_some());
    }
}

async fn write_without_effect_stores_no_response(harness: StoreHarness) {
    let build_no_record: BuildIdempotencyRecord = Box::new(|_| None);
    assert_eq!(
        harness
            .insert_with_record(without_cvc(token_record("one")), build_no_record)
            .await
            .unwrap(),
        InsertOutcome::New
    );

    let token_with_taken_id = TokenRecord { fingerprint: None, ..token_record("one") };
    assert_eq!(
        insert_with_response(&harness, token_with_taken_id, [2; 32]).await,
        InsertOutcome::IdTaken
    );

    let stale = TokenRecord { revision: 9, ..revised_record(&token_record("one")) };
    let update = harness.new_update(stale, Deduplicate::No);
    let build_record = Some(record_builder(harness.idempotency_record([3; 32])));
    assert_eq!(harness.update(SingleUpdate { build_record, ..update }).await, UpdateOutcome::Stale);

    let build_no_record: BuildIdempotencyRecord = Box::new(|_| None);
    let update = harness.new_update(revised_record(&token_record("one")), Deduplicate::No);
    assert_eq!(
        harness.update(SingleUpdate { build_record: Some(build_no_record), ..update }).await,
        UpdateOutcome::Done
    );

    for number in 1..=3 {
        let outcome = harness.claim_digest([number; 32]).await;
        assert!(matches!(outcome, ClaimOutcome::Claimed(_)), "key {number}");
    }
}

/// The effect and the stored response are written in one transaction.
async fn second_write_with_one_idempotency_key_is_rolled_back(harness: StoreHarness) {
    insert_with_response(&harness, token_record("one"), KEY).await;
    let second_token =
        TokenRecord { fingerprint: Some(Fingerprint([8; 32])), ..token_record("two") };
    let outcome = harness
        .insert_with_record(
            without_cvc(second_token),
            record_builder(harness.idempotency_record(KEY)),
        )
        .await;
    assert!(matches!(outcome, Err(StoreError::AlreadyCompleted)), "{outcome:?}");
    assert_eq!(harness.find("two").await, None);

    let update = harness.new_update(revised_record(&token_record("one")), Deduplicate::No);
    let update = SingleUpdate {
        build_record: Some(record_builder(harness.idempotency_record(KEY))),
        ..update
    };
    let outcome = harness.update_token(update).await;
    assert!(matches!(outcome, Err(StoreError::AlreadyCompleted)), "{outcome:?}");
    assert_eq!(harness.find("one").await, Some(without_cvc(token_record("one"))));
    assert!(find_token_data(&harness, KEY).await.is_some());
}

async fn stored_token_data_is_removed_with_its_token(harness: StoreHarness) {
    let expiring = TokenRecord { expires_at: Some(START.plus(MINUTE)), ..token_record("short") };
    let other_token = TokenRecord { fingerprint: None, ..token_record("other") };
    insert_with_response(&harness, expiring, [1; 32]).await;
    insert_with_response(&harness, other_token.clone(), [2; 32]).await;
    let update = harness.new_update(revised_record(&other_token), Deduplicate::No);
    let update = SingleUpdate {
        build_record: Some(record_builder(harness.idempotency_record([3; 32]))),
        ..update
    };
    harness.update(update).await;

    harness.advance(MINUTE - Duration::from_millis(1));
    assert!(find_token_data(&harness, [1; 32]).await.is_some());
    harness.advance(Duration::from_millis(1));
    assert!(find_token_data(&harness, [1; 32]).await.is_none(), "the token expired");
    // A new token with the same id does not restore the data.
    harness.insert(token_record("short")).await;
    assert!(find_token_data(&harness, [1; 32]).await.is_none(), "another token has the id");

    assert!(find_token_data(&harness, [2; 32]).await.is_some());
    assert!(find_token_data(&harness, [3; 32]).await.is_some());
    harness.delete("other", 1).await;
    harness.insert(other_token).await;
    assert!(find_token_data(&harness, [2; 32]).await.is_none(), "the token was deleted");
    assert!(find_token_data(&harness, [3; 32]).await.is_none(), "the token was deleted");
}

async fn stored_token_data_of_a_duplicate_is_removed_with_the_existing_token(
    harness: StoreHarness,
) {
    let different =
        TokenRecord { fingerprint: Some(Fingerprint([8; 32])), ..token_record("third") };
    harness.insert(token_record("first")).await;
    harness.insert(different.clone()).await;
    insert_with_response(&harness, token_record("second"), [1; 32]).await;
    let duplicate = TokenRecord {
        fingerprint: token_record("first").fingerprint,
        ..revised_record(&different)
    };
    let update = harness.new_update(duplicate, DEDUPLICATE);
    let update = SingleUpdate {
        build_record: Some(record_builder(harness.idempotency_record([2; 32]))),
        ..update
    };
    assert!(matches!(harness.update(update).await, UpdateOutcome::Duplicate(_)));

    harness.delete("third", 0).await;
    assert!(find_token_data(&harness, [1; 32]).await.is_some());
    assert!(find_token_data(&harness, [2; 32]).await.is_some());
    harness.delete("first", 0).await;
    assert!(find_token_data(&harness, [1; 32]).await.is_none());
    assert!(find_token_data(&harness, [2; 32]).await.is_none());
}

async fn stored_response_without_token_data_outlives_its_token(harness: StoreHarness) {
    let record = IdempotencyRecord { token_data: vec![], ..harness.idempotency_record(KEY) };
    harness
        .insert_with_record(without_cvc(token_record("one")), record_builder(record))
        .await
        .unwrap();
    assert_eq!(find_token_data(&harness, KEY).await, None);
    harness.delete("one", 0).await;
    assert_eq!(find_token_data(&harness, KEY).await, None);
}

async fn expired_responses_are_deleted(harness: StoreHarness) {
    insert_with_response(
        &harness,
        TokenRecord { fingerprint: None, ..token_record("one") },
        [1; 32],
    )
    .await;
    harness.advance(MINUTE);
    insert_with_response(
        &harness,
        TokenRecord { fingerprint: None, ..token_record("two") },
        [2; 32],
    )
    .await;

    let before_start = START.minus(Duration::from_millis(1));
    for (cutoff, expected) in [(before_start, 0), (START, 1), (START, 0), (harness.now(), 1)] {
        assert_eq!(harness.store().delete_expired_responses(cutoff).await.unwrap(), expected);
    }
    assert!(matches!(harness.claim_digest([1; 32]).await, ClaimOutcome::Claimed(_)));
    // The effect stays.
    assert!(harness.find("one").await.is_some());
}

async fn stored_response_of_another_tenant_is_not_found(harness: StoreHarness) {
    insert_with_response(&harness, token_record("one"), KEY).await;
    let tenant = harness.stranger.tenant().id;
    let now = harness.now();
    let lookup = IdempotencyLookup { tenant, digest: KEY, now, since: now.minus(DAY) };
    let outcome = harness.store().claim_idempotency_key(lookup).await.unwrap();
    assert!(matches!(outcome, ClaimOutcome::Claimed(_)));
}
