//! 3-D Secure sessions, and what is to be told of them: written together, or not at all.

use std::{sync::Arc, time::Duration};

use scrip_core::{
    audit::{AuditRecord, Operation},
    idempotency::{AnswerRecord, Claimed},
    operations::tenants::delete_tenant::delete_tenant,
    policy::{Mandate, Permission},
    store::{Changed, Ending},
    threeds::{SessionCard, SessionRecord, SessionWrite},
    time::Timestamp,
    token::{
        Batched, CvcChange, Deduplicate, Obstacle, Outcome, TokenBatch, TokenRecord, TokenWrite,
        UpdateToken,
    },
};
use scrip_seal::Sealed;
use scrip_testing::{
    clock::START,
    store_harness::{StoreHarness, record, revised, sessions::session_id},
    vault_harness::Engine,
};

on_every_engine! {
    StoreHarness;
    what_is_inserted_is_found_by_its_tenant_and_by_whoever_notifies
    an_id_is_given_once_for_all_tenants
    a_session_of_another_tenant_is_not_inserted
    only_the_next_revision_is_written
    what_was_not_there_at_the_beginning_never_changes
    another_tenant_changes_nothing
    a_session_ends_on_the_instant
    ended_sessions_go_and_leave_a_record_each
    a_deleted_tenant_takes_its_sessions_and_events
    nothing_is_written_once_the_tenant_is_deleted
    events_are_in_the_order_of_commits
    an_event_number_is_given_once
    old_events_are_forgotten
    an_answer_is_remembered_with_its_session
    what_fails_leaves_nothing
    update_that_must_not_meet_a_session_is_refused_while_one_names_the_token
}

const MINUTE: Duration = Duration::from_secs(60);
const MOMENT: Duration = Duration::from_millis(1);

fn next(before: &SessionRecord, ends_at: Option<Timestamp>) -> SessionRecord {
    let body = Sealed::from_stored(vec![9; 50]);
    SessionRecord { ends_at, revision: before.revision + 1, body, ..before.clone() }
}

async fn what_is_inserted_is_found_by_its_tenant_and_by_whoever_notifies(desk: StoreHarness) {
    let session = desk.session(1);
    desk.insert_session(desk.written(session.clone(), &[])).await.unwrap();
    assert_eq!(desk.find_session(1).await, Some(session.clone()));
    assert_eq!(desk.notified(1).await, Some(session.clone()));
    assert_eq!(desk.find_session(2).await, None);
    assert_eq!(desk.notified(2).await, None);
    let expected = ["create_session".to_owned(), session_id(1).to_string(), "created".to_owned()];
    assert_eq!(desk.trail().await, [expected]);
    assert_eq!(desk.held().await, [1, 0]);
    let desk = desk.turned();
    assert_eq!(desk.find_session(1).await, None, "another tenant");
    assert_eq!(desk.notified(1).await, Some(session), "nobody's");
}

async fn an_id_is_given_once_for_all_tenants(desk: StoreHarness) {
    desk.insert_session(desk.written(desk.session(1), &[])).await.unwrap();
    desk.insert_session(desk.written(desk.session(1), &[1])).await.unwrap_err();
    let first = desk.find_session(1).await;
    let desk = desk.turned();
    desk.insert_session(desk.written(desk.session(1), &[1])).await.unwrap_err();
    assert_eq!(desk.notified(1).await, first);
    assert_eq!(desk.held().await, [1, 0]);
    assert!(desk.trail().await.is_empty());
}

async fn a_session_of_another_tenant_is_not_inserted(desk: StoreHarness) {
    let theirs = desk.stranger.tenant().id;
    let session = SessionRecord { tenant: theirs, ..desk.session(1) };
    desk.insert_session(desk.written(session, &[1])).await.unwrap_err();
    assert_eq!(desk.held().await, [0, 0]);
}

async fn only_the_next_revision_is_written(desk: StoreHarness) {
    let first = desk.session(1);
    desk.insert_session(desk.written(first.clone(), &[])).await.unwrap();
    let second = next(&first, None);
    let records = desk.trail().await.len();
    for revision in [i64::MIN, -1, 0, 1, 3, i64::MAX] {
        let stale = SessionRecord { revision, ..second.clone() };
        assert_eq!(desk.update_session(desk.written(stale, &[1])).await, Changed::Stale);
    }
    assert_eq!((desk.held().await, desk.trail().await.len()), ([1, 0], records));
    assert_eq!(desk.find_session(1).await, Some(first));
    let write = SessionWrite {
        audit: desk.audit(Operation::UpdateSession),
        outcome: "updated",
        ..desk.written(second.clone(), &[1])
    };
    assert_eq!(desk.update_session(write).await, Changed::Done);
    assert_eq!(desk.find_session(1).await, Some(second.clone()));
    let expected = ["update_session".to_owned(), session_id(1).to_string(), "updated".to_owned()];
    assert_eq!(desk.trail().await.last(), Some(&expected));
    // Whoever was slower finds it done.
    assert_eq!(desk.update_session(desk.written(second, &[2])).await, Changed::Stale);
    assert_eq!(desk.held().await, [1, 1]);
    let absent = next(&desk.session(2), None);
    assert_eq!(desk.update_session(desk.written(absent, &[3])).await, Changed::Stale);
}

