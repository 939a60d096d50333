//! Claims and remembered answers: one effect for each idempotency key, and no data without a token.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use scrip_core::{
    idempotency::{AnswerRecord, AskedAnswer, Claimed, StoredAnswer},
    store::StoreError,
    token::{Deduplicate, Render, TokenRecord},
};
use scrip_seal::{Fingerprint, Sealed};
use scrip_testing::{
    clock::START,
    store_harness::{DAY, Inserted, StoreHarness, UpdateToken, Updated, bare, record, revised},
};

on_every_engine! {
    StoreHarness;
    a_claim_keeps_others_away_until_it_is_dropped
    an_answer_is_found_after_its_effect
    an_answer_is_forgotten_after_a_day
    the_step_sees_every_outcome_worth_remembering
    what_had_no_effect_is_not_remembered
    a_second_effect_under_one_key_is_taken_back
    the_data_goes_with_its_token
    the_data_of_a_duplicate_goes_with_the_token_that_was_found
    an_answer_without_data_outlives_its_token
    forgotten_answers_are_gone
    another_tenant_finds_no_answer
}

const MINUTE: Duration = Duration::from_secs(60);
const KEY: [u8; 32] = [1; 32];

fn remember(answer: AnswerRecord) -> Render {
    Box::new(move |_| Some(answer))
}

#[track_caller]
fn answered(claimed: Claimed) -> StoredAnswer {
    match claimed {
        Claimed::Answered(answer) => answer,
        Claimed::Claim(_) | Claimed::InFlight => panic!("{claimed:?}"),
    }
}

async fn data_of(desk: &StoreHarness, digest: [u8; 32]) -> Option<Sealed> {
    let answer = answered(desk.claim(digest).await);
    assert_eq!(answer.head.as_bytes(), b"head");
    assert!(answer.parts.len() <= 1);
    answer.parts.into_iter().next().map(|it| it.sealed)
}

async fn insert_answered(desk: &StoreHarness, token: TokenRecord, digest: [u8; 32]) -> Inserted {
    desk.insert_answered(bare(token), remember(desk.answer(digest))).await.unwrap()
}

async fn a_claim_keeps_others_away_until_it_is_dropped(desk: StoreHarness) {
    let Claimed::Claim(claim) = desk.claim(KEY).await else { panic!("nobody holds it") };
    assert_eq!(claim.digest.digest, KEY);
    assert!(matches!(desk.claim(KEY).await, Claimed::InFlight));
    assert!(matches!(desk.claim([2; 32]).await, Claimed::Claim(_)));
    drop(claim);
    assert!(matches!(desk.claim(KEY).await, Claimed::Claim(_)));
}

async fn an_answer_is_found_after_its_effect(desk: StoreHarness) {
    let claim = desk.claim(KEY).await;
    assert_eq!(insert_answered(&desk, record("one"), KEY).await, Inserted::New);
    // The first request has not ended yet: whether it was told is unknown.
    assert!(matches!(desk.claim(KEY).await, Claimed::InFlight));
    drop(claim);
    for _ in 0..2 {
        let answer = answered(desk.claim(KEY).await);
        assert_eq!(answer.digest, KEY);
        assert_eq!(answer.head.as_bytes(), b"head");
        assert_eq!(answer.parts[0].sealed.as_bytes(), b"data");
    }
}

async fn an_answer_is_forgotten_after_a_day(desk: StoreHarness) {
    insert_answered(&desk, record("one"), KEY).await;
    desk.advance(DAY - Duration::from_millis(1));
    assert!(data_of(&desk, KEY).await.is_some());
    desk.advance(Duration::from_millis(1));
    let claim = desk.claim(KEY).await;
    assert!(matches!(claim, Claimed::Claim(_)));

    // Nobody swept it away, yet the key can be used again.
    let other = TokenRecord { fingerprint: None, ..record("two") };
    let again = AnswerRecord { head: Sealed::from_stored(b"again".to_vec()), ..desk.answer(KEY) };
    let inserted = desk.insert_answered(bare(other), remember(again)).await.unwrap();
    assert_eq!(inserted, Inserted::New);
    drop(claim);
    assert_eq!(answered(desk.claim(KEY).await).head.as_bytes(), b"again");
    // It belongs to the second token now.
    desk.delete("one", 0).await;
    assert!(answered(desk.claim(KEY).await).parts.len() == 1);
    desk.delete("two", 0).await;
    assert!(answered(desk.claim(KEY).await).parts.is_empty());
}

