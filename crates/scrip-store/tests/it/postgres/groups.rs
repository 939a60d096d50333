//! Writes of one tenant that share a transaction: each is as if it were alone.

use std::{future::poll_fn, pin::Pin, sync::Arc, task::Poll};

use scrip_core::{
    audit::{Log, Operation},
    id::TokenIntentId,
    idempotency::Claimed,
    policy::Permission,
    store::{Beside, StoreError, TokenStore},
    token::{
        Batched, CvcChange, Deduplicate, InsertToken, Obstacle, Outcome, Render, StoredToken,
        StoredTokenIntent, TokenBatch, TokenIntentRecord, TokenRecord, TokenType, TokenWrite,
        UpdateToken,
    },
};
use scrip_seal::{Fingerprint, Sealed};
use scrip_store::PostgresStore;
use scrip_testing::{
    store_harness::{DAY, StoreHarness, bare, code, record, revised},
    vault_harness::{Engine, containers, settings},
};
use tokio_postgres::{Client, NoTls};
use uuid::Uuid;

use crate::postgres::nodes::check_chain;

type Write<'a> = Pin<Box<dyn Future<Output = Result<Batched, StoreError>> + Send + 'a>>;

/// Somebody who is no node.
async fn outside(desk: &StoreHarness) -> Client {
    let url = desk.world.database().superuser_url();
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    drop(tokio::spawn(connection));
    client
}

/// All of these wait while somebody else has the tenant: they are handed over in this order, and by
/// nobody who could have begun before the last.
async fn waiting<'a>(desk: &StoreHarness, writes: Vec<Write<'a>>) -> (Client, Vec<Write<'a>>) {
    let holder = outside(desk).await;
    holder.batch_execute("BEGIN; UPDATE lanes SET last_token = last_token").await.unwrap();
    let mut waiting = Vec::new();
    for mut write in writes {
        let polled = poll_fn(|it| Poll::Ready(write.as_mut().poll(it)));
        assert!(polled.await.is_pending(), "nobody could write");
        waiting.push(write);
    }
    (holder, waiting)
}

/// What became of each, written by one transaction.
async fn together(desk: &StoreHarness, writes: Vec<Write<'_>>) -> Vec<Result<Batched, StoreError>> {
    let transactions = || {
        let log = desk.store().measures().logs.remove(0);
        (log.batch.count(), log.batch.sum)
    };
    let size = u64::try_from(writes.len()).unwrap();
    let before = transactions();
    let (holder, waiting) = waiting(desk, writes).await;
    holder.batch_execute("COMMIT").await.unwrap();
    let mut outcomes = Vec::new();
    for write in waiting {
        outcomes.push(write.await);
    }
    assert_eq!(transactions(), (before.0 + 1, before.1 + size), "they shared one");
    outcomes
}

/// A token that nobody else has.
fn other(at: u8) -> TokenRecord {
    TokenRecord { fingerprint: Some(Fingerprint([at; 32])), ..record(&format!("other-{at}")) }
}

fn insertion(desk: &StoreHarness, token: StoredToken, deduplicate: Deduplicate) -> InsertToken {
    let permit = desk.permit(Permission::TokenCreate);
    let audit = desk.audit(Operation::CreateToken);
    InsertToken { permit, token, intent: None, deduplicate, audit }
}

fn sent<'a>(desk: &'a StoreHarness, writes: Vec<TokenWrite>, render: Option<Render>) -> Write<'a> {
    desk.store().write_tokens(desk.inquiry(), TokenBatch { writes, render })
}

fn insert(desk: &StoreHarness, record: TokenRecord) -> Write<'_> {
    let insert = insertion(desk, bare(record), Deduplicate::Yes);
    sent(desk, vec![TokenWrite::Insert(insert)], None)
}

fn answered(desk: &StoreHarness, record: TokenRecord, digest: [u8; 32]) -> Write<'_> {
    let answer = desk.answer(digest);
    let insert = insertion(desk, bare(record), Deduplicate::Yes);
    let render: Render = Box::new(move |_| Some(answer));
    sent(desk, vec![TokenWrite::Insert(insert)], Some(render))
}

