//! A node whose clock is ahead of the database's must not destroy what other nodes still serve.

use std::{sync::Arc, time::Duration};

use scrip_core::{
    Vault,
    error::Error,
    operations::tokens::expire_token::{erase_cvcs, expire_token, expire_token_intent},
    policy::{Settings, Transform},
    store::Store,
    time::Timestamp,
};
use scrip_store::{PostgresStore, postgres::PostgresSettings};
use scrip_testing::{
    policy::{TOKENS, rule, ruled},
    postgres::Database,
    requests::{VISA, card_with_cvc, create, get},
    vault_harness::{Engine, VaultHarness},
};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const HOUR: Duration = Duration::from_secs(60 * 60);

/// The time of the database: the bound of any later time.
async fn database_time(store: &dyn Store) -> Timestamp {
    store.not_after(Timestamp { unix_ms: i64::MAX }).await.unwrap()
}

/// A node of its own, as a server opens it.
async fn node(database: &Database) -> Arc<dyn Store> {
    let settings = PostgresSettings::parse(&database.url()).unwrap().connections(4);
    Arc::new(PostgresStore::open(settings).await.unwrap())
}

#[tokio::test]
async fn sweeps_of_a_node_a_day_ahead_destroy_nothing_that_lives_by_the_database() {
    let world = VaultHarness::open(Engine::Postgres).await;
    let store = node(world.database()).await;
    let now = database_time(&*store).await;
    world.clock.set(now);
    let tenant = world.tenant(Settings::default()).await;
    let caller = world.caller(&tenant, ruled([rule("/", Transform::Reveal, TOKENS)])).await;
    let expiring = |life: Duration| {
        let mut new = card_with_cvc(VISA, "123");
        new.expires_at = Some(now.after(life));
        new
    };
    let lives = create(&world.vault, &caller, expiring(HOUR)).await.unwrap().token.id;
    // The node's clock is a day ahead, and only the node's.
    let ahead = Vault { store, ..world.vault.clone() };
    world.clock.set(now.after(DAY));
    assert_eq!(ahead.clock.now(), now.after(DAY));
    assert_eq!(expire_token(&ahead).await.unwrap(), 0);
    assert_eq!(expire_token_intent(&ahead).await.unwrap(), 0);
    assert_eq!(erase_cvcs(&ahead).await.unwrap(), 0);
    // A new token with its id does not take its place either.
    let mut taken = expiring(2 * DAY);
    taken.id = Some(lives.as_str().to_owned());
    let refused = create(&ahead, &caller, taken).await;
    assert!(matches!(refused, Err(Error::Conflict { .. })), "{refused:?}");
    // Other nodes go by their own clocks, and still have all of it.
    world.clock.set(now);
    get(&world.vault, &caller, &lives).await;
    // What is over by the database's clock goes.
    let trusting = &world.vault;
    world.clock.set(now.after(DAY));
    assert_eq!(expire_token(trusting).await.unwrap(), 1);
}
