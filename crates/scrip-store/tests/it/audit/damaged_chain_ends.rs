//! A damaged end of one chain blocks no writes and is detected.

use std::{collections::BTreeSet, future::ready, path::PathBuf, sync::Arc, time::Duration};

use rusqlite::Connection;
use scrip_core::{
    Error,
    audit::LogKind,
    card::TokenType,
    operations::{
        logs::prune_logs::prune_logs,
        token_intents::create_token_intent::create_token_intent,
        tokens::{
            delete_token::delete_token,
            expire_token::{expire_token, expire_token_intent},
            get_token::get_token,
        },
    },
    policy::{Caller, Tenant},
    token::{NewToken, NewTokenIntent},
    types::{
        Permission, Plaintext, Transform,
        id::{TenantId, TokenId},
        time::Clock,
    },
};
use scrip_testing::{
    policy::{TOKENS, access_rule, access_with_rules},
    requests::{VISA, card, create},
    vault_harness::{Engine, VaultHarness},
};
use serde_json::json;

use crate::audit::log_files::verify_logs;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const MINUTE: Duration = Duration::from_secs(60);
const INTENT_PERMISSIONS: &[Permission] = &[Permission::TokenIntentCreate];

/// Statements that damage the chain of the first tenant. `older.chain_heads` contains older heads.
const DAMAGES: &[&str] = &[
    "DELETE FROM chain_heads WHERE tenant = {tenant}",
    "UPDATE chain_heads SET tenant = x'00' WHERE tenant = {tenant}",
    "REPLACE INTO chain_heads SELECT * FROM older.chain_heads WHERE tenant = {tenant}",
    "UPDATE chain_heads SET link = x'00' WHERE tenant = {tenant}",
    "UPDATE chain_heads SET mac = x'' WHERE tenant = {tenant}",
    "UPDATE chain_heads SET sequence = 9223372036854775807 WHERE tenant = {tenant}",
    "UPDATE chain_heads SET sequence = 9223372036854775805 WHERE tenant = {tenant}",
    "UPDATE chain_heads SET sequence = -9223372036854775808 WHERE tenant = {tenant}",
    "UPDATE log_records SET sequence = 9223372036854775807 \
     WHERE tenant = {tenant} AND sequence = (SELECT max(sequence) FROM log_records WHERE tenant = {tenant}); \
     DELETE FROM chain_heads WHERE tenant = {tenant}",
    "UPDATE log_records SET link = x'00' WHERE tenant = {tenant}; DELETE FROM chain_heads WHERE tenant = {tenant}",
    "REPLACE INTO chain_checkpoints VALUES ({tenant}, 0, x'00', 0, x'00')",
    "REPLACE INTO chain_checkpoints VALUES ({tenant}, 9223372036854775807, zeroblob(32), 0, zeroblob(32))",
    "REPLACE INTO chain_checkpoints VALUES ({tenant}, 9223372036854775807, zeroblob(32), 0, zeroblob(32)); \
     DELETE FROM log_records WHERE tenant = {tenant}; DELETE FROM chain_heads WHERE tenant = {tenant}",
];

struct DamagedChainHarness {
    tenants: [Arc<Tenant>; 2],
    callers: [Caller; 2],
    vault_harness: VaultHarness,
}

impl DamagedChainHarness {
    async fn open() -> Self {
        let harness = VaultHarness::open(Engine::Sqlite).await;
        let tenants = [harness.default_tenant().await, harness.default_tenant().await];
        let rules = || {
            [
                access_rule("/", Transform::Reveal, TOKENS),
                access_rule("/", Transform::Mask, INTENT_PERMISSIONS),
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
            LogKind::Read => "read_log.db",
        })
    }

    fn insert_tenant_id(&self, sql: &str) -> String {
        sql.replace("{tenant}", &format!("x'{}'", self.tenants[0].id.0.simple()))
    }

    async fn create(&self, caller: &Caller, lifetime: Duration) -> Result<TokenId, Error> {
        let expires_at = Some(self.vault_harness.clock.now().plus(lifetime));
        let new_card = NewToken { expires_at, ..card(VISA) };
        Ok(create(&self.vault_harness.vault, caller, new_card).await?.token.id)
    }

