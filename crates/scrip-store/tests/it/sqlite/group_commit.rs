//! Group commit: values that are written once per commit are the same as if each write had written
//! them.

use std::{future::Future, pin::Pin, task::Poll, time::Duration};

use rusqlite::Connection;
use scrip_core::{
    audit::AuditRecord,
    card::TokenType,
    disclosure::Deduplicate,
    operations::tenants::delete_tenant::delete_tenant,
    policy::{Caller, PolicyPermit},
    store::ExpiringEntity,
    token::{StoredToken, TokenRecord},
    token_batch::{BatchOutcome, DeleteToken, InsertToken, TokenBatch, TokenWrite},
    types::{Operation, Permission},
};
use scrip_testing::{
    store_harness::{StoreHarness, no_events, token_record},
    vault_harness::{Engine, containers, token_id},
};

use crate::audit::log_files::verify_logs;

const IDS: [&str; 5] = ["one", "two", "three", "four", "five"];
const MINUTE: Duration = Duration::from_secs(60);

type GroupedWrite<'a> = Pin<Box<dyn Future<Output = bool> + 'a>>;

/// Runs all writes in one commit, in this order: a lock blocks the writer until all are queued.
/// Returns whether each write succeeded.
async fn run_in_one_commit(harness: &StoreHarness, writes: Vec<GroupedWrite<'_>>) -> Vec<bool> {
    let attacker = Connection::open(harness.vault_harness.file()).unwrap();
    attacker.execute_batch("BEGIN IMMEDIATE").unwrap();
    let count_commits = || harness.store().metrics().writers.first().unwrap().batch_sizes.count();
    let commits_before = count_commits();
    let mut pending_writes = Vec::new();
    for mut write in writes {
        let polled = std::future::poll_fn(|it| Poll::Ready(write.as_mut().poll(it)));
        assert!(polled.await.is_pending(), "the lock should block all writes");
        pending_writes.push(write);
    }
    attacker.execute_batch("COMMIT").unwrap();
    let mut outcomes = Vec::new();
    for write in pending_writes {
        outcomes.push(write.await);
    }
    assert!(
        count_commits() <= commits_before + 2,
        "the writes should share one commit, except possibly the first"
    );
    outcomes
}

/// A batch of new tokens, written completely or not at all.
async fn insert_batch(
    harness: &StoreHarness,
    caller: &Caller,
    ids: &[&str],
    lifetime: Option<Duration>,
) -> bool {
    let build_insert = |id: &&str| {
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
            events: no_events(),
        })
    };
    let batch = TokenBatch { writes: ids.iter().map(build_insert).collect(), build_record: None };
    let lookup = caller.permit_lookup(Permission::TokenCreate).unwrap();
    matches!(harness.store().write_tokens(lookup, batch).await, Ok(BatchOutcome::Written(_)))
}

async fn delete_token(harness: &StoreHarness, caller: &Caller, id: &str) -> bool {
    let audit = AuditRecord::new(Operation::DeleteToken, caller, harness.now());
    let delete = DeleteToken { id: token_id(id), revision: 0, audit, deliveries: Vec::new() };
    let permit = caller.permit(Permission::TokenDelete, &containers(&["/"])).unwrap();
    harness.store().delete_token(permit, delete).await.is_ok()
}

async fn delete_expired_tokens(harness: &StoreHarness) -> bool {
    let events = harness.expiry_events(Operation::ExpireToken).await;
    let (now, audit) = (harness.now(), events.audit.clone());
    harness.store().delete_expired(ExpiringEntity::Token, now, audit, events).await.is_ok()
}

fn query_number(harness: &StoreHarness, sql: &str) -> i64 {
    let connection = Connection::open(harness.vault_harness.file()).unwrap();
    connection.query_row(sql, [], |row| row.get(0)).unwrap()
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
    "SELECT count(*) FROM log_records WHERE outcome = 'created' AND operation = 'create_token'";

/// Checks that the usage counters match the rows, and that the chains are valid.
fn check_consistency(harness: &StoreHarness, context: &str) {
    assert_eq!(query_number(harness, COUNT_USAGE_DIFFERENCES), 0, "{context}");
    let created_query = "SELECT coalesce(sum(created), 0) FROM usage_months";
    assert_eq!(
        query_number(harness, created_query),
        query_number(harness, COUNT_CREATED_RECORDS),
        "{context}"
    );
    assert!(is_log_valid(harness), "{context}");
}

fn is_log_valid(harness: &StoreHarness) -> bool {
    let file = harness.vault_harness.file();
    let existing_tenants = [&harness.caller, &harness.stranger].map(|it| it.tenant().id);
    let key = harness.vault_harness.vault.audit_trail.key().unwrap();
    verify_logs(file.parent().unwrap(), key, &existing_tenants, &[]).problems.is_empty()
}

#[tokio::test]
async fn rejected_write_leaves_no_rows_at_any_position_in_its_group() {
    for rejected_position in 0..4 {
        let harness = StoreHarness::open(Engine::Sqlite).await;
        let (caller, other_caller) = (&harness.caller, &harness.stranger);
        assert!(insert_batch(&harness, caller, &["five"], None).await);
        let mut writes: Vec<GroupedWrite<'_>> = vec![
            Box::pin(insert_batch(&harness, caller, &["one", "two"], None)),
            Box::pin(insert_batch(&harness, other_caller, &["one"], None)),
            Box::pin(delete_token(&harness, caller, "five")),
        ];
        // Writes two tokens and their records before it finds the conflict.
        let rejected = insert_batch(&harness, other_caller, &["three", "four", "four"], None);
        writes.insert(rejected_position, Box::pin(rejected));
        let outcomes = run_in_one_commit(&harness, writes).await;
        let expected: Vec<_> = (0..4).map(|position| position != rejected_position).collect();
        assert_eq!(outcomes, expected);
        check_consistency(&harness, &format!("rejected at {rejected_position}"));
        assert_eq!(
            (
                query_number(&harness, "SELECT count(*) FROM tokens"),
                query_number(&harness, COUNT_CREATED_RECORDS)
            ),
            (3, 4)
        );
    }
}

