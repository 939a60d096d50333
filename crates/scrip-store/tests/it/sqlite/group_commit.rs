//! Pieces of work that share a commit: what is put once for all of them is as if each had put it.

use std::{future::Future, pin::Pin, task::Poll, time::Duration};

use rusqlite::Connection;
use scrip_core::{
    audit::{AuditRecord, Operation},
    operations::tenants::delete_tenant::delete_tenant,
    policy::{Caller, Permission, PolicyPermit},
    store::ExpiringEntity,
    token::{
        BatchOutcome, Deduplicate, DeleteToken, InsertToken, StoredToken, TokenBatch, TokenRecord,
        TokenType, TokenWrite,
    },
};
use scrip_testing::{
    store_harness::{StoreHarness, token_record},
    vault_harness::{Engine, containers, token_id},
};

use crate::audit::log_tampering::verify_logs;

const IDS: [&str; 5] = ["one", "two", "three", "four", "five"];
const MINUTE: Duration = Duration::from_secs(60);

type GroupedWork<'a> = Pin<Box<dyn Future<Output = bool> + 'a>>;

/// All of these in one commit, in this order: nobody can write until each has been handed over. What
/// each of them says.
async fn run_in_one_commit(harness: &StoreHarness, works: Vec<GroupedWork<'_>>) -> Vec<bool> {
    let attacker = Connection::open(harness.vault_harness.file()).unwrap();
    attacker.execute_batch("BEGIN IMMEDIATE").unwrap();
    let commits = || harness.store().metrics().writers.first().unwrap().batch_sizes.count();
    let before = commits();
    let mut waiting = Vec::new();
    for mut work in works {
        let polled = std::future::poll_fn(|it| Poll::Ready(work.as_mut().poll(it)));
        assert!(polled.await.is_pending(), "nobody could write");
        waiting.push(work);
    }
    attacker.execute_batch("COMMIT").unwrap();
    let mut output = Vec::new();
    for work in waiting {
        output.push(work.await);
    }
    assert!(commits() <= before + 2, "they shared one, or the first had its own");
    output
}

/// A batch of new tokens: all of them or none.
async fn insert_batch(
    harness: &StoreHarness,
    caller: &Caller,
    ids: &[&str],
    lifetime: Option<Duration>,
) -> bool {
    let write = |id: &&str| {
        let is_card = matches!(*id, "one" | "three");
        let record = TokenRecord {
            token_type: if is_card { TokenType::Card } else { TokenType::Token },
            created_at: harness.now(),
            expires_at: lifetime.map(|it| harness.now().plus(it)),
            ..token_record(id)
        };
        TokenWrite::Insert(InsertToken {
            permit: caller.permit(Permission::TokenCreate, &containers(&["/"])).unwrap(),
            token: StoredToken { record, cvc: None },
            intent: None,
            deduplicate: Deduplicate::No,
            audit: AuditRecord::new(Operation::CreateToken, caller, harness.now()),
        })
    };
    let batch = TokenBatch { writes: ids.iter().map(write).collect(), build_record: None };
    let lookup = caller.permit_lookup(Permission::TokenCreate).unwrap();
    matches!(harness.store().write_tokens(lookup, batch).await, Ok(BatchOutcome::Written(_)))
}

async fn delete_token(harness: &StoreHarness, caller: &Caller, id: &str) -> bool {
    let audit = AuditRecord::new(Operation::DeleteToken, caller, harness.now());
    let delete = DeleteToken { id: token_id(id), revision: 0, audit };
    let permit = caller.permit(Permission::TokenDelete, &containers(&["/"])).unwrap();
    harness.store().delete_token(permit, delete).await.is_ok()
}

async fn delete_expired_tokens(harness: &StoreHarness) -> bool {
    let audit = harness
        .vault_harness
        .vault
        .audit_trail
        .record_for_vault(Operation::ExpireToken, harness.now())
        .unwrap();
    harness.store().delete_expired(ExpiringEntity::Token, harness.now(), audit).await.is_ok()
}

fn query_number(harness: &StoreHarness, sql: &str) -> i64 {
    let file = Connection::open(harness.vault_harness.file()).unwrap();
    file.query_row(sql, [], |row| row.get(0)).unwrap()
}

