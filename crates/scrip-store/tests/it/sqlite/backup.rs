//! A copy of the database: every row of one instant, and nothing else.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    thread::sleep,
    time::Duration,
};

use rusqlite::{Connection, types::Value};
use scrip_core::{
    audit::{Operation, Seen},
    id::TokenIntentId,
    store::{Beside, StoreError},
    token::{
        Deduplicate, StoredToken, StoredTokenIntent, TokenIntentRecord, TokenRecord, TokenType,
    },
};
use scrip_seal::Sealed;
use scrip_store::{
    SqliteStore,
    sqlite::backup::{ACCESS_TABLES, Copied, LEFT_OUT, Portion, copy_database, examine, upgrade},
};
use scrip_testing::{
    store_harness::{StoreHarness, bare, code, record, revised},
    vault::root_key,
    vault_harness::{Engine, VaultHarness},
};

const NO_BOUND: u64 = u64::MAX;

/// An empty file to copy into, in a folder that outlives it.
fn empty(folder: &Path) -> PathBuf {
    let file = folder.join("copy");
    fs::write(&file, b"").unwrap();
    file
}

fn access_of(vault: &Path) -> PathBuf {
    vault.with_file_name("access.db")
}

fn copied(from: &Path, to: &Path) -> Copied {
    copy_database(from, to, NO_BOUND, |_| ()).unwrap()
}

#[track_caller]
fn refused<T: std::fmt::Debug>(outcome: Result<T, StoreError>, expected: &str) {
    let said = format!("{:?}", outcome.unwrap_err());
    assert!(said.contains(expected), "{said}");
}

fn texts(connection: &Connection, sql: &str) -> Vec<String> {
    let mut statement = connection.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| row.get(0)).unwrap();
    rows.map(Result::unwrap).collect()
}

const TABLES: &str = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name";
const SCHEMA: &str =
    "SELECT type || name || sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY 1";

fn rows(connection: &Connection, table: &str) -> Vec<Vec<Value>> {
    let mut statement = connection.prepare(&format!("SELECT * FROM {table}")).unwrap();
    let columns = statement.column_count();
    let row = |row: &rusqlite::Row<'_>| (0..columns).map(|at| row.get(at)).collect();
    statement.query_map([], row).unwrap().map(Result::unwrap).collect()
}

/// Tokens that were made, changed and deleted, with codes and a remembered answer.
async fn lived_in() -> StoreHarness {
    let desk = StoreHarness::open(Engine::Sqlite).await;
    for at in 0..50 {
        desk.insert(record(&format!("id-{at}"))).await;
    }
    let coded = StoredToken { cvc: Some(code("a code, sealed")), ..bare(record("coded")) };
    let answer = desk.answer([9; 32]);
    desk.insert_answered(coded, Box::new(move |_| Some(answer))).await.unwrap();
    let coded = StoredToken {
        cvc: Some(code("a code, sealed")),
        ..bare(TokenRecord { fingerprint: None, ..record("coded-2") })
    };
    let insert = desk.insertion(coded, Deduplicate::No);
    desk.insert_token(insert).await.unwrap();
    let intent = StoredTokenIntent {
        record: TokenIntentRecord {
            id: TokenIntentId(uuid::Uuid::from_bytes([5; 16])),
            token_type: TokenType::Card,
            fingerprint: None,
            containers: record("x-1").containers,
            created_by: record("x-1").created_by,
            created_at: desk.now(),
            expires_at: desk.now().after(Duration::from_secs(60)),
            body: Sealed::from_stored(b"an intent".to_vec()),
        },
        cvc: Some(code("a code, sealed")),
    };
    let audit = desk.audit(Operation::CreateTokenIntent);
    let written = Beside { audit, entity: "intent".to_owned(), answer: None };
    desk.store().insert_token_intent(desk.inquiry(), intent, written).await.unwrap();
    desk.insert_session(desk.written(desk.session(1), &[1])).await.unwrap();
    let seen = vec![Seen::new("id-1", "revealed")];
    desk.world.vault.record_seen(&desk.caller, Operation::GetToken, seen).await.unwrap();
    let first = record("id-1");
    desk.update(desk.change(revised(&first), Deduplicate::No)).await;
    let gone = Sealed::from_stored(b"the body of a token that was deleted".to_vec());
    desk.insert(TokenRecord { body: gone, ..record("deleted") }).await;
    desk.delete("deleted", 0).await;
    desk
}

