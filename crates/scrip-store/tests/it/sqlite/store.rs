//! What only the embedded engine can get wrong: batches, its queue, its file.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    sync::{Arc, mpsc},
    time::Duration,
};

use rusqlite::Connection;
use scrip_core::{
    idempotency::{ClaimOutcome, IdempotencyRecord},
    store::StoreError,
    token::{BuildIdempotencyRecord, Deduplicate, TokenRecord, WriteOutcome},
};
use scrip_store::SqliteStore;
use scrip_testing::{
    store_harness::{
        InsertOutcome, SingleInsert, StoreHarness, insert_outcome, revised_record, token_record,
        without_cvc,
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

fn build_with(
    it: impl FnOnce(&[WriteOutcome]) -> Option<IdempotencyRecord> + Send + 'static,
) -> BuildIdempotencyRecord {
    Box::new(it)
}

/// Sends all of these at once, so that they share commits.
async fn insert_concurrently(
    harness: &StoreHarness,
    inserts: Vec<SingleInsert>,
) -> Vec<Result<InsertOutcome, StoreError>> {
    let mut tasks = JoinSet::new();
    for (at, insert) in inserts.into_iter().enumerate() {
        let store = Arc::clone(&harness.vault_harness.vault.store);
        let (lookup, batch) = harness.insert_batch(insert);
        tasks.spawn(async move { (at, insert_outcome(store.write_tokens(lookup, batch).await)) });
    }
    let mut outcomes = tasks.join_all().await;
    outcomes.sort_by_key(|(at, _)| *at);
    outcomes.into_iter().map(|(_, it)| it).collect()
}

#[tokio::test]
async fn failed_work_does_not_affect_others_in_its_commit() {
    let harness = open_harness().await;
    let audited = count_rows(&harness.vault_harness.file(), "audit");
    let key = [1; 32];
    let inserts = (0..200).map(|at| {
        let token = TokenRecord { fingerprint: None, ..token_record(&format!("id-{}", at % 150)) };
        let insert = harness.new_insert(without_cvc(token), Deduplicate::No);
        // All of these share one key: one is answered, the others are taken back.
        let response = harness.idempotency_record(key);
        let render = (100..150).contains(&at).then(|| build_with(|_| Some(response)));
        SingleInsert { build_record: render, ..insert }
    });
    let outcomes = insert_concurrently(&harness, inserts.collect()).await;

    let kinds = |range: std::ops::Range<usize>| {
        let of = |kind: fn(&Result<InsertOutcome, StoreError>) -> bool| {
            outcomes[range.clone()].iter().filter(|it| kind(it)).count()
        };
        let new = of(|it| matches!(it, Ok(InsertOutcome::New)));
        let taken = of(|it| matches!(it, Ok(InsertOutcome::IdTaken)));
        let failed = of(|it| matches!(it, Err(StoreError::AlreadyCompleted)));
        (new, taken, failed)
    };
    assert_eq!(kinds(0..100), (100, 0, 0));
    assert_eq!(kinds(100..150), (1, 0, 49));
    assert_eq!(kinds(150..200), (0, 50, 0));
    for (at, outcome) in outcomes[..150].iter().enumerate() {
        let found = harness.find(&format!("id-{at}")).await;
        assert_eq!(found.is_some(), outcome.is_ok(), "id-{at}");
    }
    let file = harness.vault_harness.file();
    assert_eq!((count_rows(&file, "tokens"), count_rows(&file, "audit") - audited), (101, 101));
    assert!(matches!(harness.claim_digest(key).await, ClaimOutcome::Completed(_)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_creates_of_one_card_leave_one_token() {
    let harness = open_harness().await;
    let insert =
        |at| harness.new_insert(without_cvc(token_record(&format!("id-{at}"))), Deduplicate::Yes);
    let outcomes = insert_concurrently(&harness, (0..64).map(insert).collect()).await;

    let new = outcomes.iter().position(|it| matches!(it, Ok(InsertOutcome::New))).unwrap();
    let first = without_cvc(token_record(&format!("id-{new}")));
    for (at, outcome) in outcomes.into_iter().enumerate() {
        let expected = if at == new {
            InsertOutcome::New
        } else {
            InsertOutcome::Existing(Box::new(first.clone()))
        };
        assert_eq!(outcome.unwrap(), expected);
    }
    assert_eq!(count_rows(&harness.vault_harness.file(), "tokens"), 1);
}

#[tokio::test]
async fn reopened_database_has_all_data() {
    let harness = open_harness().await;
    let response = harness.idempotency_record([1; 32]);
    let render: BuildIdempotencyRecord = Box::new(move |_| Some(response));
    harness.insert_with_record(without_cvc(token_record("one")), render).await.unwrap();
    harness.update(harness.new_update(revised_record(&token_record("one")), Deduplicate::No)).await;
    let directory = harness.store().load_directory().await.unwrap();

    let StoreHarness { caller, stranger, vault_harness: world } = harness;
    let file = world.file();
    let world = world.with_store(|| {
        assert!(!file.with_extension("db-wal").exists(), "the log was not tidied away");
        Arc::new(SqliteStore::open(&file).unwrap())
    });
    let harness = StoreHarness { caller, stranger, vault_harness: world };
    assert_eq!(harness.find("one").await, Some(without_cvc(revised_record(&token_record("one")))));
    assert!(matches!(harness.claim_digest([1; 32]).await, ClaimOutcome::Completed(_)));
    let after = harness.store().load_directory().await.unwrap();
    assert_eq!((after.system_keys, after.tenants), (directory.system_keys, directory.tenants));
}

#[track_caller]
fn assert_open_rejected(file: &Path, part: &str) {
    let problem = format!("{:?}", SqliteStore::open(file).unwrap_err());
    assert!(problem.contains(part), "{problem}");
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
        assert_open_rejected(&file, "not one of ours");
        let tables = "sqlite_schema WHERE name = 'tokens'";
        assert_eq!(count_rows(&file, tables), 0, "{name} was written to");
    }

    let text = folder.path().join("text.db");
    fs::write(&text, "no database at all, but long enough to be read as one".repeat(20)).unwrap();
    assert_open_rejected(&text, "SQLite error 26");
}

#[tokio::test]
async fn database_file_is_opened_once_and_private() {
    let world = VaultHarness::open(Engine::Sqlite).await;
    assert_open_rejected(&world.file(), "another process");
    for name in ["scrip.db", "scrip.db-wal", "scrip.db-shm", "scrip.lock"] {
        let mode = fs::metadata(world.file().with_file_name(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}

#[tokio::test]
async fn panic_in_one_write_fails_only_its_own_request() {
    let harness = open_harness().await;
    let inserts = (0..20).map(|at| {
        let token = TokenRecord { fingerprint: None, ..token_record(&format!("id-{at}")) };
        let panics = (at == 10).then(|| build_with(|_| panic!("on purpose")));
        SingleInsert {
            build_record: panics,
            ..harness.new_insert(without_cvc(token), Deduplicate::No)
        }
    });
    let outcomes = insert_concurrently(&harness, inserts.collect()).await;
    for (at, outcome) in outcomes.iter().enumerate() {
        assert_eq!(outcome.is_ok(), at != 10, "{outcome:?}");
        assert_eq!(harness.find(&format!("id-{at}")).await.is_some(), at != 10);
    }
    assert!(matches!(outcomes[10], Err(StoreError::Unavailable(_))));
    assert_eq!(
        count_rows(&harness.vault_harness.file(), "audit WHERE operation = 'create_token'"),
        19
    );
    assert_eq!(harness.insert(token_record("later")).await, InsertOutcome::New);
}

/// The step runs before the commit: whoever reads meanwhile sees neither the effect nor its answer.
#[tokio::test]
async fn idempotency_record_is_built_before_the_commit() {
    let harness = open_harness().await;
    let (seen, response) =
        (Arc::new(std::sync::Mutex::new(None)), harness.idempotency_record([1; 32]));
    let (file, note) = (harness.vault_harness.file(), Arc::clone(&seen));
    let render: BuildIdempotencyRecord = Box::new(move |_| {
        *note.lock().unwrap() = Some((count_rows(&file, "tokens"), count_rows(&file, "answers")));
        Some(response)
    });
    harness.insert_with_record(without_cvc(token_record("one")), render).await.unwrap();
    assert_eq!(*seen.lock().unwrap(), Some((0, 0)));
    let file = harness.vault_harness.file();
    assert_eq!((count_rows(&file, "tokens"), count_rows(&file, "answers")), (1, 1));
}

/// As much as the queue holds is done; what is past it is refused at once, and not done.
#[tokio::test]
async fn full_write_queue_rejects_writes_as_busy() {
    const QUEUE: usize = 4096;
    let harness = open_harness().await;
    let (begun, has_begun) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::channel::<()>();
    let render: BuildIdempotencyRecord = Box::new(move |_| {
        begun.send(()).unwrap();
        may_go_on.recv().unwrap();
        None
    });
    let slow = SingleInsert {
        build_record: Some(render),
        ..harness.new_insert(without_cvc(token_record("slow")), Deduplicate::No)
    };
    let (store, (lookup, slow)) =
        (Arc::clone(&harness.vault_harness.vault.store), harness.insert_batch(slow));
    let slow = tokio::spawn(async move { insert_outcome(store.write_tokens(lookup, slow).await) });
    tokio::task::yield_now().await;
    has_begun.recv().unwrap();

    let mut tasks = JoinSet::new();
    for at in 0..QUEUE + 100 {
        let token = TokenRecord { fingerprint: None, ..token_record(&format!("id-{at}")) };
        let insert = harness.new_insert(without_cvc(token), Deduplicate::No);
        let store = Arc::clone(&harness.vault_harness.vault.store);
        let (lookup, batch) = harness.insert_batch(insert);
        tasks.spawn(async move { (at, insert_outcome(store.write_tokens(lookup, batch).await)) });
    }
    tokio::task::yield_now().await;
    while tasks.len() > QUEUE {
        // Were it to wait instead, it would wait for ever: the writer is held.
        let rejected = tokio::time::timeout(Duration::from_secs(10), tasks.join_next()).await;
        let (_, outcome) = rejected.unwrap().unwrap().unwrap();
        assert!(matches!(outcome, Err(StoreError::Busy)), "{outcome:?}");
    }
    assert!(matches!(harness.store().check_ready().await, Err(StoreError::Busy)));
    go_on.send(()).unwrap();
    assert_eq!(slow.await.unwrap().unwrap(), InsertOutcome::New);
    for (at, outcome) in tasks.join_all().await {
        assert_eq!(outcome.unwrap(), InsertOutcome::New);
        assert!(harness.find(&format!("id-{at}")).await.is_some());
    }
    assert_eq!(
        usize::try_from(count_rows(&harness.vault_harness.file(), "tokens")).unwrap(),
        QUEUE + 1
    );
    harness.store().check_ready().await.unwrap();
}

#[tokio::test]
async fn index_entries_cvcs_and_audit_records_follow_their_token() {
    let harness = open_harness().await;
    let file = harness.vault_harness.file();
    let digests = |of: &[u8]| of.iter().map(|it| scrip_seal::IndexDigest([*it; 16])).collect();
    let mut insert = harness.new_insert(without_cvc(token_record("one")), Deduplicate::No);
    insert.token.record.indexes = digests(&[1, 2, 3]);
    insert.token.cvc = Some(scrip_testing::store_harness::cvc_record("123"));
    let response = harness.idempotency_record([1; 32]);
    insert.build_record = Some(build_with(|_| Some(response)));
    insert_concurrently(&harness, vec![insert]).await;
    assert_eq!((count_rows(&file, "filed"), count_rows(&file, "cvcs")), (2 * 5, 1));
    assert_eq!((count_rows(&file, "answers"), count_rows(&file, "answer_data")), (1, 1));

    let mut update = harness.new_update(revised_record(&token_record("one")), Deduplicate::No);
    update.token.indexes = digests(&[3, 4]);
    harness.update(update).await;
    assert_eq!((count_rows(&file, "filed"), count_rows(&file, "cvcs")), (2 * 4, 1));

    harness.delete("one", 1).await;
    assert_eq!((count_rows(&file, "filed"), count_rows(&file, "cvcs")), (0, 0));
    assert_eq!((count_rows(&file, "answers"), count_rows(&file, "answer_data")), (1, 0));
    for outcome in ["created", "updated", "deleted"] {
        assert_eq!(count_rows(&file, &format!("audit WHERE outcome = '{outcome}'")), 1);
    }
    harness.delete("one", 1).await;
    let of_tokens = "audit WHERE operation LIKE '%_token'";
    assert_eq!(count_rows(&file, of_tokens), 3, "what did not happen is not recorded as done");
}