/// Some that have nothing to do with anybody, before and behind.
fn among<'a>(desk: &'a StoreHarness, writes: Vec<Write<'a>>) -> Vec<Write<'a>> {
    let mut all: Vec<_> = (100..108).map(|at| insert(desk, other(at))).collect();
    all.extend(writes);
    all.extend((108..112).map(|at| insert(desk, other(at))));
    all
}

/// What became of those among; the others are new.
async fn among_others(
    desk: &StoreHarness,
    writes: Vec<Write<'_>>,
) -> Vec<Result<Batched, StoreError>> {
    let mut outcomes = together(desk, among(desk, writes)).await;
    let ours = outcomes.drain(8..outcomes.len() - 4).collect();
    for outcome in outcomes {
        assert_eq!(outcome.unwrap(), Batched::Written(vec![Outcome::New]));
    }
    for at in 100..112 {
        assert!(desk.find(&format!("other-{at}")).await.is_some(), "{at}");
    }
    ours
}

const MISCOUNTED: &str = "
    SELECT (SELECT count(*) FROM tokens) - (SELECT coalesce(sum(count), 0) FROM usage_types),
        (SELECT count(*) FROM records WHERE outcome = 'created' AND operation = 'create_token')
            - (SELECT coalesce(sum(created), 0) FROM usage_months)";

/// Counts say what rows there are, and the chain is whole.
async fn check(desk: &StoreHarness) {
    let row = outside(desk)
        .await
        .query_one(
            &format!(
                "SELECT * FROM ({MISCOUNTED}) AS it (a, b) \
        WHERE a = 0 AND b = 0"
            ),
            &[],
        )
        .await;
    assert!(row.is_ok(), "counts are not what rows there are");
    check_chain(desk, Log::Audit).await;
}

fn new() -> Batched {
    Batched::Written(vec![Outcome::New])
}

#[tokio::test]
async fn plain_ones_are_written_as_one() {
    let desk = StoreHarness::open(Engine::Postgres).await;
    let with_code = |at: u8| {
        let token = StoredToken { record: other(at), cvc: Some(code("123")) };
        let insert = insertion(&desk, token, Deduplicate::Tell);
        let unlike = insertion(&desk, bare(other(at + 100)), Deduplicate::No);
        let writes = vec![TokenWrite::Insert(insert), TokenWrite::Insert(unlike)];
        let answer = desk.answer([at; 32]);
        sent(&desk, writes, Some(Box::new(move |_| Some(answer))))
    };
    for outcome in together(&desk, (0..20).map(with_code).collect()).await {
        assert_eq!(outcome.unwrap(), Batched::Written(vec![Outcome::New, Outcome::New]));
    }
    for at in 0..20 {
        let found = desk.find(&format!("other-{at}")).await.unwrap();
        assert_eq!(found, StoredToken { record: other(at), cvc: Some(code("123")) });
        let found = desk.find(&format!("other-{}", at + 100)).await.unwrap();
        assert_eq!(found, bare(other(at + 100)));
        let Claimed::Answered(answer) = desk.claim([at; 32]).await else { panic!("{at}") };
        assert_eq!(answer.parts.len(), 1);
        assert_eq!(answer.parts[0].token.as_str(), format!("other-{at}"));
    }
    assert_eq!(desk.counts().await, [40, 20, 40 + founding(&desk).await]);
    check(&desk).await;
}

/// Records that are there before anybody wrote a token.
async fn founding(desk: &StoreHarness) -> u64 {
    let sql = "SELECT count(*) FROM records WHERE operation <> 'create_token'";
    let row = outside(desk).await.query_one(sql, &[]).await.unwrap();
    u64::try_from(row.get::<_, i64>(0)).unwrap()
}

