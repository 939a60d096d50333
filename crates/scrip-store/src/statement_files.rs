//! The text of every statement that is put together from parts, in the folder `statements`. A test
//! compares the files with the statements of the program, and writes them if
//! `SCRIP_WRITE_STATEMENTS` is set.

use crate::{
    postgres::{self, transfer::table::PostgresTable},
    sealed_columns::{SealedDatabase, sealed_columns},
    shared::{
        self,
        log::{POSTGRES_AUDIT_LOG, POSTGRES_READ_LOG, SQLITE_LOG},
    },
    sqlite::{self, maintenance::key_rotations::tenant_filter, transfer::table::SqliteTable},
    stores,
    transfer::RowKind,
};

const HEADING: &str = "\
-- Statements that are put together from parts. A test writes this file; see CONTRIBUTING.md.
-- In psql, give the parameters with \\bind; in sqlite3, with .parameter set.
";

fn check_file(name: &str, statements: Vec<String>) {
    let path = format!("{}/statements/{name}.sql", env!("CARGO_MANIFEST_DIR"));
    let texts = statements.iter().map(|it| it.trim()).filter(|it| !it.is_empty());
    let text = HEADING.to_owned() + &texts.map(|it| format!("\n{it};\n")).collect::<String>();
    if std::env::var_os("SCRIP_WRITE_STATEMENTS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text, "{path} is not up to date");
}

/// The statements with the columns of a token.
fn assembled(statements: &[&str]) -> Vec<String> {
    let has_columns = |it: &&&str| it.contains("SELECT tokens.");
    statements.iter().filter(has_columns).map(|it| (*it).to_owned()).collect()
}

fn sqlite_transfer_statements(kind: RowKind) -> Vec<String> {
    let Some(it) = SqliteTable::for_kind(kind) else { return Vec::new() };
    vec![it.table.list_after_first(kind), it.insert_statement(kind)]
}

fn postgres_transfer_statements(kind: RowKind) -> Vec<String> {
    let Some(it) = PostgresTable::for_kind(kind) else { return Vec::new() };
    let put =
        if kind.is_singleton() { it.update_statement(kind) } else { it.insert_statement(kind) };
    vec![it.table.list_after_first(kind), put]
}

#[test]
fn files_with_statements_are_up_to_date() {
    let both = [
        shared::policy::statements::list_statements(),
        stores::access_sessions::list_statements(),
        shared::status::count_statements().map(|(_, sql)| sql).collect(),
        shared::policy::changes::delete_usage_statements().collect(),
    ];
    check_file("both_engines", both.concat());
    let sqlite = [
        assembled(&[
            sqlite::tokens::writes::FIND_TOKEN,
            sqlite::tokens::writes::FIND_DUPLICATE,
            sqlite::tokens::writes::FIND_DUPLICATE_TO_READ,
            sqlite::tokens::listing::FIND_TOKEN_BY_NUMBER,
            sqlite::maintenance::expiry::FIND_EXPIRED_TOKEN,
        ]),
        SQLITE_LOG.list_statements(),
        sqlite::policy::changes::DELETE_LEFTOVERS.clone(),
        sqlite::policy::purge::PURGE_STATEMENTS.clone(),
        sealed_columns().map(|it| it.count_statement(tenant_filter(it.table))).collect(),
        RowKind::ALL.into_iter().flat_map(sqlite_transfer_statements).collect(),
    ];
    check_file("sqlite", sqlite.concat());
    let vault_columns = sealed_columns().filter(|it| it.database == SealedDatabase::Vault);
    let postgres = [
        assembled(&[
            postgres::tokens::writes::FIND_TOKEN,
            postgres::tokens::writes::FIND_TOKENS,
            postgres::tokens::writes::FIND_DUPLICATE,
            postgres::tokens::writes::FIND_DUPLICATE_TO_READ,
            postgres::maintenance::expiry::LIST_EXPIRED_TOKENS,
        ]),
        POSTGRES_AUDIT_LOG.list_statements(),
        POSTGRES_READ_LOG.list_statements(),
        postgres::policy::purge::PURGE_STATEMENTS.clone(),
        vec![postgres::policy::purge::DELETE_PURGED_TENANTS.clone()],
        vault_columns.map(|it| it.count_statement("tenant = $1")).collect(),
        RowKind::ALL.into_iter().flat_map(postgres_transfer_statements).collect(),
    ];
    check_file("postgres", postgres.concat());
}