const COUNT_USAGE_DIFFERENCES: &str = "
    SELECT count(*) FROM (
        SELECT tenant, type, count(*) AS count FROM tokens GROUP BY tenant, type
        UNION SELECT tenant, type, count FROM usage_types
    ) AS it
    WHERE it.count <> (SELECT count(*) FROM tokens WHERE tenant = it.tenant AND type = it.type)
        OR it.count <> (SELECT count FROM usage_types WHERE tenant = it.tenant AND type = it.type)
        OR NOT EXISTS (SELECT 1 FROM usage_types WHERE tenant = it.tenant AND type = it.type)";
const COUNT_CREATED_RECORDS: &str =
    "SELECT count(*) FROM audit WHERE outcome = 'created' AND operation = 'create_token'";

/// Counts say what rows there are, and chains are whole.
fn check_consistency(harness: &StoreHarness, context: &str) {
    assert_eq!(query_number(harness, COUNT_USAGE_DIFFERENCES), 0, "{context}");
    let counted = "SELECT coalesce(sum(created), 0) FROM usage_months";
    assert_eq!(
        query_number(harness, counted),
        query_number(harness, COUNT_CREATED_RECORDS),
        "{context}"
    );
    assert!(is_log_valid(harness), "{context}");
}

fn is_log_valid(harness: &StoreHarness) -> bool {
    let file = harness.vault_harness.file();
    let existing = [&harness.caller, &harness.stranger].map(|it| it.tenant().id);
    let key = harness.vault_harness.vault.audit_trail.key().unwrap();
    verify_logs(file.parent().unwrap(), key, &existing, &[]).problems.is_empty()
}

#[tokio::test]
async fn rejected_work_leaves_nothing_at_any_position_in_its_group() {
    for refused_at in 0..4 {
        let harness = StoreHarness::open(Engine::Sqlite).await;
        let (ours, theirs) = (&harness.caller, &harness.stranger);
        assert!(insert_batch(&harness, ours, &["five"], None).await);
        let mut works: Vec<GroupedWork<'_>> = vec![
            Box::pin(insert_batch(&harness, ours, &["one", "two"], None)),
            Box::pin(insert_batch(&harness, theirs, &["one"], None)),
            Box::pin(delete_token(&harness, ours, "five")),
        ];
        // Writes two tokens and their records before it meets one that is there.
        let rejected = insert_batch(&harness, theirs, &["three", "four", "four"], None);
        works.insert(refused_at, Box::pin(rejected));
        let output = run_in_one_commit(&harness, works).await;
        let expected: Vec<_> = (0..4).map(|at| at != refused_at).collect();
        assert_eq!(output, expected);
        check_consistency(&harness, &format!("refused at {refused_at}"));
        assert_eq!(
            (
                query_number(&harness, "SELECT count(*) FROM tokens"),
                query_number(&harness, COUNT_CREATED_RECORDS)
            ),
            (3, 4)
        );
    }
}

/// Numbers that only look random; each seed is another course of things.
fn next_pseudorandom(state: &mut u64, below: u64) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    usize::try_from((*state >> 33) % below).unwrap()
}

#[tokio::test]
async fn usage_counts_match_rows_after_random_grouped_work() {
    let harness = StoreHarness::open(Engine::Sqlite).await;
    let mut state = 1;
    for round in 0..60 {
        let mut works: Vec<GroupedWork<'_>> = Vec::new();
        for _ in 0..=next_pseudorandom(&mut state, 8) {
            let caller = if next_pseudorandom(&mut state, 3) > 0 {
                &harness.caller
            } else {
                &harness.stranger
            };
            let id = IDS[next_pseudorandom(&mut state, 5)];
            let lives = (next_pseudorandom(&mut state, 2) > 0).then_some(MINUTE);
            works.push(match next_pseudorandom(&mut state, 6) {
                0 => Box::pin(delete_expired_tokens(&harness)),
                1 => Box::pin(delete_token(&harness, caller, id)),
                2 | 3 => Box::pin(insert_one_token(&harness, caller, id, lives)),
                _ => {
                    let ids = [id, IDS[next_pseudorandom(&mut state, 5)]];
                    Box::pin(insert_two_tokens(&harness, caller, ids, lives))
                }
            });
        }
        run_in_one_commit(&harness, works).await;
        check_consistency(&harness, &format!("round {round}"));
        harness.advance(MINUTE * u32::try_from(next_pseudorandom(&mut state, 3)).unwrap());
    }
}