async fn the_step_sees_every_outcome_worth_remembering(desk: StoreHarness) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let note = |digest: [u8; 32]| {
        let (seen, answer) = (Arc::clone(&seen), desk.answer(digest));
        move |outcome: String| {
            seen.lock().unwrap().push(outcome);
            Some(answer)
        }
    };
    for (digest, id) in [([1; 32], "one"), ([2; 32], "two")] {
        let note = note(digest);
        let render: Render = Box::new(move |it| note(format!("{it:?}")));
        desk.insert_answered(bare(record(id)), render).await.unwrap();
    }
    let other = TokenRecord { fingerprint: Some(Fingerprint([8; 32])), ..record("three") };
    desk.insert(other.clone()).await;
    let same = TokenRecord { fingerprint: record("one").fingerprint, ..revised(&other) };
    for (digest, after) in [([3; 32], same), ([4; 32], revised(&other))] {
        let note = note(digest);
        let render: Render = Box::new(move |it| note(format!("{it:?}")));
        let update = desk.change(after, Deduplicate::Yes);
        desk.update(UpdateToken { render: Some(render), ..update }).await;
    }
    let expected = ["[New", "[Existing", "[Existing", "[Updated"];
    let seen = seen.lock().unwrap().clone();
    assert_eq!(seen.len(), expected.len());
    for (seen, expected) in seen.iter().zip(expected) {
        assert!(seen.starts_with(expected), "{seen}");
    }
    for number in 1..=4 {
        assert!(data_of(&desk, [number; 32]).await.is_some());
    }
}

async fn what_had_no_effect_is_not_remembered(desk: StoreHarness) {
    let none: Render = Box::new(|_| None);
    assert_eq!(desk.insert_answered(bare(record("one")), none).await.unwrap(), Inserted::New);

    let taken = TokenRecord { fingerprint: None, ..record("one") };
    assert_eq!(insert_answered(&desk, taken, [2; 32]).await, Inserted::IdTaken);

    let late = TokenRecord { revision: 9, ..revised(&record("one")) };
    let update = desk.change(late, Deduplicate::No);
    let render = Some(remember(desk.answer([3; 32])));
    assert_eq!(desk.update(UpdateToken { render, ..update }).await, Updated::Stale);

    let none: Render = Box::new(|_| None);
    let update = desk.change(revised(&record("one")), Deduplicate::No);
    assert_eq!(desk.update(UpdateToken { render: Some(none), ..update }).await, Updated::Done);

    for number in 1..=3 {
        let claimed = desk.claim([number; 32]).await;
        assert!(matches!(claimed, Claimed::Claim(_)), "{number}");
    }
}

/// The effect is there if and only if its answer is: they are one transaction.
async fn a_second_effect_under_one_key_is_taken_back(desk: StoreHarness) {
    insert_answered(&desk, record("one"), KEY).await;
    let other = TokenRecord { fingerprint: Some(Fingerprint([8; 32])), ..record("two") };
    let second = desk.insert_answered(bare(other), remember(desk.answer(KEY))).await;
    assert!(matches!(second, Err(StoreError::Answered)), "{second:?}");
    assert_eq!(desk.find("two").await, None);

    let update = desk.change(revised(&record("one")), Deduplicate::No);
    let update = UpdateToken { render: Some(remember(desk.answer(KEY))), ..update };
    let second = desk.update_token(update).await;
    assert!(matches!(second, Err(StoreError::Answered)), "{second:?}");
    assert_eq!(desk.find("one").await, Some(bare(record("one"))));
    assert!(data_of(&desk, KEY).await.is_some());
}

