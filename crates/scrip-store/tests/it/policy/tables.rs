//! The lists of tables are complete: a table that the deletion of a tenant does not know would keep
//! the rows of the tenant.

use std::{collections::BTreeSet, path::Path};

use rusqlite::Connection;
use scrip_core::policy::ENTITIES;
use scrip_store::tables::{TABLES, Table, TenantRows};
use scrip_testing::{
    postgres::query::query_database,
    vault_harness::{Engine, VaultHarness},
};

/// A table and a column, or a table and the table that its rows refer to.
type Pairs = BTreeSet<(String, String)>;

/// `active_tokens.rs` deletes the rows of this table of the read log, which only SQLite has.
const READ_DELIVERIES: &str = "read_deliveries";

fn check_tables(columns: &Pairs, references: &Pairs) {
    let tables: BTreeSet<_> = columns.iter().map(|(table, _)| table.as_str()).collect();
    let has = |pairs: &Pairs, table: &str, it: &str| pairs.contains(&(table.into(), it.into()));
    for table in tables {
        if ENTITIES.iter().any(|it| it.table == table) {
            let is_deleted = table == "access_sessions" || has(references, table, "tenants");
            assert!(is_deleted || table == "tenants" || has(references, table, "applications"));
        } else if table != READ_DELIVERIES {
            let listed = TABLES.iter().find(|it| it.name == table);
            let listed = listed.unwrap_or_else(|| panic!("{table} is not in TABLES"));
            check_table(listed, columns, references);
        }
    }
}

fn check_table(table: &Table, columns: &Pairs, references: &Pairs) {
    let name = table.name;
    let has_column = |it: &str| columns.contains(&(name.to_owned(), it.to_owned()));
    let refers_to =
        |it: fn(&str) -> bool| references.iter().any(|(from, to)| from == name && it(to));
    let has_key = |key: &str| key.split(", ").all(has_column);
    match table.tenant_rows {
        TenantRows::None => assert!(!has_column("tenant"), "{name} has rows of tenants"),
        TenantRows::Deleted => assert!(has_column("tenant"), "{name}"),
        TenantRows::ReferToTenant => assert!(refers_to(|it| it == "tenants"), "{name}"),
        TenantRows::ReferToOthers => assert!(refers_to(|it| it != "tenants"), "{name}"),
        TenantRows::Purged { sqlite_key, postgres_key } => {
            assert!(has_key(postgres_key) || sqlite_key.is_some_and(has_key), "{name}");
        }
        TenantRows::Stay(reason) => {
            assert!((has_column("tenant") || has_column("id")) && !reason.is_empty(), "{name}");
        }
    }
}

fn read_pairs(file: &Path, sql: &str) -> Pairs {
    let connection = Connection::open(file).unwrap();
    let mut statement = connection.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    rows.map(Result::unwrap).collect()
}

#[tokio::test]
async fn every_table_on_sqlite_is_listed() {
    let harness = VaultHarness::open(Engine::Sqlite).await;
    for file in [harness.file(), harness.file().with_file_name("read_log.db")] {
        let from = "FROM sqlite_schema AS it JOIN";
        let columns = format!(
            "SELECT it.name, more.name {from} pragma_table_info(it.name) AS more
            WHERE it.type = 'table'"
        );
        let references = format!(
            "SELECT it.name, more.\"table\" {from} pragma_foreign_key_list(it.name)
            AS more WHERE more.on_delete = 'CASCADE'"
        );
        check_tables(&read_pairs(&file, &columns), &read_pairs(&file, &references));
    }
}

#[tokio::test]
async fn every_table_on_postgres_is_listed() {
    let harness = VaultHarness::open(Engine::Postgres).await;
    let read = |sql| -> Pairs {
        let rows = query_database(&harness.database().owner_url(), sql).rows;
        rows.into_iter().map(|row| (row[0].clone(), row[1].clone())).collect()
    };
    let columns = read(
        "SELECT table_name, column_name FROM information_schema.columns
         WHERE table_schema = current_schema()",
    );
    let references = read(
        "SELECT conrelid::regclass::text, confrelid::regclass::text FROM pg_constraint
         WHERE contype = 'f' AND confdeltype = 'c'",
    );
    check_tables(&columns, &references);
    for Table { name, .. } in TABLES {
        assert!(columns.iter().any(|(table, _)| table == name), "{name} does not exist");
    }
}