#[tokio::test]
async fn a_refused_one_touches_nobody_else() {
    let desk = StoreHarness::open(Engine::Postgres).await;
    desk.insert(other(1)).await;
    let taken = TokenRecord { fingerprint: None, ..other(1) };
    let unlike = |at| TokenWrite::Insert(insertion(&desk, bare(other(at)), Deduplicate::Yes));
    let of_taken = || TokenWrite::Insert(insertion(&desk, bare(taken.clone()), Deduplicate::No));
    let same = TokenRecord { id: other(9).id, ..other(1) };
    let told = insertion(&desk, bare(same), Deduplicate::Tell);
    let stale = UpdateToken {
        permit: desk.permit(Permission::TokenUpdate),
        token: TokenRecord { revision: 7, ..other(1) },
        cvc: CvcChange::Keep,
        intent: None,
        deduplicate: Deduplicate::No,
        unless_named: None,
        audit: desk.audit(Operation::UpdateToken),
    };
    let mut gone = insertion(&desk, bare(other(8)), Deduplicate::No);
    gone.intent = Some(TokenIntentId(Uuid::from_bytes([9; 16])));
    let writes = vec![
        sent(&desk, vec![of_taken()], None),
        // Writes a token and its record before it meets one that is there.
        sent(&desk, vec![unlike(2), of_taken(), unlike(3)], None),
        sent(&desk, vec![TokenWrite::Insert(told)], None),
        sent(&desk, vec![unlike(4), TokenWrite::Update(stale)], None),
        sent(&desk, vec![unlike(5), TokenWrite::Insert(gone)], None),
    ];
    let outcomes = among_others(&desk, writes).await;
    let refused = |at, obstacle| Batched::Refused(vec![(at, obstacle)]);
    let expected = [
        refused(0, Obstacle::IdTaken),
        refused(1, Obstacle::IdTaken),
        refused(0, Obstacle::Duplicate(Box::new(bare(other(1))))),
        refused(1, Obstacle::Stale),
        refused(1, Obstacle::IntentGone),
    ];
    for (outcome, expected) in outcomes.into_iter().zip(expected) {
        assert_eq!(outcome.unwrap(), expected);
    }
    for at in [2, 3, 4, 5, 8, 9] {
        assert_eq!(desk.find(&format!("other-{at}")).await, None, "{at}");
    }
    check(&desk).await;
}

#[tokio::test]
async fn equal_cards_become_one_token() {
    let desk = StoreHarness::open(Engine::Postgres).await;
    let same = |id: &str| TokenRecord { id: record(id).id, ..other(1) };
    let twice = |a: &str, b: &str| {
        let insert = |id| TokenWrite::Insert(insertion(&desk, bare(same(id)), Deduplicate::Yes));
        sent(&desk, vec![insert(a), insert(b)], None)
    };
    let writes =
        vec![insert(&desk, same("first")), insert(&desk, same("second")), twice("third", "fourth")];
    let mut outcomes = among_others(&desk, writes).await.into_iter().map(Result::unwrap);
    let first = || Outcome::Existing(Box::new(bare(same("first"))));
    assert_eq!(outcomes.next().unwrap(), new());
    assert_eq!(outcomes.next().unwrap(), Batched::Written(vec![first()]));
    assert_eq!(outcomes.next().unwrap(), Batched::Written(vec![first(), first()]));
    // One of an earlier transaction is found as well; and one that nobody has to look for is not.
    let unlooked = insertion(&desk, bare(same("sixth")), Deduplicate::No);
    let unlooked = sent(&desk, vec![TokenWrite::Insert(unlooked)], None);
    let writes = vec![insert(&desk, same("fifth")), unlooked];
    let mut outcomes = together(&desk, writes).await.into_iter().map(Result::unwrap);
    assert_eq!(outcomes.next().unwrap(), Batched::Written(vec![first()]));
    assert_eq!(outcomes.next().unwrap(), new());
    check(&desk).await;
}