    /// Runs client operations for every tenant: creates, reads and deletes a token, and creates a
    /// token and an intent that expire.
    async fn use_all_tenants(&self) -> Result<(), Error> {
        let vault = &self.vault_harness.vault;
        for caller in &self.callers {
            let token = self.create(caller, 100 * DAY).await?;
            get_token(vault, caller, &token).await?;
            delete_token(vault, caller, &token).await?;
            self.create(caller, MINUTE).await?;
            let data = Plaintext::new(json!({"number": VISA}));
            let new_intent = NewTokenIntent {
                token_type: TokenType::Card,
                data: data.into(),
                containers: None,
                authentication: None,
            };
            create_token_intent(vault, caller, new_intent, None).await?;
        }
        Ok(())
    }

    async fn delete_expired(&self) {
        let vault = &self.vault_harness.vault;
        let directory = self.vault_harness.shared_directory().await;
        while expire_token(vault, &directory).await.unwrap() > 0 {}
        while expire_token_intent(vault, &directory).await.unwrap() > 0 {}
    }

    fn list_row_tenants(&self, table: &str) -> Vec<TenantId> {
        let connection = Connection::open(self.vault_harness.file()).unwrap();
        let mut statement = connection.prepare(&format!("SELECT tenant FROM {table}")).unwrap();
        let bytes = statement.query_map([], |row| row.get::<_, [u8; 16]>(0)).unwrap();
        bytes.map(|it| TenantId(uuid::Uuid::from_bytes(it.unwrap()))).collect()
    }

    /// Lists the tenants with chains that verification reports.
    fn list_damaged_tenants(&self) -> BTreeSet<Option<TenantId>> {
        let folder = self.vault_harness.file().parent().unwrap().to_owned();
        let existing_tenants = self.tenants.each_ref().map(|it| it.id);
        let key = self.vault_harness.vault.audit_trail.key().unwrap();
        verify_logs(&folder, key, &existing_tenants, &[])
            .problems
            .iter()
            .map(|it| it.tenant)
            .collect()
    }

    /// Prunes both logs of the second tenant, which is not damaged.
    async fn prune(&self) -> usize {
        let mut pruned_count = 0;
        let chains = prune_logs(&self.vault_harness.vault, &self.vault_harness.directory().await)
            .await
            .unwrap();
        for chain in chains.into_iter().filter(|it| it.tenant == self.tenants[1].id) {
            pruned_count += self.vault_harness.vault.store.prune_chain(chain).await.unwrap();
        }
        pruned_count
    }
}

