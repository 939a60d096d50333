//! Several nodes on one PostgreSQL: what must happen once happens once, wherever it is asked for.

use std::{sync::Arc, time::Duration};

use scrip_core::{
    audit::{LogKind, Operation, ReadLogBatch, ReadLogEntry},
    id::TokenIntentId,
    idempotency::ClaimOutcome,
    store::{CommitExtras, Maintenance, Store, StoreError},
    token::{
        BatchOutcome, Deduplicate, StoredTokenIntent, TokenIntentRecord, TokenRecord, TokenType,
        TokenWrite, WriteConflict, WriteOutcome,
    },
};
use scrip_seal::{Fingerprint, Sealed};
use scrip_store::{PostgresStore, postgres::PostgresSettings};
use scrip_testing::{
    postgres::{SERVE_ROLE, TestDatabase},
    store_harness::{
        DAY, InsertOutcome, SingleInsert, StoreHarness, insert_outcome, token_record, without_cvc,
    },
    vault_harness::{Engine, node_settings},
};
use tokio::task::JoinSet;
use tokio_postgres::NoTls;
use uuid::Uuid;

const CLIENTS: usize = 32;
const ROUNDS: usize = 8;

/// The desk's own node and another.
async fn open_nodes() -> (StoreHarness, [Arc<dyn Store>; 2]) {
    let harness = StoreHarness::open(Engine::Postgres).await;
    let other = PostgresStore::open(node_settings(harness.vault_harness.database())).await.unwrap();
    let other: Arc<dyn Store> = Arc::new(other);
    let nodes = [Arc::clone(&harness.vault_harness.vault.store), other];
    (harness, nodes)
}

/// Each insert on one of the nodes in turn, all at once.
async fn insert_on_nodes(
    harness: &StoreHarness,
    nodes: &[Arc<dyn Store>; 2],
    inserts: Vec<SingleInsert>,
) -> Vec<Result<InsertOutcome, StoreError>> {
    let mut tasks = JoinSet::new();
    for (at, insert) in inserts.into_iter().enumerate() {
        let (lookup, batch) = harness.insert_batch(insert);
        let node = Arc::clone(&nodes[at % 2]);
        tasks.spawn(async move { insert_outcome(node.write_tokens(lookup, batch).await) });
    }
    tasks.join_all().await
}