/// One that nobody has to look for is found by those behind it.
#[tokio::test]
async fn one_that_does_not_look_is_found() {
    let desk = StoreHarness::open(Engine::Postgres).await;
    let same = |id: &str| TokenRecord { id: record(id).id, ..other(1) };
    let unlooking = |id: &str| {
        let insert = insertion(&desk, bare(same(id)), Deduplicate::No);
        sent(&desk, vec![TokenWrite::Insert(insert)], None)
    };
    let writes = vec![unlooking("first"), unlooking("second"), insert(&desk, same("third"))];
    let mut outcomes = among_others(&desk, writes).await.into_iter().map(Result::unwrap);
    assert_eq!(outcomes.next().unwrap(), new());
    assert_eq!(outcomes.next().unwrap(), new());
    let first = Outcome::Existing(Box::new(bare(same("first"))));
    assert_eq!(outcomes.next().unwrap(), Batched::Written(vec![first]));
    check(&desk).await;
}

#[tokio::test]
async fn one_id_is_given_once() {
    let desk = StoreHarness::open(Engine::Postgres).await;
    let mut ends = TokenRecord { expires_at: Some(desk.now().after(DAY)), ..other(1) };
    desk.insert(ends.clone()).await;
    desk.advance(DAY);
    ends.expires_at = None;
    let again = || insert(&desk, TokenRecord { fingerprint: None, ..ends.clone() });
    let outcomes = among_others(&desk, vec![again(), again()]).await;
    let outcomes: Vec<_> = outcomes.into_iter().map(Result::unwrap).collect();
    // The one that had it has expired. Which of the two comes first is open.
    assert!(outcomes.contains(&new()), "{outcomes:?}");
    assert!(outcomes.contains(&Batched::Refused(vec![(0, Obstacle::IdTaken)])), "{outcomes:?}");
    check(&desk).await;
}

#[tokio::test]
async fn one_key_has_one_effect() {
    let desk = StoreHarness::open(Engine::Postgres).await;
    let writes = vec![answered(&desk, other(1), [7; 32]), answered(&desk, other(2), [7; 32])];
    let outcomes = among_others(&desk, writes).await;
    assert!(matches!(&outcomes[..], [Ok(_), Err(StoreError::Answered)]), "{outcomes:?}");
    assert!(desk.find("other-1").await.is_some());
    assert_eq!(desk.find("other-2").await, None);
    check(&desk).await;
}

/// The engine finds it when the rows of all of them are on their way.
#[tokio::test]
async fn one_that_another_node_answered_touches_nobody_else() {
    let desk = StoreHarness::open(Engine::Postgres).await;
    let node = PostgresStore::open(settings(desk.world.database())).await.unwrap();
    let there = insertion(&desk, bare(other(1)), Deduplicate::No);
    let answer = desk.answer([7; 32]);
    let render: Render = Box::new(move |_| Some(answer));
    let batch = TokenBatch { writes: vec![TokenWrite::Insert(there)], render: Some(render) };
    node.write_tokens(desk.inquiry(), batch).await.unwrap();
    let writes = vec![
        answered(&desk, other(2), [7; 32]),
        answered(&desk, other(3), [8; 32]),
        insert(&desk, TokenRecord { id: record("same").id, ..other(1) }),
    ];
    let outcomes = among_others(&desk, writes).await;
    let existing = Batched::Written(vec![Outcome::Existing(Box::new(bare(other(1))))]);
    let [Err(StoreError::Answered), Ok(one), Ok(two)] = &outcomes[..] else {
        panic!("{outcomes:?}")
    };
    assert_eq!((one, two), (&new(), &existing));
    assert_eq!(desk.find("other-2").await, None);
    assert!(matches!(desk.claim([8; 32]).await, Claimed::Answered(_)));
    // A day later it is as if there had been no answer.
    desk.advance(DAY);
    let outcomes = together(&desk, vec![answered(&desk, other(2), [7; 32])]).await;
    assert!(matches!(&outcomes[..], [Ok(_)]), "{outcomes:?}");
    assert!(desk.find("other-2").await.is_some());
    check(&desk).await;
}

