//! Several nodes on one PostgreSQL: effects that must happen once happen once, on any node.

use std::{sync::Arc, time::Duration};

use scrip_core::{
    audit::LogKind,
    card::TokenType,
    change::CommitExtras,
    disclosure::Deduplicate,
    idempotency::ClaimOutcome,
    read_log::{ReadLogBatch, ReadLogEntry},
    store::{Maintenance, Store},
    token::{StoredTokenIntent, TokenIntentRecord, TokenRecord},
    token_batch::{BatchOutcome, TokenWrite, WriteConflict, WriteOutcome},
    types::{Operation, StoreError, id::TokenIntentId},
};
use scrip_seal::{Fingerprint, Sealed};
use scrip_store::{PostgresStore, postgres::PostgresSettings};
use scrip_testing::{
    postgres::{SERVE_ROLE, TestDatabase},
    store_harness::{
        DAY, DEDUPLICATE, InsertOutcome, SingleInsert, StoreHarness, insert_outcome, token_record,
        without_cvc,
    },
    vault_harness::{Engine, node_settings},
};
use tokio::task::JoinSet;
use tokio_postgres::NoTls;
use uuid::Uuid;

const CLIENT_COUNT: usize = 32;
const ROUND_COUNT: usize = 8;

/// Opens a harness and a second node. Returns the harness and both nodes.
async fn open_nodes() -> (StoreHarness, [Arc<dyn Store>; 2]) {
    let harness = StoreHarness::open(Engine::Postgres).await;
    let other_node =
        PostgresStore::open(node_settings(harness.vault_harness.database())).await.unwrap();
    let other_node: Arc<dyn Store> = Arc::new(other_node);
    let nodes = [Arc::clone(&harness.vault_harness.vault.store), other_node];
    (harness, nodes)
}

/// Runs all inserts concurrently, alternating between the nodes.
async fn insert_on_nodes(
    harness: &StoreHarness,
    nodes: &[Arc<dyn Store>; 2],
    inserts: Vec<SingleInsert>,
) -> Vec<Result<InsertOutcome, StoreError>> {
    let mut tasks = JoinSet::new();
    for (index, insert) in inserts.into_iter().enumerate() {
        let (lookup, batch) = harness.insert_batch(insert);
        let node = Arc::clone(&nodes[index % 2]);
        tasks.spawn(async move { insert_outcome(node.write_tokens(lookup, batch).await) });
    }
    tasks.join_all().await
}

