//! The engine under a vault: the embedded one, or PostgreSQL when `SCRIP_TEST_ENGINE` says so. Every
//! test is the same for both, and what it wants to see in the tables it asks for here.

use std::{env, path::Path, sync::Arc};

use rusqlite::types::ValueRef;
use scrip_core::{audit::Log, store::Store};
use scrip_store::{PostgresStore, SqliteStore, postgres::PostgresSettings};
use scrip_testing::postgres::{
    Database, SERVING,
    query::{Looked, look},
};
use uuid::Uuid;

/// Of each server; there are dozens of them.
const CONNECTIONS: usize = 8;

pub(crate) enum Engine {
    Embedded(tempfile::TempDir),
    Postgres(Database),
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
    let settings = PostgresSettings::parse(url).unwrap().served_by(SERVING);
    PostgresStore::migrate(settings).await.unwrap();
}

impl Engine {
    /// Empty.
    pub(crate) async fn new() -> Self {
        if is_postgres() {
            return Self::Postgres(Database::create(migrate).await);
        }
        Self::Embedded(tempfile::tempdir().unwrap())
    }

    /// As a server does; again, once nobody has it open any more.
    pub(crate) async fn open(&self) -> Arc<dyn Store> {
        match self {
            Self::Embedded(folder) => {
                Arc::new(SqliteStore::open(&folder.path().join("scrip.db")).unwrap())
            }
            Self::Postgres(database) => {
                let settings = PostgresSettings::parse(&database.url()).unwrap();
                let settings = settings.connections(CONNECTIONS);
                let settings = settings.trusting_the_clock_of_the_node();
                Arc::new(PostgresStore::open(settings).await.unwrap())
            }
        }
    }

    /// As a statement has it.
    pub(crate) fn id(&self, id: Uuid) -> String {
        match self {
            Self::Embedded(_) => format!("x'{}'", id.simple()),
            Self::Postgres(_) => format!("'{id}'"),
        }
    }

    /// The column with the number of a token.
    pub(crate) fn number(&self) -> &'static str {
        match self {
            Self::Embedded(_) => "seq",
            Self::Postgres(_) => "number",
        }
    }

    /// Rows of the vault. The audit log is `audit` in a statement, whatever its table is called.
    pub(crate) fn select(&self, sql: &str) -> Vec<Vec<String>> {
        self.select_of(Log::Audit, sql)
    }

    /// The same for another log.
    pub(crate) fn select_of(&self, log: Log, sql: &str) -> Vec<Vec<String>> {
        match self {
            Self::Embedded(folder) => {
                let file = match log {
                    Log::Audit => "scrip.db",
                    Log::Access => "access.db",
                };
                select(&folder.path().join(file), sql)
            }
            Self::Postgres(database) => {
                let log = log.as_str();
                let records = format!("FROM (SELECT * FROM records WHERE log = '{log}') AS audit");
                look(&database.superuser_url(), &sql.replace("FROM audit", &records)).rows
            }
        }
    }

    /// The one number that a statement finds.
    pub(crate) fn count(&self, sql: &str) -> i64 {
        self.select(sql)[0][0].parse().unwrap()
    }

    /// Alters rows past the vault; how many.
    pub(crate) fn change(&self, sql: &str) -> u64 {
        match self {
            Self::Embedded(folder) => {
                let file = rusqlite::Connection::open(folder.path().join("scrip.db")).unwrap();
                file.execute(sql, []).unwrap().try_into().unwrap()
            }
            Self::Postgres(database) => {
                let Looked { count, .. } = look(&database.superuser_url(), sql);
                count
            }
        }
    }
}

/// For an access log that cannot be written.
impl Engine {
    pub(crate) fn refuse_accesses(&self) {
        self.alter_access_log(
            "CREATE TRIGGER refuse BEFORE INSERT ON audit BEGIN SELECT RAISE(ABORT, 'no'); END",
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql \
             AS 'BEGIN RAISE EXCEPTION ''no''; END'; \
             CREATE TRIGGER refuse BEFORE INSERT ON records FOR EACH ROW \
             WHEN (NEW.log = 'access') EXECUTE FUNCTION refuse()",
        );
    }

    pub(crate) fn take_accesses(&self) {
        self.alter_access_log("DROP TRIGGER refuse", "DROP TRIGGER refuse ON records");
    }

    fn alter_access_log(&self, embedded: &str, postgres: &str) {
        match self {
            Self::Embedded(folder) => {
                let file = rusqlite::Connection::open(folder.path().join("access.db")).unwrap();
                file.execute_batch(embedded).unwrap();
            }
            Self::Postgres(database) => drop(look(&database.superuser_url(), postgres)),
        }
    }
}

fn select(file: &Path, sql: &str) -> Vec<Vec<String>> {
    let connection = rusqlite::Connection::open(file).unwrap();
    let mut statement = connection.prepare(sql).unwrap();
    let columns = statement.column_count();
    let value = |row: &rusqlite::Row<'_>, at| match row.get_ref(at).unwrap() {
        ValueRef::Null => String::new(),
        ValueRef::Integer(it) => it.to_string(),
        ValueRef::Real(it) => it.to_string(),
        ValueRef::Text(it) => String::from_utf8(it.to_vec()).unwrap(),
        ValueRef::Blob(it) => format!("{it:02x?}"),
    };
    let row = |row: &rusqlite::Row<'_>| Ok((0..columns).map(|at| value(row, at)).collect());
    statement.query_map([], row).unwrap().map(Result::unwrap).collect()
}