#[tokio::test]
async fn a_copy_has_every_row_but_the_codes() {
    let desk = lived_in().await;
    let file = desk.world.file();
    let folder = tempfile::tempdir().unwrap();
    let copy = empty(folder.path());
    let told = copied(&file, &copy);
    let (from, to) = (Connection::open(&file).unwrap(), Connection::open(&copy).unwrap());
    let beside = Connection::open(file.with_file_name("access.db")).unwrap();
    let mut expected = Vec::new();
    for (table, own) in ACCESS_TABLES {
        let original = rows(&beside, table);
        assert_eq!(original, rows(&to, own), "{table}");
        expected.push((own.to_owned(), u64::try_from(original.len()).unwrap()));
    }
    let of_vault = |mut all: Vec<String>| {
        all.retain(|it| {
            !ACCESS_TABLES.iter().any(|(_, own)| it.starts_with(&format!("table{own}")))
        });
        all
    };
    assert_eq!(texts(&from, SCHEMA), of_vault(texts(&to, SCHEMA)));
    for table in texts(&from, TABLES) {
        let original = rows(&from, &table);
        if LEFT_OUT.contains(&table.as_str()) {
            assert!(!original.is_empty() && rows(&to, &table).is_empty(), "{table}");
            continue;
        }
        assert_eq!(original, rows(&to, &table), "{table}");
        expected.push((table, u64::try_from(original.len()).unwrap()));
    }
    let mut counted = told.rows;
    counted.sort();
    expected.sort();
    assert_eq!(counted, expected);
    let version = "SELECT user_version || ',' || application_id
        FROM pragma_user_version, pragma_application_id";
    assert_eq!(texts(&from, version), texts(&to, version));
}

/// A table or a column that is about codes has to be left out by name.
#[tokio::test]
async fn no_code_is_kept_where_a_copy_would_take_it() {
    let world = VaultHarness::open(Engine::Sqlite).await;
    let connection = Connection::open(world.file()).unwrap();
    for table in texts(&connection, TABLES) {
        let columns = texts(&connection, &format!("SELECT name FROM pragma_table_info('{table}')"));
        let mut names = columns.iter().chain([&table]);
        let speaks = names.any(|it| it.contains("cvc") || it.contains("epoch"));
        assert_eq!(speaks, LEFT_OUT.contains(&table.as_str()), "{table}");
    }
}

