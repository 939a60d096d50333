//! Whoever damages the end of one chain stops nobody, and is found.

use std::{collections::BTreeSet, future::ready, path::PathBuf, sync::Arc, time::Duration};

use rusqlite::Connection;
use scrip_core::{
    audit::LogKind,
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
    policy::{Caller, Permission, Tenant, TenantSettings, Transform},
    time::Clock,
    token::{NewToken, NewTokenIntent, Plaintext, TokenType},
};
use scrip_testing::{
    policy::{TOKENS, access_rule, access_with_rules},
    requests::{VISA, card, create},
    vault_harness::{Engine, VaultHarness},
};
use serde_json::json;

use crate::audit::log_tampering::verify_logs;

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

struct DamagedChainHarness {
    tenants: [Arc<Tenant>; 2],
    callers: [Caller; 2],
    vault_harness: VaultHarness,
}

impl DamagedChainHarness {
    async fn open() -> Self {
        let harness = VaultHarness::open(Engine::Sqlite).await;
        let tenants = [
            harness.tenant(TenantSettings::default()).await,
            harness.tenant(TenantSettings::default()).await,
        ];
        let rules = || {
            [
                access_rule("/", Transform::Reveal, TOKENS),
                access_rule("/", Transform::Mask, INTENTS),
            ]
        };
        let callers = [
            harness.caller(&tenants[0], access_with_rules(rules())).await,
            harness.caller(&tenants[1], access_with_rules(rules())).await,
        ];
        Self { tenants, callers, vault_harness: harness }
    }

    fn file(&self, log: LogKind) -> PathBuf {
        self.vault_harness.file().with_file_name(match log {
            LogKind::Audit => "scrip.db",
            LogKind::Read => "access.db",
        })
    }

    fn fill_tenant(&self, sql: &str) -> String {
        sql.replace("{one}", &format!("x'{}'", self.tenants[0].id.0.simple()))
    }

    async fn create(&self, caller: &Caller, lifetime: Duration) -> Result<TokenId, Error> {
        let expires_at = Some(self.vault_harness.clock.now().plus(lifetime));
        let new = NewToken { expires_at, ..card(VISA) };
        Ok(create(&self.vault_harness.vault, caller, new).await?.token.id)
    }

