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
    idempotency::{AnswerRecord, Claimed},
    store::StoreError,
    token::{Deduplicate, Outcome, Render, TokenRecord},
};
use scrip_store::SqliteStore;
use scrip_testing::{
    store_harness::{InsertToken, Inserted, StoreHarness, bare, inserted, record, revised},
    vault_harness::{Engine, VaultHarness},
};
use tokio::task::JoinSet;

async fn desk() -> StoreHarness {
    StoreHarness::open(Engine::Sqlite).await
}

fn count(file: &Path, table: &str) -> i64 {
    let sql = format!("SELECT count(*) FROM {table}");
    Connection::open(file).unwrap().query_row(&sql, [], |row| row.get(0)).unwrap()
}

fn step(it: impl FnOnce(&[Outcome]) -> Option<AnswerRecord> + Send + 'static) -> Render {
    Box::new(it)
}

/// Sends all of these at once, so that they share commits.
async fn insert_all(
    desk: &StoreHarness,
    inserts: Vec<InsertToken>,
) -> Vec<Result<Inserted, StoreError>> {
    let mut tasks = JoinSet::new();
    for (at, insert) in inserts.into_iter().enumerate() {
        let store = Arc::clone(&desk.world.vault.store);
        let (inquiry, batch) = desk.sent(insert);
        tasks.spawn(async move { (at, inserted(store.write_tokens(inquiry, batch).await)) });
    }
    let mut outcomes = tasks.join_all().await;
    outcomes.sort_by_key(|(at, _)| *at);
    outcomes.into_iter().map(|(_, it)| it).collect()
}

