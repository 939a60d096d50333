//! Whoever breaks a move off at any point finds it goes on from there; and until it has ended,
//! nobody serves what it left.

use std::fs;

use rusqlite::Connection;
use scrip_core::store::{StoreError, StoreFuture};
use scrip_store::transfer::{
    ImportState, PageBounds, Portion, RowKind, RowPage, TransferEngine, TransferError,
};
use scrip_testing::{
    requests::{DEBIT, card, create},
    vault_harness::{Engine, VaultHarness},
};

use crate::transfer::harness::{
    SMALL_PAGES, TransferHarness, dump_rows, export_folder, run_export, run_import,
};

/// An engine that fails at the n-th call of what is counted.
struct InterruptedEngine<'a> {
    engine: &'a mut dyn TransferEngine,
    calls_left: usize,
    interruption: InterruptionPoint,
}

#[derive(Clone, Copy, PartialEq)]
enum InterruptionPoint {
    Reading,
    /// Before and after a portion is written: the second is a crash whose commit was made.
    BeforeWriting,
    AfterWriting,
    Finishing,
}

fn interrupted<T>() -> Result<T, StoreError> {
    Err(StoreError::Unavailable("broken off".into()))
}

impl InterruptedEngine<'_> {
    fn is_reached(&mut self, point: InterruptionPoint) -> bool {
        if self.interruption == point {
            self.calls_left = self.calls_left.saturating_sub(1);
        }
        self.interruption == point && self.calls_left == 0
    }
}

impl TransferEngine for InterruptedEngine<'_> {
    fn engine(&self) -> &'static str {
        self.engine.engine()
    }

    fn schema(&self) -> u32 {
        self.engine.schema()
    }

    fn begin_reading(&mut self) -> StoreFuture<'_, ()> {
        self.engine.begin_reading()
    }

    fn end_reading(&mut self) -> StoreFuture<'_, ()> {
        self.engine.end_reading()
    }

    fn count_rows(&mut self, kind: RowKind) -> StoreFuture<'_, u64> {
        self.engine.count_rows(kind)
    }

    fn count_index_entries(&mut self) -> StoreFuture<'_, u64> {
        self.engine.count_index_entries()
    }

    fn read_page<'a>(
        &'a mut self,
        kind: RowKind,
        after: Option<&'a [u8]>,
        bounds: PageBounds,
    ) -> StoreFuture<'a, RowPage> {
        if self.is_reached(InterruptionPoint::Reading) {
            return Box::pin(async { interrupted() });
        }
        self.engine.read_page(kind, after, bounds)
    }

    fn find_import_state(&mut self) -> StoreFuture<'_, Option<ImportState>> {
        self.engine.find_import_state()
    }

    fn start_import(&mut self, state: ImportState) -> StoreFuture<'_, ()> {
        self.engine.start_import(state)
    }

    fn write_portion<'a>(
        &'a mut self,
        portion: &'a Portion,
        state: ImportState,
    ) -> StoreFuture<'a, ()> {
        if self.is_reached(InterruptionPoint::BeforeWriting) {
            return Box::pin(async { interrupted() });
        }
        Box::pin(async move {
            let is_last = self.is_reached(InterruptionPoint::AfterWriting);
            self.engine.write_portion(portion, state).await?;
            if is_last { interrupted() } else { Ok(()) }
        })
    }

    fn complete_import<'a>(&'a mut self, keys: &'a Portion) -> StoreFuture<'a, ()> {
        if self.is_reached(InterruptionPoint::Finishing) {
            return Box::pin(async { interrupted() });
        }
        self.engine.complete_import(keys)
    }
}

fn is_interrupted<T: std::fmt::Debug>(outcome: &Result<T, TransferError>) -> bool {
    matches!(outcome, Err(it) if it.to_string() == "broken off")
}

