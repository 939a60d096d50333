//! Properties of the SQLite engine only: group commit, write queue and file.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    sync::{Arc, mpsc},
    time::Duration,
};

use rusqlite::Connection;
use scrip_core::{
    disclosure::Deduplicate,
    idempotency::{ClaimOutcome, IdempotencyRecord},
    token::TokenRecord,
    token_batch::{BuildIdempotencyRecord, WriteOutcome},
    types::StoreError,
};
use scrip_store::SqliteStore;
use scrip_testing::{
    store_harness::{
        DEDUPLICATE, InsertOutcome, SingleInsert, StoreHarness, insert_outcome, revised_record,
        token_record, without_cvc,
    },
    vault_harness::{Engine, VaultHarness},
};
use tokio::task::JoinSet;

async fn open_harness() -> StoreHarness {
    StoreHarness::open(Engine::Sqlite).await
}

fn count_rows(file: &Path, table: &str) -> i64 {
    let sql = format!("SELECT count(*) FROM {table}");
    Connection::open(file).unwrap().query_row(&sql, [], |row| row.get(0)).unwrap()
}

fn boxed_record_builder(
    build_record: impl FnOnce(&[WriteOutcome]) -> Option<IdempotencyRecord> + Send + 'static,
) -> BuildIdempotencyRecord {
    Box::new(build_record)
}

/// Sends all inserts concurrently, so that they share commits.
async fn insert_concurrently(
    harness: &StoreHarness,
    inserts: Vec<SingleInsert>,
) -> Vec<Result<InsertOutcome, StoreError>> {
    let mut tasks = JoinSet::new();
    for (index, insert) in inserts.into_iter().enumerate() {
        let store = Arc::clone(&harness.vault_harness.vault.store);
        let (lookup, batch) = harness.insert_batch(insert);
        tasks
            .spawn(async move { (index, insert_outcome(store.write_tokens(lookup, batch).await)) });
    }
    let mut outcomes = tasks.join_all().await;
    outcomes.sort_by_key(|(index, _)| *index);
    outcomes.into_iter().map(|(_, it)| it).collect()
}