/// A pseudorandom number; each seed gives another sequence.
fn next_pseudorandom(state: &mut u64, below: u64) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    usize::try_from((*state >> 33) % below).unwrap()
}

#[tokio::test]
async fn usage_counts_match_rows_after_random_grouped_writes() {
    let harness = StoreHarness::open(Engine::Sqlite).await;
    let mut state = 1;
    for round in 0..60 {
        let mut writes: Vec<GroupedWrite<'_>> = Vec::new();
        for _ in 0..=next_pseudorandom(&mut state, 8) {
            let caller = if next_pseudorandom(&mut state, 3) > 0 {
                &harness.caller
            } else {
                &harness.stranger
            };
            let id = IDS[next_pseudorandom(&mut state, 5)];
            let lifetime = (next_pseudorandom(&mut state, 2) > 0).then_some(MINUTE);
            writes.push(match next_pseudorandom(&mut state, 6) {
                0 => Box::pin(delete_expired_tokens(&harness)),
                1 => Box::pin(delete_token(&harness, caller, id)),
                2 | 3 => Box::pin(insert_one_token(&harness, caller, id, lifetime)),
                _ => {
                    let ids = [id, IDS[next_pseudorandom(&mut state, 5)]];
                    Box::pin(insert_two_tokens(&harness, caller, ids, lifetime))
                }
            });
        }
        run_in_one_commit(&harness, writes).await;
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
    let delete = async { delete_tenant(&harness.vault_harness.vault, permit).await.is_ok() };
    let writes: Vec<GroupedWrite<'_>> = vec![
        Box::pin(insert_batch(&harness, &harness.stranger, &["one"], None)),
        Box::pin(insert_batch(&harness, &harness.caller, &["one", "two"], Some(MINUTE))),
        Box::pin(delete),
        Box::pin(insert_batch(&harness, &harness.caller, &["three"], None)),
    ];
    assert_eq!(run_in_one_commit(&harness, writes).await, [true, true, true, false]);
    assert_eq!(query_number(&harness, "SELECT sum(count) FROM usage_types"), 1);
    harness.advance(MINUTE);
    assert!(delete_expired_tokens(&harness).await);
    assert_eq!(query_number(&harness, "SELECT count(*) FROM tokens"), 1);
    check_remaining_tenant(&harness);
}

/// Checks that the chain of a deleted tenant continues and has the retention of its final record.
fn check_remaining_tenant(harness: &StoreHarness) {
    assert_eq!(query_number(harness, "SELECT sum(count) FROM usage_types"), 1);
    assert_eq!(query_number(harness, "SELECT count(*) FROM usage_months"), 1);
    let retention_query = "SELECT count(*) FROM chain_heads WHERE retention_seconds IS NOT NULL";
    assert_eq!(query_number(harness, retention_query), 1);
    assert!(is_log_valid(harness));
}

#[tokio::test]
async fn usage_count_overflow_does_not_fail_the_commit() {
    let harness = StoreHarness::open(Engine::Sqlite).await;
    assert!(insert_batch(&harness, &harness.caller, &["one"], None).await);
    let attacker = Connection::open(harness.vault_harness.file()).unwrap();
    let fill_counters = "UPDATE usage_types SET count = 9223372036854775806;
        UPDATE usage_months SET created = 9223372036854775807";
    attacker.execute_batch(fill_counters).unwrap();
    let writes: Vec<GroupedWrite<'_>> = vec![
        Box::pin(insert_batch(&harness, &harness.caller, &["three"], None)),
        Box::pin(insert_batch(&harness, &harness.stranger, &["one"], None)),
        Box::pin(insert_batch(&harness, &harness.caller, &["two"], None)),
    ];
    assert_eq!(run_in_one_commit(&harness, writes).await, [true; 3]);
    assert_eq!(query_number(&harness, "SELECT count(*) FROM tokens"), 4);
    assert!(is_log_valid(&harness));
}

#[tokio::test]
async fn unwritable_chain_head_does_not_fail_the_commit_and_is_detected() {
    let harness = StoreHarness::open(Engine::Sqlite).await;
    let attacker = Connection::open(harness.vault_harness.file()).unwrap();
    let tenant = harness.caller.tenant().id.0.simple();
    let reject_trigger = format!(
        "CREATE TRIGGER refused BEFORE UPDATE ON chain_heads WHEN NEW.tenant = x'{tenant}'
         BEGIN SELECT RAISE(ABORT, 'refused'); END"
    );
    attacker.execute_batch(&reject_trigger).unwrap();
    for id in ["one", "two"] {
        let writes: Vec<GroupedWrite<'_>> = vec![
            Box::pin(insert_one_token(&harness, &harness.caller, id, None)),
            Box::pin(insert_one_token(&harness, &harness.stranger, id, None)),
        ];
        assert_eq!(run_in_one_commit(&harness, writes).await, [true; 2]);
    }
    assert_eq!(query_number(&harness, "SELECT count(*) FROM tokens"), 4);
    assert!(!is_log_valid(&harness));
}
