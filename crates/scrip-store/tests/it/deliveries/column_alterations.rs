//! An altered or moved row of a delivery cannot be opened, or the alteration only delays or repeats
//! an attempt.

use rusqlite::Connection;
use scrip_core::{
    Timestamp,
    events::{ClaimedDelivery, WebhookKey},
    store::deliveries::DeliveryClaim,
    types::id::WebhookId,
};
use scrip_testing::{
    requests::{VISA, card, create},
    vault_harness::Engine,
};
use uuid::Uuid;

use crate::{
    deliveries::writes::WebhookHarness,
    postgres::column_alterations::{Attacker, PostgresAlteration},
};

/// Columns that are not bound to the body. An attacker who alters them delays, repeats or hides
/// attempts, as with the deletion of the row.
const STATE_COLUMNS: &[&str] = &[
    "state",
    "pending_since",
    "attempts",
    "first_attempt_at",
    "last_attempt_at",
    "next_at",
    "last_status",
    "last_error",
];

/// Opens a harness with two deliveries.
async fn open(engine: Engine) -> WebhookHarness {
    let harness = WebhookHarness::open(engine).await;
    let vault = &harness.vault_harness.vault;
    for number in [VISA, "4000056655665556"] {
        create(vault, &harness.caller, card(number)).await.unwrap();
    }
    harness
}

async fn claim(harness: &WebhookHarness, webhook: WebhookKey) -> Vec<ClaimedDelivery> {
    let (now, lease_until) = (Timestamp { unix_ms: i64::MAX }, Timestamp { unix_ms: 0 });
    let claim = DeliveryClaim { now, lease_until, deliveries_max: 1000 };
    harness.vault_harness.vault.store.claim_deliveries(webhook, claim).await.unwrap()
}

/// The number of deliveries of `token.created` that can be opened.
async fn count_opened(harness: &WebhookHarness, webhook: WebhookKey) -> usize {
    let tenant = harness.caller.tenant();
    let claimed = claim(harness, webhook).await;
    let created = claimed.iter().filter(|it| it.event_type == "token.created");
    created.filter(|it| it.open(tenant).is_ok()).count()
}

fn other_webhook(harness: &WebhookHarness) -> WebhookKey {
    let webhook = WebhookId(Uuid::from_bytes([1; 16]));
    WebhookKey { webhook, ..harness.webhook }
}

const FIRST: &str = "event = (SELECT min(event::text)::uuid FROM deliveries
    WHERE event_type = 'token.created')";

#[tokio::test]
async fn altered_or_moved_delivery_cannot_be_opened_on_sqlite() {
    let harness = open(Engine::Sqlite).await;
    let attacker = Connection::open(harness.vault_harness.file()).unwrap();
    let first = "event = (SELECT min(event) FROM deliveries WHERE event_type = 'token.created')";
    assert_eq!(count_opened(&harness, harness.webhook).await, 2);
    let alterations = [
        ("tenant", "zeroblob(16)"),
        ("webhook", "x'01010101010101010101010101010101'"),
        ("event", "zeroblob(16)"),
        ("event", "x'00'"),
        ("event_type", "'token.deleted'"),
        ("event_type", "''"),
        ("occurred_at", "occurred_at + 1"),
        ("body", "zeroblob(length(body))"),
        ("body", "x''"),
        ("body", "(SELECT body FROM deliveries AS it WHERE it.seq <> deliveries.seq LIMIT 1)"),
    ];
    let mut columns: Vec<_> = attacker
        .prepare("SELECT name FROM pragma_table_info('deliveries')")
        .unwrap()
        .query_map([], |row| row.get::<_, String>(0))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    columns.retain(|it| !STATE_COLUMNS.contains(&it.as_str()) && it != "seq");
    assert!(columns.iter().all(|it| alterations.iter().any(|(name, _)| it == name)), "{columns:?}");
    for (column, value) in alterations {
        attacker.execute_batch("CREATE TEMP TABLE saved AS SELECT * FROM deliveries").unwrap();
        let sql = format!("UPDATE deliveries SET {column} = {value} WHERE {first}");
        assert_eq!(attacker.execute(&sql, []).unwrap(), 1);
        assert_eq!(count_opened(&harness, harness.webhook).await, 1, "{sql}");
        assert_eq!(count_opened(&harness, other_webhook(&harness)).await, 0, "{sql}");
        let restore_rows = "DELETE FROM deliveries; INSERT INTO deliveries SELECT * FROM saved;
            DROP TABLE saved";
        attacker.execute_batch(restore_rows).unwrap();
        assert_eq!(count_opened(&harness, harness.webhook).await, 2);
    }
}

const ALTERATIONS: &[PostgresAlteration] = &[
    ("tenant", &["'00000000-0000-0000-0000-000000000000'"]),
    ("webhook", &["'01010101-0101-0101-0101-010101010101'"]),
    ("event", &["'00000000-0000-0000-0000-000000000000'"]),
    ("event_type", &["'token.deleted'", "''"]),
    ("occurred_at", &["occurred_at + 1"]),
    (
        "body",
        &[
            "decode(repeat('00', length(body)), 'hex')",
            "''",
            "(SELECT body FROM deliveries AS it WHERE it.event <> deliveries.event LIMIT 1)",
        ],
    ),
];

#[tokio::test]
async fn altered_or_moved_delivery_cannot_be_opened_on_postgres() {
    let harness = open(Engine::Postgres).await;
    let attacker = Attacker::connect(&harness.vault_harness).await;
    attacker.check_columns("deliveries", ALTERATIONS, STATE_COLUMNS).await;
    assert_eq!(count_opened(&harness, harness.webhook).await, 2);
    for (column, values) in ALTERATIONS {
        for value in *values {
            attacker.save_table("deliveries").await;
            let sql = format!("UPDATE deliveries SET {column} = {value} WHERE {FIRST}");
            assert!(attacker.execute(&sql).await, "{sql}");
            assert_eq!(count_opened(&harness, harness.webhook).await, 1, "{sql}");
            assert_eq!(count_opened(&harness, other_webhook(&harness)).await, 0, "{sql}");
            attacker.restore_table("deliveries").await;
            assert_eq!(count_opened(&harness, harness.webhook).await, 2);
        }
    }
}

/// The other deliveries of the webhook are claimed.
#[tokio::test]
async fn row_that_cannot_be_decoded_does_not_prevent_other_deliveries() {
    let harness = open(Engine::Sqlite).await;
    let attacker = Connection::open(harness.vault_harness.file()).unwrap();
    let sql = "UPDATE deliveries SET attempts = -9
        WHERE event = (SELECT min(event) FROM deliveries WHERE event_type = 'token.created')";
    assert_eq!(attacker.execute(sql, []).unwrap(), 1);
    assert_eq!(count_opened(&harness, harness.webhook).await, 1);
}

#[tokio::test]
async fn largest_number_of_attempts_does_not_prevent_claims() {
    let harness = open(Engine::Sqlite).await;
    let attacker = Connection::open(harness.vault_harness.file()).unwrap();
    let sql = "UPDATE deliveries SET attempts = 9223372036854775807";
    assert!(attacker.execute(sql, []).unwrap() > 1);
    assert_eq!(count_opened(&harness, harness.webhook).await, 2);
}
