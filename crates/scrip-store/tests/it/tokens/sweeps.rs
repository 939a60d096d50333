//! What leaves because its time is over: all of that, nothing else, and each with one record.

use std::time::Duration;

use scrip_core::{
    audit::NotedTime,
    idempotency::Claimed,
    time::KnownTime,
    token::{CvcChange, Deduplicate, StoredToken, TokenRecord},
};
use scrip_testing::{
    clock::START,
    store_harness::{Inserted, StoreHarness, UpdateToken, bare, code, record, revised},
};

on_every_engine! {
    StoreHarness;
    expired_tokens_go_and_leave_a_record_each
    a_token_goes_no_instant_early
    an_expired_token_in_the_way_of_another_leaves_a_record
    a_swept_token_takes_its_data_out_of_answers
    a_token_of_a_deleted_time_can_be_given_another
    codes_go_at_their_end_and_their_cards_stay
    a_replaced_code_goes_at_its_own_end
    the_time_that_is_known_is_what_was_noted_last
}

const MINUTE: Duration = Duration::from_secs(60);
const MOMENT: Duration = Duration::from_millis(1);

fn lasting(id: &str, by: Duration) -> TokenRecord {
    TokenRecord { expires_at: Some(START.after(by)), fingerprint: None, ..record(id) }
}

async fn expired_tokens_go_and_leave_a_record_each(desk: StoreHarness) {
    // More than one step takes, in no order, among others that stay.
    for at in 0..100_u32 {
        desk.insert(lasting(&format!("short-{at}"), MINUTE + MOMENT * (at * 37 % 100))).await;
        desk.insert(lasting(&format!("long-{at}"), 3 * MINUTE)).await;
        desk.insert(TokenRecord { fingerprint: None, ..record(&format!("ever-{at}")) }).await;
    }
    let [_, _, records] = desk.counts().await;
    desk.advance(2 * MINUTE);
    assert_eq!(desk.sweep(desk.now()).await, 100);
    assert_eq!(desk.counts().await, [200, 0, records + 100]);
    assert!(desk.find("long-7").await.is_some() && desk.find("ever-7").await.is_some());
    assert_eq!(desk.sweep(desk.now()).await, 0);
    assert_eq!(desk.counts().await, [200, 0, records + 100]);
}

async fn a_token_goes_no_instant_early(desk: StoreHarness) {
    desk.insert(lasting("one", MINUTE)).await;
    assert_eq!(desk.sweep(START.after(MINUTE - MOMENT)).await, 0);
    assert!(desk.find("one").await.is_some());
    assert_eq!(desk.sweep(START.after(MINUTE)).await, 1);
    assert_eq!(desk.find("one").await, None);
}

async fn an_expired_token_in_the_way_of_another_leaves_a_record(desk: StoreHarness) {
    desk.insert(lasting("one", MINUTE)).await;
    desk.advance(MINUTE);
    let [_, _, records] = desk.counts().await;
    assert_eq!(desk.insert(record("one")).await, Inserted::New);
    // That it was expired, and that one was created.
    assert_eq!(desk.counts().await, [1, 0, records + 2]);
    assert_eq!(desk.sweep(desk.now()).await, 0);
}

async fn a_swept_token_takes_its_data_out_of_answers(desk: StoreHarness) {
    let answer = desk.answer([1; 32]);
    let inserted = desk.insert_answered(bare(lasting("one", MINUTE)), Box::new(|_| Some(answer)));
    assert_eq!(inserted.await.unwrap(), Inserted::New);
    desk.sweep(START.after(MINUTE)).await;
    // Not only because it has expired: by this clock it has not.
    let Claimed::Answered(answer) = desk.claim([1; 32]).await else { panic!("it is answered") };
    assert_eq!((answer.head.as_bytes(), answer.parts.len()), (b"head".as_slice(), 0));
}

async fn a_token_of_a_deleted_time_can_be_given_another(desk: StoreHarness) {
    desk.insert(lasting("one", MINUTE)).await;
    for expires_at in [None, Some(START.after(3 * MINUTE))] {
        let before = desk.find("one").await.unwrap().record;
        let after = TokenRecord { expires_at, ..revised(&before) };
        desk.update(desk.change(after, Deduplicate::No)).await;
        assert_eq!(desk.sweep(START.after(2 * MINUTE)).await, 0);
    }
    assert_eq!(desk.sweep(START.after(3 * MINUTE)).await, 1);
}

async fn insert_with_code(desk: &StoreHarness, id: &str) {
    let token = StoredToken {
        record: TokenRecord { fingerprint: None, ..record(id) },
        cvc: Some(code("123")),
    };
    let insert = desk.insertion(token, Deduplicate::No);
    desk.insert_token(insert).await.unwrap();
}

async fn codes_go_at_their_end_and_their_cards_stay(desk: StoreHarness) {
    for at in 0..300 {
        insert_with_code(&desk, &format!("card-{at}")).await;
    }
    assert_eq!(desk.sweep_cvcs(START.after(MINUTE - MOMENT)).await, 0);
    let [_, _, records] = desk.counts().await;
    assert_eq!(desk.sweep_cvcs(START.after(MINUTE)).await, 300);
    assert_eq!(desk.counts().await, [300, 0, records]);
    assert_eq!(desk.find("card-0").await.unwrap().cvc, None);
}

async fn a_replaced_code_goes_at_its_own_end(desk: StoreHarness) {
    insert_with_code(&desk, "one").await;
    let mut later = code("456");
    later.expires_at = START.after(5 * MINUTE);
    let before = desk.find("one").await.unwrap().record;
    let change = desk.change(revised(&before), Deduplicate::No);
    desk.update(UpdateToken { cvc: CvcChange::Replace(later.clone()), ..change }).await;
    assert_eq!(desk.sweep_cvcs(START.after(4 * MINUTE)).await, 0);
    assert_eq!(desk.find("one").await.unwrap().cvc, Some(later));
    assert_eq!(desk.sweep_cvcs(START.after(5 * MINUTE)).await, 1);
}

async fn the_time_that_is_known_is_what_was_noted_last(desk: StoreHarness) {
    let store = desk.store();
    for noted in [5, 9, 3] {
        let time = KnownTime { now: START.after(noted * MINUTE), earliest: START.after(MOMENT) };
        let noted = NotedTime::new(desk.world.vault.audit.key().unwrap(), time);
        store.note_time(noted).await.unwrap();
        assert_eq!(store.known_time().await.unwrap(), Some(noted));
    }
}
