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
    audit::{Operation, ReadLogEntry},
    id::TokenIntentId,
    store::{CommitExtras, StoreError},
    token::{
        Deduplicate, StoredToken, StoredTokenIntent, TokenIntentRecord, TokenRecord, TokenType,
    },
};
use scrip_seal::Sealed;
use scrip_store::{
    SqliteStore,
    sqlite::backup::{
        BackupProgress, CopyResult, EXCLUDED_TABLES, READ_LOG_TABLES, copy_database, examine,
        upgrade,
    },
};
use scrip_testing::{
    store_harness::{StoreHarness, cvc_record, revised_record, token_record, without_cvc},
    vault::root_key,
    vault_harness::{Engine, VaultHarness},
};

const NO_BOUND: u64 = u64::MAX;

/// An empty file to copy into, in a folder that outlives it.
fn create_empty_file(folder: &Path) -> PathBuf {
    let file = folder.join("copy");
    fs::write(&file, b"").unwrap();
    file
}

fn read_log_path(vault: &Path) -> PathBuf {
    vault.with_file_name("access.db")
}

fn copy_vault(from: &Path, to: &Path) -> CopyResult {
    copy_database(from, to, NO_BOUND, |_| ()).unwrap()
}

#[track_caller]
fn assert_rejected<T: std::fmt::Debug>(outcome: Result<T, StoreError>, expected: &str) {
    let output = format!("{:?}", outcome.unwrap_err());
    assert!(output.contains(expected), "{output}");
}

fn query_texts(connection: &Connection, sql: &str) -> Vec<String> {
    let mut statement = connection.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| row.get(0)).unwrap();
    rows.map(Result::unwrap).collect()
}

const TABLES: &str = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name";
const SCHEMA: &str =
    "SELECT type || name || sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY 1";

fn table_rows(connection: &Connection, table: &str) -> Vec<Vec<Value>> {
    let mut statement = connection.prepare(&format!("SELECT * FROM {table}")).unwrap();
    let columns = statement.column_count();
    let row = |row: &rusqlite::Row<'_>| (0..columns).map(|at| row.get(at)).collect();
    statement.query_map([], row).unwrap().map(Result::unwrap).collect()
}

/// Tokens that were made, changed and deleted, with codes and a remembered answer.
async fn harness_with_data() -> StoreHarness {
    let harness = StoreHarness::open(Engine::Sqlite).await;
    for at in 0..50 {
        harness.insert(token_record(&format!("id-{at}"))).await;
    }
    let coded = StoredToken {
        cvc: Some(cvc_record("a code, sealed")),
        ..without_cvc(token_record("coded"))
    };
    let response = harness.idempotency_record([9; 32]);
    harness.insert_with_record(coded, Box::new(move |_| Some(response))).await.unwrap();
    let coded = StoredToken {
        cvc: Some(cvc_record("a code, sealed")),
        ..without_cvc(TokenRecord { fingerprint: None, ..token_record("coded-2") })
    };
    let insert = harness.new_insert(coded, Deduplicate::No);
    harness.insert_token(insert).await.unwrap();
    let intent = StoredTokenIntent {
        record: TokenIntentRecord {
            id: TokenIntentId(uuid::Uuid::from_bytes([5; 16])),
            token_type: TokenType::Card,
            fingerprint: None,
            containers: token_record("x-1").containers,
            created_by: token_record("x-1").created_by,
            created_at: harness.now(),
            expires_at: harness.now().plus(Duration::from_secs(60)),
            body: Sealed::from_stored(b"an intent".to_vec()),
        },
        cvc: Some(cvc_record("a code, sealed")),
    };
    let audit = harness.audit(Operation::CreateTokenIntent);
    let written = CommitExtras { audit, entity: "intent".to_owned(), idempotency: None };
    harness.store().insert_token_intent(harness.lookup_permit(), intent, written).await.unwrap();
    harness
        .insert_threeds_session(
            harness.threeds_session_write(harness.threeds_session_record(1), &[1]),
        )
        .await
        .unwrap();
    let entries = vec![ReadLogEntry::new("id-1", "revealed")];
    harness
        .vault_harness
        .vault
        .record_reads(&harness.caller, Operation::GetToken, entries)
        .await
        .unwrap();
    let first = token_record("id-1");
    harness.update(harness.new_update(revised_record(&first), Deduplicate::No)).await;
    let gone = Sealed::from_stored(b"the body of a token that was deleted".to_vec());
    harness.insert(TokenRecord { body: gone, ..token_record("deleted") }).await;
    harness.delete("deleted", 0).await;
    harness
}