async fn check_resumed_export(engine: Engine) {
    let mut harness = TransferHarness::open(engine).await;
    let mut rows = harness.vault_harness.transfer_engine().await;
    let (_folder, file) = export_folder();
    run_export(&mut *rows, &file, SMALL_PAGES).await.unwrap();
    let whole = fs::read(&file).unwrap();
    let mut breaks = 0;
    // Once after the other, each run going on where the last one was broken off.
    fs::remove_file(&file).unwrap();
    let mut before = None;
    loop {
        // Three more than are read to see how the vault stands.
        let mut breaking = InterruptedEngine {
            engine: &mut *rows,
            calls_left: 18,
            interruption: InterruptionPoint::Reading,
        };
        assert!(is_interrupted(&run_export(&mut breaking, &file, SMALL_PAGES).await));
        let length = fs::metadata(&file).unwrap().len();
        if before == Some(length) {
            break;
        }
        before = Some(length);
        breaks += 1;
    }
    // All of it is there but its end.
    let done = run_export(&mut *rows, &file, SMALL_PAGES).await.unwrap();
    assert_eq!(done.resumed_rows, done.summary.rows());
    assert!(breaks > 5, "{breaks}");
    assert_eq!(fs::read(&file).unwrap(), whole);
    drop(rows);
    check_torn_file(&mut harness.vault_harness, &whole).await;
}

/// Whatever of a file had been written.
async fn check_torn_file(harness: &mut VaultHarness, expected: &[u8]) {
    let mut rows = harness.transfer_engine().await;
    let (_folder, file) = export_folder();
    for at in (0..expected.len()).step_by(97).chain([expected.len() - 1, expected.len()]) {
        drop(fs::remove_file(&file));
        // A disk may have the length and not the bytes.
        let rest = vec![0; if at < expected.len() { at % 50 } else { 0 }];
        fs::write(&file, [&expected[..at], &rest].concat()).unwrap();
        run_export(&mut *rows, &file, SMALL_PAGES).await.unwrap();
        assert!(fs::read(&file).unwrap() == expected, "torn at {at}");
    }
}

#[tokio::test]
async fn interrupted_sqlite_export_resumes() {
    check_resumed_export(Engine::Sqlite).await;
}

#[tokio::test]
async fn interrupted_postgres_export_resumes() {
    check_resumed_export(Engine::Postgres).await;
}

#[tokio::test]
async fn export_of_a_vault_changed_since_the_interruption_fails() {
    for engine in [Engine::Sqlite, Engine::Postgres] {
        let mut harness = TransferHarness::open(engine).await;
        let (_folder, file) = export_folder();
        let mut rows = harness.vault_harness.transfer_engine().await;
        let mut breaking = InterruptedEngine {
            engine: &mut *rows,
            calls_left: 20,
            interruption: InterruptionPoint::Reading,
        };
        assert!(is_interrupted(&run_export(&mut breaking, &file, SMALL_PAGES).await));
        drop(rows);
        harness.vault_harness.reopen().await;
        let caller = harness.caller(1).await;
        create(&harness.vault_harness.vault, &caller, card(DEBIT)).await.unwrap();
        let again =
            run_export(&mut *harness.vault_harness.transfer_engine().await, &file, SMALL_PAGES)
                .await;
        assert!(matches!(again, Err(TransferError::ExportOutdated)), "{again:?}");
    }
}

/// Somebody uses the vault while it is exported.
#[tokio::test]
async fn export_of_a_vault_changed_during_the_export_fails() {
    let harness = TransferHarness::open(Engine::Postgres).await;
    let (_folder, file) = export_folder();
    let settings = scrip_testing::vault_harness::node_settings(harness.vault_harness.database());
    let mut rows = scrip_store::postgres::transfer::PostgresTransfer::open(settings).await.unwrap();
    let caller = harness.caller(1).await;
    let mut opened = fs::File::create_new(&file).unwrap();
    let (told, heard) = std::sync::mpsc::channel();
    let watch = &mut |_| told.send(()).unwrap();
    let exporting = scrip_store::transfer::ExportOptions {
        program: "test",
        created_at_unix_ms: 7,
        bounds: SMALL_PAGES,
        report_progress: watch,
    };
    let export = scrip_store::transfer::export(&mut rows, &mut opened, exporting);
    let change = async {
        while heard.try_recv().is_err() {
            tokio::task::yield_now().await;
        }
        create(&harness.vault_harness.vault, &caller, card(DEBIT)).await.unwrap();
    };
    // It cannot end before: the engine is asked hundreds of times, and each time the other goes on.
    let (outcome, ()) = tokio::join!(export, change);
    assert!(matches!(outcome, Err(TransferError::VaultChanged)), "{outcome:?}");
}

