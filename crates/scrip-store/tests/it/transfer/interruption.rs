//! An export or import that is interrupted at any point can be resumed. Until the import is
//! complete, the vault cannot be served.

use std::fs;

use rusqlite::Connection;
use scrip_core::types::{StoreError, StoreFuture};
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

/// An engine that fails at an interruption point after a number of calls.
struct InterruptedEngine<'a> {
    engine: &'a mut dyn TransferEngine,
    calls_left: usize,
    interruption: InterruptionPoint,
}

#[derive(Clone, Copy, PartialEq)]
enum InterruptionPoint {
    Reading,
    BeforeWriting,
    /// A crash after the commit of a portion.
    AfterWriting,
    Finishing,
}

fn interruption_error<T>() -> Result<T, StoreError> {
    Err(StoreError::Unavailable("interrupted".into()))
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
            return Box::pin(async { interruption_error() });
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
            return Box::pin(async { interruption_error() });
        }
        Box::pin(async move {
            let is_last = self.is_reached(InterruptionPoint::AfterWriting);
            self.engine.write_portion(portion, state).await?;
            if is_last { interruption_error() } else { Ok(()) }
        })
    }

    fn complete_import<'a>(&'a mut self, keys: &'a Portion) -> StoreFuture<'a, ()> {
        if self.is_reached(InterruptionPoint::Finishing) {
            return Box::pin(async { interruption_error() });
        }
        self.engine.complete_import(keys)
    }
}

fn is_interrupted<T: std::fmt::Debug>(outcome: &Result<T, TransferError>) -> bool {
    matches!(outcome, Err(it) if it.to_string() == "interrupted")
}

async fn check_resumed_export(engine: Engine) {
    let mut harness = TransferHarness::open(engine).await;
    let mut engine = harness.vault_harness.transfer_engine().await;
    let (_folder, file) = export_folder();
    run_export(&mut *engine, &file, SMALL_PAGES).await.unwrap();
    let complete_file = fs::read(&file).unwrap();
    let mut interruption_count = 0;
    // Interrupts repeatedly; each run resumes where the last one stopped.
    fs::remove_file(&file).unwrap();
    let mut length_before = None;
    loop {
        // Three reads more than the vault digest needs.
        let mut interrupted_engine = InterruptedEngine {
            engine: &mut *engine,
            calls_left: 20,
            interruption: InterruptionPoint::Reading,
        };
        assert!(is_interrupted(&run_export(&mut interrupted_engine, &file, SMALL_PAGES).await));
        let length = fs::metadata(&file).unwrap().len();
        if length_before == Some(length) {
            break;
        }
        length_before = Some(length);
        interruption_count += 1;
    }
    // The file is complete except for its end frame.
    let result = run_export(&mut *engine, &file, SMALL_PAGES).await.unwrap();
    assert_eq!(result.resumed_rows, result.summary.rows());
    assert!(interruption_count > 5, "{interruption_count} interruptions");
    assert_eq!(fs::read(&file).unwrap(), complete_file);
    drop(engine);
    check_torn_file(&mut harness.vault_harness, &complete_file).await;
}

/// Resumes from every prefix of the file.
async fn check_torn_file(harness: &mut VaultHarness, expected: &[u8]) {
    let mut engine = harness.transfer_engine().await;
    let (_folder, file) = export_folder();
    for length in (0..expected.len()).step_by(97).chain([expected.len() - 1, expected.len()]) {
        drop(fs::remove_file(&file));
        // A disk may have stored the length of a file and not its bytes.
        let zeros = vec![0; if length < expected.len() { length % 50 } else { 0 }];
        fs::write(&file, [&expected[..length], &zeros].concat()).unwrap();
        run_export(&mut *engine, &file, SMALL_PAGES).await.unwrap();
        assert!(fs::read(&file).unwrap() == expected, "torn at {length}");
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
        let mut source_engine = harness.vault_harness.transfer_engine().await;
        let mut interrupted_engine = InterruptedEngine {
            engine: &mut *source_engine,
            calls_left: 20,
            interruption: InterruptionPoint::Reading,
        };
        assert!(is_interrupted(&run_export(&mut interrupted_engine, &file, SMALL_PAGES).await));
        drop(source_engine);
        harness.vault_harness.reopen().await;
        let caller = harness.caller(1).await;
        create(&harness.vault_harness.vault, &caller, card(DEBIT)).await.unwrap();
        let outcome = harness.export(&file).await;
        assert!(matches!(outcome, Err(TransferError::ExportOutdated)), "{outcome:?}");
    }
}

