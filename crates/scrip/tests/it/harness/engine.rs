//! The storage engine of a test server: the embedded one, or PostgreSQL if `SCRIP_TEST_ENGINE` is
//! `postgres`. Every test runs on both. Tests query tables through this module.

use std::{env, path::Path, sync::Arc};

use rusqlite::types::ValueRef;
use scrip_core::{audit::LogKind, store::Store};
use scrip_store::{PostgresStore, SqliteStore, postgres::PostgresSettings};
use scrip_testing::postgres::{
    SERVE_ROLE, TestDatabase,
    query::{QueryResult, query_database},
};
use uuid::Uuid;

/// The number of connections of each server. It is small, because the tests run dozens of servers.
const CONNECTIONS: usize = 8;

pub(crate) enum TestEngine {
    Embedded(tempfile::TempDir),
    Postgres(TestDatabase),
}

/// Whether this run is on PostgreSQL.
pub(crate) fn is_postgres() -> bool {
    match env::var_os("SCRIP_TEST_ENGINE") {
        None => false,
        Some(it) if it == "embedded" => false,
        Some(it) => {
            assert_eq!(it, "postgres", "SCRIP_TEST_ENGINE is embedded or postgres");
            true
        }
    }
}

async fn migrate(url: &str) {
    let settings = PostgresSettings::parse(url).unwrap().with_serve_role(SERVE_ROLE);
    PostgresStore::migrate(settings).await.unwrap();
}

impl TestEngine {
    /// Creates an empty database.
    pub(crate) async fn new() -> Self {
        if is_postgres() {
            return Self::Postgres(TestDatabase::create(migrate).await);
        }
        Self::Embedded(tempfile::tempdir().unwrap())
    }

    /// Opens the store as a server does. Tests may call this again after the store was dropped.
    pub(crate) async fn open(&self) -> Arc<dyn Store> {
        match self {
            Self::Embedded(folder) => {
                Arc::new(SqliteStore::open(&folder.path().join("scrip.db")).unwrap())
            }
            Self::Postgres(database) => {
                let settings = PostgresSettings::parse(&database.url()).unwrap();
                let settings = settings.with_connections(CONNECTIONS);
                let settings = settings.with_node_clock();
                Arc::new(PostgresStore::open(settings).await.unwrap())
            }
        }
    }

    /// Returns the id as an SQL literal.
    pub(crate) fn sql_id(&self, id: Uuid) -> String {
        match self {
            Self::Embedded(_) => format!("x'{}'", id.simple()),
            Self::Postgres(_) => format!("'{id}'"),
        }
    }

    /// Returns the name of the column with the row number of a token.
    pub(crate) fn token_number_column(&self) -> &'static str {
        match self {
            Self::Embedded(_) => "seq",
            Self::Postgres(_) => "number",
        }
    }

    /// Selects rows of the vault. The audit log is `audit` in a statement, regardless of its table
    /// name.
    pub(crate) fn select(&self, sql: &str) -> Vec<Vec<String>> {
        self.select_from_log(LogKind::Audit, sql)
    }

    /// Selects rows like `select`, with another log under the name `audit`.
    pub(crate) fn select_from_log(&self, log: LogKind, sql: &str) -> Vec<Vec<String>> {
        match self {
            Self::Embedded(folder) => {
                let file = match log {
                    LogKind::Audit => "scrip.db",
                    LogKind::Read => "read_log.db",
                };
                select(&folder.path().join(file), sql)
            }
            Self::Postgres(database) => {
                let log = log.as_str();
                let records =
                    format!("FROM (SELECT * FROM log_records WHERE log = '{log}') AS log_records");
                query_database(
                    &database.superuser_url(),
                    &sql.replace("FROM log_records", &records),
                )
                .rows
            }
        }
    }

    /// Returns the single number that a query selects.
    pub(crate) fn query_count(&self, sql: &str) -> i64 {
        self.select(sql)[0][0].parse().unwrap()
    }

    /// Executes a statement without the vault. Returns the number of changed rows.
    pub(crate) fn execute(&self, sql: &str) -> u64 {
        match self {
            Self::Embedded(folder) => {
                let file = rusqlite::Connection::open(folder.path().join("scrip.db")).unwrap();
                file.execute(sql, []).unwrap().try_into().unwrap()
            }
            Self::Postgres(database) => {
                let QueryResult { count, .. } = query_database(&database.superuser_url(), sql);
                count
            }
        }
    }
}

/// Makes writes to the read log fail.
impl TestEngine {
    pub(crate) fn reject_read_log_writes(&self) {
        self.alter_read_log(
            "CREATE TRIGGER refuse BEFORE INSERT ON log_records BEGIN SELECT RAISE(ABORT, 'no'); END",
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql \
             AS 'BEGIN RAISE EXCEPTION ''no''; END'; \
             CREATE TRIGGER refuse BEFORE INSERT ON log_records FOR EACH ROW \
             WHEN (NEW.log = 'read') EXECUTE FUNCTION refuse()",
        );
    }

    pub(crate) fn allow_read_log_writes(&self) {
        self.alter_read_log("DROP TRIGGER refuse", "DROP TRIGGER refuse ON log_records");
    }

    fn alter_read_log(&self, embedded: &str, postgres: &str) {
        match self {
            Self::Embedded(folder) => {
                let file = rusqlite::Connection::open(folder.path().join("read_log.db")).unwrap();
                file.execute_batch(embedded).unwrap();
            }
            Self::Postgres(database) => drop(query_database(&database.superuser_url(), postgres)),
        }
    }
}

fn select(file: &Path, sql: &str) -> Vec<Vec<String>> {
    let connection = rusqlite::Connection::open(file).unwrap();
    let mut statement = connection.prepare(sql).unwrap();
    let columns = statement.column_count();
    let value = |row: &rusqlite::Row<'_>, column| match row.get_ref(column).unwrap() {
        ValueRef::Null => String::new(),
        ValueRef::Integer(it) => it.to_string(),
        ValueRef::Real(it) => it.to_string(),
        ValueRef::Text(it) => String::from_utf8(it.to_vec()).unwrap(),
        ValueRef::Blob(it) => format!("{it:02x?}"),
    };
    let row = |row: &rusqlite::Row<'_>| Ok((0..columns).map(|column| value(row, column)).collect());
    statement.query_map([], row).unwrap().map(Result::unwrap).collect()
}

/// Expects none of these texts in printed rows, neither as text nor as bytes.
#[track_caller]
pub(crate) fn expect_none_in_clear(rows: &str, hidden: &[&str]) {
    let digits = rows.replace(", ", "");
    for hidden in hidden {
        let hex: String = hidden.bytes().map(|it| format!("{it:02x}")).collect();
        let is_stored = rows.contains(hidden) || digits.contains(&hex);
        assert!(!is_stored, "{hidden} is stored in clear");
    }
}