#[tokio::test]
async fn backup_copies_every_row_except_cvcs() {
    let harness = harness_with_data().await;
    let file = harness.vault_harness.file();
    let folder = tempfile::tempdir().unwrap();
    let copy = create_empty_file(folder.path());
    let told = copy_vault(&file, &copy);
    let (from, to) = (Connection::open(&file).unwrap(), Connection::open(&copy).unwrap());
    let other = Connection::open(file.with_file_name("access.db")).unwrap();
    let mut expected = Vec::new();
    for (table, own) in READ_LOG_TABLES {
        let original = table_rows(&other, table);
        assert_eq!(original, table_rows(&to, own), "{table}");
        expected.push((own.to_owned(), u64::try_from(original.len()).unwrap()));
    }
    let of_vault = |mut all: Vec<String>| {
        all.retain(|it| {
            !READ_LOG_TABLES.iter().any(|(_, own)| it.starts_with(&format!("table{own}")))
        });
        all
    };
    assert_eq!(query_texts(&from, SCHEMA), of_vault(query_texts(&to, SCHEMA)));
    for table in query_texts(&from, TABLES) {
        let original = table_rows(&from, &table);
        if EXCLUDED_TABLES.contains(&table.as_str()) {
            assert!(!original.is_empty() && table_rows(&to, &table).is_empty(), "{table}");
            continue;
        }
        assert_eq!(original, table_rows(&to, &table), "{table}");
        expected.push((table, u64::try_from(original.len()).unwrap()));
    }
    let mut counted = told.rows;
    counted.sort();
    expected.sort();
    assert_eq!(counted, expected);
    let version = "SELECT user_version || ',' || application_id
        FROM pragma_user_version, pragma_application_id";
    assert_eq!(query_texts(&from, version), query_texts(&to, version));
}

/// A table or a column that is about codes has to be left out by name.
#[tokio::test]
async fn every_table_with_cvcs_is_excluded_from_backups() {
    let harness = VaultHarness::open(Engine::Sqlite).await;
    let connection = Connection::open(harness.file()).unwrap();
    for table in query_texts(&connection, TABLES) {
        let columns =
            query_texts(&connection, &format!("SELECT name FROM pragma_table_info('{table}')"));
        let mut names = columns.iter().chain([&table]);
        let speaks = names.any(|it| it.contains("cvc") || it.contains("epoch"));
        assert_eq!(speaks, EXCLUDED_TABLES.contains(&table.as_str()), "{table}");
    }
}

#[tokio::test]
async fn backup_contains_no_bytes_of_deleted_or_excluded_rows() {
    let harness = harness_with_data().await;
    let file = harness.vault_harness.file();
    let folder = tempfile::tempdir().unwrap();
    let copy = create_empty_file(folder.path());
    copy_vault(&file, &copy);
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

const INSERT_RECORD: &str =
    "INSERT INTO audit (tenant, n, at, actor_kind, operation, entity, outcome,
        trace, address, link)
    SELECT x'00', coalesce(max(n), 0) + 1, 0, '', 'test', '', '', ?, '', x'' FROM audit";

