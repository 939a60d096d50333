//! Whoever writes to the rows of tokens, sessions, events and logs without our keys changes nothing
//! unnoticed: as on the embedded engine, and here as a superuser, whom nothing in the schema holds.

use std::collections::BTreeSet;

use scrip_core::{
    audit::Log,
    error::Error,
    listing::{TokenFilter, TokensAsked},
    operations::tokens::{get_token::get_token, list_tokens::list_tokens},
};
use scrip_testing::{
    store_harness::{StoreHarness, record},
    vault_harness::{Engine, VaultHarness},
};
use tokio_postgres::{Client, NoTls};

use crate::{
    sessions::altered::{get, noticed, notify, played},
    sqlite::altered::{
        check_moved_duplicate_key, move_duplicate_key, text, vault_with_card, vault_with_two_cards,
    },
};

/// A column, and what somebody makes of it, one value at a time.
pub(crate) type Altered = (&'static str, &'static [&'static str]);

/// Somebody who may do anything to the database.
pub(crate) struct Outside(pub(crate) Client);

impl Outside {
    pub(crate) async fn of(world: &VaultHarness) -> Self {
        let url = world.database().superuser_url();
        let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
        tokio::spawn(connection);
        // Whoever breaks in is not held up by rules of ours.
        client.batch_execute("SET session_replication_role = replica").await.unwrap();
        Self(client)
    }

    /// Says whether it changed anything.
    pub(crate) async fn write(&self, sql: &str) -> bool {
        let done = self.0.execute(sql, &[]).await;
        done.unwrap_or_else(|error| panic!("{sql}: {error:?}")) > 0
    }

    pub(crate) async fn keep(&self, table: &str) {
        let sql = format!("CREATE TEMP TABLE kept AS SELECT * FROM public.{table}");
        self.0.batch_execute(&sql).await.unwrap();
    }

    /// As it was when it was kept.
    pub(crate) async fn put_back(&self, table: &str) {
        let sql = format!(
            "BEGIN; DELETE FROM {table}; INSERT INTO {table} SELECT * FROM kept; DROP TABLE kept;
             COMMIT"
        );
        self.0.batch_execute(&sql).await.unwrap();
    }

    /// That no column of a table is forgotten.
    pub(crate) async fn check_columns(&self, table: &str, tried: &[Altered], harmless: &[&str]) {
        let sql = "SELECT attname::text FROM pg_attribute
            WHERE attrelid = $1::text::regclass AND attnum > 0";
        let rows = self.0.query(sql, &[&table]).await.unwrap();
        let columns: BTreeSet<String> = rows.iter().map(|row| row.get(0)).collect();
        let tried = tried.iter().map(|it| it.0).chain(harmless.iter().copied());
        assert_eq!(tried.map(str::to_owned).collect::<BTreeSet<_>>(), columns, "{table}");
    }
}

const NOBODY: &str = "'00000000-0000-0000-0000-000000000000'";
const ZEROS: &str = "decode(repeat('00', 32), 'hex')";

const TOKEN: &[Altered] = &[
    ("tenant", &[NOBODY]),
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
    ("created_by", &[NOBODY]),
    ("created_at", &["created_at + 1", "0"]),
    ("modified_by", &[NOBODY, "NULL"]),
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

const CODE: &[Altered] = &[
    ("expires_at", &["expires_at + 1"]),
    ("sealed", &["''", "substr(sealed, 1, length(sealed) - 1)"]),
];

#[tokio::test]
async fn an_altered_column_of_a_token_is_noticed() {
    let (world, caller, id) = vault_with_card(Engine::Postgres).await;
    let first = text(&get_token(&world.vault, &caller, &id).await.unwrap());
    assert!(first.contains("4242424242424242") && first.contains("\"123\""), "{first}");
    let outside = Outside::of(&world).await;
    // How rows find each other is in no seal: who alters it takes away what it leads to.
    let not_sealed = ["number", "duplicate_key", "duplicate_read_key"];
    outside.check_columns("tokens", TOKEN, &not_sealed).await;
    outside.check_columns("cvcs", CODE, &["tenant", "token"]).await;
    for (table, altered) in [("tokens", TOKEN), ("cvcs", CODE)] {
        for (column, values) in altered {
            for value in *values {
                outside.keep(table).await;
                let sql = format!("UPDATE {table} SET {column} = {value}");
                assert!(outside.write(&sql).await, "{sql}");
                let outcome = get_token(&world.vault, &caller, &id).await;
                let noticed = matches!(outcome, Err(Error::Internal(_) | Error::NotFound));
                assert!(noticed, "{sql}: {outcome:?}");
                outside.put_back(table).await;
                assert_eq!(text(&get_token(&world.vault, &caller, &id).await.unwrap()), first);
            }
        }
    }
    for column in ["tokens SET number", "cvcs SET token"] {
        let table = column.split(' ').next().unwrap();
        outside.keep(table).await;
        assert!(outside.write(&format!("UPDATE {column} = 1000")).await);
        let shown = text(&get_token(&world.vault, &caller, &id).await.unwrap());
        assert!(shown.contains("4242424242424242") && !shown.contains("\"123\""), "{shown}");
        outside.put_back(table).await;
    }
}

#[tokio::test]
async fn duplicate_key_of_another_token_is_noticed() {
    let (world, caller, ids) = vault_with_two_cards(Engine::Postgres).await;
    let outside = Outside::of(&world).await;
    for sql in move_duplicate_key(&ids) {
        assert!(outside.write(&sql).await, "{sql}");
    }
    check_moved_duplicate_key(&world, &caller).await;
}

/// Entries are in no seal, but what they lead to is: a token is never shown as what it is not.
#[tokio::test]
async fn a_forged_entry_is_noticed() {
    let (world, caller, _) = vault_with_card(Engine::Postgres).await;
    let outside = Outside::of(&world).await;
    let listed = async || {
        let filter = TokenFilter::All;
        let asked = TokensAsked { container: None, filter, start: None, size: 20 };
        list_tokens(&world.vault, &caller, asked).await.map(|it| it.tokens.len())
    };
    assert_eq!(listed().await.unwrap(), 1);
    for entries in [
        "tenant, convert_to('tbank', 'UTF8'), container, created_at, token",
        "tenant, convert_to('tbank', 'UTF8'), '/a/', created_at, token",
        "tenant, facet, '/zoo/', created_at, token",
        "tenant, facet, container, created_at + 1, token",
    ] {
        outside.keep("filed").await;
        let sql = format!("INSERT INTO filed SELECT {entries} FROM filed ON CONFLICT DO NOTHING");
        assert!(outside.write(&sql).await);
        let outcome = listed().await;
        assert!(matches!(outcome, Err(Error::Internal(_))), "{entries}: {outcome:?}");
        outside.put_back("filed").await;
        assert_eq!(listed().await.unwrap(), 1);
    }
    assert!(outside.write("UPDATE filed SET token = token + 1000").await);
    assert_eq!(listed().await.unwrap(), 0);
}

const SESSION: &[Altered] = &[
    ("tenant", &[NOBODY]),
    ("id", &[NOBODY]),
    ("created_by", &[NOBODY]),
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
async fn every_column_of_a_session_is_bound_to_its_body() {
    let (play, [id, other]) = played(Engine::Postgres).await;
    let outside = Outside::of(&play.world).await;
    outside.check_columns("sessions", SESSION, &[]).await;
    for (column, values) in SESSION {
        for value in *values {
            outside.keep("sessions").await;
            let sql = format!("UPDATE sessions SET {column} = {value} WHERE id = '{}'", id.0);
            assert!(outside.write(&sql).await, "{sql}");
            noticed(&get(&play, id).await, &sql);
            noticed(&notify(&play, id).await, &sql);
            get(&play, other).await.unwrap();
            outside.put_back("sessions").await;
            get(&play, id).await.unwrap();
        }
    }
}

const EVENT: &[Altered] = &[
    ("tenant", &[NOBODY]),
    ("id", &[NOBODY]),
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
async fn every_column_of_an_event_is_bound_to_its_body() {
    let (play, _) = played(Engine::Postgres).await;
    let outside = Outside::of(&play.world).await;
    // The order of delivery.
    outside.check_columns("session_events", EVENT, &["seq"]).await;
    let tenant = play.caller.tenant();
    let open = async || {
        let events = play.vault.store.list_events(0, 9).await?;
        events.iter().map(|(_, it)| it.open(tenant)).collect::<Result<Vec<_>, _>>()
    };
    assert_eq!(open().await.unwrap().len(), 2);
    for (column, values) in EVENT {
        for value in *values {
            outside.keep("session_events").await;
            let sql = format!("UPDATE session_events SET {column} = {value} WHERE seq = 1");
            assert!(outside.write(&sql).await, "{sql}");
            assert!(open().await.is_err(), "{sql}");
            outside.put_back("session_events").await;
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
async fn a_damaged_end_stops_nobody_and_is_found() {
    for damage in DAMAGES {
        let desk = StoreHarness::open(Engine::Postgres).await;
        let outside = Outside::of(&desk.world).await;
        desk.insert(record("one")).await;
        let (tenant, theirs) = (desk.caller.tenant().id, desk.stranger.tenant().id);
        let damage = damage.replace("{one}", &format!("'{}'", tenant.0));
        outside.0.batch_execute(&damage).await.unwrap();
        let numbers = async || -> Vec<i64> {
            let rows = "SELECT n FROM records WHERE tenant = $1 AND log = 'audit' ORDER BY n";
            let rows = outside.0.query(rows, &[&tenant.0]).await.unwrap();
            rows.iter().map(|row| row.get(0)).collect()
        };
        let before = numbers().await;
        for id in ["two", "three"] {
            desk.insert(record(id)).await;
        }
        let after = numbers().await;
        assert_eq!(after.len(), before.len() + 2, "{damage}");
        assert!(before.iter().all(|it| after.contains(it)), "{damage}: {after:?}");
        let key = desk.world.vault.audit.key().unwrap();
        let heads = desk.store().list_heads(Log::Audit).await.unwrap();
        let valid = |of| heads.iter().any(|it| it.tenant == of && it.is_ours(key, Log::Audit));
        assert!(!valid(tenant), "{damage}");
        assert!(valid(theirs), "{damage}");
        desk.store().status().await.unwrap();
    }
}
