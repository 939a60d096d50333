//! Several nodes on one PostgreSQL: what must happen once happens once, wherever it is asked for.

use std::{sync::Arc, time::Duration};

use scrip_core::{
    audit::{Access, Log, Operation, Seen},
    id::TokenIntentId,
    idempotency::Claimed,
    store::{Beside, Maintenance, Store, StoreError},
    token::{
        Batched, Deduplicate, Obstacle, Outcome, StoredTokenIntent, TokenIntentRecord, TokenRecord,
        TokenType, TokenWrite,
    },
};
use scrip_seal::{Fingerprint, Sealed};
use scrip_store::{PostgresStore, postgres::PostgresSettings};
use scrip_testing::{
    postgres::{Database, SERVING},
    store_harness::{DAY, InsertToken, Inserted, StoreHarness, bare, inserted, record},
    vault_harness::{Engine, settings},
};
use tokio::task::JoinSet;
use tokio_postgres::NoTls;
use uuid::Uuid;

const CLIENTS: usize = 32;
const ROUNDS: usize = 8;

/// The desk's own node and another.
async fn nodes() -> (StoreHarness, [Arc<dyn Store>; 2]) {
    let desk = StoreHarness::open(Engine::Postgres).await;
    let other = PostgresStore::open(settings(desk.world.database())).await.unwrap();
    let other: Arc<dyn Store> = Arc::new(other);
    let nodes = [Arc::clone(&desk.world.vault.store), other];
    (desk, nodes)
}

/// Each insert on one of the nodes in turn, all at once.
async fn insert_all(
    desk: &StoreHarness,
    nodes: &[Arc<dyn Store>; 2],
    inserts: Vec<InsertToken>,
) -> Vec<Result<Inserted, StoreError>> {
    let mut tasks = JoinSet::new();
    for (at, insert) in inserts.into_iter().enumerate() {
        let (inquiry, batch) = desk.sent(insert);
        let node = Arc::clone(&nodes[at % 2]);
        tasks.spawn(async move { inserted(node.write_tokens(inquiry, batch).await) });
    }
    tasks.join_all().await
}