async fn insert_one_token(
    harness: &StoreHarness,
    caller: &Caller,
    id: &str,
    lifetime: Option<Duration>,
) -> bool {
    insert_batch(harness, caller, &[id], lifetime).await
}

async fn insert_two_tokens(
    harness: &StoreHarness,
    caller: &Caller,
    ids: [&str; 2],
    lifetime: Option<Duration>,
) -> bool {
    insert_batch(harness, caller, &ids, lifetime).await
}

#[tokio::test]
async fn tenant_deleted_in_the_commit_of_its_last_token_is_not_counted() {
    let harness = StoreHarness::open(Engine::Sqlite).await;
    let permit = PolicyPermit::for_operator(harness.caller.principal().tenant().clone());
    let end = async { delete_tenant(&harness.vault_harness.vault, permit).await.is_ok() };
    let works: Vec<GroupedWork<'_>> = vec![
        Box::pin(insert_batch(&harness, &harness.stranger, &["one"], None)),
        Box::pin(insert_batch(&harness, &harness.caller, &["one", "two"], Some(MINUTE))),
        Box::pin(end),
        Box::pin(insert_batch(&harness, &harness.caller, &["three"], None)),
    ];
    assert_eq!(run_in_one_commit(&harness, works).await, [true, true, true, false]);
    assert_eq!(query_number(&harness, "SELECT sum(count) FROM usage_types"), 1);
    harness.advance(MINUTE);
    assert!(delete_expired_tokens(&harness).await);
    assert_eq!(query_number(&harness, "SELECT count(*) FROM tokens"), 1);
    check_remaining_tenant(&harness);
}

/// The chain of a deleted tenant goes on, and is kept for as long as its end says.
fn check_remaining_tenant(harness: &StoreHarness) {
    assert_eq!(query_number(harness, "SELECT sum(count) FROM usage_types"), 1);
    assert_eq!(query_number(harness, "SELECT count(*) FROM usage_months"), 1);
    let kept = "SELECT count(*) FROM audit_heads WHERE retention_seconds IS NOT NULL";
    assert_eq!(query_number(harness, kept), 1);
    assert!(is_log_valid(harness));
}

#[tokio::test]
async fn usage_count_overflow_does_not_fail_the_commit() {
    let harness = StoreHarness::open(Engine::Sqlite).await;
    assert!(insert_batch(&harness, &harness.caller, &["one"], None).await);
    let attacker = Connection::open(harness.vault_harness.file()).unwrap();
    let full = "UPDATE usage_types SET count = 9223372036854775806;
        UPDATE usage_months SET created = 9223372036854775807";
    attacker.execute_batch(full).unwrap();
    let works: Vec<GroupedWork<'_>> = vec![
        Box::pin(insert_batch(&harness, &harness.caller, &["three"], None)),
        Box::pin(insert_batch(&harness, &harness.stranger, &["one"], None)),
        Box::pin(insert_batch(&harness, &harness.caller, &["two"], None)),
    ];
    assert_eq!(run_in_one_commit(&harness, works).await, [true; 3]);
    assert_eq!(query_number(&harness, "SELECT count(*) FROM tokens"), 4);
    assert!(is_log_valid(&harness));
}

#[tokio::test]
async fn unwritable_chain_head_does_not_fail_the_commit_and_is_detected() {
    let harness = StoreHarness::open(Engine::Sqlite).await;
    let attacker = Connection::open(harness.vault_harness.file()).unwrap();
    let one = harness.caller.tenant().id.0.simple();
    let rejected = format!(
        "CREATE TRIGGER refused BEFORE UPDATE ON audit_heads WHEN NEW.tenant = x'{one}'
         BEGIN SELECT RAISE(ABORT, 'refused'); END"
    );
    attacker.execute_batch(&rejected).unwrap();
    for id in ["one", "two"] {
        let works: Vec<GroupedWork<'_>> = vec![
            Box::pin(insert_one_token(&harness, &harness.caller, id, None)),
            Box::pin(insert_one_token(&harness, &harness.stranger, id, None)),
        ];
        assert_eq!(run_in_one_commit(&harness, works).await, [true; 2]);
    }
    assert_eq!(query_number(&harness, "SELECT count(*) FROM tokens"), 4);
    assert!(!is_log_valid(&harness));
}
