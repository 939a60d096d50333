//! A batch happens as a whole or not at all, and says what stood in its way.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use scrip_core::{
    audit::Operation,
    idempotency::{AnswerPart, AnswerRecord, Claimed, StoredAnswer},
    policy::Permission,
    store::StoreError,
    token::{
        Batched, CvcChange, Deduplicate, InsertToken, Obstacle, Outcome, Render, StoredToken,
        TokenBatch, TokenRecord, TokenWrite, UpdateToken,
    },
};
use scrip_seal::{Fingerprint, Sealed};
use scrip_testing::{
    store_harness::{StoreHarness, bare, code, record, revised},
    vault_harness::{containers, token_id},
};

on_every_engine! {
    StoreHarness;
    all_of_them_are_written
    an_empty_batch_can_be_answered
    nothing_is_written_when_one_is_refused
    all_that_stands_in_the_way_is_told_at_once
    one_id_is_given_once
    a_later_one_finds_what_an_earlier_one_made
    an_insert_and_an_update_are_one_effect
    a_duplicate_that_is_told_of_changes_nothing
    a_batch_is_of_one_tenant
    each_part_goes_with_its_own_token
    parts_of_one_token_go_together
    a_forgotten_answer_takes_its_parts_along
    an_answer_that_shows_what_was_not_written_is_refused
    tokens_are_found_where_their_ids_stand
}

const KEY: [u8; 32] = [1; 32];

/// Without a fingerprint, so that no two are the same.
fn unlike(id: &str) -> TokenRecord {
    TokenRecord { fingerprint: None, ..record(id) }
}

fn insert(desk: &StoreHarness, token: TokenRecord, deduplicate: Deduplicate) -> TokenWrite {
    TokenWrite::Insert(InsertToken {
        intent: None,
        permit: desk.permit(Permission::TokenCreate),
        token: StoredToken { cvc: Some(code("123")), ..bare(token) },
        deduplicate,
        audit: desk.audit(Operation::Tokenize),
    })
}

fn update(desk: &StoreHarness, token: TokenRecord) -> TokenWrite {
    TokenWrite::Update(UpdateToken {
        intent: None,
        permit: desk.permit(Permission::TokenUpdate),
        token,
        cvc: CvcChange::Remove,
        deduplicate: Deduplicate::No,
        unless_named: None,
        audit: desk.audit(Operation::Tokenize),
    })
}

async fn write(desk: &StoreHarness, writes: Vec<TokenWrite>) -> Batched {
    let batch = TokenBatch { writes, render: None };
    desk.store().write_tokens(desk.inquiry(), batch).await.unwrap()
}

async fn write_answered(
    desk: &StoreHarness,
    writes: Vec<TokenWrite>,
    answer: AnswerRecord,
) -> Result<Batched, StoreError> {
    let render: Render = Box::new(move |_| Some(answer));
    let batch = TokenBatch { writes, render: Some(render) };
    desk.store().write_tokens(desk.inquiry(), batch).await
}

/// An answer that shows each of these.
fn showing(desk: &StoreHarness, parts: &[usize]) -> AnswerRecord {
    let part =
        |at: &usize| AnswerPart { at: *at, sealed: Sealed::from_stored(at.to_string().into()) };
    AnswerRecord { parts: parts.iter().map(part).collect(), ..desk.answer(KEY) }
}

#[track_caller]
fn answered(claimed: Claimed) -> StoredAnswer {
    match claimed {
        Claimed::Answered(answer) => answer,
        Claimed::Claim(_) | Claimed::InFlight => panic!("{claimed:?}"),
    }
}

/// Which parts are left, and of which tokens.
async fn parts(desk: &StoreHarness) -> Vec<(usize, String)> {
    let answer = answered(desk.claim(KEY).await);
    for part in &answer.parts {
        assert_eq!(part.sealed.as_bytes(), part.at.to_string().as_bytes());
        assert_eq!(part.containers, record("any").containers);
    }
    answer.parts.into_iter().map(|it| (it.at, it.token.as_str().to_owned())).collect()
}