#[tokio::test]
async fn an_error_touches_nobody_else() {
    let desk = StoreHarness::open(Engine::Postgres).await;
    let permit = desk.stranger.permit(Permission::TokenCreate, &containers(&["/"])).unwrap();
    let foreign = InsertToken { permit, ..insertion(&desk, bare(other(2)), Deduplicate::No) };
    let unlike = insertion(&desk, bare(other(1)), Deduplicate::No);
    let foreign = vec![TokenWrite::Insert(unlike), TokenWrite::Insert(foreign)];
    let panics = insertion(&desk, bare(other(3)), Deduplicate::No);
    let panics = vec![TokenWrite::Insert(panics)];
    let render: Render = Box::new(|_| panic!("this is what the test is about"));
    // An answer of a token that it has not written.
    let shows_none = insertion(&desk, bare(other(4)), Deduplicate::No);
    let mut answer = desk.answer([4; 32]);
    answer.parts[0].at = 5;
    let shows: Render = Box::new(move |_| Some(answer));
    let writes = vec![
        sent(&desk, foreign, None),
        sent(&desk, panics, Some(render)),
        sent(&desk, vec![TokenWrite::Insert(shows_none)], Some(shows)),
    ];
    let outcomes = among_others(&desk, writes).await;
    let corrupt = |it: &Result<_, _>| matches!(it, Err(StoreError::Corrupt(_)));
    assert!(corrupt(&outcomes[0]) && corrupt(&outcomes[2]), "{outcomes:?}");
    assert!(matches!(outcomes[1], Err(StoreError::Unavailable(_))), "{outcomes:?}");
    for at in 1..5 {
        assert_eq!(desk.find(&format!("other-{at}")).await, None, "{at}");
    }
    check(&desk).await;
}

/// Whoever goes away takes nobody with him; what was handed over is done.
#[tokio::test]
async fn one_that_goes_away_leaves_the_others() {
    let desk = StoreHarness::open(Engine::Postgres).await;
    let all = (0..20).map(|at| insert(&desk, other(at))).collect();
    let (holder, mut waiting) = waiting(&desk, all).await;
    // The first is the one for whose sake somebody began to write.
    drop(waiting.remove(0));
    drop(waiting.remove(9));
    holder.batch_execute("COMMIT").await.unwrap();
    for write in waiting {
        assert_eq!(write.await.unwrap(), new());
    }
    for at in 0..20 {
        assert!(desk.find(&format!("other-{at}")).await.is_some(), "{at}");
    }
    assert_eq!(insert(&desk, other(20)).await.unwrap(), new());
    check(&desk).await;
}

/// All of them hear so, and the next is written.
#[tokio::test]
async fn what_ends_the_transaction_reaches_all() {
    let desk = StoreHarness::open(Engine::Postgres).await;
    let all = (0..20).map(|at| insert(&desk, other(at))).collect();
    let (holder, mut waiting) = waiting(&desk, all).await;
    let ended = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
                 WHERE datname = current_database() AND wait_event_type = 'Lock'";
    let first = &mut waiting[0];
    // Somebody has to let the one who writes go on, as far as to where it waits.
    loop {
        tokio::select! {
            biased;
            outcome = first.as_mut() => {
                assert!(matches!(outcome, Err(StoreError::Unavailable(_))), "{outcome:?}");
                break;
            }
            _ = outside_ends(&holder, ended) => (),
        }
    }
    for write in waiting.into_iter().skip(1) {
        let outcome = write.await;
        assert!(matches!(outcome, Err(StoreError::Unavailable(_))), "{outcome:?}");
    }
    holder.batch_execute("COMMIT").await.unwrap();
    assert_eq!(insert(&desk, other(0)).await.unwrap(), new());
    assert_eq!(desk.counts().await[0], 1);
    check(&desk).await;
}

async fn outside_ends(holder: &Client, sql: &str) {
    holder.query(sql, &[]).await.unwrap();
}