/// Numbers without gaps, each linked to the one before: as `scrip audit verify` asks.
pub(crate) async fn check_chain(harness: &StoreHarness, log: LogKind) {
    let tenant = harness.caller.tenant().id;
    let records = harness.store().list_records(log, tenant, 0, 100_000).await.unwrap();
    let numbers: Vec<_> = records.iter().map(|it| it.sequence).collect();
    let last = i64::try_from(numbers.len()).unwrap();
    assert_eq!(numbers, (1..=last).collect::<Vec<_>>());
    let heads = harness.store().list_heads(log).await.unwrap();
    let head = heads.iter().find(|it| it.tenant == tenant).unwrap();
    assert_eq!((head.sequence, Some(head.link)), (last, records.last().map(|it| it.link)));
    let key = harness.vault_harness.vault.audit_trail.key().unwrap();
    assert!(head.has_valid_mac(key, log));
    let mut before = scrip_seal::Mac([0; 32]);
    for record in &records {
        assert!(
            record.link.constant_time_eq(&record.as_row().compute_link(key, log, before)),
            "{}",
            record.sequence
        );
        before = record.link;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn equal_cards_become_one_token_across_nodes() {
    let (harness, nodes) = open_nodes().await;
    for round in 0..ROUNDS {
        let fingerprint = Some(Fingerprint([u8::try_from(round).unwrap(); 32]));
        let token = |at| TokenRecord { fingerprint, ..token_record(&format!("id-{round}-{at}")) };
        let insert = |at| harness.new_insert(without_cvc(token(at)), Deduplicate::Yes);
        let outcomes = insert_on_nodes(&harness, &nodes, (0..CLIENTS).map(insert).collect()).await;
        let new = outcomes.iter().filter(|it| matches!(it, Ok(InsertOutcome::New))).count();
        let old = outcomes.iter().filter(|it| matches!(it, Ok(InsertOutcome::Existing(_)))).count();
        assert_eq!((new, old), (1, CLIENTS - 1));
    }
    let [tokens, ..] = harness.row_counts().await;
    assert_eq!(tokens, u64::try_from(ROUNDS).unwrap());
    check_chain(&harness, LogKind::Audit).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idempotency_key_has_one_effect_across_nodes() {
    let (harness, nodes) = open_nodes().await;
    for round in 0..ROUNDS {
        let key = [u8::try_from(round).unwrap(); 32];
        let insert = |at| {
            let token =
                TokenRecord { fingerprint: None, ..token_record(&format!("id-{round}-{at}")) };
            let response = harness.idempotency_record(key);
            let insert = harness.new_insert(without_cvc(token), Deduplicate::No);
            SingleInsert { build_record: Some(Box::new(move |_| Some(response))), ..insert }
        };
        let outcomes = insert_on_nodes(&harness, &nodes, (0..CLIENTS).map(insert).collect()).await;
        let new = outcomes.iter().filter(|it| matches!(it, Ok(InsertOutcome::New))).count();
        let rejected =
            outcomes.iter().filter(|it| matches!(it, Err(StoreError::AlreadyCompleted))).count();
        assert_eq!((new, rejected), (1, CLIENTS - 1));
        assert!(matches!(harness.claim_digest(key).await, ClaimOutcome::Completed(_)));
    }
    let [tokens, ..] = harness.row_counts().await;
    assert_eq!(tokens, u64::try_from(ROUNDS).unwrap());
    check_chain(&harness, LogKind::Audit).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn token_id_is_given_once_across_nodes() {
    let (harness, nodes) = open_nodes().await;
    let token = TokenRecord { fingerprint: None, ..token_record("same") };
    let insert = |_| harness.new_insert(without_cvc(token.clone()), Deduplicate::No);
    let outcomes = insert_on_nodes(&harness, &nodes, (0..CLIENTS).map(insert).collect()).await;
    let new = outcomes.iter().filter(|it| matches!(it, Ok(InsertOutcome::New))).count();
    let taken = outcomes.iter().filter(|it| matches!(it, Ok(InsertOutcome::IdTaken))).count();
    assert_eq!((new, taken), (1, CLIENTS - 1));
    check_chain(&harness, LogKind::Audit).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn token_intent_becomes_one_token_across_nodes() {
    let (harness, nodes) = open_nodes().await;
    let intent = TokenIntentRecord {
        id: TokenIntentId(Uuid::from_bytes([9; 16])),
        token_type: TokenType::Token,
        fingerprint: None,
        containers: token_record("one").containers,
        created_by: harness.caller.application(),
        created_at: harness.now(),
        expires_at: harness.now().plus(DAY),
        body: Sealed::from_stored(b"body".to_vec()),
    };
    let audit = harness.audit(Operation::CreateTokenIntent);
    let written = CommitExtras { audit, entity: intent.id.to_string(), idempotency: None };
    let stored = StoredTokenIntent { record: intent.clone(), cvc: None };
    harness.store().insert_token_intent(harness.lookup_permit(), stored, written).await.unwrap();
    let mut tasks = JoinSet::new();
    for at in 0..CLIENTS {
        let token = TokenRecord { fingerprint: None, ..token_record(&format!("id-{at}")) };
        let (lookup, mut batch) =
            harness.insert_batch(harness.new_insert(without_cvc(token), Deduplicate::No));
        let TokenWrite::Insert(insert) = &mut batch.writes[0] else { panic!("it is an insert") };
        insert.intent = Some(intent.id);
        let node = Arc::clone(&nodes[at % 2]);
        tasks.spawn(async move { node.write_tokens(lookup, batch).await.unwrap() });
    }
    let outcomes = tasks.join_all().await;
    let gone = BatchOutcome::Rejected(vec![(0, WriteConflict::IntentMissing)]);
    let new =
        outcomes.iter().filter(|it| **it == BatchOutcome::Written(vec![WriteOutcome::New])).count();
    let late = outcomes.iter().filter(|it| **it == gone).count();
    assert_eq!((new, late), (1, CLIENTS - 1));
    let [tokens, ..] = harness.row_counts().await;
    assert_eq!(tokens, 1);
    check_chain(&harness, LogKind::Audit).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_on_several_nodes_form_one_chain() {
    let (harness, nodes) = open_nodes().await;
    let tenant = harness.caller.tenant().id;
    let mut tasks = JoinSet::new();
    for at in 0..CLIENTS * ROUNDS {
        let entries = vec![ReadLogEntry::new(format!("id-{at}"), "read")];
        let access = ReadLogBatch { tenant, audit: harness.audit(Operation::GetToken), entries };
        let node = Arc::clone(&nodes[at % 2]);
        tasks.spawn(async move { node.append_read_log(access).await.unwrap() });
    }
    tasks.join_all().await;
    let records = harness.store().list_records(LogKind::Read, tenant, 0, 100_000).await.unwrap();
    assert_eq!(records.len(), CLIENTS * ROUNDS);
    check_chain(&harness, LogKind::Read).await;
}

/// A node that hangs inside a transaction keeps the tenant; when it is gone, so is what it held.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tenant_lock_of_a_dead_node_is_released() {
    let harness = StoreHarness::open(Engine::Postgres).await;
    let url = harness.vault_harness.database().superuser_url();
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    let connection = tokio::spawn(connection);
    client.batch_execute("BEGIN; UPDATE lanes SET last_token = last_token").await.unwrap();
    let (lookup, batch) = harness
        .insert_batch(harness.new_insert(without_cvc(token_record("one")), Deduplicate::Yes));
    let store = Arc::clone(&harness.vault_harness.vault.store);
    let write =
        tokio::spawn(async move { insert_outcome(store.write_tokens(lookup, batch).await) });
    // It cannot have been written: somebody holds the tenant's row.
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!write.is_finished());
    assert_eq!(harness.find("one").await, None);
    connection.abort();
    assert_eq!(write.await.unwrap().unwrap(), InsertOutcome::New);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_starting_concurrently_migrate_once() {
    let database = TestDatabase::create_empty().await;
    let settings = node_settings(&database);
    let rejected = PostgresStore::open(settings.clone()).await;
    assert!(matches!(rejected, Err(StoreError::Unavailable(_))));
    let migrate = |settings: PostgresSettings| tokio::spawn(PostgresStore::migrate(settings));
    let granting = settings.clone().with_serve_role(SERVE_ROLE);
    let all: Vec<_> = (0..8).map(|_| migrate(granting.clone())).collect();
    for one in all {
        one.await.unwrap().unwrap();
    }
    let status = PostgresStore::open(settings).await.unwrap().status().await.unwrap();
    assert_eq!((status.engine, status.schema), ("PostgreSQL", 1));
}
