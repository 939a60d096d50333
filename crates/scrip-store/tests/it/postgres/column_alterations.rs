//! Alterations of tokens, sessions, events and logs without the keys of the vault are detected, as
//! on SQLite. The attacker is a superuser, so no constraint of the schema applies.

use std::collections::BTreeSet;

use scrip_core::{
    Error,
    audit::LogKind,
    operations::tokens::{
        ListTokensQuery, TokenFilter, get_token::get_token, list_tokens::list_tokens,
    },
};
use scrip_testing::{
    store_harness::{StoreHarness, token_record},
    vault_harness::{Engine, VaultHarness},
};
use tokio_postgres::{Client, NoTls};

use crate::{
    sessions::column_alterations::{assert_detected, create_two_sessions, get, notify},
    sqlite::column_alterations::{
        check_moved_duplicate_key, create_vault_with_card, create_vault_with_two_cards, describe,
        move_duplicate_key_statements,
    },
};

/// A column and its altered values, one at a time.
pub(crate) type PostgresAlteration = (&'static str, &'static [&'static str]);

/// An attacker with superuser rights.
pub(crate) struct Attacker(pub(crate) Client);

impl Attacker {
    pub(crate) async fn connect(harness: &VaultHarness) -> Self {
        let url = harness.database().superuser_url();
        let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
        tokio::spawn(connection);
        // Disables triggers and foreign keys.
        client.batch_execute("SET session_replication_role = replica").await.unwrap();
        Self(client)
    }

    /// Executes a statement and returns whether it changed a row.
    pub(crate) async fn execute(&self, sql: &str) -> bool {
        let outcome = self.0.execute(sql, &[]).await;
        outcome.unwrap_or_else(|error| panic!("{sql}: {error:?}")) > 0
    }

    pub(crate) async fn save_table(&self, table: &str) {
        let sql = format!("CREATE TEMP TABLE saved AS SELECT * FROM public.{table}");
        self.0.batch_execute(&sql).await.unwrap();
    }

    /// Restores the saved rows of a table.
    pub(crate) async fn restore_table(&self, table: &str) {
        let sql = format!(
            "BEGIN; DELETE FROM {table}; INSERT INTO {table} SELECT * FROM saved; DROP TABLE saved;
             COMMIT"
        );
        self.0.batch_execute(&sql).await.unwrap();
    }

    /// Checks that the lists cover every column of a table.
    pub(crate) async fn check_columns(
        &self,
        table: &str,
        alterations: &[PostgresAlteration],
        harmless: &[&str],
    ) {
        let sql = "SELECT attname::text FROM pg_attribute
            WHERE attrelid = $1::text::regclass AND attnum > 0";
        let rows = self.0.query(sql, &[&table]).await.unwrap();
        let columns: BTreeSet<String> = rows.iter().map(|row| row.get(0)).collect();
        let tested_columns = alterations.iter().map(|it| it.0).chain(harmless.iter().copied());
        assert_eq!(tested_columns.map(str::to_owned).collect::<BTreeSet<_>>(), columns, "{table}");
    }
}

const NIL_UUID: &str = "'00000000-0000-0000-0000-000000000000'";
const ZEROS: &str = "decode(repeat('00', 32), 'hex')";

const TOKEN_ALTERATIONS: &[PostgresAlteration] = &[
    ("tenant", &[NIL_UUID]),
    ("id", &["'altered'", "''"]),
    ("type", &["'network_token'", "'unheard_of'", "''"]),
    ("fingerprint", &["NULL", ZEROS, "'\\x00'"]),
    (
        "expressions",
        &[
            "'\\x00'",
            "set_byte(expressions, 32, 0)",
            "set_byte(expressions, 0, get_byte(expressions, 0) # 1)",
        ],
    ),
    (
        "containers",
        &[
            "'/a/,/pci/high/'",
            "'/a/'",
            "'/pci/high/,/a/,/a/b/'",
            "'/pci/high/a/'",
            "''",
            "'no container'",
        ],
    ),
    ("created_by", &[NIL_UUID]),
    ("created_at", &["created_at + 1", "0"]),
    ("modified_by", &[NIL_UUID, "NULL"]),
    ("modified_at", &["modified_at + 1", "NULL"]),
    ("expires_at", &["NULL", "expires_at + 1", "1"]),
    ("revision", &["revision + 1", "revision - 1"]),
    (
        "indexes",
        &[
            "''",
            "decode(repeat('00', length(indexes)), 'hex')",
            "indexes || decode(repeat('00', 16), 'hex')",
            "indexes || '\\x00'",
        ],
    ),
    (
        "body",
        &[
            "''",
            "substr(body, 1, length(body) - 1)",
            "decode(repeat('00', length(body)), 'hex')",
            "body || '\\x00'",
        ],
    ),
];

const CVC_ALTERATIONS: &[PostgresAlteration] = &[
    ("expires_at", &["expires_at + 1"]),
    ("sealed", &["''", "substr(sealed, 1, length(sealed) - 1)"]),
];

#[tokio::test]
async fn altered_token_column_is_detected_on_postgres() {
    let (harness, caller, id) = create_vault_with_card(Engine::Postgres).await;
    let unaltered = describe(&get_token(&harness.vault, &caller, &id).await.unwrap());
    assert!(unaltered.contains("4242424242424242") && unaltered.contains("\"123\""), "{unaltered}");
    let attacker = Attacker::connect(&harness).await;
    // These columns are not authenticated: altering them only hides rows.
    let unauthenticated_columns = ["number", "duplicate_key", "duplicate_read_key"];
    attacker.check_columns("tokens", TOKEN_ALTERATIONS, &unauthenticated_columns).await;
    attacker.check_columns("cvcs", CVC_ALTERATIONS, &["tenant", "token"]).await;
    for (table, alterations) in [("tokens", TOKEN_ALTERATIONS), ("cvcs", CVC_ALTERATIONS)] {
        for (column, values) in alterations {
            for value in *values {
                attacker.save_table(table).await;
                let sql = format!("UPDATE {table} SET {column} = {value}");
                assert!(attacker.execute(&sql).await, "{sql}");
                let outcome = get_token(&harness.vault, &caller, &id).await;
                let is_detected = matches!(outcome, Err(Error::Internal(_) | Error::NotFound));
                assert!(is_detected, "{sql}: {outcome:?}");
                attacker.restore_table(table).await;
                let found = describe(&get_token(&harness.vault, &caller, &id).await.unwrap());
                assert_eq!(found, unaltered);
            }
        }
    }
    for assignment in ["tokens SET number", "cvcs SET token"] {
        let table = assignment.split(' ').next().unwrap();
        attacker.save_table(table).await;
        assert!(attacker.execute(&format!("UPDATE {assignment} = 1000")).await);
        let description = describe(&get_token(&harness.vault, &caller, &id).await.unwrap());
        assert!(
            description.contains("4242424242424242") && !description.contains("\"123\""),
            "{description}"
        );
        attacker.restore_table(table).await;
    }
}

#[tokio::test]
async fn duplicate_key_of_another_token_is_detected_on_postgres() {
    let (harness, caller, ids) = create_vault_with_two_cards(Engine::Postgres).await;
    let attacker = Attacker::connect(&harness).await;
    for sql in move_duplicate_key_statements(&ids) {
        assert!(attacker.execute(&sql).await, "{sql}");
    }
    check_moved_duplicate_key(&harness, &caller).await;
}

/// Index entries are not authenticated, but tokens are: a token is never returned for a wrong
/// entry.
#[tokio::test]
async fn forged_index_entry_is_detected_on_postgres() {
    let (harness, caller, _) = create_vault_with_card(Engine::Postgres).await;
    let attacker = Attacker::connect(&harness).await;
    let count_listed = async || {
        let filter = TokenFilter::All;
        let query = ListTokensQuery { container: None, filter, start: None, size: 20 };
        list_tokens(&harness.vault, &caller, query).await.map(|it| it.items.len())
    };
    assert_eq!(count_listed().await.unwrap(), 1);
    for forged_entry in [
        "tenant, convert_to('tbank', 'UTF8'), container, created_at, token",
        "tenant, convert_to('tbank', 'UTF8'), '/a/', created_at, token",
        "tenant, facet, '/zoo/', created_at, token",
        "tenant, facet, container, created_at + 1, token",
    ] {
        attacker.save_table("token_index").await;
        let sql = format!(
            "INSERT INTO token_index SELECT {forged_entry} FROM token_index ON CONFLICT DO NOTHING"
        );
        assert!(attacker.execute(&sql).await);
        let outcome = count_listed().await;
        assert!(matches!(outcome, Err(Error::Internal(_))), "{forged_entry}: {outcome:?}");
        attacker.restore_table("token_index").await;
        assert_eq!(count_listed().await.unwrap(), 1);
    }
    assert!(attacker.execute("UPDATE token_index SET token = token + 1000").await);
    assert_eq!(count_listed().await.unwrap(), 0);
}

const SESSION_ALTERATIONS: &[PostgresAlteration] = &[
    ("tenant", &[NIL_UUID]),
    ("id", &[NIL_UUID]),
    ("created_by", &[NIL_UUID]),
    ("created_at", &["created_at + 1"]),
    ("deletes_at", &["deletes_at + 1", "deletes_at - 1", "NULL"]),
    ("revision", &["revision + 1", "0"]),
    ("token", &["'another'"]),
    ("intent", &["'00000000-0000-0000-0000-000000000000'"]),
    ("converted_containers", &["'/a/'"]),
    ("converted_number_version", &["'00000000-0000-0000-0000-000000000000'"]),
    ("converted_mac", &["decode(repeat('00', 32), 'hex')"]),
    (
        "body",
        &[
            "decode(repeat('00', length(body)), 'hex')",
            "substr(body, 1, length(body) - 1)",
            "''",
            "(SELECT body FROM threeds_sessions AS it WHERE it.id <> threeds_sessions.id)",
        ],
    ),
];

#[tokio::test]
async fn altered_threeds_session_column_is_detected_on_postgres() {
    let (simulation, [id, other_id]) = create_two_sessions(Engine::Postgres).await;
    let attacker = Attacker::connect(&simulation.vault_harness).await;
    attacker.check_columns("threeds_sessions", SESSION_ALTERATIONS, &[]).await;
    for (column, values) in SESSION_ALTERATIONS {
        for value in *values {
            attacker.save_table("threeds_sessions").await;
            let sql =
                format!("UPDATE threeds_sessions SET {column} = {value} WHERE id = '{}'", id.0);
            assert!(attacker.execute(&sql).await, "{sql}");
            assert_detected(&get(&simulation, id).await, &sql);
            assert_detected(&notify(&simulation, id).await, &sql);
            get(&simulation, other_id).await.unwrap();
            attacker.restore_table("threeds_sessions").await;
            get(&simulation, id).await.unwrap();
        }
    }
}

/// Damage to the end of a chain. It blocks no writes, and the chain never has a valid head again.
const DAMAGES: &[&str] = &[
    "DELETE FROM chain_heads WHERE tenant = {tenant}",
    "UPDATE chain_heads SET link = '\\x00' WHERE tenant = {tenant}",
    "UPDATE chain_heads SET mac = '' WHERE tenant = {tenant}",
    "UPDATE chain_heads SET sequence = sequence - 1 WHERE tenant = {tenant}",
    "UPDATE chain_heads SET sequence = 9223372036854775807 WHERE tenant = {tenant}",
    "UPDATE chain_heads SET sequence = -9223372036854775808 WHERE tenant = {tenant}",
    "UPDATE log_records SET sequence = 9223372036854775807 WHERE tenant = {tenant} AND log = 'audit'
        AND sequence = (SELECT max(sequence) FROM log_records WHERE tenant = {tenant} AND log = 'audit');
     DELETE FROM chain_heads WHERE tenant = {tenant}",
    "UPDATE log_records SET link = '\\x00' WHERE tenant = {tenant};
     DELETE FROM chain_heads WHERE tenant = {tenant}",
    "DELETE FROM log_records WHERE tenant = {tenant}; DELETE FROM chain_heads WHERE tenant = {tenant};
     INSERT INTO chain_checkpoints VALUES ({tenant}, 'audit', 7, '\\x00', 0, '\\x00')",
];

#[tokio::test]
async fn damaged_chain_end_blocks_no_tenant_and_never_has_a_valid_head_on_postgres() {
    for damage in DAMAGES {
        let harness = StoreHarness::open(Engine::Postgres).await;
        let attacker = Attacker::connect(&harness.vault_harness).await;
        harness.insert(token_record("one")).await;
        let (tenant, other_tenant) = (harness.caller.tenant().id, harness.stranger.tenant().id);
        let damage = damage.replace("{tenant}", &format!("'{}'", tenant.0));
        attacker.0.batch_execute(&damage).await.unwrap();
        let list_sequences = async || -> Vec<i64> {
            let sql = "SELECT sequence FROM log_records WHERE tenant = $1 AND log = 'audit'
                ORDER BY sequence";
            let rows = attacker.0.query(sql, &[&tenant.0]).await.unwrap();
            rows.iter().map(|row| row.get(0)).collect()
        };
        let sequences_before = list_sequences().await;
        for id in ["two", "three"] {
            harness.insert(token_record(id)).await;
        }
        let sequences_after = list_sequences().await;
        assert_eq!(sequences_after.len(), sequences_before.len() + 2, "{damage}");
        assert!(
            sequences_before.iter().all(|it| sequences_after.contains(it)),
            "{damage}: {sequences_after:?}"
        );
        let key = harness.vault_harness.vault.audit_trail.key().unwrap();
        let heads = harness.store().list_heads(LogKind::Audit).await.unwrap();
        let has_valid_head =
            |id| heads.iter().any(|it| it.tenant == id && it.has_valid_mac(key, LogKind::Audit));
        assert!(!has_valid_head(tenant), "{damage}");
        assert!(has_valid_head(other_tenant), "{damage}");
        harness.store().status().await.unwrap();
    }
}
