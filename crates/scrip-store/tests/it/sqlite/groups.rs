//! Pieces of work that share a commit: what is put once for all of them is as if each had put it.

use std::{future::Future, pin::Pin, task::Poll, time::Duration};

use rusqlite::Connection;
use scrip_core::{
    audit::{AuditRecord, Operation},
    operations::tenants::delete_tenant::delete_tenant,
    policy::{Caller, Mandate, Permission},
    store::Ending,
    token::{
        Batched, Deduplicate, DeleteToken, InsertToken, StoredToken, TokenBatch, TokenRecord,
        TokenType, TokenWrite,
    },
};
use scrip_testing::{
    store_harness::{StoreHarness, record},
    vault_harness::{Engine, containers, token_id},
};

use crate::audit::trail::verify;

const IDS: [&str; 5] = ["one", "two", "three", "four", "five"];
const MINUTE: Duration = Duration::from_secs(60);

type Work<'a> = Pin<Box<dyn Future<Output = bool> + 'a>>;

/// All of these in one commit, in this order: nobody can write until each has been handed over. What
/// each of them says.
async fn together(desk: &StoreHarness, works: Vec<Work<'_>>) -> Vec<bool> {
    let outside = Connection::open(desk.world.file()).unwrap();
    outside.execute_batch("BEGIN IMMEDIATE").unwrap();
    let commits = || desk.store().measures().logs.first().unwrap().batch.count();
    let before = commits();
    let mut waiting = Vec::new();
    for mut work in works {
        let polled = std::future::poll_fn(|it| Poll::Ready(work.as_mut().poll(it)));
        assert!(polled.await.is_pending(), "nobody could write");
        waiting.push(work);
    }
    outside.execute_batch("COMMIT").unwrap();
    let mut said = Vec::new();
    for work in waiting {
        said.push(work.await);
    }
    assert!(commits() <= before + 2, "they shared one, or the first had its own");
    said
}

/// A batch of new tokens: all of them or none.
async fn insert(
    desk: &StoreHarness,
    caller: &Caller,
    ids: &[&str],
    lives: Option<Duration>,
) -> bool {
    let write = |id: &&str| {
        let is_card = matches!(*id, "one" | "three");
        let record = TokenRecord {
            token_type: if is_card { TokenType::Card } else { TokenType::Token },
            created_at: desk.now(),
            expires_at: lives.map(|it| desk.now().after(it)),
            ..record(id)
        };
        TokenWrite::Insert(InsertToken {
            permit: caller.permit(Permission::TokenCreate, &containers(&["/"])).unwrap(),
            token: StoredToken { record, cvc: None },
            intent: None,
            deduplicate: Deduplicate::No,
            audit: AuditRecord::new(Operation::CreateToken, caller, desk.now()),
        })
    };
    let batch = TokenBatch { writes: ids.iter().map(write).collect(), render: None };
    let inquiry = caller.inquire(Permission::TokenCreate).unwrap();
    matches!(desk.store().write_tokens(inquiry, batch).await, Ok(Batched::Written(_)))
}

async fn delete(desk: &StoreHarness, caller: &Caller, id: &str) -> bool {
    let audit = AuditRecord::new(Operation::DeleteToken, caller, desk.now());
    let delete = DeleteToken { id: token_id(id), revision: 0, audit };
    let permit = caller.permit(Permission::TokenDelete, &containers(&["/"])).unwrap();
    desk.store().delete_token(permit, delete).await.is_ok()
}

async fn sweep(desk: &StoreHarness) -> bool {
    let audit = desk.world.vault.audit.of_vault(Operation::ExpireToken, desk.now()).unwrap();
    desk.store().sweep(Ending::Token, desk.now(), audit).await.is_ok()
}

fn number(desk: &StoreHarness, sql: &str) -> i64 {
    let file = Connection::open(desk.world.file()).unwrap();
    file.query_row(sql, [], |row| row.get(0)).unwrap()
}