async fn all_of_them_are_written(desk: StoreHarness) {
    desk.insert(unlike("old")).await;
    let writes = vec![
        insert(&desk, unlike("one"), Deduplicate::No),
        update(&desk, revised(&unlike("old"))),
        insert(&desk, unlike("two"), Deduplicate::Yes),
    ];
    let expected = vec![Outcome::New, Outcome::Updated, Outcome::New];
    assert_eq!(write(&desk, writes).await, Batched::Written(expected));
    for id in ["one", "two"] {
        let expected = StoredToken { cvc: Some(code("123")), ..bare(unlike(id)) };
        assert_eq!(desk.find(id).await, Some(expected));
    }
    assert_eq!(desk.find("old").await, Some(bare(revised(&unlike("old")))));
}

async fn an_empty_batch_can_be_answered(desk: StoreHarness) {
    let batched = write_answered(&desk, vec![], showing(&desk, &[])).await.unwrap();
    assert_eq!(batched, Batched::Written(vec![]));
    assert_eq!(parts(&desk).await, vec![]);
}

/// At each place, for each reason.
async fn nothing_is_written_when_one_is_refused(desk: StoreHarness) {
    desk.insert(record("taken")).await;
    let rendered = Arc::new(AtomicUsize::new(0));
    for refused in 0..4 {
        for reason in 0..4 {
            let writes = (0..4).map(|at| match (at == refused, reason) {
                (false, _) => insert(&desk, unlike(&format!("id-{at}")), Deduplicate::No),
                (true, 0) => insert(&desk, unlike("taken"), Deduplicate::No),
                (true, 1) => insert(&desk, record("same"), Deduplicate::Tell),
                (true, 2) => update(&desk, TokenRecord { revision: 7, ..record("taken") }),
                (true, _) => update(&desk, revised(&record("absent"))),
            });
            let (count, answer) = (Arc::clone(&rendered), showing(&desk, &[0, 1, 2, 3]));
            let render: Render = Box::new(move |_| {
                count.fetch_add(1, Ordering::SeqCst);
                Some(answer)
            });
            let batch = TokenBatch { writes: writes.collect(), render: Some(render) };
            let batched = desk.store().write_tokens(desk.inquiry(), batch).await.unwrap();
            let obstacle = match reason {
                0 => Obstacle::IdTaken,
                1 => Obstacle::Duplicate(Box::new(bare(record("taken")))),
                _ => Obstacle::Stale,
            };
            assert_eq!(batched, Batched::Refused(vec![(refused, obstacle)]));
            for at in 0..4 {
                assert_eq!(desk.find(&format!("id-{at}")).await, None, "{refused} {reason} {at}");
            }
        }
    }
    assert_eq!(rendered.load(Ordering::SeqCst), 0, "there was nothing to answer");
    assert!(matches!(desk.claim(KEY).await, Claimed::Claim(_)));
    assert_eq!(desk.find("taken").await, Some(bare(record("taken"))));
}

async fn all_that_stands_in_the_way_is_told_at_once(desk: StoreHarness) {
    desk.insert(record("taken")).await;
    let writes = vec![
        insert(&desk, unlike("taken"), Deduplicate::No),
        insert(&desk, unlike("free"), Deduplicate::No),
        insert(&desk, record("other"), Deduplicate::Tell),
        update(&desk, revised(&record("absent"))),
    ];
    let found = Obstacle::Duplicate(Box::new(bare(record("taken"))));
    let expected = vec![(0, Obstacle::IdTaken), (2, found), (3, Obstacle::Stale)];
    assert_eq!(write(&desk, writes).await, Batched::Refused(expected));
    assert_eq!(desk.find("free").await, None);
}