async fn the_data_goes_with_its_token(desk: StoreHarness) {
    let short = TokenRecord { expires_at: Some(START.after(MINUTE)), ..record("short") };
    let other = TokenRecord { fingerprint: None, ..record("other") };
    insert_answered(&desk, short, [1; 32]).await;
    insert_answered(&desk, other.clone(), [2; 32]).await;
    let update = desk.change(revised(&other), Deduplicate::No);
    let update = UpdateToken { render: Some(remember(desk.answer([3; 32]))), ..update };
    desk.update(update).await;

    desk.advance(MINUTE - Duration::from_millis(1));
    assert!(data_of(&desk, [1; 32]).await.is_some());
    desk.advance(Duration::from_millis(1));
    assert!(data_of(&desk, [1; 32]).await.is_none(), "it expired");
    // A new token under its id does not bring it back.
    desk.insert(record("short")).await;
    assert!(data_of(&desk, [1; 32]).await.is_none(), "its id was taken over");

    assert!(data_of(&desk, [2; 32]).await.is_some());
    assert!(data_of(&desk, [3; 32]).await.is_some());
    desk.delete("other", 1).await;
    desk.insert(other).await;
    assert!(data_of(&desk, [2; 32]).await.is_none(), "it was deleted");
    assert!(data_of(&desk, [3; 32]).await.is_none(), "it was deleted");
}

async fn the_data_of_a_duplicate_goes_with_the_token_that_was_found(desk: StoreHarness) {
    let different = TokenRecord { fingerprint: Some(Fingerprint([8; 32])), ..record("third") };
    desk.insert(record("first")).await;
    desk.insert(different.clone()).await;
    insert_answered(&desk, record("second"), [1; 32]).await;
    let same = TokenRecord { fingerprint: record("first").fingerprint, ..revised(&different) };
    let update = desk.change(same, Deduplicate::Yes);
    let update = UpdateToken { render: Some(remember(desk.answer([2; 32]))), ..update };
    assert!(matches!(desk.update(update).await, Updated::Duplicate(_)));

    desk.delete("third", 0).await;
    assert!(data_of(&desk, [1; 32]).await.is_some());
    assert!(data_of(&desk, [2; 32]).await.is_some());
    desk.delete("first", 0).await;
    assert!(data_of(&desk, [1; 32]).await.is_none());
    assert!(data_of(&desk, [2; 32]).await.is_none());
}

async fn an_answer_without_data_outlives_its_token(desk: StoreHarness) {
    let answer = AnswerRecord { parts: vec![], ..desk.answer(KEY) };
    desk.insert_answered(bare(record("one")), remember(answer)).await.unwrap();
    assert_eq!(data_of(&desk, KEY).await, None);
    desk.delete("one", 0).await;
    assert_eq!(data_of(&desk, KEY).await, None);
}

async fn forgotten_answers_are_gone(desk: StoreHarness) {
    insert_answered(&desk, TokenRecord { fingerprint: None, ..record("one") }, [1; 32]).await;
    desk.advance(MINUTE);
    insert_answered(&desk, TokenRecord { fingerprint: None, ..record("two") }, [2; 32]).await;

    let just_before = START.before(Duration::from_millis(1));
    for (before, expected) in [(just_before, 0), (START, 1), (START, 0), (desk.now(), 1)] {
        assert_eq!(desk.store().forget_answers(before).await.unwrap(), expected);
    }
    assert!(matches!(desk.claim([1; 32]).await, Claimed::Claim(_)));
    // What was done stays done.
    assert!(desk.find("one").await.is_some());
}

async fn another_tenant_finds_no_answer(desk: StoreHarness) {
    insert_answered(&desk, record("one"), KEY).await;
    let tenant = desk.stranger.tenant().id;
    let now = desk.now();
    let asked = AskedAnswer { tenant, digest: KEY, now, since: now.before(DAY) };
    let claimed = desk.store().claim_answer(asked).await.unwrap();
    assert!(matches!(claimed, Claimed::Claim(_)));
}