    /// What clients do, and what their time leaves to be swept.
    async fn use_all_tenants(&self) -> Result<(), Error> {
        let vault = &self.vault_harness.vault;
        for caller in &self.callers {
            let token = self.create(caller, 100 * DAY).await?;
            get_token(vault, caller, &token).await?;
            delete_token(vault, caller, &token).await?;
            self.create(caller, MINUTE).await?;
            let data = Plaintext::new(json!({"number": VISA}));
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
        while expire_token(&self.vault_harness.vault).await.unwrap() > 0 {}
        while expire_token_intent(&self.vault_harness.vault).await.unwrap() > 0 {}
    }

    fn remaining_tenants(&self, table: &str) -> Vec<TenantId> {
        let file = Connection::open(self.vault_harness.file()).unwrap();
        let mut statement = file.prepare(&format!("SELECT tenant FROM {table}")).unwrap();
        let bytes = statement.query_map([], |row| row.get::<_, [u8; 16]>(0)).unwrap();
        bytes.map(|it| TenantId(uuid::Uuid::from_bytes(it.unwrap()))).collect()
    }

    /// Whose chains verifying complains about.
    fn tenants_with_faults(&self) -> BTreeSet<Option<TenantId>> {
        let folder = self.vault_harness.file().parent().unwrap().to_owned();
        let existing = self.tenants.each_ref().map(|it| it.id);
        let key = self.vault_harness.vault.audit_trail.key().unwrap();
        verify_logs(&folder, key, &existing, &[]).problems.iter().map(|it| it.tenant).collect()
    }

    /// Of the neighbour, in both logs.
    async fn prune(&self) -> usize {
        let mut pruned = 0;
        let all = prune_logs(&self.vault_harness.vault, &self.vault_harness.directory().await)
            .await
            .unwrap();
        for chain in all.into_iter().filter(|it| it.tenant == self.tenants[1].id) {
            pruned += self.vault_harness.vault.store.prune_chain(chain).await.unwrap();
        }
        pruned
    }
}

async fn check_damage(log: LogKind, damage: &str) {
    let harness = DamagedChainHarness::open().await;
    harness.use_all_tenants().await.unwrap();
    let attacker = Connection::open(harness.file(log)).unwrap();
    let keep = "ATTACH ':memory:' AS kept; CREATE TABLE kept.heads AS SELECT * FROM audit_heads";
    attacker.execute_batch(keep).unwrap();
    harness.use_all_tenants().await.unwrap();
    assert_eq!(harness.tenants_with_faults(), BTreeSet::new());
    attacker.execute_batch(&harness.fill_tenant(damage)).unwrap();
    assert!(!harness.tenants_with_faults().is_empty(), "before anybody goes on");

    let store = &harness.vault_harness.vault.store;
    let listed = |heads: Vec<TenantId>| assert!(heads.contains(&harness.tenants[1].id));
    for _ in 0..3 {
        listed(store.list_heads(log).await.unwrap().iter().map(|it| it.tenant).collect());
        listed(store.list_chains(log).await.unwrap().iter().map(|it| it.head.tenant).collect());
        store.status().await.unwrap();
        let lived = harness.use_all_tenants().await;
        lived.unwrap_or_else(|error| panic!("{log:?} {damage}: {error:?}"));
        harness.vault_harness.clock.advance(DAY);
        harness.sweep().await;
        assert_eq!(
            (harness.remaining_tenants("tokens"), harness.remaining_tenants("token_intents")),
            (vec![], vec![])
        );
        let found = harness.tenants_with_faults();
        let others = [Some(harness.tenants[0].id), None];
        assert!(found.contains(&others[0]), "{found:?}");
        assert!(found.iter().all(|it| others.contains(it)), "{found:?}");
    }
    assert!(harness.prune().await > 0);
}

#[tokio::test]
async fn damaged_chain_end_is_detected_and_blocks_no_tenant() {
    for log in LogKind::ALL {
        for damage in DAMAGES {
            check_damage(log, damage).await;
        }
    }
}

/// Nothing of this tenant's can be recorded in this log.
const REJECT_RECORDS_TRIGGER: &str =
    "CREATE TRIGGER refused BEFORE INSERT ON audit WHEN NEW.tenant = {one}
    BEGIN SELECT RAISE(ABORT, 'refused'); END";

#[tokio::test]
async fn unrecordable_read_fails_alone_in_a_shared_commit() {
    let harness = DamagedChainHarness::open().await;
    let [one, two] = &harness.callers;
    let tokens = [harness.create(one, DAY).await.unwrap(), harness.create(two, DAY).await.unwrap()];
    let attacker = Connection::open(harness.file(LogKind::Read)).unwrap();
    attacker.execute_batch(&harness.fill_tenant(REJECT_RECORDS_TRIGGER)).unwrap();
    let vault = &harness.vault_harness.vault;
    // Nobody can commit, so both are waiting when the writer comes to them.
    attacker.execute_batch("BEGIN IMMEDIATE").unwrap();
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
    attacker.execute_batch("COMMIT").unwrap();
    let (first, rejected, last) = both.await;
    assert!(first.is_ok() && last.is_ok(), "{first:?} {last:?}");
    assert!(matches!(rejected, Err(Error::Unavailable(_))), "{rejected:?}");
    let count = "SELECT count(*) FROM audit WHERE operation = 'get_token'";
    assert_eq!(attacker.query_row(count, [], |row| row.get::<_, i64>(0)).unwrap(), 2);
    assert_eq!(harness.tenants_with_faults(), BTreeSet::new());
}

/// More of them than one step looks at, and before all others.
#[tokio::test]
async fn unrecordable_expired_tokens_stay_and_do_not_block_other_tenants() {
    let harness = DamagedChainHarness::open().await;
    let [one, two] = &harness.callers;
    for _ in 0..20 {
        harness.create(one, MINUTE).await.unwrap();
    }
    harness.use_all_tenants().await.unwrap();
    harness.create(two, 2 * MINUTE).await.unwrap();
    let attacker = Connection::open(harness.file(LogKind::Audit)).unwrap();
    attacker.execute_batch(&harness.fill_tenant(REJECT_RECORDS_TRIGGER)).unwrap();
    harness.vault_harness.clock.advance(DAY);
    let vault = &harness.vault_harness.vault;
    while let Ok(1..) = expire_token(vault).await {}
    while let Ok(1..) = expire_token_intent(vault).await {}
    assert!(expire_token(vault).await.is_err(), "what is left is told");
    assert!(expire_token_intent(vault).await.is_err(), "what is left is told");
    let ours = harness.tenants[0].id;
    assert_eq!(harness.remaining_tenants("tokens"), [ours; 21]);
    assert_eq!(harness.remaining_tenants("token_intents"), [ours]);
    assert_eq!(harness.tenants_with_faults(), BTreeSet::new());
    attacker.execute_batch("DROP TRIGGER refused").unwrap();
    harness.sweep().await;
    assert_eq!(
        (harness.remaining_tenants("tokens"), harness.remaining_tenants("token_intents")),
        (vec![], vec![])
    );
    assert_eq!(harness.tenants_with_faults(), BTreeSet::new());
}