async fn check_resumed_import(engine: Engine, point: InterruptionPoint) {
    let mut harness = TransferHarness::open(Engine::Sqlite).await;
    let (_folder, file) = export_folder();
    let mut rows = harness.vault_harness.transfer_engine().await;
    run_export(&mut *rows, &file, PageBounds { rows_max: 20, bytes_max: 4096 }).await.unwrap();
    let before = dump_rows(&mut *rows).await;
    drop(rows);
    let mut breaks = 0;
    let vault_harness = VaultHarness::imported(engine, async |rows| {
        loop {
            let mut breaking =
                InterruptedEngine { engine: rows, calls_left: 2, interruption: point };
            let outcome = run_import(&mut breaking, &file).await;
            if !is_interrupted(&outcome) {
                assert!(outcome.unwrap().resumed_rows > 0);
                break;
            }
            breaks += 1;
            assert!(breaks < 1000, "it does not go on");
        }
        assert_eq!(dump_rows(rows).await, before);
    });
    let moved = TransferHarness::with_contents(vault_harness.await, &harness.contents).await;
    assert!(breaks > 5, "{breaks}");
    moved.check_usable().await;
}

#[tokio::test]
async fn interrupted_import_resumes_at_any_point() {
    for engine in [Engine::Sqlite, Engine::Postgres] {
        check_resumed_import(engine, InterruptionPoint::AfterWriting).await;
        check_resumed_import(engine, InterruptionPoint::BeforeWriting).await;
    }
}

#[tokio::test]
async fn vault_with_an_unfinished_import_cannot_be_opened() {
    let mut harness = TransferHarness::open(Engine::Sqlite).await;
    let (_folder, file) = export_folder();
    run_export(&mut *harness.vault_harness.transfer_engine().await, &file, SMALL_PAGES)
        .await
        .unwrap();
    let other = file.with_file_name("other");
    let mut another = VaultHarness::open(Engine::Sqlite).await;
    run_export(&mut *another.transfer_engine().await, &other, SMALL_PAGES).await.unwrap();
    for engine in [Engine::Sqlite, Engine::Postgres] {
        let mut used = VaultHarness::open(engine).await;
        let rejected = run_import(&mut *used.transfer_engine().await, &file).await;
        assert!(matches!(rejected, Err(TransferError::VaultNotEmpty)), "{rejected:?}");
        let mut vault_harness = VaultHarness::without_vault(engine).await;
        for at in [InterruptionPoint::AfterWriting, InterruptionPoint::Finishing] {
            let mut rows = vault_harness.transfer_engine().await;
            let mut breaking =
                InterruptedEngine { engine: &mut *rows, calls_left: 1, interruption: at };
            assert!(is_interrupted(&run_import(&mut breaking, &file).await));
            assert_eq!(rows.count_rows(RowKind::SystemKeys).await.unwrap(), 0);
            let rejected = run_import(&mut *rows, &other).await;
            assert!(matches!(rejected, Err(TransferError::OtherImportUnfinished)), "{rejected:?}");
            drop(rows);
            let Err(rejected) = vault_harness.try_open().await else { panic!("it can be served") };
            assert!(format!("{rejected:?}").contains("is not finished"), "{rejected:?}");
        }
        run_import(&mut *vault_harness.transfer_engine().await, &file).await.unwrap();
        TransferHarness::with_contents(vault_harness, &harness.contents).await.check_usable().await;
    }
}