async fn one_id_is_given_once(desk: StoreHarness) {
    let insert = |id| insert(&desk, unlike(id), Deduplicate::No);
    let batched = write(&desk, vec![insert("one"), insert("two"), insert("one")]).await;
    assert_eq!(batched, Batched::Refused(vec![(2, Obstacle::IdTaken)]));
    assert_eq!((desk.find("one").await, desk.find("two").await), (None, None));
}

async fn a_later_one_finds_what_an_earlier_one_made(desk: StoreHarness) {
    let first = || StoredToken { cvc: Some(code("123")), ..bare(record("first")) };
    let twice = |second| {
        vec![
            insert(&desk, record("first"), Deduplicate::Yes),
            insert(&desk, record("second"), second),
        ]
    };
    let told = Obstacle::Duplicate(Box::new(first()));
    let batched = write(&desk, twice(Deduplicate::Tell)).await;
    assert_eq!(batched, Batched::Refused(vec![(1, told)]));
    let existing = Outcome::Existing(Box::new(first()));
    let batched = write(&desk, twice(Deduplicate::Yes)).await;
    assert_eq!(batched, Batched::Written(vec![Outcome::New, existing]));
    assert_eq!(desk.find("second").await, None);
}

async fn an_insert_and_an_update_are_one_effect(desk: StoreHarness) {
    desk.insert(record("first")).await;
    let after =
        TokenRecord { fingerprint: Some(Fingerprint([8; 32])), ..revised(&record("first")) };
    // What it was is no duplicate any more, what it became is one.
    let same = TokenRecord { fingerprint: after.fingerprint, ..record("third") };
    let writes = vec![
        update(&desk, after.clone()),
        insert(&desk, record("second"), Deduplicate::Yes),
        insert(&desk, same, Deduplicate::Yes),
        update(&desk, TokenRecord { revision: 2, ..after.clone() }),
    ];
    let existing = Outcome::Existing(Box::new(bare(after)));
    let expected = vec![Outcome::Updated, Outcome::New, existing, Outcome::Updated];
    assert_eq!(write(&desk, writes).await, Batched::Written(expected));
    assert_eq!(desk.find("first").await.unwrap().record.revision, 2);
}

async fn a_duplicate_that_is_told_of_changes_nothing(desk: StoreHarness) {
    desk.insert(record("first")).await;
    let other = unlike("second");
    desk.insert(other.clone()).await;
    let same = TokenRecord { fingerprint: record("first").fingerprint, ..revised(&other) };
    let mut write_ = update(&desk, same);
    let TokenWrite::Update(it) = &mut write_ else { panic!("it is an update") };
    it.deduplicate = Deduplicate::Tell;
    let told = Obstacle::Duplicate(Box::new(bare(record("first"))));
    assert_eq!(write(&desk, vec![write_]).await, Batched::Refused(vec![(0, told)]));
    assert_eq!(desk.find("second").await, Some(bare(other)));
}

async fn a_batch_is_of_one_tenant(desk: StoreHarness) {
    let ours = insert(&desk, unlike("ours"), Deduplicate::No);
    let inquiry = desk.inquiry();
    let theirs = desk.stranger.permit(Permission::TokenCreate, &containers(&["/"])).unwrap();
    let mut other = insert(&desk, unlike("theirs"), Deduplicate::No);
    let TokenWrite::Insert(it) = &mut other else { panic!("it is an insert") };
    it.permit = theirs;
    let batch = TokenBatch { writes: vec![ours, other], render: None };
    let batched = desk.store().write_tokens(inquiry, batch).await;
    assert!(matches!(batched, Err(StoreError::Corrupt(_))), "{batched:?}");
    assert_eq!((desk.find("ours").await, desk.find("theirs").await), (None, None));
    let desk = desk.turned();
    assert_eq!((desk.find("ours").await, desk.find("theirs").await), (None, None));
}

