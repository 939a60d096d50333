//! Whoever damages the end of one chain stops nobody, and is found.

use std::{collections::BTreeSet, future::ready, path::PathBuf, sync::Arc, time::Duration};

use rusqlite::Connection;
use scrip_core::{
    audit::Log,
    error::Error,
    id::{TenantId, TokenId},
    operations::{
        logs::prune_logs::prune_logs,
        token_intents::create_token_intent::create_token_intent,
        tokens::{
            delete_token::delete_token,
            expire_token::{expire_token, expire_token_intent},
            get_token::get_token,
        },
    },
    policy::{Caller, Permission, Settings, Tenant, Transform},
    time::Clock,
    token::{NewToken, NewTokenIntent, Plain, TokenType},
};
use scrip_testing::{
    policy::{TOKENS, rule, ruled},
    requests::{VISA, card, create},
    vault_harness::{Engine, VaultHarness},
};
use serde_json::json;

use crate::audit::trail::verify;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const MINUTE: Duration = Duration::from_secs(60);
const INTENTS: &[Permission] = &[Permission::TokenIntentCreate];

/// What is done to the chain of one tenant. `kept.heads` are those of a while before.
const DAMAGES: &[&str] = &[
    "DELETE FROM audit_heads WHERE tenant = {one}",
    "UPDATE audit_heads SET tenant = x'00' WHERE tenant = {one}",
    "REPLACE INTO audit_heads SELECT * FROM kept.heads WHERE tenant = {one}",
    "UPDATE audit_heads SET link = x'00' WHERE tenant = {one}",
    "UPDATE audit_heads SET mac = x'' WHERE tenant = {one}",
    "UPDATE audit_heads SET n = 9223372036854775807 WHERE tenant = {one}",
    "UPDATE audit_heads SET n = 9223372036854775805 WHERE tenant = {one}",
    "UPDATE audit_heads SET n = -9223372036854775808 WHERE tenant = {one}",
    "UPDATE audit SET n = 9223372036854775807 \
     WHERE tenant = {one} AND n = (SELECT max(n) FROM audit WHERE tenant = {one}); \
     DELETE FROM audit_heads WHERE tenant = {one}",
    "UPDATE audit SET link = x'00' WHERE tenant = {one}; DELETE FROM audit_heads WHERE tenant = {one}",
    "REPLACE INTO audit_checkpoints VALUES ({one}, 0, x'00', 0, x'00')",
    "REPLACE INTO audit_checkpoints VALUES ({one}, 9223372036854775807, zeroblob(32), 0, zeroblob(32))",
    "REPLACE INTO audit_checkpoints VALUES ({one}, 9223372036854775807, zeroblob(32), 0, zeroblob(32)); \
     DELETE FROM audit WHERE tenant = {one}; DELETE FROM audit_heads WHERE tenant = {one}",
];

struct Street {
    tenants: [Arc<Tenant>; 2],
    callers: [Caller; 2],
    world: VaultHarness,
}

impl Street {
    async fn open() -> Self {
        let world = VaultHarness::open(Engine::Sqlite).await;
        let tenants =
            [world.tenant(Settings::default()).await, world.tenant(Settings::default()).await];
        let rules = || [rule("/", Transform::Reveal, TOKENS), rule("/", Transform::Mask, INTENTS)];
        let callers = [
            world.caller(&tenants[0], ruled(rules())).await,
            world.caller(&tenants[1], ruled(rules())).await,
        ];
        Self { tenants, callers, world }
    }

    fn file(&self, log: Log) -> PathBuf {
        self.world.file().with_file_name(match log {
            Log::Audit => "scrip.db",
            Log::Access => "access.db",
        })
    }

    fn fill(&self, sql: &str) -> String {
        sql.replace("{one}", &format!("x'{}'", self.tenants[0].id.0.simple()))
    }

    async fn create(&self, caller: &Caller, lives: Duration) -> Result<TokenId, Error> {
        let expires_at = Some(self.world.clock.now().after(lives));
        let new = NewToken { expires_at, ..card(VISA) };
        Ok(create(&self.world.vault, caller, new).await?.token.id)
    }

    /// What clients do, and what their time leaves to be swept.
    async fn live(&self) -> Result<(), Error> {
        let vault = &self.world.vault;
        for caller in &self.callers {
            let token = self.create(caller, 100 * DAY).await?;
            get_token(vault, caller, &token).await?;
            delete_token(vault, caller, &token).await?;
            self.create(caller, MINUTE).await?;
            let data = Plain::new(json!({"number": VISA}));
            let new = NewTokenIntent {
                token_type: TokenType::Card,
                data,
                containers: None,
                authentication: None,
            };
            create_token_intent(vault, caller, new, None).await?;
        }
        Ok(())
    }

    async fn sweep(&self) {
        while expire_token(&self.world.vault).await.unwrap() > 0 {}
        while expire_token_intent(&self.world.vault).await.unwrap() > 0 {}
    }

    fn left(&self, table: &str) -> Vec<TenantId> {
        let file = Connection::open(self.world.file()).unwrap();
        let mut statement = file.prepare(&format!("SELECT tenant FROM {table}")).unwrap();
        let bytes = statement.query_map([], |row| row.get::<_, [u8; 16]>(0)).unwrap();
        bytes.map(|it| TenantId(uuid::Uuid::from_bytes(it.unwrap()))).collect()
    }

