//! Backups: the copy contains every row of one snapshot except CVCs.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    thread::sleep,
    time::Duration,
};

use rusqlite::{Connection, types::Value};
use scrip_core::{
    card::TokenType,
    change::CommitExtras,
    disclosure::Deduplicate,
    read_log::ReadLogEntry,
    token::{StoredToken, StoredTokenIntent, TokenIntentRecord, TokenRecord},
    types::{Operation, StoreError, id::TokenIntentId},
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
use tempfile::TempDir;

const NO_WAL_LIMIT: u64 = u64::MAX;

/// Creates the empty file that a copy is written to.
fn create_empty_file(folder: &Path) -> PathBuf {
    let file = folder.join("copy");
    fs::write(&file, b"").unwrap();
    file
}

fn read_log_path(vault: &Path) -> PathBuf {
    vault.with_file_name("read_log.db")
}

fn copy_vault(from: &Path, to: &Path) -> CopyResult {
    copy_database(from, to, NO_WAL_LIMIT, |_| ()).unwrap()
}

/// Copies a vault into a new folder. The folder is deleted when it is dropped.
fn copy_into_folder(vault: &Path) -> (TempDir, PathBuf, CopyResult) {
    let folder = tempfile::tempdir().unwrap();
    let copy = create_empty_file(folder.path());
    let result = copy_vault(vault, &copy);
    (folder, copy, result)
}

/// Alters a copy of a database file.
fn alter_copy(folder: &TempDir, copy: &Path, sql: &str) -> PathBuf {
    let altered = folder.path().join("altered");
    fs::copy(copy, &altered).unwrap();
    Connection::open(&altered).unwrap().execute_batch(sql).unwrap();
    altered
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

const TABLE_NAMES_QUERY: &str = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name";
const SCHEMA_QUERY: &str =
    "SELECT type || name || sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY 1";

fn table_rows(connection: &Connection, table: &str) -> Vec<Vec<Value>> {
    let mut statement = connection.prepare(&format!("SELECT * FROM {table}")).unwrap();
    let column_count = statement.column_count();
    let row_values =
        |row: &rusqlite::Row<'_>| (0..column_count).map(|index| row.get(index)).collect();
    statement.query_map([], row_values).unwrap().map(Result::unwrap).collect()
}

/// Opens a harness with inserted, updated and deleted tokens, CVCs, a token intent, a 3DS session,
/// a stored response and a read log record.
async fn open_harness_with_data() -> StoreHarness {
    let harness = StoreHarness::open(Engine::Sqlite).await;
    for index in 0..50 {
        harness.insert(token_record(&format!("id-{index}"))).await;
    }
    let token = StoredToken {
        cvc: Some(cvc_record("a code, sealed")),
        ..without_cvc(token_record("coded"))
    };
    let response = harness.idempotency_record([9; 32]);
    harness.insert_with_record(token, Box::new(move |_| Some(response))).await.unwrap();
    let token = StoredToken {
        cvc: Some(cvc_record("a code, sealed")),
        ..without_cvc(TokenRecord { fingerprint: None, ..token_record("coded-2") })
    };
    let insert = harness.new_insert(token, Deduplicate::No);
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
    let (entity, deliveries) = ("intent".to_owned(), Vec::new());
    let extras = CommitExtras { audit, entity, idempotency: None, deliveries };
    harness.store().insert_token_intent(harness.lookup_permit(), intent, extras).await.unwrap();
    harness.insert_session(harness.threeds_session_record(1), &[1]).await.unwrap();
    let entries = vec![ReadLogEntry::new("id-1", "revealed")];
    harness
        .vault_harness
        .vault
        .record_reads(&harness.caller, Operation::GetToken, entries)
        .await
        .unwrap();
    let inserted = token_record("id-1");
    harness.revise(revised_record(&inserted)).await;
    let body = Sealed::from_stored(b"the body of a token that was deleted".to_vec());
    harness.insert(TokenRecord { body, ..token_record("deleted") }).await;
    harness.delete("deleted", 0).await;
    harness
}

#[tokio::test]
async fn backup_copies_every_row_except_cvcs() {
    let harness = open_harness_with_data().await;
    let file = harness.vault_harness.file();
    let (_folder, copy, result) = copy_into_folder(&file);
    let (vault_connection, copy_connection) =
        (Connection::open(&file).unwrap(), Connection::open(&copy).unwrap());
    let read_log = Connection::open(file.with_file_name("read_log.db")).unwrap();
    let mut expected_counts = Vec::new();
    for (table, copy_table) in READ_LOG_TABLES {
        let original = table_rows(&read_log, table);
        assert_eq!(original, table_rows(&copy_connection, copy_table), "{table}");
        expected_counts.push((copy_table.to_owned(), u64::try_from(original.len()).unwrap()));
    }
    let without_read_log_tables = |mut schema: Vec<String>| {
        schema.retain(|it| {
            !READ_LOG_TABLES
                .iter()
                .any(|(_, copy_table)| it.starts_with(&format!("table{copy_table}")))
        });
        schema
    };
    let found = query_texts(&vault_connection, SCHEMA_QUERY);
    assert_eq!(found, without_read_log_tables(query_texts(&copy_connection, SCHEMA_QUERY)));
    for table in query_texts(&vault_connection, TABLE_NAMES_QUERY) {
        let original = table_rows(&vault_connection, &table);
        if EXCLUDED_TABLES.contains(&table.as_str()) {
            assert!(
                !original.is_empty() && table_rows(&copy_connection, &table).is_empty(),
                "{table}"
            );
            continue;
        }
        assert_eq!(original, table_rows(&copy_connection, &table), "{table}");
        expected_counts.push((table, u64::try_from(original.len()).unwrap()));
    }
    let mut copied_counts = result.rows;
    copied_counts.sort();
    expected_counts.sort();
    assert_eq!(copied_counts, expected_counts);
    let version_query = "SELECT user_version || ',' || application_id
        FROM pragma_user_version, pragma_application_id";
    let found = query_texts(&vault_connection, version_query);
    assert_eq!(found, query_texts(&copy_connection, version_query));
}

/// A table has CVC data if its name or a column name contains "cvc" or "epoch".
#[tokio::test]
async fn every_table_with_cvcs_is_excluded_from_backups() {
    let harness = VaultHarness::open(Engine::Sqlite).await;
    let connection = Connection::open(harness.file()).unwrap();
    for table in query_texts(&connection, TABLE_NAMES_QUERY) {
        let columns =
            query_texts(&connection, &format!("SELECT name FROM pragma_table_info('{table}')"));
        let mut names = columns.iter().chain([&table]);
        let has_cvc_data = names.any(|it| it.contains("cvc") || it.contains("epoch"));
        assert_eq!(has_cvc_data, EXCLUDED_TABLES.contains(&table.as_str()), "table {table}");
    }
}

#[tokio::test]
async fn backup_contains_no_bytes_of_deleted_or_excluded_rows() {
    let harness = open_harness_with_data().await;
    let file = harness.vault_harness.file();
    let (folder, copy, _) = copy_into_folder(&file);
    let contain_text = |paths: &[PathBuf], text: &str| {
        let mut files = paths.iter().map(|it| fs::read(it).unwrap_or_default());
        files.any(|it| it.windows(text.len()).any(|window| window == text.as_bytes()))
    };
    let original_files = [file.clone(), file.with_extension("db-wal")];
    for (text, expected) in [
        ("a code, sealed", false),
        ("the body of a token that was deleted", false),
        // Control: the same search finds data that should be in the copy.
        ("id-49", true),
    ] {
        assert!(contain_text(&original_files, text), "{text}");
        assert_eq!(contain_text(std::slice::from_ref(&copy), text), expected, "{text}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "a copy should be one file");
}

const INSERT_RECORD: &str =
    "INSERT INTO log_records (tenant, sequence, at, actor_kind, operation, entity, outcome,
        trace, address, link)
    SELECT x'00', coalesce(max(sequence), 0) + 1, 0, '', 'test', '', '', ?, '', x'' FROM log_records";

/// Each progress report of the copy commits other changes. The copy must not contain them.
#[tokio::test]
async fn backup_contains_one_snapshot_despite_concurrent_commits() {
    let harness = open_harness_with_data().await;
    let file = harness.vault_harness.file();
    insert_records(&file, 20_000);
    let folder = tempfile::tempdir().unwrap();
    let copy = create_empty_file(folder.path());
    let progress: Arc<Mutex<Vec<BackupProgress>>> = Arc::default();
    let (recorded_progress, original_file) = (Arc::clone(&progress), file.clone());
    let commit_changes = move |report| {
        recorded_progress.lock().unwrap().push(report);
        let connection = Connection::open(&original_file).unwrap();
        connection.execute(INSERT_RECORD, ["during-backup"]).unwrap();
        connection.execute("UPDATE directory_state SET version = version + 1", []).unwrap();
    };
    let version_before: i64 = query_number(&file, "SELECT version FROM directory_state");
    copy_database(&file, &copy, NO_WAL_LIMIT, commit_changes).unwrap();
    let progress = progress.lock().unwrap();
    assert!(progress.len() > 3, "{progress:?}");
    assert!(progress.iter().all(|it| it.total_bytes > 1_000_000), "{progress:?}");
    let committed =
        query_number(&file, "SELECT count(*) FROM log_records WHERE trace = 'during-backup'");
    assert_eq!(usize::try_from(committed).unwrap(), progress.len());
    assert_eq!(
        query_number(&copy, "SELECT count(*) FROM log_records WHERE trace = 'during-backup'"),
        0
    );
    assert_eq!(query_number(&copy, "SELECT version FROM directory_state"), version_before);
    let examined = examine(&copy, || ()).unwrap();
    assert!(examined.is_current && examined.directory.tenants.len() == 2);
    let opened = scrip_core::policy::Directory::open(examined.directory, &root_key(), None);
    assert!(opened.unwrap().alterations().is_empty());
}

fn query_number(file: &Path, sql: &str) -> i64 {
    Connection::open(file).unwrap().query_row(sql, [], |row| row.get(0)).unwrap()
}

/// Inserts records into the audit log.
fn insert_records(file: &Path, count: usize) {
    let mut connection = Connection::open(file).unwrap();
    let transaction = connection.transaction().unwrap();
    for _ in 0..count {
        transaction
            .execute(INSERT_RECORD, ["a long trace, so that the table of records has many pages"])
            .unwrap();
    }
    transaction.commit().unwrap();
}

#[tokio::test]
async fn backup_contains_commits_that_are_only_in_the_wal() {
    let harness = VaultHarness::open(Engine::Sqlite).await;
    // Closes the SQLite store, so that no checkpointer writes the WAL into the database.
    let harness = harness.with_store(|| Arc::new(scrip_testing::MemoryStore::default()));
    let file = harness.file();
    let connection = Connection::open(&file).unwrap();
    connection.execute_batch("PRAGMA wal_autocheckpoint = 0").unwrap();
    connection.execute(INSERT_RECORD, ["only in the wal"]).unwrap();
    let contains_trace =
        |path: &Path| fs::read(path).unwrap().windows(15).any(|it| it == b"only in the wal");
    assert!(contains_trace(&file.with_extension("db-wal")) && !contains_trace(&file));
    let (_folder, copy, _) = copy_into_folder(&file);
    assert!(contains_trace(&copy));
    assert_eq!(
        query_number(&copy, "SELECT count(*) FROM log_records WHERE trace = 'only in the wal'"),
        1
    );
}

#[tokio::test]
async fn backup_fails_when_the_wal_exceeds_its_size_limit() {
    let harness = open_harness_with_data().await;
    let file = harness.vault_harness.file();
    insert_records(&file, 20_000);
    let wal_length = fs::metadata(file.with_extension("db-wal")).unwrap().len();
    let folder = tempfile::tempdir().unwrap();
    let copy = create_empty_file(folder.path());
    let outcome = copy_database(&file, &copy, wal_length - 1, |_| ());
    assert_rejected(outcome, "exceeded its size limit");
    fs::write(&copy, b"").unwrap();
    assert!(copy_database(&file, &copy, wal_length, |_| ()).is_ok());
}

#[tokio::test]
async fn foreign_or_newer_database_is_not_copied_or_restored() {
    let harness = open_harness_with_data().await;
    let file = harness.vault_harness.file();
    let (folder, copy, _) = copy_into_folder(&file);
    for (sql, expected) in [
        ("PRAGMA user_version = 99", "newer version"),
        ("PRAGMA user_version = 2", "never released"),
        ("PRAGMA application_id = 7", "not a Scrip database"),
    ] {
        let altered = alter_copy(&folder, &copy, sql);
        assert_rejected(examine(&altered, || ()), expected);
        assert_rejected(upgrade(&altered), expected);
        let target = folder.path().join("target");
        fs::write(&target, b"").unwrap();
        assert_rejected(copy_database(&altered, &target, NO_WAL_LIMIT, |_| ()), expected);
    }
    let empty = folder.path().join("nothing");
    fs::write(&empty, b"").unwrap();
    assert_rejected(examine(&empty, || ()), "empty");
    assert_rejected(
        copy_database(&empty, &create_empty_file(folder.path()), NO_WAL_LIMIT, |_| ()),
        "empty",
    );
    let missing = folder.path().join("absent");
    assert!(
        copy_database(&missing, &create_empty_file(folder.path()), NO_WAL_LIMIT, |_| ()).is_err()
    );
    assert!(!missing.exists());
}

/// The padding before the keys is computed for one page size.
#[tokio::test]
async fn database_with_another_page_size_is_rejected_and_its_backup_is_corrected() {
    let harness = open_harness_with_data().await;
    let (folder, copy, _) = copy_into_folder(&harness.vault_harness.file());
    let page_size = |file: &Path| query_number(file, "SELECT page_size FROM pragma_page_size");
    assert_eq!((page_size(&harness.vault_harness.file()), page_size(&copy)), (4096, 4096));
    // A complete vault with its read log, but with another page size.
    let second_vault = folder.path().join("vault");
    for (from, to) in [
        (harness.vault_harness.file(), second_vault.clone()),
        (read_log_path(&harness.vault_harness.file()), read_log_path(&second_vault)),
    ] {
        let target = [to.to_str().unwrap()];
        Connection::open(from).unwrap().execute("VACUUM INTO ?", target).unwrap();
    }
    let change_page_size = "PRAGMA page_size = 8192; VACUUM";
    Connection::open(&second_vault).unwrap().execute_batch(change_page_size).unwrap();
    assert_eq!(page_size(&second_vault), 8192);
    assert_rejected(examine(&second_vault, || ()), "page size");
    assert_rejected(SqliteStore::open(&second_vault), "page size");
    let corrected = folder.path().join("target");
    fs::write(&corrected, b"").unwrap();
    copy_vault(&second_vault, &corrected);
    assert_eq!(page_size(&corrected), 4096);
    assert!(examine(&corrected, || ()).is_ok());
}

/// SQLite opens each of these databases without an error.
#[tokio::test]
async fn examining_a_damaged_backup_fails() {
    let harness = open_harness_with_data().await;
    let (folder, copy, _) = copy_into_folder(&harness.vault_harness.file());
    assert!(examine(&copy, || ()).is_ok());
    for (sql, expected) in [
        ("PRAGMA writable_schema = ON; DELETE FROM sqlite_schema WHERE name = 'tokens_by_id'", ""),
        ("PRAGMA foreign_keys = OFF; DELETE FROM tenants", "refer to missing rows"),
    ] {
        let altered = alter_copy(&folder, &copy, sql);
        assert_rejected(examine(&altered, || ()), expected);
    }
    let mut bytes = fs::read(&copy).unwrap();
    let page_start = bytes.len() / 4096 / 2 * 4096;
    bytes[page_start..page_start + 64].fill(0x55);
    let altered = folder.path().join("altered");
    fs::write(&altered, bytes).unwrap();
    assert!(examine(&altered, || ()).is_err());
}

/// The SQLite library of this program has no module for virtual tables.
const INSERT_VIRTUAL_TABLE: &str = "PRAGMA writable_schema = ON; INSERT INTO sqlite_schema VALUES \
    ('table', 'additional', 'additional', 0, 'CREATE VIRTUAL TABLE additional USING fts5 (a)')";

/// SQL in the schema of a file runs when the file is read.
#[tokio::test]
async fn backup_with_another_schema_is_rejected() {
    let harness = open_harness_with_data().await;
    let (folder, copy, _) = copy_into_folder(&harness.vault_harness.file());
    for (sql, name) in [
        ("DROP TABLE clock_watermark; CREATE VIEW clock_watermark AS SELECT 1", "clock_watermark"),
        ("CREATE VIEW additional AS SELECT * FROM tokens", "additional"),
        ("CREATE TRIGGER additional AFTER INSERT ON tokens BEGIN SELECT 1; END", "additional"),
        ("CREATE TABLE additional (a, CHECK (length(hex(randomblob(9))) > 0))", "additional"),
        ("CREATE INDEX additional ON system_keys (length(wrapped))", "additional"),
        (INSERT_VIRTUAL_TABLE, "additional"),
        ("ALTER TABLE read_log_heads ADD COLUMN a AS (length(mac))", "read_log_heads"),
        ("ALTER TABLE tenants ADD COLUMN a INTEGER AS (length(name))", "tenants"),
        ("DROP INDEX tokens_by_id", "tokens_by_id"),
        ("DROP TABLE active_months", "active_months"),
        ("ANALYZE", "sqlite_stat1"),
    ] {
        let altered = alter_copy(&folder, &copy, sql);
        let message = format!("{:?}", examine(&altered, || ()).unwrap_err());
        assert!(message.contains("is not as in a vault") && message.contains(name), "{message}");
    }
}

#[tokio::test]
async fn backup_of_a_vault_with_additional_objects_has_the_schema_of_a_vault() {
    let harness = open_harness_with_data().await;
    let file = harness.vault_harness.file();
    let additional = "CREATE TABLE additional (a); CREATE VIEW additional_view AS SELECT 1; \
        CREATE TRIGGER additional_trigger AFTER INSERT ON tokens BEGIN SELECT 1; END";
    Connection::open(&file).unwrap().execute_batch(additional).unwrap();
    let (_folder, copy, _) = copy_into_folder(&file);
    examine(&copy, || ()).unwrap();
    let tokens = "SELECT count(*) FROM tokens";
    assert_eq!(query_number(&copy, tokens), query_number(&file, tokens));
}

/// A long reader prevents the truncation of the WAL. After it ends, the next commits truncate the
/// WAL.
#[tokio::test]
async fn wal_is_truncated_after_a_long_reader_ends() {
    const WAL_LIMIT: u64 = 128 * 1024 * 1024;
    let harness = StoreHarness::open(Engine::Sqlite).await;
    let wal = harness.vault_harness.file().with_extension("db-wal");
    let wal_length = || fs::metadata(&wal).unwrap().len();
    let reader = Connection::open(harness.vault_harness.file()).unwrap();
    let transaction = reader.unchecked_transaction().unwrap();
    assert_eq!(table_rows(&transaction, "tokens").len(), 0);
    let large_record = |index: usize| TokenRecord {
        body: Sealed::from_stored(vec![7; 4 * 1024 * 1024]),
        ..token_record(&format!("large-{index}"))
    };
    for index in 0..40 {
        harness.insert(large_record(index)).await;
    }
    assert!(wal_length() > WAL_LIMIT, "WAL of {} bytes", wal_length());
    drop(transaction);
    let insert_until_truncated = async {
        for index in 0..2_000 {
            harness.insert(token_record(&format!("small-{index}"))).await;
            if wal_length() <= WAL_LIMIT {
                return true;
            }
            sleep(Duration::from_millis(10));
        }
        false
    };
    assert!(insert_until_truncated.await, "WAL of {} bytes", wal_length());
}