#[tokio::test]
async fn intents_are_written_with_tokens() {
    let desk = StoreHarness::open(Engine::Postgres).await;
    let intent = |at: u8| {
        let record = TokenIntentRecord {
            id: TokenIntentId(Uuid::from_bytes([at; 16])),
            token_type: TokenType::Token,
            fingerprint: Some(Fingerprint([at; 32])),
            containers: record("x-1").containers,
            created_by: desk.caller.application(),
            created_at: desk.now(),
            expires_at: desk.now().after(DAY),
            body: Sealed::from_stored(vec![at]),
        };
        StoredTokenIntent { record, cvc: (at < 4).then(|| code("123")) }
    };
    let write = |at: u8| -> Write<'_> {
        let audit = desk.audit(Operation::CreateTokenIntent);
        let answer =
            scrip_core::idempotency::AnswerRecord { parts: vec![], ..desk.answer([at; 32]) };
        let entity = intent(at).record.id.to_string();
        let written = Beside { audit, entity, answer: (at != 5).then_some(answer) };
        let inserted = desk.store().insert_token_intent(desk.inquiry(), intent(at), written);
        Box::pin(async move { inserted.await.map(|()| Batched::Written(vec![])) })
    };
    // The sixth has the first one's id.
    let outcomes = among_others(&desk, [1, 2, 3, 4, 5, 1].map(write).into()).await;
    let (same, written) = outcomes.split_last().unwrap();
    assert!(written.iter().all(Result::is_ok), "{outcomes:?}");
    assert!(same.is_err(), "{outcomes:?}");
    for at in 1..6 {
        let inquiry = desk.inquiry();
        let id = intent(at).record.id;
        let found = desk.store().find_token_intent(inquiry, id, desk.now()).await.unwrap();
        assert_eq!(found, Some(intent(at)));
        assert_eq!(matches!(desk.claim([at; 32]).await, Claimed::Answered(_)), at != 5);
    }
    check(&desk).await;
}

/// An update goes with the others, behind a savepoint of its own.
#[tokio::test]
async fn updates_are_written_with_inserts() {
    let desk = StoreHarness::open(Engine::Postgres).await;
    desk.insert(other(1)).await;
    let update = UpdateToken {
        permit: desk.permit(Permission::TokenUpdate),
        token: revised(&other(1)),
        cvc: CvcChange::Replace(code("123")),
        intent: None,
        deduplicate: Deduplicate::Yes,
        unless_named: None,
        audit: desk.audit(Operation::UpdateToken),
    };
    let outcomes = among_others(&desk, vec![sent(&desk, vec![TokenWrite::Update(update)], None)]);
    let outcomes = outcomes.await;
    assert_eq!(outcomes[0].as_ref().unwrap(), &Batched::Written(vec![Outcome::Updated]));
    let found = desk.find("other-1").await.unwrap();
    assert_eq!(found, StoredToken { record: revised(&other(1)), cvc: Some(code("123")) });
    check(&desk).await;
}

/// More than go into one transaction.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_are_written_by_few_transactions() {
    let desk = StoreHarness::open(Engine::Postgres).await;
    let store = Arc::clone(&desk.world.vault.store);
    let mut tasks = tokio::task::JoinSet::new();
    for at in 0..200_u8 {
        let insert = insertion(&desk, bare(other(at)), Deduplicate::Yes);
        let batch = TokenBatch { writes: vec![TokenWrite::Insert(insert)], render: None };
        let (store, inquiry) = (Arc::clone(&store), desk.inquiry());
        tasks.spawn(async move { store.write_tokens(inquiry, batch).await.unwrap() });
    }
    assert!(tasks.join_all().await.into_iter().all(|it| it == new()));
    let log = desk.store().measures().logs.remove(0);
    assert_eq!((log.log, log.batch.sum, log.waiting), ("vault", 200, 0));
    assert!(log.batch.count() >= 4, "none has more than 64");
    check(&desk).await;
}