async fn what_was_not_there_at_the_beginning_never_changes(desk: StoreHarness) {
    let first = desk.session(1);
    desk.insert_session(desk.written(first.clone(), &[])).await.unwrap();
    let created_by = desk.stranger.application();
    let created_at = START.after(MINUTE);
    let second = SessionRecord { created_by, created_at, ..next(&first, None) };
    assert_eq!(desk.update_session(desk.written(second.clone(), &[])).await, Changed::Done);
    let SessionRecord { created_by, created_at, .. } = first;
    let expected = SessionRecord { created_by, created_at, ..second };
    assert_eq!(desk.find_session(1).await, Some(expected));
}

async fn another_tenant_changes_nothing(desk: StoreHarness) {
    let first = desk.session(1);
    desk.insert_session(desk.written(first.clone(), &[])).await.unwrap();
    let theirs = SessionRecord { tenant: desk.stranger.tenant().id, ..next(&first, None) };
    assert_eq!(desk.update_session(desk.written(theirs, &[1])).await, Changed::Stale);
    assert_eq!((desk.find_session(1).await, desk.held().await), (Some(first), [1, 0]));
}

async fn a_session_ends_on_the_instant(desk: StoreHarness) {
    let first = desk.session(1);
    desk.insert_session(desk.written(first.clone(), &[])).await.unwrap();
    desk.advance(MINUTE - MOMENT);
    assert!(desk.find_session(1).await.is_some() && desk.notified(1).await.is_some());
    desk.advance(MOMENT);
    assert_eq!((desk.find_session(1).await, desk.notified(1).await), (None, None));
    // Its row is there: whoever was sent away with a question still writes the answer.
    let lasting = next(&first, None);
    assert_eq!(desk.update_session(desk.written(lasting, &[])).await, Changed::Done);
    desk.advance(1_000_000 * MINUTE);
    assert!(desk.find_session(1).await.is_some(), "what was authenticated stays");
    assert_eq!(desk.sweep_sessions(desk.now()).await, 0);
}

async fn ended_sessions_go_and_leave_a_record_each(desk: StoreHarness) {
    for number in 0..100_u8 {
        let ends_at = match number % 3 {
            0 => None,
            1 => Some(START.after(MINUTE + MOMENT * (u32::from(number) * 7 % 100))),
            _ => Some(START.after(5 * MINUTE)),
        };
        let session = SessionRecord { ends_at, ..desk.session(number) };
        desk.insert_session(desk.written(session, &[number])).await.unwrap();
    }
    assert_eq!(desk.sweep_sessions(START.after(MINUTE - MOMENT)).await, 0);
    desk.advance(2 * MINUTE);
    assert_eq!(desk.sweep_sessions(desk.now()).await, 33);
    assert_eq!(desk.held().await, [67, 100], "what is to be told of them stays");
    let mut gone: Vec<u8> = (0..100).filter(|it| it % 3 == 1).collect();
    gone.sort_by_key(|it| u32::from(*it) * 7 % 100);
    let gone: Vec<_> = gone.into_iter().map(|it| session_id(it).to_string()).collect();
    let trail = desk.trail().await;
    let (operation, outcome) = ("expire_session".to_owned(), "expired".to_owned());
    let expected: Vec<_> =
        gone.iter().map(|it| [operation.clone(), it.clone(), outcome.clone()]).collect();
    assert_eq!(trail[100..], expected);
    assert_eq!(desk.sweep_sessions(desk.now()).await, 0);
}

async fn a_deleted_tenant_takes_its_sessions_and_events(desk: StoreHarness) {
    for number in 1..=3 {
        desk.insert_session(desk.written(desk.session(number), &[number, number])).await.unwrap();
    }
    let desk = desk.turned();
    desk.insert_session(desk.written(desk.session(4), &[4])).await.unwrap();
    let gone = Arc::clone(desk.stranger.principal().tenant());
    delete_tenant(&desk.world.vault, Mandate::of_operator(gone)).await.unwrap();
    while scrip_core::operations::tenants::purge_tenants::purge_tenants(&desk.world.vault, &[])
        .await
        .unwrap()
        > 0
    {}
    assert_eq!(desk.held().await, [1, 1]);
    assert!(desk.find_session(4).await.is_some());
    assert_eq!(desk.notified(1).await, None);
    assert_eq!(desk.events(0, 9).await, [(7, desk.event(4))]);
}