/// Others commit while it is made, and it has none of that.
#[tokio::test]
async fn backup_contains_one_snapshot_despite_concurrent_commits() {
    let harness = harness_with_data().await;
    let file = harness.vault_harness.file();
    insert_records(&file, 20_000);
    let folder = tempfile::tempdir().unwrap();
    let copy = create_empty_file(folder.path());
    let told: Arc<Mutex<Vec<BackupProgress>>> = Arc::default();
    let (heard, original) = (Arc::clone(&told), file.clone());
    let watch = move |portion| {
        heard.lock().unwrap().push(portion);
        let connection = Connection::open(&original).unwrap();
        connection.execute(INSERT_RECORD, ["meanwhile"]).unwrap();
        connection.execute("UPDATE directory_state SET version = version + 1", []).unwrap();
    };
    let before: i64 = query_number(&file, "SELECT version FROM directory_state");
    copy_database(&file, &copy, NO_BOUND, watch).unwrap();
    let told = told.lock().unwrap();
    assert!(told.len() > 3, "{told:?}");
    assert!(told.iter().all(|it| it.total_bytes > 1_000_000), "{told:?}");
    let committed = query_number(&file, "SELECT count(*) FROM audit WHERE trace = 'meanwhile'");
    assert_eq!(usize::try_from(committed).unwrap(), told.len());
    assert_eq!(query_number(&copy, "SELECT count(*) FROM audit WHERE trace = 'meanwhile'"), 0);
    assert_eq!(query_number(&copy, "SELECT version FROM directory_state"), before);
    let examined = examine(&copy, || ()).unwrap();
    assert!(examined.is_current && examined.directory.tenants.len() == 2);
    let opened = scrip_core::policy::Directory::open(examined.directory, &root_key(), None);
    assert!(opened.unwrap().alterations().is_empty());
}

fn query_number(file: &Path, sql: &str) -> i64 {
    Connection::open(file).unwrap().query_row(sql, [], |row| row.get(0)).unwrap()
}

/// Enough rows that the engine is asked how far it is.
fn insert_records(file: &Path, rows: usize) {
    let mut connection = Connection::open(file).unwrap();
    let transaction = connection.transaction().unwrap();
    for _ in 0..rows {
        transaction
            .execute(INSERT_RECORD, ["a trace to fill the table with something of a length"])
            .unwrap();
    }
    transaction.commit().unwrap();
}

#[tokio::test]
async fn backup_contains_commits_that_are_only_in_the_wal() {
    let harness = VaultHarness::open(Engine::Sqlite).await;
    // Nobody is there who would move it.
    let harness = harness.with_store(|| Arc::new(scrip_testing::MemoryStore::default()));
    let file = harness.file();
    let connection = Connection::open(&file).unwrap();
    connection.execute_batch("PRAGMA wal_autocheckpoint = 0").unwrap();
    connection.execute(INSERT_RECORD, ["only in the log"]).unwrap();
    let has = |path: &Path| fs::read(path).unwrap().windows(15).any(|it| it == b"only in the log");
    assert!(has(&file.with_extension("db-wal")) && !has(&file));
    let folder = tempfile::tempdir().unwrap();
    let copy = create_empty_file(folder.path());
    copy_vault(&file, &copy);
    assert!(has(&copy));
    assert_eq!(
        query_number(&copy, "SELECT count(*) FROM audit WHERE trace = 'only in the log'"),
        1
    );
}

#[tokio::test]
async fn backup_fails_when_the_wal_exceeds_its_bound() {
    let harness = harness_with_data().await;
    let file = harness.vault_harness.file();
    insert_records(&file, 20_000);
    let length = fs::metadata(file.with_extension("db-wal")).unwrap().len();
    let folder = tempfile::tempdir().unwrap();
    let copy = create_empty_file(folder.path());
    let outcome = copy_database(&file, &copy, length - 1, |_| ());
    assert_rejected(outcome, "grown past the bound");
    fs::write(&copy, b"").unwrap();
    assert!(copy_database(&file, &copy, length, |_| ()).is_ok());
}

#[tokio::test]
async fn foreign_or_newer_database_is_not_copied_or_restored() {
    let harness = harness_with_data().await;
    let file = harness.vault_harness.file();
    let folder = tempfile::tempdir().unwrap();
    let copy = create_empty_file(folder.path());
    copy_vault(&file, &copy);
    for (sql, expected) in [
        ("PRAGMA user_version = 99", "newer version"),
        ("PRAGMA user_version = 2", "never released"),
        ("PRAGMA application_id = 7", "not one of ours"),
    ] {
        let altered = folder.path().join("altered");
        fs::copy(&copy, &altered).unwrap();
        Connection::open(&altered).unwrap().execute_batch(sql).unwrap();
        assert_rejected(examine(&altered, || ()), expected);
        assert_rejected(upgrade(&altered), expected);
        let again = folder.path().join("again");
        fs::write(&again, b"").unwrap();
        assert_rejected(copy_database(&altered, &again, NO_BOUND, |_| ()), expected);
    }
    let nothing = folder.path().join("nothing");
    fs::write(&nothing, b"").unwrap();
    assert_rejected(examine(&nothing, || ()), "empty");
    assert_rejected(
        copy_database(&nothing, &create_empty_file(folder.path()), NO_BOUND, |_| ()),
        "empty",
    );
    let absent = folder.path().join("absent");
    assert!(copy_database(&absent, &create_empty_file(folder.path()), NO_BOUND, |_| ()).is_err());
    assert!(!absent.exists());
}