const MISCOUNTED: &str = "
    SELECT count(*) FROM (
        SELECT tenant, type, count(*) AS count FROM tokens GROUP BY tenant, type
        UNION SELECT tenant, type, count FROM usage_types
    ) AS it
    WHERE it.count <> (SELECT count(*) FROM tokens WHERE tenant = it.tenant AND type = it.type)
        OR it.count <> (SELECT count FROM usage_types WHERE tenant = it.tenant AND type = it.type)
        OR NOT EXISTS (SELECT 1 FROM usage_types WHERE tenant = it.tenant AND type = it.type)";
const MADE: &str =
    "SELECT count(*) FROM audit WHERE outcome = 'created' AND operation = 'create_token'";

/// Counts say what rows there are, and chains are whole.
fn check(desk: &StoreHarness, what: &str) {
    assert_eq!(number(desk, MISCOUNTED), 0, "{what}");
    let counted = "SELECT coalesce(sum(created), 0) FROM usage_months";
    assert_eq!(number(desk, counted), number(desk, MADE), "{what}");
    assert!(is_whole(desk), "{what}");
}

fn is_whole(desk: &StoreHarness) -> bool {
    let file = desk.world.file();
    let living = [&desk.caller, &desk.stranger].map(|it| it.tenant().id);
    let key = desk.world.vault.audit.key().unwrap();
    verify(file.parent().unwrap(), key, &living, &[]).problems.is_empty()
}

#[tokio::test]
async fn a_refused_one_leaves_nothing_wherever_it_stands() {
    for refused_at in 0..4 {
        let desk = StoreHarness::open(Engine::Sqlite).await;
        let (ours, theirs) = (&desk.caller, &desk.stranger);
        assert!(insert(&desk, ours, &["five"], None).await);
        let mut works: Vec<Work<'_>> = vec![
            Box::pin(insert(&desk, ours, &["one", "two"], None)),
            Box::pin(insert(&desk, theirs, &["one"], None)),
            Box::pin(delete(&desk, ours, "five")),
        ];
        // Writes two tokens and their records before it meets one that is there.
        let refused = insert(&desk, theirs, &["three", "four", "four"], None);
        works.insert(refused_at, Box::pin(refused));
        let said = together(&desk, works).await;
        let expected: Vec<_> = (0..4).map(|at| at != refused_at).collect();
        assert_eq!(said, expected);
        check(&desk, &format!("refused at {refused_at}"));
        assert_eq!((number(&desk, "SELECT count(*) FROM tokens"), number(&desk, MADE)), (3, 4));
    }
}

/// Numbers that only look random; each seed is another course of things.
fn draw(state: &mut u64, below: u64) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    usize::try_from((*state >> 33) % below).unwrap()
}

#[tokio::test]
async fn counts_are_what_there_is_after_whatever_happened() {
    let desk = StoreHarness::open(Engine::Sqlite).await;
    let mut state = 1;
    for round in 0..60 {
        let mut works: Vec<Work<'_>> = Vec::new();
        for _ in 0..=draw(&mut state, 8) {
            let caller = if draw(&mut state, 3) > 0 { &desk.caller } else { &desk.stranger };
            let id = IDS[draw(&mut state, 5)];
            let lives = (draw(&mut state, 2) > 0).then_some(MINUTE);
            works.push(match draw(&mut state, 6) {
                0 => Box::pin(sweep(&desk)),
                1 => Box::pin(delete(&desk, caller, id)),
                2 | 3 => Box::pin(insert_one(&desk, caller, id, lives)),
                _ => {
                    let ids = [id, IDS[draw(&mut state, 5)]];
                    Box::pin(insert_two(&desk, caller, ids, lives))
                }
            });
        }
        together(&desk, works).await;
        check(&desk, &format!("round {round}"));
        desk.advance(MINUTE * u32::try_from(draw(&mut state, 3)).unwrap());
    }
}