/// The vault is used during the export.
#[tokio::test]
async fn export_of_a_vault_changed_during_the_export_fails() {
    let harness = TransferHarness::open(Engine::Postgres).await;
    let (_folder, file) = export_folder();
    let settings = scrip_testing::vault_harness::node_settings(harness.vault_harness.database());
    let mut engine =
        scrip_store::postgres::transfer::PostgresTransfer::open(settings).await.unwrap();
    let caller = harness.caller(1).await;
    let mut export_file = fs::File::create_new(&file).unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    let report_progress = &mut |_| sender.send(()).unwrap();
    let options = scrip_store::transfer::ExportOptions {
        program: "test",
        created_at_unix_ms: 7,
        bounds: SMALL_PAGES,
        report_progress,
    };
    let export = scrip_store::transfer::export(&mut engine, &mut export_file, options);
    let change = async {
        while receiver.try_recv().is_err() {
            tokio::task::yield_now().await;
        }
        create(&harness.vault_harness.vault, &caller, card(DEBIT)).await.unwrap();
    };
    // The export cannot end first: it calls the engine hundreds of times, and the writer runs after
    // each call.
    let (outcome, ()) = tokio::join!(export, change);
    assert!(matches!(outcome, Err(TransferError::VaultChanged)), "{outcome:?}");
}

async fn check_resumed_import(engine: Engine, point: InterruptionPoint) {
    let mut harness = TransferHarness::open(Engine::Sqlite).await;
    let (_folder, file) = export_folder();
    let mut source = harness.vault_harness.transfer_engine().await;
    run_export(&mut *source, &file, PageBounds { rows_max: 20, bytes_max: 4096 }).await.unwrap();
    let rows_before = dump_rows(&mut *source).await;
    drop(source);
    let mut interruption_count = 0;
    let vault_harness = VaultHarness::imported(engine, async |target| {
        loop {
            let mut interrupted_engine =
                InterruptedEngine { engine: target, calls_left: 2, interruption: point };
            let outcome = run_import(&mut interrupted_engine, &file).await;
            if !is_interrupted(&outcome) {
                assert!(outcome.unwrap().resumed_rows > 0);
                break;
            }
            interruption_count += 1;
            assert!(interruption_count < 1000, "the import makes no progress");
        }
        assert_eq!(dump_rows(target).await, rows_before);
    });
    let imported = TransferHarness::with_contents(vault_harness.await, &harness.contents).await;
    assert!(interruption_count > 5, "{interruption_count} interruptions");
    imported.check_usable().await;
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
    harness.export(&file).await.unwrap();
    let other_file = file.with_file_name("other");
    let mut other_vault = VaultHarness::open(Engine::Sqlite).await;
    run_export(&mut *other_vault.transfer_engine().await, &other_file, SMALL_PAGES).await.unwrap();
    for engine in [Engine::Sqlite, Engine::Postgres] {
        let mut used_vault = VaultHarness::open(engine).await;
        let outcome = run_import(&mut *used_vault.transfer_engine().await, &file).await;
        assert!(matches!(outcome, Err(TransferError::VaultNotEmpty)), "{outcome:?}");
        let mut vault_harness = VaultHarness::without_vault(engine).await;
        for point in [InterruptionPoint::AfterWriting, InterruptionPoint::Finishing] {
            let mut target = vault_harness.transfer_engine().await;
            let mut interrupted_engine =
                InterruptedEngine { engine: &mut *target, calls_left: 1, interruption: point };
            assert!(is_interrupted(&run_import(&mut interrupted_engine, &file).await));
            assert_eq!(target.count_rows(RowKind::SystemKeys).await.unwrap(), 0);
            let outcome = run_import(&mut *target, &other_file).await;
            assert!(matches!(outcome, Err(TransferError::OtherImportUnfinished)), "{outcome:?}");
            drop(target);
            let Err(error) = vault_harness.try_open().await else {
                panic!("the vault should not open")
            };
            assert!(format!("{error:?}").contains("is not finished"), "{error:?}");
        }
        run_import(&mut *vault_harness.transfer_engine().await, &file).await.unwrap();
        TransferHarness::with_contents(vault_harness, &harness.contents).await.check_usable().await;
    }
}