/// The access log is a database of its own: what was committed there, and not yet in the other.
#[tokio::test]
async fn repeated_read_log_portion_is_imported_once() {
    let mut harness = TransferHarness::open(Engine::Sqlite).await;
    let (_folder, file) = export_folder();
    let mut rows = harness.vault_harness.transfer_engine().await;
    run_export(&mut *rows, &file, SMALL_PAGES).await.unwrap();
    let before = dump_rows(&mut *rows).await;
    let target = tempfile::tempdir().unwrap();
    let path = target.path().join("scrip.db");
    let open = || scrip_store::sqlite::transfer::SqliteTransfer::open(&path).unwrap().unwrap();
    let mut portions = 0;
    loop {
        portions += 1;
        let before = read_import_state(&path);
        let mut rows = open();
        let at = InterruptionPoint::AfterWriting;
        let outcome = run_import(
            &mut InterruptedEngine { engine: &mut rows, calls_left: 1, interruption: at },
            &file,
        )
        .await;
        drop(rows);
        if outcome.is_ok() {
            break;
        }
        let Some((count, sum)) = before else { continue };
        // Was it one of the access log? Then the state goes back, and the rows stay.
        let access = Connection::open(path.with_file_name("access.db")).unwrap();
        let sql = "SELECT (SELECT count(*) FROM audit) + (SELECT count(*) FROM audit_heads)";
        let there: i64 = access.query_row(sql, [], |row| row.get(0)).unwrap();
        if there > 0 && portions % 2 == 0 {
            let vault = Connection::open(&path).unwrap();
            let sql = "UPDATE import_state SET portions = ?1, sum = ?2";
            vault.execute(sql, (count, sum)).unwrap();
        }
        assert!(portions < 1000);
    }
    assert_eq!(dump_rows(&mut open()).await, before);
}

fn read_import_state(vault: &std::path::Path) -> Option<(i64, Vec<u8>)> {
    let vault = Connection::open(vault).ok()?;
    let sql = "SELECT portions, sum FROM import_state";
    vault.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?))).ok()
}

/// What was lost or altered on the way is found before anybody serves it.
#[tokio::test]
async fn import_fails_when_the_vault_differs_from_the_file() {
    let mut harness = TransferHarness::open(Engine::Sqlite).await;
    let (_folder, file) = export_folder();
    run_export(&mut *harness.vault_harness.transfer_engine().await, &file, SMALL_PAGES)
        .await
        .unwrap();
    let alterations = [
        ("scrip.db", "DELETE FROM tokens WHERE seq = 3", "tokens"),
        ("scrip.db", "UPDATE tokens SET body = x'00' WHERE seq = 3", "tokens"),
        (
            "scrip.db",
            "UPDATE tokens SET id = id || '-x' WHERE id = 'sample-3'; \
             UPDATE tokens SET id = 'sample-3' WHERE id = 'sample-5'; \
             UPDATE tokens SET id = 'sample-5' WHERE id = 'sample-3-x'",
            "tokens",
        ),
        ("scrip.db", "DELETE FROM filed WHERE token = 4", "entries by which tokens are found"),
        ("scrip.db", "UPDATE usage_types SET count = count + 1", "usage_types"),
        ("scrip.db", "UPDATE clock_state SET now = now + 1", "clock"),
        ("scrip.db", "DELETE FROM answer_data", "answer_data"),
        ("access.db", "DELETE FROM audit WHERE n = (SELECT max(n) FROM audit)", "access_records"),
        ("access.db", "UPDATE audit_heads SET n = n + 1", "access_heads"),
    ];
    for (database, sql, expected) in alterations {
        let target = tempfile::tempdir().unwrap();
        let path = target.path().join("scrip.db");
        let open = || scrip_store::sqlite::transfer::SqliteTransfer::open(&path).unwrap().unwrap();
        let at = InterruptionPoint::Finishing;
        let outcome = run_import(
            &mut InterruptedEngine { engine: &mut open(), calls_left: 1, interruption: at },
            &file,
        )
        .await;
        assert!(is_interrupted(&outcome), "{outcome:?}");
        let attacker = Connection::open(target.path().join(database)).unwrap();
        attacker.execute_batch(sql).unwrap();
        drop(attacker);
        let outcome = run_import(&mut open(), &file).await;
        assert!(
            matches!(outcome, Err(TransferError::ContentMismatch { kind }) if kind == expected),
            "{sql}: {outcome:?}"
        );
        let rejected = scrip_store::SqliteStore::open(&path).unwrap_err();
        assert!(format!("{rejected:?}").contains("is not finished"), "{rejected:?}");
    }
}