async fn each_part_goes_with_its_own_token(desk: StoreHarness) {
    desk.insert(record("old")).await;
    let writes = vec![
        insert(&desk, unlike("one"), Deduplicate::No),
        insert(&desk, unlike("two"), Deduplicate::No),
        insert(&desk, record("three"), Deduplicate::Yes),
        insert(&desk, unlike("four"), Deduplicate::No),
    ];
    // Of the second nothing is shown.
    write_answered(&desk, writes, showing(&desk, &[0, 2, 3])).await.unwrap();
    let named = |left: &[(usize, &str)]| -> Vec<_> {
        left.iter().map(|(at, id)| (*at, (*id).to_owned())).collect()
    };
    assert_eq!(parts(&desk).await, named(&[(0, "one"), (2, "old"), (3, "four")]));
    desk.delete("two", 0).await;
    assert_eq!(parts(&desk).await, named(&[(0, "one"), (2, "old"), (3, "four")]));
    desk.delete("old", 0).await;
    assert_eq!(parts(&desk).await, named(&[(0, "one"), (3, "four")]));
    // A new token under its id does not bring it back.
    desk.delete("one", 0).await;
    desk.insert(unlike("one")).await;
    assert_eq!(parts(&desk).await, named(&[(3, "four")]));
    desk.delete("four", 0).await;
    assert_eq!(parts(&desk).await, vec![]);
}

async fn parts_of_one_token_go_together(desk: StoreHarness) {
    let twice = vec![
        insert(&desk, record("one"), Deduplicate::Yes),
        insert(&desk, record("two"), Deduplicate::Yes),
    ];
    write_answered(&desk, twice, showing(&desk, &[0, 1])).await.unwrap();
    assert_eq!(parts(&desk).await, vec![(0, "one".to_owned()), (1, "one".to_owned())]);
    desk.delete("one", 0).await;
    assert_eq!(parts(&desk).await, vec![]);
}

async fn a_forgotten_answer_takes_its_parts_along(desk: StoreHarness) {
    let writes = |first, second| {
        vec![
            insert(&desk, unlike(first), Deduplicate::No),
            insert(&desk, unlike(second), Deduplicate::No),
        ]
    };
    write_answered(&desk, writes("one", "two"), showing(&desk, &[0, 1])).await.unwrap();
    desk.advance(scrip_testing::store_harness::DAY);
    // Nobody swept it away, and its parts are not taken for those of the next.
    write_answered(&desk, writes("three", "four"), showing(&desk, &[1])).await.unwrap();
    assert_eq!(parts(&desk).await, vec![(1, "four".to_owned())]);
    assert_eq!(desk.store().forget_answers(desk.now()).await.unwrap(), 1);
    write_answered(&desk, writes("five", "six"), showing(&desk, &[0])).await.unwrap();
    assert_eq!(parts(&desk).await, vec![(0, "five".to_owned())]);
}

async fn an_answer_that_shows_what_was_not_written_is_refused(desk: StoreHarness) {
    let one = vec![insert(&desk, unlike("one"), Deduplicate::No)];
    let batched = write_answered(&desk, one, showing(&desk, &[0, 1])).await;
    assert!(matches!(batched, Err(StoreError::Corrupt(_))), "{batched:?}");
    assert_eq!(desk.find("one").await, None);
}

async fn tokens_are_found_where_their_ids_stand(desk: StoreHarness) {
    for id in ["one", "two"] {
        desk.insert(unlike(id)).await;
    }
    let find = async |desk: &StoreHarness, ids: &[&str]| {
        let ids: Vec<_> = ids.iter().map(|it| token_id(it)).collect();
        let inquiry = desk.caller.inquire(Permission::TokenRead).unwrap();
        desk.store().find_tokens(inquiry, &ids, desk.now()).await.unwrap()
    };
    let (one, two) = (Some(bare(unlike("one"))), Some(bare(unlike("two"))));
    let found = find(&desk, &["two", "none", "one", "two"]).await;
    assert_eq!(found, vec![two.clone(), None, one, two]);
    assert_eq!(find(&desk, &[]).await, vec![]);
    let desk = desk.turned();
    assert_eq!(find(&desk, &["one", "two"]).await, vec![None, None]);
}