/// Checks that sequence numbers have no gaps and that each record links to the previous one, like
/// `scrip audit verify`.
pub(crate) async fn check_chain(harness: &StoreHarness, log: LogKind) {
    let tenant = harness.caller.tenant().id;
    let records = harness.store().list_records(log, tenant, 0, 100_000).await.unwrap();
    let sequences: Vec<_> = records.iter().map(|it| it.sequence).collect();
    let last_sequence = i64::try_from(sequences.len()).unwrap();
    assert_eq!(sequences, (1..=last_sequence).collect::<Vec<_>>());
    let heads = harness.store().list_heads(log).await.unwrap();
    let head = heads.iter().find(|it| it.tenant == tenant).unwrap();
    assert_eq!((head.sequence, Some(head.link)), (last_sequence, records.last().map(|it| it.link)));
    let key = harness.vault_harness.vault.audit_trail.key().unwrap();
    assert!(head.has_valid_mac(key, log));
    let mut previous_link = scrip_seal::Mac([0; 32]);
    for record in &records {
        assert!(
            record.to_row().has_valid_link(key, log, previous_link),
            "wrong link of record {}",
            record.sequence
        );
        previous_link = record.link;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn equal_cards_become_one_token_across_nodes() {
    let (harness, nodes) = open_nodes().await;
    for round in 0..ROUND_COUNT {
        let fingerprint = Some(Fingerprint([u8::try_from(round).unwrap(); 32]));
        let build_token =
            |client| TokenRecord { fingerprint, ..token_record(&format!("id-{round}-{client}")) };
        let build_insert =
            |client| harness.new_insert(without_cvc(build_token(client)), DEDUPLICATE);
        let outcomes =
            insert_on_nodes(&harness, &nodes, (0..CLIENT_COUNT).map(build_insert).collect()).await;
        let created = outcomes.iter().filter(|it| matches!(it, Ok(InsertOutcome::New))).count();
        let existing =
            outcomes.iter().filter(|it| matches!(it, Ok(InsertOutcome::Existing(_)))).count();
        assert_eq!((created, existing), (1, CLIENT_COUNT - 1));
    }
    let [tokens, ..] = harness.row_counts().await;
    assert_eq!(tokens, u64::try_from(ROUND_COUNT).unwrap());
    check_chain(&harness, LogKind::Audit).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idempotency_key_has_one_effect_across_nodes() {
    let (harness, nodes) = open_nodes().await;
    for round in 0..ROUND_COUNT {
        let key = [u8::try_from(round).unwrap(); 32];
        let build_insert = |client| {
            let token =
                TokenRecord { fingerprint: None, ..token_record(&format!("id-{round}-{client}")) };
            let response = harness.idempotency_record(key);
            let insert = harness.new_insert(without_cvc(token), Deduplicate::No);
            SingleInsert { build_record: Some(Box::new(move |_| Some(response))), ..insert }
        };
        let outcomes =
            insert_on_nodes(&harness, &nodes, (0..CLIENT_COUNT).map(build_insert).collect()).await;
        let created = outcomes.iter().filter(|it| matches!(it, Ok(InsertOutcome::New))).count();
        let rejected =
            outcomes.iter().filter(|it| matches!(it, Err(StoreError::AlreadyCompleted))).count();
        assert_eq!((created, rejected), (1, CLIENT_COUNT - 1));
        assert!(matches!(harness.claim_digest(key).await, ClaimOutcome::Completed(_)));
    }
    let [tokens, ..] = harness.row_counts().await;
    assert_eq!(tokens, u64::try_from(ROUND_COUNT).unwrap());
    check_chain(&harness, LogKind::Audit).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn token_id_is_given_once_across_nodes() {
    let (harness, nodes) = open_nodes().await;
    let token = TokenRecord { fingerprint: None, ..token_record("same") };
    let build_insert = |_| harness.new_insert(without_cvc(token.clone()), Deduplicate::No);
    let outcomes =
        insert_on_nodes(&harness, &nodes, (0..CLIENT_COUNT).map(build_insert).collect()).await;
    let created = outcomes.iter().filter(|it| matches!(it, Ok(InsertOutcome::New))).count();
    let taken = outcomes.iter().filter(|it| matches!(it, Ok(InsertOutcome::IdTaken))).count();
    assert_eq!((created, taken), (1, CLIENT_COUNT - 1));
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
    let (entity, deliveries) = (intent.id.to_string(), Vec::new());
    let extras = CommitExtras { audit, entity, idempotency: None, deliveries };
    let stored_intent = StoredTokenIntent { record: intent.clone(), cvc: None };
    harness
        .store()
        .insert_token_intent(harness.lookup_permit(), stored_intent, extras)
        .await
        .unwrap();
    let mut tasks = JoinSet::new();
    for client in 0..CLIENT_COUNT {
        let token = TokenRecord { fingerprint: None, ..token_record(&format!("id-{client}")) };
        let (lookup, mut batch) =
            harness.insert_batch(harness.new_insert(without_cvc(token), Deduplicate::No));
        let TokenWrite::Insert(insert) = &mut batch.writes[0] else { panic!("expected an insert") };
        insert.intent = Some(intent.id);
        let node = Arc::clone(&nodes[client % 2]);
        tasks.spawn(async move { node.write_tokens(lookup, batch).await.unwrap() });
    }
    let outcomes = tasks.join_all().await;
    let intent_missing = BatchOutcome::Rejected(vec![(0, WriteConflict::IntentMissing)]);
    let created =
        outcomes.iter().filter(|it| **it == BatchOutcome::Written(vec![WriteOutcome::New])).count();
    let rejected = outcomes.iter().filter(|it| **it == intent_missing).count();
    assert_eq!((created, rejected), (1, CLIENT_COUNT - 1));
    let [tokens, ..] = harness.row_counts().await;
    assert_eq!(tokens, 1);
    check_chain(&harness, LogKind::Audit).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_on_several_nodes_form_one_chain() {
    let (harness, nodes) = open_nodes().await;
    let tenant = harness.caller.tenant().id;
    let mut tasks = JoinSet::new();
    for number in 0..CLIENT_COUNT * ROUND_COUNT {
        let entries = vec![ReadLogEntry::new(format!("id-{number}"), "read")];
        let audit = harness.audit(Operation::GetToken);
        let batch = ReadLogBatch { tenant, audit, entries, deliveries: Vec::new() };
        let node = Arc::clone(&nodes[number % 2]);
        tasks.spawn(async move { node.append_read_log(batch).await.unwrap() });
    }
    tasks.join_all().await;
    let records = harness.store().list_records(LogKind::Read, tenant, 0, 100_000).await.unwrap();
    assert_eq!(records.len(), CLIENT_COUNT * ROUND_COUNT);
    check_chain(&harness, LogKind::Read).await;
}

/// A node that hangs inside a transaction holds the lock of the tenant. The lock ends with the
/// connection of the node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tenant_lock_of_a_dead_node_is_released() {
    let harness = StoreHarness::open(Engine::Postgres).await;
    let url = harness.vault_harness.database().superuser_url();
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    let connection = tokio::spawn(connection);
    client
        .batch_execute("BEGIN; UPDATE tenant_locks SET last_token_number = last_token_number")
        .await
        .unwrap();
    let (lookup, batch) =
        harness.insert_batch(harness.new_insert(without_cvc(token_record("one")), DEDUPLICATE));
    let store = Arc::clone(&harness.vault_harness.vault.store);
    let write =
        tokio::spawn(async move { insert_outcome(store.write_tokens(lookup, batch).await) });
    // The write cannot be done while another transaction holds the tenant's lock.
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
    let outcome = PostgresStore::open(settings.clone()).await;
    assert!(matches!(outcome, Err(StoreError::Unavailable(_))));
    let migrate = |settings: PostgresSettings| tokio::spawn(PostgresStore::migrate(settings));
    let settings_with_role = settings.clone().with_serve_role(SERVE_ROLE);
    let migrations: Vec<_> = (0..8).map(|_| migrate(settings_with_role.clone())).collect();
    for migration in migrations {
        migration.await.unwrap().unwrap();
    }
    let status = PostgresStore::open(settings).await.unwrap().status().await.unwrap();
    assert_eq!((status.engine, status.schema), ("PostgreSQL", 9));
}