async fn nothing_is_written_once_the_tenant_is_deleted(desk: StoreHarness) {
    let first = desk.session(1);
    desk.insert_session(desk.written(first.clone(), &[])).await.unwrap();
    let gone = Arc::clone(desk.caller.principal().tenant());
    delete_tenant(&desk.world.vault, Mandate::of_operator(gone)).await.unwrap();
    desk.insert_session(desk.written(desk.session(2), &[2])).await.unwrap_err();
    let update = desk.written(next(&first, None), &[1]);
    desk.store().update_session(update).await.unwrap_err();
    while scrip_core::operations::tenants::purge_tenants::purge_tenants(&desk.world.vault, &[])
        .await
        .unwrap()
        > 0
    {}
    assert_eq!(desk.held().await, [0, 0]);
}

async fn events_are_in_the_order_of_commits(desk: StoreHarness) {
    let first = desk.session(1);
    desk.insert_session(desk.written(first.clone(), &[1])).await.unwrap();
    desk.advance(MINUTE);
    let second = next(&first, None);
    desk.update_session(desk.written(second.clone(), &[3, 2])).await;
    // A clock that went back changes no order.
    desk.world.clock.set(START);
    desk.update_session(desk.written(next(&second, None), &[0])).await;
    let events = desk.events(0, 9).await;
    let drawn: Vec<_> = events.iter().map(|(_, it)| it.id.as_bytes()[0]).collect();
    assert_eq!(drawn, [1, 3, 2, 0]);
    assert!(events.windows(2).all(|it| it[0].0 < it[1].0));
    assert_eq!(events[0].1, desk.event(1));
    assert_eq!(desk.events(0, 2).await, events[..2]);
    assert_eq!(desk.events(events[1].0, 1).await, events[2..3]);
    assert_eq!(desk.events(events[3].0, 9).await, []);
    assert_eq!(desk.events(0, 0).await, []);
}

/// Whoever delivers them goes on behind the last that it saw.
async fn an_event_number_is_given_once(desk: StoreHarness) {
    desk.insert_session(desk.written(desk.session(1), &[1, 2])).await.unwrap();
    let seen = desk.events(0, 9).await.last().unwrap().0;
    desk.advance(MINUTE);
    assert_eq!(desk.store().forget_events(desk.now()).await.unwrap(), 2);
    assert_eq!(desk.held().await, [1, 0]);
    desk.insert_session(desk.written(desk.session(2), &[3])).await.unwrap();
    assert_eq!(desk.events(seen, 9).await.len(), 1);
}

async fn old_events_are_forgotten(desk: StoreHarness) {
    for number in 0..200 {
        desk.insert_session(desk.written(desk.session(number), &[number, number])).await.unwrap();
        desk.advance(MOMENT);
    }
    let before = START.after(MOMENT * 149);
    let (mut forgotten, mut steps) = (0, 0);
    loop {
        match desk.store().forget_events(before).await.unwrap() {
            0 => break,
            some => (forgotten, steps) = (forgotten + some, steps + 1),
        }
    }
    assert!(forgotten == 300 && steps > 0);
    let left = desk.events(0, 1000).await;
    assert_eq!((left.len(), left[0].1.at), (100, START.after(MOMENT * 150)));
    assert_eq!(desk.held().await, [200, 100]);
}

fn plain_answer(desk: &StoreHarness, digest: u8) -> Option<AnswerRecord> {
    Some(AnswerRecord { parts: vec![], ..desk.answer([digest; 32]) })
}

async fn an_answer_is_remembered_with_its_session(desk: StoreHarness) {
    let first = desk.session(1);
    let write = desk.written(first.clone(), &[]);
    let answer = plain_answer(&desk, 1);
    desk.insert_session(SessionWrite { answer, ..write }).await.unwrap();
    let write = desk.written(next(&first, None), &[]);
    let answer = plain_answer(&desk, 2);
    desk.update_session(SessionWrite { answer, ..write }).await;
    // What is stale leaves none.
    let write = desk.written(next(&first, None), &[]);
    let answer = plain_answer(&desk, 3);
    desk.update_session(SessionWrite { answer, ..write }).await;
    for (digest, is_known) in [(1, true), (2, true), (3, false)] {
        let known = matches!(desk.claim([digest; 32]).await, Claimed::Answered(_));
        assert_eq!(known, is_known, "{digest}");
    }
}