#[tokio::test]
async fn what_was_deleted_or_left_out_is_not_in_the_bytes() {
    let desk = lived_in().await;
    let file = desk.world.file();
    let folder = tempfile::tempdir().unwrap();
    let copy = empty(folder.path());
    copied(&file, &copy);
    let has = |paths: &[PathBuf], text: &str| {
        let mut files = paths.iter().map(|it| fs::read(it).unwrap_or_default());
        files.any(|it| it.windows(text.len()).any(|at| at == text.as_bytes()))
    };
    let original = [file.clone(), file.with_extension("db-wal")];
    for (text, expected) in [
        ("a code, sealed", false),
        ("the body of a token that was deleted", false),
        // The control: what should be there is found by the same search.
        ("id-49", true),
    ] {
        assert!(has(&original, text), "{text}");
        assert_eq!(has(std::slice::from_ref(&copy), text), expected, "{text}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "a copy is one file");
}

const WRITE: &str = "INSERT INTO audit (tenant, n, at, actor_kind, operation, entity, outcome,
        trace, address, link)
    SELECT x'00', coalesce(max(n), 0) + 1, 0, '', 'test', '', '', ?, '', x'' FROM audit";

/// Others commit while it is made, and it has none of that.
#[tokio::test]
async fn a_copy_is_of_one_instant() {
    let desk = lived_in().await;
    let file = desk.world.file();
    fill(&file, 20_000);
    let folder = tempfile::tempdir().unwrap();
    let copy = empty(folder.path());
    let told: Arc<Mutex<Vec<Portion>>> = Arc::default();
    let (heard, original) = (Arc::clone(&told), file.clone());
    let watch = move |portion| {
        heard.lock().unwrap().push(portion);
        let connection = Connection::open(&original).unwrap();
        connection.execute(WRITE, ["meanwhile"]).unwrap();
        connection.execute("UPDATE directory_state SET version = version + 1", []).unwrap();
    };
    let before: i64 = number(&file, "SELECT version FROM directory_state");
    copy_database(&file, &copy, NO_BOUND, watch).unwrap();
    let told = told.lock().unwrap();
    assert!(told.len() > 3, "{told:?}");
    assert!(told.iter().all(|it| it.all_bytes > 1_000_000), "{told:?}");
    let committed = number(&file, "SELECT count(*) FROM audit WHERE trace = 'meanwhile'");
    assert_eq!(usize::try_from(committed).unwrap(), told.len());
    assert_eq!(number(&copy, "SELECT count(*) FROM audit WHERE trace = 'meanwhile'"), 0);
    assert_eq!(number(&copy, "SELECT version FROM directory_state"), before);
    let examined = examine(&copy, || ()).unwrap();
    assert!(examined.is_current && examined.directory.tenants.len() == 2);
    let opened = scrip_core::policy::Directory::open(examined.directory, &root_key(), None);
    assert!(opened.unwrap().alterations().is_empty());
}

fn number(file: &Path, sql: &str) -> i64 {
    Connection::open(file).unwrap().query_row(sql, [], |row| row.get(0)).unwrap()
}

/// Enough rows that the engine is asked how far it is.
fn fill(file: &Path, rows: usize) {
    let mut connection = Connection::open(file).unwrap();
    let transaction = connection.transaction().unwrap();
    for _ in 0..rows {
        transaction
            .execute(WRITE, ["a trace to fill the table with something of a length"])
            .unwrap();
    }
    transaction.commit().unwrap();
}

#[tokio::test]
async fn commits_that_are_only_in_the_log_are_copied() {
    let world = VaultHarness::open(Engine::Sqlite).await;
    // Nobody is there who would move it.
    let world = world.with_store(|| Arc::new(scrip_testing::MemoryStore::default()));
    let file = world.file();
    let connection = Connection::open(&file).unwrap();
    connection.execute_batch("PRAGMA wal_autocheckpoint = 0").unwrap();
    connection.execute(WRITE, ["only in the log"]).unwrap();
    let has = |path: &Path| fs::read(path).unwrap().windows(15).any(|it| it == b"only in the log");
    assert!(has(&file.with_extension("db-wal")) && !has(&file));
    let folder = tempfile::tempdir().unwrap();
    let copy = empty(folder.path());
    copied(&file, &copy);
    assert!(has(&copy));
    assert_eq!(number(&copy, "SELECT count(*) FROM audit WHERE trace = 'only in the log'"), 1);
}

#[tokio::test]
async fn a_log_that_grows_too_long_ends_it() {
    let desk = lived_in().await;
    let file = desk.world.file();
    fill(&file, 20_000);
    let length = fs::metadata(file.with_extension("db-wal")).unwrap().len();
    let folder = tempfile::tempdir().unwrap();
    let copy = empty(folder.path());
    let outcome = copy_database(&file, &copy, length - 1, |_| ());
    refused(outcome, "grown past the bound");
    fs::write(&copy, b"").unwrap();
    assert!(copy_database(&file, &copy, length, |_| ()).is_ok());
}

#[tokio::test]
async fn what_is_not_ours_or_newer_is_neither_copied_nor_used() {
    let desk = lived_in().await;
    let file = desk.world.file();
    let folder = tempfile::tempdir().unwrap();
    let copy = empty(folder.path());
    copied(&file, &copy);
    for (sql, expected) in [
        ("PRAGMA user_version = 99", "newer version"),
        ("PRAGMA user_version = 2", "never released"),
        ("PRAGMA application_id = 7", "not one of ours"),
    ] {
        let altered = folder.path().join("altered");
        fs::copy(&copy, &altered).unwrap();
        Connection::open(&altered).unwrap().execute_batch(sql).unwrap();
        refused(examine(&altered, || ()), expected);
        refused(upgrade(&altered), expected);
        let again = folder.path().join("again");
        fs::write(&again, b"").unwrap();
        refused(copy_database(&altered, &again, NO_BOUND, |_| ()), expected);
    }
    let nothing = folder.path().join("nothing");
    fs::write(&nothing, b"").unwrap();
    refused(examine(&nothing, || ()), "empty");
    refused(copy_database(&nothing, &empty(folder.path()), NO_BOUND, |_| ()), "empty");
    let absent = folder.path().join("absent");
    assert!(copy_database(&absent, &empty(folder.path()), NO_BOUND, |_| ()).is_err());
    assert!(!absent.exists());
}

/// Keys are kept apart by a number of bytes that is right for one size of pages.
#[tokio::test]
async fn pages_of_another_size_are_not_used_but_copied_to_the_right_one() {
    let desk = lived_in().await;
    let folder = tempfile::tempdir().unwrap();
    let copy = empty(folder.path());
    copied(&desk.world.file(), &copy);
    let size = |file: &Path| number(file, "SELECT page_size FROM pragma_page_size");
    assert_eq!((size(&desk.world.file()), size(&copy)), (4096, 4096));
    // A vault as it is, apart from that: with its access log beside it.
    let copy = folder.path().join("vault");
    for (from, to) in
        [(desk.world.file(), copy.clone()), (access_of(&desk.world.file()), access_of(&copy))]
    {
        let into = [to.to_str().unwrap()];
        Connection::open(from).unwrap().execute("VACUUM INTO ?", into).unwrap();
    }
    let other = "PRAGMA page_size = 8192; VACUUM";
    Connection::open(&copy).unwrap().execute_batch(other).unwrap();
    assert_eq!(size(&copy), 8192);
    refused(examine(&copy, || ()), "another size");
    refused(SqliteStore::open(&copy), "another size");
    let again = folder.path().join("again");
    fs::write(&again, b"").unwrap();
    copied(&copy, &again);
    assert_eq!(size(&again), 4096);
    assert!(examine(&again, || ()).is_ok());
}

/// Each of these is a database that SQLite opens without a word.
#[tokio::test]
async fn damage_is_found_by_reading_it_through() {
    let desk = lived_in().await;
    let folder = tempfile::tempdir().unwrap();
    let copy = empty(folder.path());
    copied(&desk.world.file(), &copy);
    assert!(examine(&copy, || ()).is_ok());
    for (sql, expected) in [
        ("PRAGMA writable_schema = ON; DELETE FROM sqlite_schema WHERE name = 'tokens_by_id'", ""),
        ("PRAGMA foreign_keys = OFF; DELETE FROM tenants", "belong to others"),
    ] {
        let altered = folder.path().join("altered");
        fs::copy(&copy, &altered).unwrap();
        Connection::open(&altered).unwrap().execute_batch(sql).unwrap();
        refused(examine(&altered, || ()), expected);
    }
    let mut bytes = fs::read(&copy).unwrap();
    let page = bytes.len() / 4096 / 2 * 4096;
    bytes[page..page + 64].fill(0x55);
    let altered = folder.path().join("altered");
    fs::write(&altered, bytes).unwrap();
    assert!(examine(&altered, || ()).is_err());
}

/// A log that had to grow, because somebody read for long, gives its space back afterwards.
#[tokio::test]
async fn the_log_becomes_short_again() {
    const LIMIT: u64 = 128 * 1024 * 1024;
    let desk = StoreHarness::open(Engine::Sqlite).await;
    let log = desk.world.file().with_extension("db-wal");
    let length = || fs::metadata(&log).unwrap().len();
    let reader = Connection::open(desk.world.file()).unwrap();
    let transaction = reader.unchecked_transaction().unwrap();
    assert_eq!(rows(&transaction, "tokens").len(), 0);
    let large = |at: usize| TokenRecord {
        body: Sealed::from_stored(vec![7; 4 * 1024 * 1024]),
        ..record(&format!("large-{at}"))
    };
    for at in 0..40 {
        desk.insert(large(at)).await;
    }
    assert!(length() > LIMIT, "{}", length());
    drop(transaction);
    let short = async {
        for at in 0..2_000 {
            desk.insert(record(&format!("small-{at}"))).await;
            if length() <= LIMIT {
                return true;
            }
            sleep(Duration::from_millis(10));
        }
        false
    };
    assert!(short.await, "{}", length());
}
