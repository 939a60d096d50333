//! Deliveries on PostgreSQL: grouped writes, several nodes, and query plans.

use std::sync::Arc;

use scrip_core::{
    disclosure::Deduplicate,
    events::{DeliveryChange, NewDelivery},
    store::{Store, deliveries::DeliveryClaim},
    token_batch::{BatchOutcome, TokenEvents, TokenWrite, WriteOutcome},
};
use scrip_store::PostgresStore;
use scrip_testing::{
    store_harness::{DEDUPLICATE, StoreHarness, without_cvc},
    vault_harness::{Engine, node_settings},
};
use tokio::task::JoinSet;

use crate::{
    deliveries::claims::{LEASE, claim, finish, insert, numbers},
    postgres::{
        column_alterations::Attacker,
        group_commit::queued_writes::{insertion, submit, unique_token, write_in_one_transaction},
    },
};

/// An insert that raises the event with this number.
fn raising_insert(harness: &StoreHarness, number: u8, token: u8) -> TokenWrite {
    let token = without_cvc(unique_token(token));
    let mut insert = insertion(harness, token, DEDUPLICATE);
    insert.events = TokenEvents { written: vec![harness.new_delivery(number)], ..insert.events };
    TokenWrite::Insert(insert)
}

/// A rejected batch of a group, and a deduplicated token, write no deliveries.
#[tokio::test]
async fn grouped_and_individual_writes_write_their_deliveries() {
    let harness = StoreHarness::open(Engine::Postgres).await;
    harness.insert(unique_token(1)).await;
    let mut taken = insertion(&harness, without_cvc(unique_token(1)), Deduplicate::No);
    taken.token.record.fingerprint = None;
    let writes = vec![
        submit(&harness, vec![raising_insert(&harness, 2, 2)], None),
        submit(
            &harness,
            vec![raising_insert(&harness, 3, 3), raising_insert(&harness, 4, 4)],
            None,
        ),
        // Equal to an existing token.
        submit(&harness, vec![raising_insert(&harness, 5, 1)], None),
        // The second write is rejected, so the first one writes nothing.
        submit(&harness, vec![raising_insert(&harness, 6, 6), TokenWrite::Insert(taken)], None),
        // Individual, because an earlier write of the group has the same token.
        submit(&harness, vec![raising_insert(&harness, 7, 2)], None),
    ];
    let outcomes = write_in_one_transaction(&harness, writes).await;
    let new = BatchOutcome::Written(vec![WriteOutcome::New]);
    assert_eq!(outcomes[0].as_ref().unwrap(), &new);
    assert!(matches!(outcomes[3], Ok(BatchOutcome::Rejected(_))), "{:?}", outcomes[3]);
    assert_eq!(numbers(&claim(&harness, 99).await), [2, 3, 4]);
    harness
        .insert_token(harness.new_insert(without_cvc(unique_token(9)), DEDUPLICATE))
        .await
        .unwrap();
    let alone = submit(&harness, vec![raising_insert(&harness, 8, 8)], None).await.unwrap();
    assert_eq!(alone, new);
    assert_eq!(numbers(&claim(&harness, 99).await), [8]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_claim_each_delivery_once() {
    const COUNT: u8 = 200;
    let harness = StoreHarness::open(Engine::Postgres).await;
    let settings = node_settings(harness.vault_harness.database());
    let other_node: Arc<dyn Store> = Arc::new(PostgresStore::open(settings).await.unwrap());
    let nodes = [Arc::clone(&harness.vault_harness.vault.store), other_node];
    insert(&harness, (0..COUNT).map(|it| harness.new_delivery(it)).collect()).await;
    let now = harness.now();
    let (key, lease_until) = (harness.webhook_key(), now.plus(LEASE));
    let mut tasks = JoinSet::new();
    for index in 0..8 {
        let node = Arc::clone(&nodes[index % 2]);
        tasks.spawn(async move {
            let claim = DeliveryClaim { now, lease_until, deliveries_max: 3 };
            let mut claimed = Vec::new();
            loop {
                match node.claim_deliveries(key, claim).await.unwrap() {
                    // Another node may have locked the last rows.
                    it if it.is_empty() => return claimed,
                    it => claimed.extend(it),
                }
            }
        });
    }
    let claimed = tasks.join_all().await.concat();
    let mut claimed_numbers = numbers(&claimed);
    claimed_numbers.extend(numbers(&claim(&harness, 999).await));
    claimed_numbers.sort_unstable();
    assert_eq!(claimed_numbers, (0..COUNT).collect::<Vec<_>>());
    assert!(claimed.iter().all(|it| it.progress.attempts == 1));
    // A result is stored on any node.
    assert_eq!(finish(&harness, &claimed[0], DeliveryChange::Deliver).await, 1);
}

/// The claim of another tenant's delivery finds nothing, even with the right ids.
#[tokio::test]
async fn transaction_of_one_tenant_cannot_write_deliveries_of_another() {
    let harness = StoreHarness::open(Engine::Postgres).await;
    let foreign = harness.new_delivery(1);
    let harness = harness.with_callers_swapped();
    let mut insert = insertion(&harness, without_cvc(unique_token(1)), Deduplicate::No);
    insert.events.written = vec![NewDelivery { ..foreign }];
    let outcome = submit(&harness, vec![TokenWrite::Insert(insert)], None).await;
    assert!(outcome.is_err(), "{outcome:?}");
    assert_eq!(harness.find("other-1").await, None);
}

/// Statements with the parameters that the store uses, for a table with many rows.
const PLANNED: &[(&str, &str)] = &[
    (
        "list due webhooks",
        "WITH RECURSIVE first_rows AS (
            (SELECT tenant, webhook, next_at FROM deliveries WHERE state = 'pending'
             ORDER BY tenant, webhook, next_at, event LIMIT 1)
            UNION ALL
            SELECT it.tenant, it.webhook, it.next_at FROM first_rows CROSS JOIN LATERAL (
                SELECT tenant, webhook, next_at FROM deliveries WHERE state = 'pending'
                    AND (tenant, webhook) > (first_rows.tenant, first_rows.webhook)
                ORDER BY tenant, webhook, next_at, event LIMIT 1) AS it)
         SELECT tenant, webhook FROM first_rows WHERE next_at <= 5",
    ),
    (
        "claim",
        "SELECT event FROM deliveries WHERE tenant = gen_random_uuid()
            AND webhook = gen_random_uuid() AND state = 'pending' AND next_at <= 5
         ORDER BY next_at, event LIMIT 32 FOR UPDATE SKIP LOCKED",
    ),
];

#[tokio::test]
async fn delivery_statements_use_an_index_and_never_sort_on_postgres() {
    let harness = StoreHarness::open(Engine::Postgres).await;
    for _ in 0..20 {
        insert(&harness, (0..250).map(|it| harness.new_delivery(it)).collect()).await;
        harness.advance(std::time::Duration::from_secs(1));
    }
    let Attacker(client) = Attacker::connect(&harness.vault_harness).await;
    for has_statistics in [false, true] {
        if has_statistics {
            client.batch_execute("ANALYZE deliveries").await.unwrap();
        }
        for (name, sql) in PLANNED {
            let sql = sql.replace("gen_random_uuid()", "'09090909-0909-0909-0909-090909090909'");
            let rows = client.query(&format!("EXPLAIN {sql}"), &[]).await.unwrap();
            let plan: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
            let plan = plan.join("\n");
            assert!(!plan.contains("Seq Scan"), "{name}: {plan}");
            assert!(!plan.contains("Sort"), "{name}: {plan}");
            assert!(plan.contains("deliveries_by_next_attempt"), "{name}: {plan}");
        }
    }
}