/// Keys are kept apart by a number of bytes that is right for one size of pages.
#[tokio::test]
async fn database_with_another_page_size_is_rejected_and_its_backup_is_corrected() {
    let harness = harness_with_data().await;
    let folder = tempfile::tempdir().unwrap();
    let copy = create_empty_file(folder.path());
    copy_vault(&harness.vault_harness.file(), &copy);
    let size = |file: &Path| query_number(file, "SELECT page_size FROM pragma_page_size");
    assert_eq!((size(&harness.vault_harness.file()), size(&copy)), (4096, 4096));
    // A vault as it is, apart from that: with its access log beside it.
    let copy = folder.path().join("vault");
    for (from, to) in [
        (harness.vault_harness.file(), copy.clone()),
        (read_log_path(&harness.vault_harness.file()), read_log_path(&copy)),
    ] {
        let into = [to.to_str().unwrap()];
        Connection::open(from).unwrap().execute("VACUUM INTO ?", into).unwrap();
    }
    let other = "PRAGMA page_size = 8192; VACUUM";
    Connection::open(&copy).unwrap().execute_batch(other).unwrap();
    assert_eq!(size(&copy), 8192);
    assert_rejected(examine(&copy, || ()), "another size");
    assert_rejected(SqliteStore::open(&copy), "another size");
    let again = folder.path().join("again");
    fs::write(&again, b"").unwrap();
    copy_vault(&copy, &again);
    assert_eq!(size(&again), 4096);
    assert!(examine(&again, || ()).is_ok());
}

/// Each of these is a database that SQLite opens without a word.
#[tokio::test]
async fn examining_a_damaged_backup_fails() {
    let harness = harness_with_data().await;
    let folder = tempfile::tempdir().unwrap();
    let copy = create_empty_file(folder.path());
    copy_vault(&harness.vault_harness.file(), &copy);
    assert!(examine(&copy, || ()).is_ok());
    for (sql, expected) in [
        ("PRAGMA writable_schema = ON; DELETE FROM sqlite_schema WHERE name = 'tokens_by_id'", ""),
        ("PRAGMA foreign_keys = OFF; DELETE FROM tenants", "belong to others"),
    ] {
        let altered = folder.path().join("altered");
        fs::copy(&copy, &altered).unwrap();
        Connection::open(&altered).unwrap().execute_batch(sql).unwrap();
        assert_rejected(examine(&altered, || ()), expected);
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
async fn wal_is_truncated_after_a_long_reader_ends() {
    const LIMIT: u64 = 128 * 1024 * 1024;
    let harness = StoreHarness::open(Engine::Sqlite).await;
    let log = harness.vault_harness.file().with_extension("db-wal");
    let length = || fs::metadata(&log).unwrap().len();
    let reader = Connection::open(harness.vault_harness.file()).unwrap();
    let transaction = reader.unchecked_transaction().unwrap();
    assert_eq!(table_rows(&transaction, "tokens").len(), 0);
    let large = |at: usize| TokenRecord {
        body: Sealed::from_stored(vec![7; 4 * 1024 * 1024]),
        ..token_record(&format!("large-{at}"))
    };
    for at in 0..40 {
        harness.insert(large(at)).await;
    }
    assert!(length() > LIMIT, "{}", length());
    drop(transaction);
    let short = async {
        for at in 0..2_000 {
            harness.insert(token_record(&format!("small-{at}"))).await;
            if length() <= LIMIT {
                return true;
            }
            sleep(Duration::from_millis(10));
        }
        false
    };
    assert!(short.await, "{}", length());
}