/// Numbers without gaps, each linked to the one before: as `scrip audit verify` asks.
pub(crate) async fn check_chain(desk: &StoreHarness, log: Log) {
    let tenant = desk.caller.tenant().id;
    let records = desk.store().list_records(log, tenant, 0, 100_000).await.unwrap();
    let numbers: Vec<_> = records.iter().map(|it| it.n).collect();
    let last = i64::try_from(numbers.len()).unwrap();
    assert_eq!(numbers, (1..=last).collect::<Vec<_>>());
    let heads = desk.store().list_heads(log).await.unwrap();
    let head = heads.iter().find(|it| it.tenant == tenant).unwrap();
    assert_eq!((head.n, Some(head.link)), (last, records.last().map(|it| it.link)));
    let key = desk.world.vault.audit.key().unwrap();
    assert!(head.is_ours(key, log));
    let mut before = scrip_seal::Mac([0; 32]);
    for record in &records {
        assert!(record.link.is(&record.row().link_after(key, log, before)), "{}", record.n);
        before = record.link;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_card_becomes_one_token() {
    let (desk, nodes) = nodes().await;
    for round in 0..ROUNDS {
        let fingerprint = Some(Fingerprint([u8::try_from(round).unwrap(); 32]));
        let token = |at| TokenRecord { fingerprint, ..record(&format!("id-{round}-{at}")) };
        let insert = |at| desk.insertion(bare(token(at)), Deduplicate::Yes);
        let outcomes = insert_all(&desk, &nodes, (0..CLIENTS).map(insert).collect()).await;
        let new = outcomes.iter().filter(|it| matches!(it, Ok(Inserted::New))).count();
        let old = outcomes.iter().filter(|it| matches!(it, Ok(Inserted::Existing(_)))).count();
        assert_eq!((new, old), (1, CLIENTS - 1));
    }
    let [tokens, ..] = desk.counts().await;
    assert_eq!(tokens, u64::try_from(ROUNDS).unwrap());
    check_chain(&desk, Log::Audit).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_key_has_one_effect() {
    let (desk, nodes) = nodes().await;
    for round in 0..ROUNDS {
        let key = [u8::try_from(round).unwrap(); 32];
        let insert = |at| {
            let token = TokenRecord { fingerprint: None, ..record(&format!("id-{round}-{at}")) };
            let answer = desk.answer(key);
            let insert = desk.insertion(bare(token), Deduplicate::No);
            InsertToken { render: Some(Box::new(move |_| Some(answer))), ..insert }
        };
        let outcomes = insert_all(&desk, &nodes, (0..CLIENTS).map(insert).collect()).await;
        let new = outcomes.iter().filter(|it| matches!(it, Ok(Inserted::New))).count();
        let refused = outcomes.iter().filter(|it| matches!(it, Err(StoreError::Answered))).count();
        assert_eq!((new, refused), (1, CLIENTS - 1));
        assert!(matches!(desk.claim(key).await, Claimed::Answered(_)));
    }
    let [tokens, ..] = desk.counts().await;
    assert_eq!(tokens, u64::try_from(ROUNDS).unwrap());
    check_chain(&desk, Log::Audit).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_id_is_given_once() {
    let (desk, nodes) = nodes().await;
    let token = TokenRecord { fingerprint: None, ..record("same") };
    let insert = |_| desk.insertion(bare(token.clone()), Deduplicate::No);
    let outcomes = insert_all(&desk, &nodes, (0..CLIENTS).map(insert).collect()).await;
    let new = outcomes.iter().filter(|it| matches!(it, Ok(Inserted::New))).count();
    let taken = outcomes.iter().filter(|it| matches!(it, Ok(Inserted::IdTaken))).count();
    assert_eq!((new, taken), (1, CLIENTS - 1));
    check_chain(&desk, Log::Audit).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_intent_becomes_one_token() {
    let (desk, nodes) = nodes().await;
    let intent = TokenIntentRecord {
        id: TokenIntentId(Uuid::from_bytes([9; 16])),
        token_type: TokenType::Token,
        fingerprint: None,
        containers: record("one").containers,
        created_by: desk.caller.application(),
        created_at: desk.now(),
        expires_at: desk.now().after(DAY),
        body: Sealed::from_stored(b"body".to_vec()),
    };
    let audit = desk.audit(Operation::CreateTokenIntent);
    let written = Beside { audit, entity: intent.id.to_string(), answer: None };
    let stored = StoredTokenIntent { record: intent.clone(), cvc: None };
    desk.store().insert_token_intent(desk.inquiry(), stored, written).await.unwrap();
    let mut tasks = JoinSet::new();
    for at in 0..CLIENTS {
        let token = TokenRecord { fingerprint: None, ..record(&format!("id-{at}")) };
        let (inquiry, mut batch) = desk.sent(desk.insertion(bare(token), Deduplicate::No));
        let TokenWrite::Insert(insert) = &mut batch.writes[0] else { panic!("it is an insert") };
        insert.intent = Some(intent.id);
        let node = Arc::clone(&nodes[at % 2]);
        tasks.spawn(async move { node.write_tokens(inquiry, batch).await.unwrap() });
    }
    let outcomes = tasks.join_all().await;
    let gone = Batched::Refused(vec![(0, Obstacle::IntentGone)]);
    let new = outcomes.iter().filter(|it| **it == Batched::Written(vec![Outcome::New])).count();
    let late = outcomes.iter().filter(|it| **it == gone).count();
    assert_eq!((new, late), (1, CLIENTS - 1));
    let [tokens, ..] = desk.counts().await;
    assert_eq!(tokens, 1);
    check_chain(&desk, Log::Audit).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_on_all_nodes_are_one_chain() {
    let (desk, nodes) = nodes().await;
    let tenant = desk.caller.tenant().id;
    let mut tasks = JoinSet::new();
    for at in 0..CLIENTS * ROUNDS {
        let seen = vec![Seen::new(format!("id-{at}"), "read")];
        let access = Access { tenant, audit: desk.audit(Operation::GetToken), seen };
        let node = Arc::clone(&nodes[at % 2]);
        tasks.spawn(async move { node.record_access(access).await.unwrap() });
    }
    tasks.join_all().await;
    let records = desk.store().list_records(Log::Access, tenant, 0, 100_000).await.unwrap();
    assert_eq!(records.len(), CLIENTS * ROUNDS);
    check_chain(&desk, Log::Access).await;
}

/// A node that hangs inside a transaction keeps the tenant; when it is gone, so is what it held.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_dead_node_held_is_free() {
    let desk = StoreHarness::open(Engine::Postgres).await;
    let url = desk.world.database().superuser_url();
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    let connection = tokio::spawn(connection);
    client.batch_execute("BEGIN; UPDATE lanes SET last_token = last_token").await.unwrap();
    let (inquiry, batch) = desk.sent(desk.insertion(bare(record("one")), Deduplicate::Yes));
    let store = Arc::clone(&desk.world.vault.store);
    let write = tokio::spawn(async move { inserted(store.write_tokens(inquiry, batch).await) });
    // It cannot have been written: somebody holds the tenant's row.
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!write.is_finished());
    assert_eq!(desk.find("one").await, None);
    connection.abort();
    assert_eq!(write.await.unwrap().unwrap(), Inserted::New);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_start_at_once_migrate_once() {
    let database = Database::create_empty().await;
    let settings = settings(&database);
    let refused = PostgresStore::open(settings.clone()).await;
    assert!(matches!(refused, Err(StoreError::Unavailable(_))));
    let migrate = |settings: PostgresSettings| tokio::spawn(PostgresStore::migrate(settings));
    let granting = settings.clone().served_by(SERVING);
    let all: Vec<_> = (0..8).map(|_| migrate(granting.clone())).collect();
    for one in all {
        one.await.unwrap().unwrap();
    }
    let status = PostgresStore::open(settings).await.unwrap().status().await.unwrap();
    assert_eq!((status.engine, status.schema), ("PostgreSQL", 1));
}
