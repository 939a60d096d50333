//! Whoever writes to the rows of tokens, sessions, events and logs without our keys changes nothing
//! unnoticed: as on the embedded engine, and here as a superuser, whom nothing in the schema holds.

use std::collections::BTreeSet;

use scrip_core::{
    audit::LogKind,
    error::Error,
    listing::{ListTokensQuery, TokenFilter},
    operations::tokens::{get_token::get_token, list_tokens::list_tokens},
};
use scrip_testing::{
    store_harness::{StoreHarness, token_record},
    vault_harness::{Engine, VaultHarness},
};
use tokio_postgres::{Client, NoTls};

use crate::{
    sessions::column_alterations::{assert_detected, create_two_sessions, get, notify},
    sqlite::column_alterations::{
        check_moved_duplicate_key, describe, move_duplicate_key, vault_with_card,
        vault_with_two_cards,
    },
};

/// A column, and what somebody makes of it, one value at a time.
pub(crate) type PostgresAlteration = (&'static str, &'static [&'static str]);

/// Somebody who may do anything to the database.
pub(crate) struct Attacker(pub(crate) Client);

impl Attacker {
    pub(crate) async fn connect(harness: &VaultHarness) -> Self {
        let url = harness.database().superuser_url();
        let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
        tokio::spawn(connection);
        // Whoever breaks in is not held up by rules of ours.
        client.batch_execute("SET session_replication_role = replica").await.unwrap();
        Self(client)
    }

    /// Says whether it changed anything.
    pub(crate) async fn execute(&self, sql: &str) -> bool {
        let done = self.0.execute(sql, &[]).await;
        done.unwrap_or_else(|error| panic!("{sql}: {error:?}")) > 0
    }

    pub(crate) async fn save_table(&self, table: &str) {
        let sql = format!("CREATE TEMP TABLE kept AS SELECT * FROM public.{table}");
        self.0.batch_execute(&sql).await.unwrap();
    }

    /// As it was when it was kept.
    pub(crate) async fn restore_table(&self, table: &str) {
        let sql = format!(
            "BEGIN; DELETE FROM {table}; INSERT INTO {table} SELECT * FROM kept; DROP TABLE kept;
             COMMIT"
        );
        self.0.batch_execute(&sql).await.unwrap();
    }

    /// That no column of a table is forgotten.
    pub(crate) async fn check_columns(
        &self,
        table: &str,
        tested: &[PostgresAlteration],
        harmless: &[&str],
    ) {
        let sql = "SELECT attname::text FROM pg_attribute
            WHERE attrelid = $1::text::regclass AND attnum > 0";
        let rows = self.0.query(sql, &[&table]).await.unwrap();
        let columns: BTreeSet<String> = rows.iter().map(|row| row.get(0)).collect();
        let tried = tested.iter().map(|it| it.0).chain(harmless.iter().copied());
        assert_eq!(tried.map(str::to_owned).collect::<BTreeSet<_>>(), columns, "{table}");
    }
}

const NIL_UUID: &str = "'00000000-0000-0000-0000-000000000000'";
const ZEROS: &str = "decode(repeat('00', 32), 'hex')";

const TOKEN: &[PostgresAlteration] = &[
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

const CVC: &[PostgresAlteration] = &[
    ("expires_at", &["expires_at + 1"]),
    ("sealed", &["''", "substr(sealed, 1, length(sealed) - 1)"]),
];

#[tokio::test]
async fn altered_token_column_is_detected_on_postgres() {
    let (harness, caller, id) = vault_with_card(Engine::Postgres).await;
    let first = describe(&get_token(&harness.vault, &caller, &id).await.unwrap());
    assert!(first.contains("4242424242424242") && first.contains("\"123\""), "{first}");
    let attacker = Attacker::connect(&harness).await;
    // How rows find each other is in no seal: who alters it takes away what it leads to.
    let not_sealed = ["number", "duplicate_key", "duplicate_read_key"];
    attacker.check_columns("tokens", TOKEN, &not_sealed).await;
    attacker.check_columns("cvcs", CVC, &["tenant", "token"]).await;
    for (table, altered) in [("tokens", TOKEN), ("cvcs", CVC)] {
        for (column, values) in altered {
            for value in *values {
                attacker.save_table(table).await;
                let sql = format!("UPDATE {table} SET {column} = {value}");
                assert!(attacker.execute(&sql).await, "{sql}");
                let outcome = get_token(&harness.vault, &caller, &id).await;
                let noticed = matches!(outcome, Err(Error::Internal(_) | Error::NotFound));
                assert!(noticed, "{sql}: {outcome:?}");
                attacker.restore_table(table).await;
                assert_eq!(
                    describe(&get_token(&harness.vault, &caller, &id).await.unwrap()),
                    first
                );
            }
        }
    }
    for column in ["tokens SET number", "cvcs SET token"] {
        let table = column.split(' ').next().unwrap();
        attacker.save_table(table).await;
        assert!(attacker.execute(&format!("UPDATE {column} = 1000")).await);
        let shown = describe(&get_token(&harness.vault, &caller, &id).await.unwrap());
        assert!(shown.contains("4242424242424242") && !shown.contains("\"123\""), "{shown}");
        attacker.restore_table(table).await;
    }
}

#[tokio::test]
async fn duplicate_key_of_another_token_is_noticed() {
    let (harness, caller, ids) = vault_with_two_cards(Engine::Postgres).await;
    let attacker = Attacker::connect(&harness).await;
    for sql in move_duplicate_key(&ids) {
        assert!(attacker.execute(&sql).await, "{sql}");
    }
    check_moved_duplicate_key(&harness, &caller).await;
}

/// Entries are in no seal, but what they lead to is: a token is never shown as what it is not.
#[tokio::test]
async fn forged_index_entry_is_detected_on_postgres() {
    let (harness, caller, _) = vault_with_card(Engine::Postgres).await;
    let attacker = Attacker::connect(&harness).await;
    let listed = async || {
        let filter = TokenFilter::All;
        let query = ListTokensQuery { container: None, filter, start: None, size: 20 };
        list_tokens(&harness.vault, &caller, query).await.map(|it| it.tokens.len())
    };
    assert_eq!(listed().await.unwrap(), 1);
    for entries in [
        "tenant, convert_to('tbank', 'UTF8'), container, created_at, token",
        "tenant, convert_to('tbank', 'UTF8'), '/a/', created_at, token",
        "tenant, facet, '/zoo/', created_at, token",
        "tenant, facet, container, created_at + 1, token",
    ] {
        attacker.save_table("filed").await;
        let sql = format!("INSERT INTO filed SELECT {entries} FROM filed ON CONFLICT DO NOTHING");
        assert!(attacker.execute(&sql).await);
        let outcome = listed().await;
        assert!(matches!(outcome, Err(Error::Internal(_))), "{entries}: {outcome:?}");
        attacker.restore_table("filed").await;
        assert_eq!(listed().await.unwrap(), 1);
    }
    assert!(attacker.execute("UPDATE filed SET token = token + 1000").await);
    assert_eq!(listed().await.unwrap(), 0);
}

const SESSION: &[PostgresAlteration] = &[
    ("tenant", &[NIL_UUID]),
    ("id", &[NIL_UUID]),
    ("created_by", &[NIL_UUID]),
    ("created_at", &["created_at + 1"]),
    ("ends_at", &["ends_at + 1", "ends_at - 1", "NULL"]),
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
            "(SELECT body FROM sessions AS it WHERE it.id <> sessions.id)",
        ],
    ),
];

#[tokio::test]
async fn altered_threeds_session_column_is_detected_on_postgres() {
    let (simulation, [id, other]) = create_two_sessions(Engine::Postgres).await;
    let attacker = Attacker::connect(&simulation.vault_harness).await;
    attacker.check_columns("sessions", SESSION, &[]).await;
    for (column, values) in SESSION {
        for value in *values {
            attacker.save_table("sessions").await;
            let sql = format!("UPDATE sessions SET {column} = {value} WHERE id = '{}'", id.0);
            assert!(attacker.execute(&sql).await, "{sql}");
            assert_detected(&get(&simulation, id).await, &sql);
            assert_detected(&notify(&simulation, id).await, &sql);
            get(&simulation, other).await.unwrap();
            attacker.restore_table("sessions").await;
            get(&simulation, id).await.unwrap();
        }
    }
}

const EVENT: &[PostgresAlteration] = &[
    ("tenant", &[NIL_UUID]),
    ("id", &[NIL_UUID]),
    ("at", &["at + 1"]),
    (
        "body",
        &[
            "decode(repeat('00', length(body)), 'hex')",
            "''",
            "(SELECT body FROM session_events AS it WHERE it.seq <> session_events.seq)",
        ],
    ),
];

#[tokio::test]
async fn altered_threeds_event_column_is_detected_on_postgres() {
    let (simulation, _) = create_two_sessions(Engine::Postgres).await;
    let attacker = Attacker::connect(&simulation.vault_harness).await;
    // The order of delivery.
    attacker.check_columns("session_events", EVENT, &["seq"]).await;
    let tenant = simulation.caller.tenant();
    let open = async || {
        let events = simulation.vault.store.list_threeds_events(0, 9).await?;
        events.iter().map(|(_, it)| it.open(tenant)).collect::<Result<Vec<_>, _>>()
    };
    assert_eq!(open().await.unwrap().len(), 2);
    for (column, values) in EVENT {
        for value in *values {
            attacker.save_table("session_events").await;
            let sql = format!("UPDATE session_events SET {column} = {value} WHERE seq = 1");
            assert!(attacker.execute(&sql).await, "{sql}");
            assert!(open().await.is_err(), "{sql}");
            attacker.restore_table("session_events").await;
            open().await.unwrap();
        }
    }
}

/// What is done to the end of a chain. Whoever does it stops nobody, and the chain never has a valid
/// head again.
const DAMAGES: &[&str] = &[
    "DELETE FROM heads WHERE tenant = {one}",
    "UPDATE heads SET link = '\\x00' WHERE tenant = {one}",
    "UPDATE heads SET mac = '' WHERE tenant = {one}",
    "UPDATE heads SET n = n - 1 WHERE tenant = {one}",
    "UPDATE heads SET n = 9223372036854775807 WHERE tenant = {one}",
    "UPDATE heads SET n = -9223372036854775808 WHERE tenant = {one}",
    "UPDATE records SET n = 9223372036854775807 WHERE tenant = {one} AND log = 'audit'
        AND n = (SELECT max(n) FROM records WHERE tenant = {one} AND log = 'audit');
     DELETE FROM heads WHERE tenant = {one}",
    "UPDATE records SET link = '\\x00' WHERE tenant = {one};
     DELETE FROM heads WHERE tenant = {one}",
    "DELETE FROM records WHERE tenant = {one}; DELETE FROM heads WHERE tenant = {one};
     INSERT INTO checkpoints VALUES ({one}, 'audit', 7, '\\x00', 0, '\\x00')",
];

#[tokio::test]
async fn damaged_chain_end_blocks_no_tenant_and_never_has_a_valid_head_on_postgres() {
    for damage in DAMAGES {
        let harness = StoreHarness::open(Engine::Postgres).await;
        let attacker = Attacker::connect(&harness.vault_harness).await;
        harness.insert(token_record("one")).await;
        let (tenant, theirs) = (harness.caller.tenant().id, harness.stranger.tenant().id);
        let damage = damage.replace("{one}", &format!("'{}'", tenant.0));
        attacker.0.batch_execute(&damage).await.unwrap();
        let numbers = async || -> Vec<i64> {
            let rows = "SELECT n FROM records WHERE tenant = $1 AND log = 'audit' ORDER BY n";
            let rows = attacker.0.query(rows, &[&tenant.0]).await.unwrap();
            rows.iter().map(|row| row.get(0)).collect()
        };
        let before = numbers().await;
        for id in ["two", "three"] {
            harness.insert(token_record(id)).await;
        }
        let after = numbers().await;
        assert_eq!(after.len(), before.len() + 2, "{damage}");
        assert!(before.iter().all(|it| after.contains(it)), "{damage}: {after:?}");
        let key = harness.vault_harness.vault.audit_trail.key().unwrap();
        let heads = harness.store().list_heads(LogKind::Audit).await.unwrap();
        let valid =
            |of| heads.iter().any(|it| it.tenant == of && it.has_valid_mac(key, LogKind::Audit));
        assert!(!valid(tenant), "{damage}");
        assert!(valid(theirs), "{damage}");
        harness.store().status().await.unwrap();
    }
}