async fn check_damage(log: LogKind, damage: &str) {
    let harness = DamagedChainHarness::open().await;
    harness.use_all_tenants().await.unwrap();
    let attacker = Connection::open(harness.file(log)).unwrap();
    let save_heads =
        "ATTACH ':memory:' AS older; CREATE TABLE older.chain_heads AS SELECT * FROM chain_heads";
    attacker.execute_batch(save_heads).unwrap();
    harness.use_all_tenants().await.unwrap();
    assert_eq!(harness.list_damaged_tenants(), BTreeSet::new());
    attacker.execute_batch(&harness.insert_tenant_id(damage)).unwrap();
    assert!(!harness.list_damaged_tenants().is_empty(), "not detected before the next write");

    let store = &harness.vault_harness.vault.store;
    let assert_lists_other_tenant =
        |heads: Vec<TenantId>| assert!(heads.contains(&harness.tenants[1].id));
    for _ in 0..3 {
        assert_lists_other_tenant(
            store.list_heads(log).await.unwrap().iter().map(|it| it.tenant).collect(),
        );
        assert_lists_other_tenant(
            store.list_chains(log).await.unwrap().iter().map(|it| it.head.tenant).collect(),
        );
        store.status().await.unwrap();
        let outcome = harness.use_all_tenants().await;
        outcome.unwrap_or_else(|error| panic!("{log:?} {damage}: {error:?}"));
        harness.vault_harness.clock.advance(DAY);
        harness.delete_expired().await;
        let found = (harness.list_row_tenants("tokens"), harness.list_row_tenants("token_intents"));
        assert_eq!(found, (vec![], vec![]));
        let damaged_tenants = harness.list_damaged_tenants();
        let expected_tenants = [Some(harness.tenants[0].id), None];
        assert!(damaged_tenants.contains(&expected_tenants[0]), "{damaged_tenants:?}");
        assert!(
            damaged_tenants.iter().all(|it| expected_tenants.contains(it)),
            "{damaged_tenants:?}"
        );
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

/// A trigger that rejects all records of the first tenant in a log.
const REJECT_RECORDS_TRIGGER: &str =
    "CREATE TRIGGER refused BEFORE INSERT ON log_records WHEN NEW.tenant = {tenant}
    BEGIN SELECT RAISE(ABORT, 'refused'); END";

#[tokio::test]
async fn unrecordable_read_fails_alone_in_a_shared_commit() {
    let harness = DamagedChainHarness::open().await;
    let [first_caller, second_caller] = &harness.callers;
    let tokens = [
        harness.create(first_caller, DAY).await.unwrap(),
        harness.create(second_caller, DAY).await.unwrap(),
    ];
    let attacker = Connection::open(harness.file(LogKind::Read)).unwrap();
    attacker.execute_batch(&harness.insert_tenant_id(REJECT_RECORDS_TRIGGER)).unwrap();
    let vault = &harness.vault_harness.vault;
    // The lock blocks commits, so both writes are queued when the writer runs.
    attacker.execute_batch("BEGIN IMMEDIATE").unwrap();
    let reads = async {
        tokio::join!(
            get_token(vault, second_caller, &tokens[1]),
            get_token(vault, first_caller, &tokens[0]),
            get_token(vault, second_caller, &tokens[1])
        )
    };
    tokio::pin!(reads);
    tokio::select! {
        biased;
        _ = &mut reads => panic!("the lock should block all writes"),
        () = ready(()) => (),
    }
    attacker.execute_batch("COMMIT").unwrap();
    let (first, rejected, last) = reads.await;
    assert!(first.is_ok() && last.is_ok(), "{first:?} {last:?}");
    assert!(matches!(rejected, Err(Error::Unavailable(_))), "{rejected:?}");
    let count_query = "SELECT count(*) FROM log_records WHERE operation = 'get_token'";
    assert_eq!(attacker.query_row(count_query, [], |row| row.get::<_, i64>(0)).unwrap(), 2);
    assert_eq!(harness.list_damaged_tenants(), BTreeSet::new());
}

/// The first tenant has more expired tokens than one step reads, and they expired before those of
/// the second tenant.
#[tokio::test]
async fn unrecordable_expired_tokens_stay_and_do_not_block_other_tenants() {
    let harness = DamagedChainHarness::open().await;
    let [first_caller, second_caller] = &harness.callers;
    for _ in 0..20 {
        harness.create(first_caller, MINUTE).await.unwrap();
    }
    harness.use_all_tenants().await.unwrap();
    harness.create(second_caller, 2 * MINUTE).await.unwrap();
    let attacker = Connection::open(harness.file(LogKind::Audit)).unwrap();
    attacker.execute_batch(&harness.insert_tenant_id(REJECT_RECORDS_TRIGGER)).unwrap();
    harness.vault_harness.clock.advance(DAY);
    let vault = &harness.vault_harness.vault;
    let directory = harness.vault_harness.shared_directory().await;
    while let Ok(1..) = expire_token(vault, &directory).await {}
    while let Ok(1..) = expire_token_intent(vault, &directory).await {}
    assert!(
        expire_token(vault, &directory).await.is_err(),
        "the remaining rows should be reported"
    );
    assert!(
        expire_token_intent(vault, &directory).await.is_err(),
        "the remaining rows should be reported"
    );
    let tenant = harness.tenants[0].id;
    assert_eq!(harness.list_row_tenants("tokens"), [tenant; 21]);
    assert_eq!(harness.list_row_tenants("token_intents"), [tenant]);
    assert_eq!(harness.list_damaged_tenants(), BTreeSet::new());
    attacker.execute_batch("DROP TRIGGER refused").unwrap();
    harness.delete_expired().await;
    let found = (harness.list_row_tenants("tokens"), harness.list_row_tenants("token_intents"));
    assert_eq!(found, (vec![], vec![]));
    assert_eq!(harness.list_damaged_tenants(), BTreeSet::new());
}
