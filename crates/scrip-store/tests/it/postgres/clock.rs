//! A node with a clock ahead of the database must not delete data that other nodes still serve.

use std::{sync::Arc, time::Duration};

use scrip_core::{
    Error, Timestamp, Vault,
    operations::tokens::expire_token::{erase_cvcs, expire_token, expire_token_intent},
    store::Store,
};
use scrip_store::{PostgresStore, postgres::PostgresSettings};
use scrip_testing::{
    policy::TOKENS,
    postgres::TestDatabase,
    requests::{VISA, card_with_cvc, create, get},
    vault_harness::{Engine, VaultHarness},
};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const HOUR: Duration = Duration::from_secs(60 * 60);

/// The time of the database: the store caps a later time at this time.
async fn find_database_time(store: &dyn Store) -> Timestamp {
    store.cap_at_shared_clock(Timestamp { unix_ms: i64::MAX }).await.unwrap()
}

/// Opens a new node as a server does.
async fn open_node(database: &TestDatabase) -> Arc<dyn Store> {
    let settings = PostgresSettings::parse(&database.url()).unwrap().with_connections(4);
    Arc::new(PostgresStore::open(settings).await.unwrap())
}

#[tokio::test]
async fn node_with_a_clock_ahead_deletes_nothing_live_by_database_time() {
    let harness = VaultHarness::open(Engine::Postgres).await;
    let store = open_node(harness.database()).await;
    let now = find_database_time(&*store).await;
    harness.clock.set(now);
    let (_, caller) = harness.tenant_with_caller(TOKENS).await;
    let card_with_lifetime = |lifetime: Duration| {
        let mut token = card_with_cvc(VISA, "123");
        token.expires_at = Some(now.plus(lifetime));
        token
    };
    let live_id = create(&harness.vault, &caller, card_with_lifetime(HOUR)).await.unwrap().token.id;
    let directory = harness.shared_directory().await;
    // Only this node's clock is a day ahead.
    let vault_ahead = Vault { store, ..harness.vault.clone() };
    harness.clock.set(now.plus(DAY));
    assert_eq!(vault_ahead.clock.now(), now.plus(DAY));
    assert_eq!(expire_token(&vault_ahead, &directory).await.unwrap(), 0);
    assert_eq!(expire_token_intent(&vault_ahead, &directory).await.unwrap(), 0);
    assert_eq!(erase_cvcs(&vault_ahead, &directory).await.unwrap(), 0);
    // A new token with the same id does not replace it either.
    let mut token_with_same_id = card_with_lifetime(2 * DAY);
    token_with_same_id.id = Some(live_id.as_str().to_owned());
    let rejected = create(&vault_ahead, &caller, token_with_same_id).await;
    assert!(matches!(rejected, Err(Error::Conflict { .. })), "{rejected:?}");
    // Other nodes use their own clocks and still serve everything.
    harness.clock.set(now);
    get(&harness.vault, &caller, &live_id).await;
    // A store that trusts the clock of its node deletes the token.
    let vault_with_node_clock = &harness.vault;
    harness.clock.set(now.plus(DAY));
    assert_eq!(expire_token(vault_with_node_clock, &directory).await.unwrap(), 1);
}