async fn what_fails_leaves_nothing(desk: StoreHarness) {
    let first = desk.session(1);
    let write = desk.written(first.clone(), &[1]);
    let answer = plain_answer(&desk, 1);
    desk.insert_session(SessionWrite { answer, ..write }).await.unwrap();
    let before = (desk.held().await, desk.trail().await, desk.events(0, 9).await);
    // The answer comes last, and one with its key is there.
    let write = desk.written(desk.session(2), &[2]);
    let answer = plain_answer(&desk, 1);
    desk.insert_session(SessionWrite { answer, ..write }).await.unwrap_err();
    let write = desk.written(next(&first, None), &[3]);
    let answer = plain_answer(&desk, 1);
    desk.store().update_session(SessionWrite { answer, ..write }).await.unwrap_err();
    assert_eq!((desk.held().await, desk.trail().await, desk.events(0, 9).await), before);
    assert_eq!(desk.find_session(1).await, Some(first));
}

/// A number that somebody set back stops nobody: the next goes behind what is there.
#[tokio::test]
async fn an_altered_number_is_in_nobodys_way() {
    let desk = StoreHarness::open(Engine::Sqlite).await;
    desk.insert_session(desk.written(desk.session(1), &[1, 2])).await.unwrap();
    let outside = rusqlite::Connection::open(desk.world.file()).unwrap();
    outside.execute("UPDATE event_state SET last = -5", []).unwrap();
    desk.insert_session(desk.written(desk.session(2), &[3])).await.unwrap();
    let numbers: Vec<_> = desk.events(0, 9).await.iter().map(|it| it.0).collect();
    assert_eq!(numbers, [1, 2, 3]);
}

/// What of a tenant cannot be recorded stays, and the others' goes.
#[tokio::test]
async fn what_cannot_be_recorded_is_in_nobodys_way() {
    let desk = StoreHarness::open(Engine::Sqlite).await;
    for number in 0..20 {
        desk.insert_session(desk.written(desk.session(number), &[])).await.unwrap();
    }
    let ours = desk.tenant().0.simple().to_string();
    let desk = desk.turned();
    let last = SessionRecord { ends_at: Some(START.after(2 * MINUTE)), ..desk.session(99) };
    desk.insert_session(desk.written(last, &[])).await.unwrap();
    let outside = rusqlite::Connection::open(desk.world.file()).unwrap();
    let refused = format!(
        "CREATE TRIGGER refused BEFORE INSERT ON audit WHEN NEW.tenant = x'{ours}'
        BEGIN SELECT RAISE(ABORT, 'refused'); END"
    );
    outside.execute_batch(&refused).unwrap();
    desk.advance(3 * MINUTE);
    let sweep = async || {
        let audit: AuditRecord =
            desk.world.vault.audit.of_vault(Operation::ExpireSession, desk.now()).unwrap();
        desk.store().sweep(Ending::Session, desk.now(), audit).await
    };
    assert_eq!(sweep().await.unwrap(), 1);
    assert!(sweep().await.is_err(), "what is left is told");
    assert_eq!(desk.held().await, [20, 0]);
    outside.execute_batch("DROP TRIGGER refused").unwrap();
    assert_eq!(desk.sweep_sessions(desk.now()).await, 20);
}

/// Decided in the transaction of the write, so no session can come in between.
async fn update_that_must_not_meet_a_session_is_refused_while_one_names_the_token(
    desk: StoreHarness,
) {
    let update = async |before: &TokenRecord, unless_named| {
        let update = UpdateToken {
            permit: desk.permit(Permission::TokenUpdate),
            token: revised(before),
            cvc: CvcChange::Keep,
            intent: None,
            deduplicate: Deduplicate::No,
            unless_named,
            audit: desk.audit(Operation::UpdateToken),
        };
        let batch = TokenBatch { writes: vec![TokenWrite::Update(update)], render: None };
        desk.store().write_tokens(desk.inquiry(), batch).await.unwrap()
    };
    let (named, free) = (record("named"), record("free"));
    let free = TokenRecord { fingerprint: None, ..free };
    for token in [&named, &free] {
        desk.insert(token.clone()).await;
    }
    let card = SessionCard::Token(named.id.clone());
    desk.insert_session(desk.written(SessionRecord { card, ..desk.session(1) }, &[]))
        .await
        .unwrap();
    let refused = Batched::Refused(vec![(0, Obstacle::NamedBySession)]);
    let updated = Batched::Written(vec![Outcome::Updated]);
    assert_eq!(update(&named, Some(desk.now())).await, refused);
    assert_eq!(desk.find("named").await.unwrap().record, named);
    assert_eq!(update(&free, Some(desk.now())).await, updated);
    assert_eq!(update(&named, None).await, updated);
    // A session that has ended does not count.
    let named = revised(&named);
    assert_eq!(update(&named, Some(START.after(MINUTE - MOMENT))).await, refused);
    assert_eq!(update(&named, Some(START.after(MINUTE))).await, updated);
}