#[tokio::test]
async fn failed_write_does_not_affect_others_in_its_commit() {
    let harness = open_harness().await;
    let records_before = count_rows(&harness.vault_harness.file(), "log_records");
    let key = [1; 32];
    let inserts = (0..200).map(|number| {
        let token =
            TokenRecord { fingerprint: None, ..token_record(&format!("id-{}", number % 150)) };
        let insert = harness.new_insert(without_cvc(token), Deduplicate::No);
        // All of these have the same idempotency key: one succeeds, the others are rolled back.
        let response = harness.idempotency_record(key);
        let build_record =
            (100..150).contains(&number).then(|| boxed_record_builder(|_| Some(response)));
        SingleInsert { build_record, ..insert }
    });
    let outcomes = insert_concurrently(&harness, inserts.collect()).await;

    let count_outcomes = |range: std::ops::Range<usize>| {
        let count_matching = |matches_kind: fn(&Result<InsertOutcome, StoreError>) -> bool| {
            outcomes[range.clone()].iter().filter(|it| matches_kind(it)).count()
        };
        let created = count_matching(|it| matches!(it, Ok(InsertOutcome::New)));
        let taken = count_matching(|it| matches!(it, Ok(InsertOutcome::IdTaken)));
        let failed = count_matching(|it| matches!(it, Err(StoreError::AlreadyCompleted)));
        (created, taken, failed)
    };
    assert_eq!(count_outcomes(0..100), (100, 0, 0));
    assert_eq!(count_outcomes(100..150), (1, 0, 49));
    assert_eq!(count_outcomes(150..200), (0, 50, 0));
    for (number, outcome) in outcomes[..150].iter().enumerate() {
        let stored = harness.find(&format!("id-{number}")).await;
        assert_eq!(stored.is_some(), outcome.is_ok(), "id-{number}");
    }
    let file = harness.vault_harness.file();
    assert_eq!(
        (count_rows(&file, "tokens"), count_rows(&file, "log_records") - records_before),
        (101, 101)
    );
    assert!(matches!(harness.claim_digest(key).await, ClaimOutcome::Completed(_)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_creates_of_one_card_leave_one_token() {
    let harness = open_harness().await;
    let build_insert = |number| {
        harness.new_insert(without_cvc(token_record(&format!("id-{number}"))), DEDUPLICATE)
    };
    let outcomes = insert_concurrently(&harness, (0..64).map(build_insert).collect()).await;

    let created_index =
        outcomes.iter().position(|it| matches!(it, Ok(InsertOutcome::New))).unwrap();
    let created_token = without_cvc(token_record(&format!("id-{created_index}")));
    for (index, outcome) in outcomes.into_iter().enumerate() {
        let expected = if index == created_index {
            InsertOutcome::New
        } else {
            InsertOutcome::Existing(Box::new(created_token.clone()))
        };
        assert_eq!(outcome.unwrap(), expected);
    }
    assert_eq!(count_rows(&harness.vault_harness.file(), "tokens"), 1);
}

#[tokio::test]
async fn reopened_database_has_all_data() {
    let harness = open_harness().await;
    let response = harness.idempotency_record([1; 32]);
    let build_record: BuildIdempotencyRecord = Box::new(move |_| Some(response));
    harness.insert_with_record(without_cvc(token_record("one")), build_record).await.unwrap();
    harness.update(harness.new_update(revised_record(&token_record("one")), Deduplicate::No)).await;
    let directory = harness.store().load_directory().await.unwrap();

    let StoreHarness { caller, stranger, vault_harness } = harness;
    let file = vault_harness.file();
    let vault_harness = vault_harness.with_store(|| {
        assert!(!file.with_extension("db-wal").exists(), "the WAL was not removed");
        Arc::new(SqliteStore::open(&file).unwrap())
    });
    let harness = StoreHarness { caller, stranger, vault_harness };
    assert_eq!(harness.find("one").await, Some(without_cvc(revised_record(&token_record("one")))));
    assert!(matches!(harness.claim_digest([1; 32]).await, ClaimOutcome::Completed(_)));
    let reopened = harness.store().load_directory().await.unwrap();
    let found = (reopened.system_keys, reopened.tenants);
    assert_eq!(found, (directory.system_keys, directory.tenants));
}

#[track_caller]
fn assert_open_rejected(file: &Path, expected: &str) {
    let problem = format!("{:?}", SqliteStore::open(file).unwrap_err());
    assert!(problem.contains(expected), "{problem}");
}

#[tokio::test]
async fn foreign_database_files_are_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let newer = folder.path().join("newer.db");
    drop(SqliteStore::open(&newer).unwrap());
    Connection::open(&newer).unwrap().pragma_update(None, "user_version", 99).unwrap();
    assert_open_rejected(&newer, "newer version");

    let foreign = [
        ("versioned", "CREATE TABLE notes (text TEXT); PRAGMA user_version = 1"),
        ("unversioned", "CREATE TABLE notes (text TEXT)"),
        ("marked", "PRAGMA application_id = 7"),
    ];
    for (name, sql) in foreign {
        let file = folder.path().join(name);
        Connection::open(&file).unwrap().execute_batch(sql).unwrap();
        assert_open_rejected(&file, "not a Scrip database");
        let tables = "sqlite_schema WHERE name = 'tokens'";
        assert_eq!(count_rows(&file, tables), 0, "{name} was written to");
    }

    let text = folder.path().join("text.db");
    fs::write(&text, "no database at all, but long enough to be read as one".repeat(20)).unwrap();
    assert_open_rejected(&text, "SqliteFailure { extended_code: 26 }");
}

#[tokio::test]
async fn database_file_is_opened_once_and_private() {
    let vault_harness = VaultHarness::open(Engine::Sqlite).await;
    assert_open_rejected(&vault_harness.file(), "another process");
    for name in ["scrip.db", "scrip.db-wal", "scrip.db-shm", "scrip.lock"] {
        let mode =
            fs::metadata(vault_harness.file().with_file_name(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}

#[tokio::test]
async fn panic_in_one_write_fails_only_its_own_request() {
    let harness = open_harness().await;
    let inserts = (0..20).map(|number| {
        let token = TokenRecord { fingerprint: None, ..token_record(&format!("id-{number}")) };
        let build_record =
            (number == 10).then(|| boxed_record_builder(|_| panic!("intended by the test")));
        SingleInsert { build_record, ..harness.new_insert(without_cvc(token), Deduplicate::No) }
    });
    let outcomes = insert_concurrently(&harness, inserts.collect()).await;
    for (number, outcome) in outcomes.iter().enumerate() {
        assert_eq!(outcome.is_ok(), number != 10, "{outcome:?}");
        assert_eq!(harness.find(&format!("id-{number}")).await.is_some(), number != 10);
    }
    assert!(matches!(outcomes[10], Err(StoreError::Unavailable(_))));
    assert_eq!(
        count_rows(&harness.vault_harness.file(), "log_records WHERE operation = 'create_token'"),
        19
    );
    assert_eq!(harness.insert(token_record("later")).await, InsertOutcome::New);
}

/// The record is built before the commit: concurrent reads see neither the effect nor the stored
/// response.
#[tokio::test]
async fn idempotency_record_is_built_before_the_commit() {
    let harness = open_harness().await;
    let (visible_counts, response) =
        (Arc::new(std::sync::Mutex::new(None)), harness.idempotency_record([1; 32]));
    let (file, recorded_counts) = (harness.vault_harness.file(), Arc::clone(&visible_counts));
    let build_record: BuildIdempotencyRecord = Box::new(move |_| {
        *recorded_counts.lock().unwrap() =
            Some((count_rows(&file, "tokens"), count_rows(&file, "idempotency_records")));
        Some(response)
    });
    harness.insert_with_record(without_cvc(token_record("one")), build_record).await.unwrap();
    assert_eq!(*visible_counts.lock().unwrap(), Some((0, 0)));
    let file = harness.vault_harness.file();
    assert_eq!((count_rows(&file, "tokens"), count_rows(&file, "idempotency_records")), (1, 1));
}

/// Writes up to the length of the queue are committed. Further writes are rejected immediately and
/// not committed.
#[tokio::test]
async fn full_write_queue_rejects_writes_as_busy() {
    const QUEUE_LENGTH: usize = 4096;
    let harness = open_harness().await;
    let (started_sender, started_receiver) = mpsc::channel();
    let (continue_sender, continue_receiver) = mpsc::channel::<()>();
    let build_record: BuildIdempotencyRecord = Box::new(move |_| {
        started_sender.send(()).unwrap();
        continue_receiver.recv().unwrap();
        None
    });
    let slow_insert = SingleInsert {
        build_record: Some(build_record),
        ..harness.new_insert(without_cvc(token_record("slow")), Deduplicate::No)
    };
    let (store, (lookup, batch)) =
        (Arc::clone(&harness.vault_harness.vault.store), harness.insert_batch(slow_insert));
    let slow_write =
        tokio::spawn(async move { insert_outcome(store.write_tokens(lookup, batch).await) });
    tokio::task::yield_now().await;
    started_receiver.recv().unwrap();

    let mut tasks = JoinSet::new();
    for number in 0..QUEUE_LENGTH + 100 {
        let token = TokenRecord { fingerprint: None, ..token_record(&format!("id-{number}")) };
        let insert = harness.new_insert(without_cvc(token), Deduplicate::No);
        let store = Arc::clone(&harness.vault_harness.vault.store);
        let (lookup, batch) = harness.insert_batch(insert);
        tasks.spawn(
            async move { (number, insert_outcome(store.write_tokens(lookup, batch).await)) },
        );
    }
    tokio::task::yield_now().await;
    while tasks.len() > QUEUE_LENGTH {
        // If the write waited instead, it would wait forever, because the writer is blocked.
        let rejected = tokio::time::timeout(Duration::from_secs(10), tasks.join_next()).await;
        let (_, outcome) = rejected.unwrap().unwrap().unwrap();
        assert!(matches!(outcome, Err(StoreError::Busy)), "{outcome:?}");
    }
    assert!(matches!(harness.store().check_ready().await, Err(StoreError::Busy)));
    continue_sender.send(()).unwrap();
    assert_eq!(slow_write.await.unwrap().unwrap(), InsertOutcome::New);
    for (number, outcome) in tasks.join_all().await {
        assert_eq!(outcome.unwrap(), InsertOutcome::New);
        assert!(harness.find(&format!("id-{number}")).await.is_some());
    }
    let found = usize::try_from(count_rows(&harness.vault_harness.file(), "tokens")).unwrap();
    assert_eq!(found, QUEUE_LENGTH + 1);
    harness.store().check_ready().await.unwrap();
}

#[tokio::test]
async fn index_entries_cvcs_and_audit_records_follow_their_token() {
    let harness = open_harness().await;
    let file = harness.vault_harness.file();
    let digests =
        |values: &[u8]| values.iter().map(|it| scrip_seal::IndexDigest([*it; 16])).collect();
    let mut insert = harness.new_insert(without_cvc(token_record("one")), Deduplicate::No);
    insert.token.record.indexes = digests(&[1, 2, 3]);
    insert.token.cvc = Some(scrip_testing::store_harness::cvc_record("123"));
    let response = harness.idempotency_record([1; 32]);
    insert.build_record = Some(boxed_record_builder(|_| Some(response)));
    insert_concurrently(&harness, vec![insert]).await;
    assert_eq!((count_rows(&file, "token_index"), count_rows(&file, "cvcs")), (2 * 5, 1));
    assert_eq!(
        (count_rows(&file, "idempotency_records"), count_rows(&file, "response_token_data")),
        (1, 1)
    );

    let mut update = harness.new_update(revised_record(&token_record("one")), Deduplicate::No);
    update.token.indexes = digests(&[3, 4]);
    harness.update(update).await;
    assert_eq!((count_rows(&file, "token_index"), count_rows(&file, "cvcs")), (2 * 4, 1));

    harness.delete("one", 1).await;
    assert_eq!((count_rows(&file, "token_index"), count_rows(&file, "cvcs")), (0, 0));
    assert_eq!(
        (count_rows(&file, "idempotency_records"), count_rows(&file, "response_token_data")),
        (1, 0)
    );
    for outcome in ["created", "updated", "deleted"] {
        assert_eq!(count_rows(&file, &format!("log_records WHERE outcome = '{outcome}'")), 1);
    }
    harness.delete("one", 1).await;
    let token_records = "log_records WHERE operation LIKE '%_token'";
    assert_eq!(count_rows(&file, token_records), 3, "rejected writes should leave no records");
}