#[tokio::test]
async fn work_that_fails_takes_nothing_with_it() {
    let desk = desk().await;
    let audited = count(&desk.world.file(), "audit");
    let key = [1; 32];
    let inserts = (0..200).map(|at| {
        let token = TokenRecord { fingerprint: None, ..record(&format!("id-{}", at % 150)) };
        let insert = desk.insertion(bare(token), Deduplicate::No);
        // All of these share one key: one is answered, the others are taken back.
        let answer = desk.answer(key);
        let render = (100..150).contains(&at).then(|| step(|_| Some(answer)));
        InsertToken { render, ..insert }
    });
    let outcomes = insert_all(&desk, inserts.collect()).await;

    let kinds = |range: std::ops::Range<usize>| {
        let of = |kind: fn(&Result<Inserted, StoreError>) -> bool| {
            outcomes[range.clone()].iter().filter(|it| kind(it)).count()
        };
        let new = of(|it| matches!(it, Ok(Inserted::New)));
        let taken = of(|it| matches!(it, Ok(Inserted::IdTaken)));
        let failed = of(|it| matches!(it, Err(StoreError::Answered)));
        (new, taken, failed)
    };
    assert_eq!(kinds(0..100), (100, 0, 0));
    assert_eq!(kinds(100..150), (1, 0, 49));
    assert_eq!(kinds(150..200), (0, 50, 0));
    for (at, outcome) in outcomes[..150].iter().enumerate() {
        let found = desk.find(&format!("id-{at}")).await;
        assert_eq!(found.is_some(), outcome.is_ok(), "id-{at}");
    }
    let file = desk.world.file();
    assert_eq!((count(&file, "tokens"), count(&file, "audit") - audited), (101, 101));
    assert!(matches!(desk.claim(key).await, Claimed::Answered(_)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_creates_of_one_card_leave_one_token() {
    let desk = desk().await;
    let insert = |at| desk.insertion(bare(record(&format!("id-{at}"))), Deduplicate::Yes);
    let outcomes = insert_all(&desk, (0..64).map(insert).collect()).await;

    let new = outcomes.iter().position(|it| matches!(it, Ok(Inserted::New))).unwrap();
    let first = bare(record(&format!("id-{new}")));
    for (at, outcome) in outcomes.into_iter().enumerate() {
        let expected =
            if at == new { Inserted::New } else { Inserted::Existing(Box::new(first.clone())) };
        assert_eq!(outcome.unwrap(), expected);
    }
    assert_eq!(count(&desk.world.file(), "tokens"), 1);
}

#[tokio::test]
async fn a_reopened_file_has_everything() {
    let desk = desk().await;
    let answer = desk.answer([1; 32]);
    let render: Render = Box::new(move |_| Some(answer));
    desk.insert_answered(bare(record("one")), render).await.unwrap();
    desk.update(desk.change(revised(&record("one")), Deduplicate::No)).await;
    let directory = desk.store().load_directory().await.unwrap();

    let StoreHarness { caller, stranger, world } = desk;
    let file = world.file();
    let world = world.with_store(|| {
        assert!(!file.with_extension("db-wal").exists(), "the log was not tidied away");
        Arc::new(SqliteStore::open(&file).unwrap())
    });
    let desk = StoreHarness { caller, stranger, world };
    assert_eq!(desk.find("one").await, Some(bare(revised(&record("one")))));
    assert!(matches!(desk.claim([1; 32]).await, Claimed::Answered(_)));
    let after = desk.store().load_directory().await.unwrap();
    assert_eq!((after.system_keys, after.tenants), (directory.system_keys, directory.tenants));
}

#[track_caller]
fn refused(file: &Path, part: &str) {
    let problem = format!("{:?}", SqliteStore::open(file).unwrap_err());
    assert!(problem.contains(part), "{problem}");
}

#[tokio::test]
async fn files_that_are_not_ours_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let newer = folder.path().join("newer.db");
    drop(SqliteStore::open(&newer).unwrap());
    Connection::open(&newer).unwrap().pragma_update(None, "user_version", 99).unwrap();
    refused(&newer, "newer version");

    let foreign = [
        ("versioned", "CREATE TABLE notes (text TEXT); PRAGMA user_version = 1"),
        ("unversioned", "CREATE TABLE notes (text TEXT)"),
        ("marked", "PRAGMA application_id = 7"),
    ];
    for (name, sql) in foreign {
        let file = folder.path().join(name);
        Connection::open(&file).unwrap().execute_batch(sql).unwrap();
        refused(&file, "not one of ours");
        let tables = "sqlite_schema WHERE name = 'tokens'";
        assert_eq!(count(&file, tables), 0, "{name} was written to");
    }

    let text = folder.path().join("text.db");
    fs::write(&text, "no database at all, but long enough to be read as one".repeat(20)).unwrap();
    refused(&text, "SQLite error 26");
}

#[tokio::test]
async fn a_file_is_open_once_and_private() {
    let world = VaultHarness::open(Engine::Sqlite).await;
    refused(&world.file(), "another process");
    for name in ["scrip.db", "scrip.db-wal", "scrip.db-shm", "scrip.lock"] {
        let mode = fs::metadata(world.file().with_file_name(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}

#[tokio::test]
async fn a_panic_fails_only_its_own_request() {
    let desk = desk().await;
    let inserts = (0..20).map(|at| {
        let token = TokenRecord { fingerprint: None, ..record(&format!("id-{at}")) };
        let panics = (at == 10).then(|| step(|_| panic!("on purpose")));
        InsertToken { render: panics, ..desk.insertion(bare(token), Deduplicate::No) }
    });
    let outcomes = insert_all(&desk, inserts.collect()).await;
    for (at, outcome) in outcomes.iter().enumerate() {
        assert_eq!(outcome.is_ok(), at != 10, "{outcome:?}");
        assert_eq!(desk.find(&format!("id-{at}")).await.is_some(), at != 10);
    }
    assert!(matches!(outcomes[10], Err(StoreError::Unavailable(_))));
    assert_eq!(count(&desk.world.file(), "audit WHERE operation = 'create_token'"), 19);
    assert_eq!(desk.insert(record("later")).await, Inserted::New);
}

/// The step runs before the commit: whoever reads meanwhile sees neither the effect nor its answer.
#[tokio::test]
async fn the_answer_is_made_before_the_commit() {
    let desk = desk().await;
    let (seen, answer) = (Arc::new(std::sync::Mutex::new(None)), desk.answer([1; 32]));
    let (file, note) = (desk.world.file(), Arc::clone(&seen));
    let render: Render = Box::new(move |_| {
        *note.lock().unwrap() = Some((count(&file, "tokens"), count(&file, "answers")));
        Some(answer)
    });
    desk.insert_answered(bare(record("one")), render).await.unwrap();
    assert_eq!(*seen.lock().unwrap(), Some((0, 0)));
    let file = desk.world.file();
    assert_eq!((count(&file, "tokens"), count(&file, "answers")), (1, 1));
}

/// As much as the queue holds is done; what is past it is refused at once, and not done.
#[tokio::test]
async fn a_full_queue_sheds() {
    const QUEUE: usize = 4096;
    let desk = desk().await;
    let (begun, has_begun) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::channel::<()>();
    let render: Render = Box::new(move |_| {
        begun.send(()).unwrap();
        may_go_on.recv().unwrap();
        None
    });
    let slow = InsertToken {
        render: Some(render),
        ..desk.insertion(bare(record("slow")), Deduplicate::No)
    };
    let (store, (inquiry, slow)) = (Arc::clone(&desk.world.vault.store), desk.sent(slow));
    let slow = tokio::spawn(async move { inserted(store.write_tokens(inquiry, slow).await) });
    tokio::task::yield_now().await;
    has_begun.recv().unwrap();

    let mut tasks = JoinSet::new();
    for at in 0..QUEUE + 100 {
        let token = TokenRecord { fingerprint: None, ..record(&format!("id-{at}")) };
        let insert = desk.insertion(bare(token), Deduplicate::No);
        let store = Arc::clone(&desk.world.vault.store);
        let (inquiry, batch) = desk.sent(insert);
        tasks.spawn(async move { (at, inserted(store.write_tokens(inquiry, batch).await)) });
    }
    tokio::task::yield_now().await;
    while tasks.len() > QUEUE {
        // Were it to wait instead, it would wait for ever: the writer is held.
        let refused = tokio::time::timeout(Duration::from_secs(10), tasks.join_next()).await;
        let (_, outcome) = refused.unwrap().unwrap().unwrap();
        assert!(matches!(outcome, Err(StoreError::Busy)), "{outcome:?}");
    }
    assert!(matches!(desk.store().check_ready().await, Err(StoreError::Busy)));
    go_on.send(()).unwrap();
    assert_eq!(slow.await.unwrap().unwrap(), Inserted::New);
    for (at, outcome) in tasks.join_all().await {
        assert_eq!(outcome.unwrap(), Inserted::New);
        assert!(desk.find(&format!("id-{at}")).await.is_some());
    }
    assert_eq!(usize::try_from(count(&desk.world.file(), "tokens")).unwrap(), QUEUE + 1);
    desk.store().check_ready().await.unwrap();
}

#[tokio::test]
async fn indexes_codes_and_audit_follow_their_token() {
    let desk = desk().await;
    let file = desk.world.file();
    let digests = |of: &[u8]| of.iter().map(|it| scrip_seal::IndexDigest([*it; 16])).collect();
    let mut insert = desk.insertion(bare(record("one")), Deduplicate::No);
    insert.token.record.indexes = digests(&[1, 2, 3]);
    insert.token.cvc = Some(scrip_testing::store_harness::code("123"));
    let answer = desk.answer([1; 32]);
    insert.render = Some(step(|_| Some(answer)));
    insert_all(&desk, vec![insert]).await;
    assert_eq!((count(&file, "filed"), count(&file, "cvcs")), (2 * 5, 1));
    assert_eq!((count(&file, "answers"), count(&file, "answer_data")), (1, 1));

    let mut update = desk.change(revised(&record("one")), Deduplicate::No);
    update.token.indexes = digests(&[3, 4]);
    desk.update(update).await;
    assert_eq!((count(&file, "filed"), count(&file, "cvcs")), (2 * 4, 1));

    desk.delete("one", 1).await;
    assert_eq!((count(&file, "filed"), count(&file, "cvcs")), (0, 0));
    assert_eq!((count(&file, "answers"), count(&file, "answer_data")), (1, 0));
    for outcome in ["created", "updated", "deleted"] {
        assert_eq!(count(&file, &format!("audit WHERE outcome = '{outcome}'")), 1);
    }
    desk.delete("one", 1).await;
    let of_tokens = "audit WHERE operation LIKE '%_token'";
    assert_eq!(count(&file, of_tokens), 3, "what did not happen is not recorded as done");
}