    /// Whose chains verifying complains about.
    fn found(&self) -> BTreeSet<Option<TenantId>> {
        let folder = self.world.file().parent().unwrap().to_owned();
        let living = self.tenants.each_ref().map(|it| it.id);
        let key = self.world.vault.audit.key().unwrap();
        verify(&folder, key, &living, &[]).problems.iter().map(|it| it.tenant).collect()
    }

    /// Of the neighbour, in both logs.
    async fn prune(&self) -> usize {
        let mut pruned = 0;
        let all = prune_logs(&self.world.vault, &self.world.directory().await).await.unwrap();
        for chain in all.into_iter().filter(|it| it.tenant == self.tenants[1].id) {
            pruned += self.world.vault.store.prune_chain(chain).await.unwrap();
        }
        pruned
    }
}

async fn check(log: Log, damage: &str) {
    let street = Street::open().await;
    street.live().await.unwrap();
    let outside = Connection::open(street.file(log)).unwrap();
    let keep = "ATTACH ':memory:' AS kept; CREATE TABLE kept.heads AS SELECT * FROM audit_heads";
    outside.execute_batch(keep).unwrap();
    street.live().await.unwrap();
    assert_eq!(street.found(), BTreeSet::new());
    outside.execute_batch(&street.fill(damage)).unwrap();
    assert!(!street.found().is_empty(), "before anybody goes on");

    let store = &street.world.vault.store;
    let listed = |heads: Vec<TenantId>| assert!(heads.contains(&street.tenants[1].id));
    for _ in 0..3 {
        listed(store.list_heads(log).await.unwrap().iter().map(|it| it.tenant).collect());
        listed(store.list_chains(log).await.unwrap().iter().map(|it| it.head.tenant).collect());
        store.status().await.unwrap();
        let lived = street.live().await;
        lived.unwrap_or_else(|error| panic!("{log:?} {damage}: {error:?}"));
        street.world.clock.advance(DAY);
        street.sweep().await;
        assert_eq!((street.left("tokens"), street.left("token_intents")), (vec![], vec![]));
        let found = street.found();
        let others = [Some(street.tenants[0].id), None];
        assert!(found.contains(&others[0]), "{found:?}");
        assert!(found.iter().all(|it| others.contains(it)), "{found:?}");
    }
    assert!(street.prune().await > 0);
}

#[tokio::test]
async fn a_damaged_end_stops_nobody_and_is_found() {
    for log in Log::ALL {
        for damage in DAMAGES {
            check(log, damage).await;
        }
    }
}

/// Nothing of this tenant's can be recorded in this log.
const REFUSED: &str = "CREATE TRIGGER refused BEFORE INSERT ON audit WHEN NEW.tenant = {one}
    BEGIN SELECT RAISE(ABORT, 'refused'); END";

#[tokio::test]
async fn a_read_that_cannot_be_recorded_takes_no_other_with_it() {
    let street = Street::open().await;
    let [one, two] = &street.callers;
    let tokens = [street.create(one, DAY).await.unwrap(), street.create(two, DAY).await.unwrap()];
    let outside = Connection::open(street.file(Log::Access)).unwrap();
    outside.execute_batch(&street.fill(REFUSED)).unwrap();
    let vault = &street.world.vault;
    // Nobody can commit, so both are waiting when the writer comes to them.
    outside.execute_batch("BEGIN IMMEDIATE").unwrap();
    let both = async {
        tokio::join!(
            get_token(vault, two, &tokens[1]),
            get_token(vault, one, &tokens[0]),
            get_token(vault, two, &tokens[1])
        )
    };
    tokio::pin!(both);
    tokio::select! {
        biased;
        _ = &mut both => panic!("nobody could write"),
        () = ready(()) => (),
    }
    outside.execute_batch("COMMIT").unwrap();
    let (first, refused, last) = both.await;
    assert!(first.is_ok() && last.is_ok(), "{first:?} {last:?}");
    assert!(matches!(refused, Err(Error::Unavailable(_))), "{refused:?}");
    let count = "SELECT count(*) FROM audit WHERE operation = 'get_token'";
    assert_eq!(outside.query_row(count, [], |row| row.get::<_, i64>(0)).unwrap(), 2);
    assert_eq!(street.found(), BTreeSet::new());
}

/// More of them than one step looks at, and before all others.
#[tokio::test]
async fn what_cannot_be_recorded_stays_and_is_in_nobodys_way() {
    let street = Street::open().await;
    let [one, two] = &street.callers;
    for _ in 0..20 {
        street.create(one, MINUTE).await.unwrap();
    }
    street.live().await.unwrap();
    street.create(two, 2 * MINUTE).await.unwrap();
    let outside = Connection::open(street.file(Log::Audit)).unwrap();
    outside.execute_batch(&street.fill(REFUSED)).unwrap();
    street.world.clock.advance(DAY);
    let vault = &street.world.vault;
    while let Ok(1..) = expire_token(vault).await {}
    while let Ok(1..) = expire_token_intent(vault).await {}
    assert!(expire_token(vault).await.is_err(), "what is left is told");
    assert!(expire_token_intent(vault).await.is_err(), "what is left is told");
    let ours = street.tenants[0].id;
    assert_eq!(street.left("tokens"), [ours; 21]);
    assert_eq!(street.left("token_intents"), [ours]);
    assert_eq!(street.found(), BTreeSet::new());
    outside.execute_batch("DROP TRIGGER refused").unwrap();
    street.sweep().await;
    assert_eq!((street.left("tokens"), street.left("token_intents")), (vec![], vec![]));
    assert_eq!(street.found(), BTreeSet::new());
}