/// The read log is a separate database: its commit may be done while the other one is not.
#[tokio::test]
async fn repeated_read_log_portion_is_imported_once() {
    let mut harness = TransferHarness::open(Engine::Sqlite).await;
    let (_folder, file) = export_folder();
    let mut source = harness.vault_harness.transfer_engine().await;
    run_export(&mut *source, &file, SMALL_PAGES).await.unwrap();
    let rows_before = dump_rows(&mut *source).await;
    let target = tempfile::tempdir().unwrap();
    let path = target.path().join("scrip.db");
    let open_target =
        || scrip_store::sqlite::transfer::SqliteTransfer::open(&path).unwrap().unwrap();
    let mut portion_count = 0;
    loop {
        portion_count += 1;
        let state_before = read_import_state(&path);
        let mut target_engine = open_target();
        let point = InterruptionPoint::AfterWriting;
        let outcome = run_import(
            &mut InterruptedEngine {
                engine: &mut target_engine,
                calls_left: 1,
                interruption: point,
            },
            &file,
        )
        .await;
        drop(target_engine);
        if outcome.is_ok() {
            break;
        }
        let Some((count, checksum)) = state_before else { continue };
        // If the portion belongs to the read log, resets the state and keeps the rows.
        let read_log = Connection::open(path.with_file_name("read_log.db")).unwrap();
        let sql = "SELECT (SELECT count(*) FROM log_records) + (SELECT count(*) FROM chain_heads)";
        let row_count: i64 = read_log.query_row(sql, [], |row| row.get(0)).unwrap();
        if row_count > 0 && portion_count % 2 == 0 {
            let vault = Connection::open(&path).unwrap();
            let sql = "UPDATE import_state SET portions = ?1, checksum = ?2";
            vault.execute(sql, (count, checksum)).unwrap();
        }
        assert!(portion_count < 1000, "the import makes no progress");
    }
    assert_eq!(dump_rows(&mut open_target()).await, rows_before);
}

fn read_import_state(vault: &std::path::Path) -> Option<(i64, Vec<u8>)> {
    let vault = Connection::open(vault).ok()?;
    let sql = "SELECT portions, checksum FROM import_state";
    vault.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?))).ok()
}

/// Lost or altered rows are detected before the vault can be served.
#[tokio::test]
async fn import_fails_when_the_vault_differs_from_the_file() {
    let mut harness = TransferHarness::open(Engine::Sqlite).await;
    let (_folder, file) = export_folder();
    harness.export(&file).await.unwrap();
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
        ("scrip.db", "DELETE FROM token_index WHERE token = 4", "token index entries"),
        ("scrip.db", "UPDATE usage_types SET count = count + 1", "usage_types"),
        ("scrip.db", "UPDATE clock_watermark SET now = now + 1", "clock"),
        ("scrip.db", "DELETE FROM response_token_data", "response_token_data"),
        (
            "read_log.db",
            "DELETE FROM log_records WHERE sequence = (SELECT max(sequence) FROM log_records)",
            "read_log_records",
        ),
        ("read_log.db", "UPDATE chain_heads SET sequence = sequence + 1", "read_log_heads"),
    ];
    for (database, sql, expected) in alterations {
        let target = tempfile::tempdir().unwrap();
        let path = target.path().join("scrip.db");
        let open_target =
            || scrip_store::sqlite::transfer::SqliteTransfer::open(&path).unwrap().unwrap();
        let point = InterruptionPoint::Finishing;
        let outcome = run_import(
            &mut InterruptedEngine {
                engine: &mut open_target(),
                calls_left: 1,
                interruption: point,
            },
            &file,
        )
        .await;
        assert!(is_interrupted(&outcome), "{outcome:?}");
        let attacker = Connection::open(target.path().join(database)).unwrap();
        attacker.execute_batch(sql).unwrap();
        drop(attacker);
        let outcome = run_import(&mut open_target(), &file).await;
        assert!(
            matches!(outcome, Err(TransferError::ContentMismatch { kind }) if kind == expected),
            "{sql}: {outcome:?}"
        );
        let error = scrip_store::SqliteStore::open(&path).unwrap_err();
        assert!(format!("{error:?}").contains("is not finished"), "{error:?}");
    }
}