async fn insert_one(
    desk: &StoreHarness,
    caller: &Caller,
    id: &str,
    lives: Option<Duration>,
) -> bool {
    insert(desk, caller, &[id], lives).await
}

async fn insert_two(
    desk: &StoreHarness,
    by: &Caller,
    ids: [&str; 2],
    lives: Option<Duration>,
) -> bool {
    insert(desk, by, &ids, lives).await
}

#[tokio::test]
async fn a_tenant_that_is_deleted_behind_its_last_token_is_not_counted() {
    let desk = StoreHarness::open(Engine::Sqlite).await;
    let mandate = Mandate::of_operator(desk.caller.principal().tenant().clone());
    let end = async { delete_tenant(&desk.world.vault, mandate).await.is_ok() };
    let works: Vec<Work<'_>> = vec![
        Box::pin(insert(&desk, &desk.stranger, &["one"], None)),
        Box::pin(insert(&desk, &desk.caller, &["one", "two"], Some(MINUTE))),
        Box::pin(end),
        Box::pin(insert(&desk, &desk.caller, &["three"], None)),
    ];
    assert_eq!(together(&desk, works).await, [true, true, true, false]);
    assert_eq!(number(&desk, "SELECT sum(count) FROM usage_types"), 1);
    desk.advance(MINUTE);
    assert!(sweep(&desk).await);
    assert_eq!(number(&desk, "SELECT count(*) FROM tokens"), 1);
    check_living(&desk);
}

/// The chain of a deleted tenant goes on, and is kept for as long as its end says.
fn check_living(desk: &StoreHarness) {
    assert_eq!(number(desk, "SELECT sum(count) FROM usage_types"), 1);
    assert_eq!(number(desk, "SELECT count(*) FROM usage_months"), 1);
    let kept = "SELECT count(*) FROM audit_heads WHERE retention_seconds IS NOT NULL";
    assert_eq!(number(desk, kept), 1);
    assert!(is_whole(desk));
}

#[tokio::test]
async fn a_count_that_cannot_be_raised_stops_nobody() {
    let desk = StoreHarness::open(Engine::Sqlite).await;
    assert!(insert(&desk, &desk.caller, &["one"], None).await);
    let outside = Connection::open(desk.world.file()).unwrap();
    let full = "UPDATE usage_types SET count = 9223372036854775806;
        UPDATE usage_months SET created = 9223372036854775807";
    outside.execute_batch(full).unwrap();
    let works: Vec<Work<'_>> = vec![
        Box::pin(insert(&desk, &desk.caller, &["three"], None)),
        Box::pin(insert(&desk, &desk.stranger, &["one"], None)),
        Box::pin(insert(&desk, &desk.caller, &["two"], None)),
    ];
    assert_eq!(together(&desk, works).await, [true; 3]);
    assert_eq!(number(&desk, "SELECT count(*) FROM tokens"), 4);
    assert!(is_whole(&desk));
}

#[tokio::test]
async fn a_head_that_cannot_be_put_stops_nobody_and_is_found() {
    let desk = StoreHarness::open(Engine::Sqlite).await;
    let outside = Connection::open(desk.world.file()).unwrap();
    let one = desk.caller.tenant().id.0.simple();
    let refused = format!(
        "CREATE TRIGGER refused BEFORE UPDATE ON audit_heads WHEN NEW.tenant = x'{one}'
         BEGIN SELECT RAISE(ABORT, 'refused'); END"
    );
    outside.execute_batch(&refused).unwrap();
    for id in ["one", "two"] {
        let works: Vec<Work<'_>> = vec![
            Box::pin(insert_one(&desk, &desk.caller, id, None)),
            Box::pin(insert_one(&desk, &desk.stranger, id, None)),
        ];
        assert_eq!(together(&desk, works).await, [true; 2]);
    }
    assert_eq!(number(&desk, "SELECT count(*) FROM tokens"), 4);
    assert!(!is_whole(&desk));
}
