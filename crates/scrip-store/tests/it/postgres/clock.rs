//! A node whose clock is ahead of the database's must not destroy what other nodes still serve.

use std::{sync::Arc, time::Duration};

use scrip_core::{
    Vault,
    error::Error,
    operations::tokens::expire_token::{erase_cvcs, expire_token, expire_token_intent},
    policy::{TenantSettings, Transform},
    store::Store,
    time::Timestamp,
};
use scrip_store::{PostgresStore, postgres::PostgresSettings};
use scrip_testing::{
    policy::{TOKENS, access_rule, access_with_rules},
    postgres::TestDatabase,
    requests::{VISA, card_with_cvc, create, get},
    vault_harness::{Engine, VaultHarness},
};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const HOUR: Duration = Duration::from_secs(60 * 60);

/// The time of the database: the bound of any later time.
async fn find_database_time(store: &dyn Store) -> Timestamp {
    store.cap_at_shared_clock(Timestamp { unix_ms: i64::MAX }).await.unwrap()
}

/// A node of its own, as a server opens it.
async fn open_node(database: &TestDatabase) -> Arc<dyn Store> {
    let settings = PostgresSettings::parse(&database.url()).unwrap().with_connections(4);
    Arc::new(PostgresStore::open(settings).await.unwrap())
}

#[tokio::test]
async fn node_with_a_clock_ahead_sweeps_nothing_live_by_database_time() {
    let harness = VaultHarness::open(Engine::Postgres).await;
    let store = open_node(harness.database()).await;
    let now = find_database_time(&*store).await;
    harness.clock.set(now);
    let tenant = harness.tenant(TenantSettings::default()).await;
    let caller = harness
        .caller(&tenant, access_with_rules([access_rule("/", Transform::Reveal, TOKENS)]))
        .await;
    let expiring = |life: Duration| {
        let mut new = card_with_cvc(VISA, "123");
        new.expires_at = Some(now.plus(life));
        new
    };
    let lives = create(&harness.vault, &caller, expiring(HOUR)).await.unwrap().token.id;
    // The node's clock is a day ahead, and only the node's.
    let ahead = Vault { store, ..harness.vault.clone() };
    harness.clock.set(now.plus(DAY));
    assert_eq!(ahead.clock.now(), now.plus(DAY));
    assert_eq!(expire_token(&ahead).await.unwrap(), 0);
    assert_eq!(expire_token_intent(&ahead).await.unwrap(), 0);
    assert_eq!(erase_cvcs(&ahead).await.unwrap(), 0);
    // A new token with its id does not take its place either.
    let mut taken = expiring(2 * DAY);
    taken.id = Some(lives.as_str().to_owned());
    let rejected = create(&ahead, &caller, taken).await;
    assert!(matches!(rejected, Err(Error::Conflict { .. })), "{rejected:?}");
    // Other nodes go by their own clocks, and still have all of it.
    harness.clock.set(now);
    get(&harness.vault, &caller, &lives).await;
    // What is over by the database's clock goes.
    let trusting = &harness.vault;
    harness.clock.set(now.plus(DAY));
    assert_eq!(expire_token(trusting).await.unwrap(), 1);
}
