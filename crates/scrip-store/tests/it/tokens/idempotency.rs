//! Claims and remembered answers: one effect for each idempotency key, and no data without a token.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use scrip_core::{
    idempotency::{ClaimOutcome, IdempotencyLookup, IdempotencyRecord, StoredResponse},
    store::StoreError,
    token::{BuildIdempotencyRecord, Deduplicate, TokenRecord},
};
use scrip_seal::{Fingerprint, Sealed};
use scrip_testing::{
    clock::START,
    store_harness::{
        DAY, InsertOutcome, SingleUpdate, StoreHarness, UpdateOutcome, revised_record,
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

fn build_record(answer: IdempotencyRecord) -> BuildIdempotencyRecord {
    Box::new(move |_| Some(answer))
}

#[track_caller]
fn expect_completed(claimed: ClaimOutcome) -> StoredResponse {
    match claimed {
        ClaimOutcome::Completed(answer) => answer,
        ClaimOutcome::Claimed(_) | ClaimOutcome::InFlight => panic!("{claimed:?}"),
    }
}

async fn find_token_data(harness: &StoreHarness, digest: [u8; 32]) -> Option<Sealed> {
    let answer = expect_completed(harness.claim_digest(digest).await);
    assert_eq!(answer.head.as_bytes(), b"head");
    assert!(answer.token_data.len() <= 1);
    answer.token_data.into_iter().next().map(|it| it.sealed)
}

async fn insert_with_response(
    harness: &StoreHarness,
    token: TokenRecord,
    digest: [u8; 32],
) -> InsertOutcome {
    harness
        .insert_with_record(without_cvc(token), build_record(harness.idempotency_record(digest)))
        .await
        .unwrap()
}

async fn idempotency_claim_is_exclusive_until_dropped(harness: StoreHarness) {
    let ClaimOutcome::Claimed(claim) = harness.claim_digest(KEY).await else {
        panic!("nobody holds it")
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
    // The first request has not ended yet: whether it was told is unknown.
    assert!(matches!(harness.claim_digest(KEY).await, ClaimOutcome::InFlight));
    drop(claim);
    for _ in 0..2 {
        let answer = expect_completed(harness.claim_digest(KEY).await);
        assert_eq!(answer.digest, KEY);
        assert_eq!(answer.head.as_bytes(), b"head");
        assert_eq!(answer.token_data[0].sealed.as_bytes(), b"data");
    }
}

async fn stored_response_is_not_found_after_its_retention(harness: StoreHarness) {
    insert_with_response(&harness, token_record("one"), KEY).await;
    harness.advance(DAY - Duration::from_millis(1));
    assert!(find_token_data(&harness, KEY).await.is_some());
    harness.advance(Duration::from_millis(1));
    let claim = harness.claim_digest(KEY).await;
    assert!(matches!(claim, ClaimOutcome::Claimed(_)));

    // Nobody swept it away, yet the key can be used again.
    let other = TokenRecord { fingerprint: None, ..token_record("two") };
    let again = IdempotencyRecord {
        head: Sealed::from_stored(b"again".to_vec()),
        ..harness.idempotency_record(KEY)
    };
    let inserted =
        harness.insert_with_record(without_cvc(other), build_record(again)).await.unwrap();
    assert_eq!(inserted, InsertOutcome::New);
    drop(claim);
    assert_eq!(expect_completed(harness.claim_digest(KEY).await).head.as_bytes(), b"again");
    // It belongs to the second token now.
    harness.delete("one", 0).await;
    assert!(expect_completed(harness.claim_digest(KEY).await).token_data.len() == 1);
    harness.delete("two", 0).await;
    assert!(expect_completed(harness.claim_digest(KEY).await).token_data.is_empty());
}

async fn idempotency_record_is_built_from_every_successful_outcome(harness: StoreHarness) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let note = |digest: [u8; 32]| {
        let (seen, answer) = (Arc::clone(&seen), harness.idempotency_record(digest));
        move |outcome: String| {
            seen.lock().unwrap().push(outcome);
            Some(answer)
        }
    };
    for (digest, id) in [([1; 32], "one"), ([2; 32], "two")] {
        let note = note(digest);
        let render: BuildIdempotencyRecord = Box::new(move |it| note(format!("{it:?}")));
        harness.insert_with_record(without_cvc(token_record(id)), render).await.unwrap();
    }
    let other = TokenRecord { fingerprint: Some(Fingerprint([8; 32])), ..token_record("three") };
    harness.insert(other.clone()).await;
    let same =
        TokenRecord { fingerprint: token_record("one").fingerprint, ..revised_record(&other) };
    for (digest, after) in [([3; 32], same), ([4; 32], revised_record(&other))] {
        let note = note(digest);
        let render: BuildIdempotencyRecord = Box::new(move |it| note(format!("{it:?}")));
        let update = harness.new_update(after, Deduplicate::Yes);
        harness.update(SingleUpdate { build_record: Some(render), ..update }).await;
    }
    let expected = ["[New", "[Existing", "[Existing", "[Updated"];
    let seen = seen.lock().unwrap().clone();
    assert_eq!(seen.len(), expected.len());
    for (seen, expected) in seen.iter().zip(expected) {
        assert!(seen.starts_with(expected), "{seen}");
    }
    for number in 1..=4 {
        assert!(find_token_data(&harness, [number; 32]).await.is_some());
    }
}

async fn write_without_effect_stores_no_response(harness: StoreHarness) {
    let none: BuildIdempotencyRecord = Box::new(|_| None);
    assert_eq!(
        harness.insert_with_record(without_cvc(token_record("one")), none).await.unwrap(),
        InsertOutcome::New
    );

    let taken = TokenRecord { fingerprint: None, ..token_record("one") };
    assert_eq!(insert_with_response(&harness, taken, [2; 32]).await, InsertOutcome::IdTaken);

    let late = TokenRecord { revision: 9, ..revised_record(&token_record("one")) };
    let update = harness.new_update(late, Deduplicate::No);
    let build_record = Some(build_record(harness.idempotency_record([3; 32])));
    assert_eq!(harness.update(SingleUpdate { build_record, ..update }).await, UpdateOutcome::Stale);

    let none: BuildIdempotencyRecord = Box::new(|_| None);
    let update = harness.new_update(revised_record(&token_record("one")), Deduplicate::No);
    assert_eq!(
        harness.update(SingleUpdate { build_record: Some(none), ..update }).await,
        UpdateOutcome::Done
    );

    for number in 1..=3 {
        let claimed = harness.claim_digest([number; 32]).await;
        assert!(matches!(claimed, ClaimOutcome::Claimed(_)), "{number}");
    }
}

/// The effect is there if and only if its answer is: they are one transaction.
async fn second_write_with_one_idempotency_key_is_rolled_back(harness: StoreHarness) {
    insert_with_response(&harness, token_record("one"), KEY).await;
    let other = TokenRecord { fingerprint: Some(Fingerprint([8; 32])), ..token_record("two") };
    let second = harness
        .insert_with_record(without_cvc(other), build_record(harness.idempotency_record(KEY)))
        .await;
    assert!(matches!(second, Err(StoreError::AlreadyCompleted)), "{second:?}");
    assert_eq!(harness.find("two").await, None);

    let update = harness.new_update(revised_record(&token_record("one")), Deduplicate::No);
    let update = SingleUpdate {
        build_record: Some(build_record(harness.idempotency_record(KEY))),
        ..update
    };
    let second = harness.update_token(update).await;
    assert!(matches!(second, Err(StoreError::AlreadyCompleted)), "{second:?}");
    assert_eq!(harness.find("one").await, Some(without_cvc(token_record("one"))));
    assert!(find_token_data(&harness, KEY).await.is_some());
}

async fn stored_token_data_is_removed_with_its_token(harness: StoreHarness) {
    let short = TokenRecord { expires_at: Some(START.plus(MINUTE)), ..token_record("short") };
    let other = TokenRecord { fingerprint: None, ..token_record("other") };
    insert_with_response(&harness, short, [1; 32]).await;
    insert_with_response(&harness, other.clone(), [2; 32]).await;
    let update = harness.new_update(revised_record(&other), Deduplicate::No);
    let update = SingleUpdate {
        build_record: Some(build_record(harness.idempotency_record([3; 32]))),
        ..update
    };
    harness.update(update).await;

    harness.advance(MINUTE - Duration::from_millis(1));
    assert!(find_token_data(&harness, [1; 32]).await.is_some());
    harness.advance(Duration::from_millis(1));
    assert!(find_token_data(&harness, [1; 32]).await.is_none(), "it expired");
    // A new token under its id does not bring it back.
    harness.insert(token_record("short")).await;
    assert!(find_token_data(&harness, [1; 32]).await.is_none(), "its id was taken over");

    assert!(find_token_data(&harness, [2; 32]).await.is_some());
    assert!(find_token_data(&harness, [3; 32]).await.is_some());
    harness.delete("other", 1).await;
    harness.insert(other).await;
    assert!(find_token_data(&harness, [2; 32]).await.is_none(), "it was deleted");
    assert!(find_token_data(&harness, [3; 32]).await.is_none(), "it was deleted");
}

async fn stored_token_data_of_a_duplicate_is_removed_with_the_existing_token(
    harness: StoreHarness,
) {
    let different =
        TokenRecord { fingerprint: Some(Fingerprint([8; 32])), ..token_record("third") };
    harness.insert(token_record("first")).await;
    harness.insert(different.clone()).await;
    insert_with_response(&harness, token_record("second"), [1; 32]).await;
    let same = TokenRecord {
        fingerprint: token_record("first").fingerprint,
        ..revised_record(&different)
    };
    let update = harness.new_update(same, Deduplicate::Yes);
    let update = SingleUpdate {
        build_record: Some(build_record(harness.idempotency_record([2; 32]))),
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
    let answer = IdempotencyRecord { token_data: vec![], ..harness.idempotency_record(KEY) };
    harness
        .insert_with_record(without_cvc(token_record("one")), build_record(answer))
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

    let just_before = START.minus(Duration::from_millis(1));
    for (before, expected) in [(just_before, 0), (START, 1), (START, 0), (harness.now(), 1)] {
        assert_eq!(harness.store().delete_expired_responses(before).await.unwrap(), expected);
    }
    assert!(matches!(harness.claim_digest([1; 32]).await, ClaimOutcome::Claimed(_)));
    // What was done stays done.
    assert!(harness.find("one").await.is_some());
}

async fn stored_response_of_another_tenant_is_not_found(harness: StoreHarness) {
    insert_with_response(&harness, token_record("one"), KEY).await;
    let tenant = harness.stranger.tenant().id;
    let now = harness.now();
    let asked = IdempotencyLookup { tenant, digest: KEY, now, since: now.minus(DAY) };
    let claimed = harness.store().claim_idempotency_key(asked).await.unwrap();
    assert!(matches!(claimed, ClaimOutcome::Claimed(_)));
}
