//! Whoever breaks a move off at any point finds it goes on from there; and until it has ended,
//! nobody serves what it left.

use std::fs;

use rusqlite::Connection;
use scrip_core::store::{StoreError, StoreFuture};
use scrip_store::transfer::{Bounds, Kind, MoveError, Page, Portion, Rows, State};
use scrip_testing::{
    requests::{DEBIT, card, create},
    vault_harness::{Engine, VaultHarness},
};

use crate::transfer::harness::{SMALL, TransferHarness, dump, exported, folder, imported};

/// An engine that fails at the n-th call of what is counted.
struct Breaking<'a> {
    rows: &'a mut dyn Rows,
    left: usize,
    at: Breaks,
}

#[derive(Clone, Copy, PartialEq)]
enum Breaks {
    Reading,
    /// Before and after a portion is written: the second is a crash whose commit was made.
    BeforeWriting,
    AfterWriting,
    Finishing,
}

fn broken<T>() -> Result<T, StoreError> {
    Err(StoreError::Unavailable("broken off".into()))
}

impl Breaking<'_> {
    fn is_now(&mut self, at: Breaks) -> bool {
        if self.at == at {
            self.left = self.left.saturating_sub(1);
        }
        self.at == at && self.left == 0
    }
}

impl Rows for Breaking<'_> {
    fn engine(&self) -> &'static str {
        self.rows.engine()
    }

    fn schema(&self) -> u32 {
        self.rows.schema()
    }

    fn begin_reading(&mut self) -> StoreFuture<'_, ()> {
        self.rows.begin_reading()
    }

    fn end_reading(&mut self) -> StoreFuture<'_, ()> {
        self.rows.end_reading()
    }

    fn count(&mut self, kind: Kind) -> StoreFuture<'_, u64> {
        self.rows.count(kind)
    }

    fn count_entries(&mut self) -> StoreFuture<'_, u64> {
        self.rows.count_entries()
    }

    fn page<'a>(
        &'a mut self,
        kind: Kind,
        after: Option<&'a [u8]>,
        bounds: Bounds,
    ) -> StoreFuture<'a, Page> {
        if self.is_now(Breaks::Reading) {
            return Box::pin(async { broken() });
        }
        self.rows.page(kind, after, bounds)
    }

    fn begun(&mut self) -> StoreFuture<'_, Option<State>> {
        self.rows.begun()
    }

    fn begin(&mut self, state: State) -> StoreFuture<'_, ()> {
        self.rows.begin(state)
    }

    fn put<'a>(&'a mut self, portion: &'a Portion, state: State) -> StoreFuture<'a, ()> {
        if self.is_now(Breaks::BeforeWriting) {
            return Box::pin(async { broken() });
        }
        Box::pin(async move {
            let is_last = self.is_now(Breaks::AfterWriting);
            self.rows.put(portion, state).await?;
            if is_last { broken() } else { Ok(()) }
        })
    }

    fn finish<'a>(&'a mut self, keys: &'a Portion) -> StoreFuture<'a, ()> {
        if self.is_now(Breaks::Finishing) {
            return Box::pin(async { broken() });
        }
        self.rows.finish(keys)
    }
}

fn is_broken<T: std::fmt::Debug>(outcome: &Result<T, MoveError>) -> bool {
    matches!(outcome, Err(it) if it.to_string() == "broken off")
}

async fn check_export(engine: Engine) {
    let mut scene = TransferHarness::open(engine).await;
    let mut rows = scene.world.rows().await;
    let (_folder, file) = folder();
    exported(&mut *rows, &file, SMALL).await.unwrap();
    let whole = fs::read(&file).unwrap();
    let mut breaks = 0;
    // Once after the other, each run going on where the last one was broken off.
    fs::remove_file(&file).unwrap();
    let mut before = None;
    loop {
        // Three more than are read to see how the vault stands.
        let mut breaking = Breaking { rows: &mut *rows, left: 18, at: Breaks::Reading };
        assert!(is_broken(&exported(&mut breaking, &file, SMALL).await));
        let length = fs::metadata(&file).unwrap().len();
        if before == Some(length) {
            break;
        }
        before = Some(length);
        breaks += 1;
    }
    // All of it is there but its end.
    let done = exported(&mut *rows, &file, SMALL).await.unwrap();
    assert_eq!(done.resumed_rows, done.summary.rows());
    assert!(breaks > 5, "{breaks}");
    assert_eq!(fs::read(&file).unwrap(), whole);
    drop(rows);
    check_torn(&mut scene.world, &whole).await;
}

/// Whatever of a file had been written.
async fn check_torn(world: &mut VaultHarness, whole: &[u8]) {
    let mut rows = world.rows().await;
    let (_folder, file) = folder();
    for at in (0..whole.len()).step_by(97).chain([whole.len() - 1, whole.len()]) {
        drop(fs::remove_file(&file));
        // A disk may have the length and not the bytes.
        let rest = vec![0; if at < whole.len() { at % 50 } else { 0 }];
        fs::write(&file, [&whole[..at], &rest].concat()).unwrap();
        exported(&mut *rows, &file, SMALL).await.unwrap();
        assert!(fs::read(&file).unwrap() == whole, "torn at {at}");
    }
}

#[tokio::test]
async fn an_export_from_the_embedded_engine_goes_on() {
    check_export(Engine::Sqlite).await;
}

#[tokio::test]
async fn an_export_from_postgres_goes_on() {
    check_export(Engine::Postgres).await;
}

#[tokio::test]
async fn a_vault_that_changed_is_not_exported() {
    for engine in [Engine::Sqlite, Engine::Postgres] {
        let mut scene = TransferHarness::open(engine).await;
        let (_folder, file) = folder();
        let mut rows = scene.world.rows().await;
        let mut breaking = Breaking { rows: &mut *rows, left: 20, at: Breaks::Reading };
        assert!(is_broken(&exported(&mut breaking, &file, SMALL).await));
        drop(rows);
        scene.world.open_again().await;
        let caller = scene.caller(1).await;
        create(&scene.world.vault, &caller, card(DEBIT)).await.unwrap();
        let again = exported(&mut *scene.world.rows().await, &file, SMALL).await;
        assert!(matches!(again, Err(MoveError::ChangedBefore)), "{again:?}");
    }
}

/// Somebody uses the vault while it is exported.
#[tokio::test]
async fn a_vault_that_changes_meanwhile_is_not_exported() {
    let scene = TransferHarness::open(Engine::Postgres).await;
    let (_folder, file) = folder();
    let settings = scrip_testing::vault_harness::settings(scene.world.database());
    let mut rows = scrip_store::postgres::transfer::PostgresRows::open(settings).await.unwrap();
    let caller = scene.caller(1).await;
    let mut opened = fs::File::create_new(&file).unwrap();
    let (told, heard) = std::sync::mpsc::channel();
    let watch = &mut |_| told.send(()).unwrap();
    let exporting = scrip_store::transfer::Exporting {
        program: "test",
        made_at_unix_ms: 7,
        bounds: SMALL,
        watch,
    };
    let export = scrip_store::transfer::export(&mut rows, &mut opened, exporting);
    let change = async {
        while heard.try_recv().is_err() {
            tokio::task::yield_now().await;
        }
        create(&scene.world.vault, &caller, card(DEBIT)).await.unwrap();
    };
    // It cannot end before: the engine is asked hundreds of times, and each time the other goes on.
    let (outcome, ()) = tokio::join!(export, change);
    assert!(matches!(outcome, Err(MoveError::Changed)), "{outcome:?}");
}

async fn check_import(engine: Engine, at: Breaks) {
    let mut scene = TransferHarness::open(Engine::Sqlite).await;
    let (_folder, file) = folder();
    let mut rows = scene.world.rows().await;
    exported(&mut *rows, &file, Bounds { rows: 20, bytes: 4096 }).await.unwrap();
    let before = dump(&mut *rows).await;
    drop(rows);
    let mut breaks = 0;
    let world = VaultHarness::filled(engine, async |rows| {
        loop {
            let mut breaking = Breaking { rows, left: 2, at };
            let outcome = imported(&mut breaking, &file).await;
            if !is_broken(&outcome) {
                assert!(outcome.unwrap().resumed_rows > 0);
                break;
            }
            breaks += 1;
            assert!(breaks < 1000, "it does not go on");
        }
        assert_eq!(dump(rows).await, before);
    });
    let moved = TransferHarness::on(world.await, &scene.known).await;
    assert!(breaks > 5, "{breaks}");
    moved.check_use().await;
}

#[tokio::test]
async fn an_import_goes_on_wherever_it_was_broken_off() {
    for engine in [Engine::Sqlite, Engine::Postgres] {
        check_import(engine, Breaks::AfterWriting).await;
        check_import(engine, Breaks::BeforeWriting).await;
    }
}

#[tokio::test]
async fn nobody_serves_what_an_import_left() {
    let mut scene = TransferHarness::open(Engine::Sqlite).await;
    let (_folder, file) = folder();
    exported(&mut *scene.world.rows().await, &file, SMALL).await.unwrap();
    let other = file.with_file_name("other");
    let mut another = VaultHarness::open(Engine::Sqlite).await;
    exported(&mut *another.rows().await, &other, SMALL).await.unwrap();
    for engine in [Engine::Sqlite, Engine::Postgres] {
        let mut used = VaultHarness::open(engine).await;
        let refused = imported(&mut *used.rows().await, &file).await;
        assert!(matches!(refused, Err(MoveError::NotEmpty)), "{refused:?}");
        let mut world = VaultHarness::empty(engine).await;
        for at in [Breaks::AfterWriting, Breaks::Finishing] {
            let mut rows = world.rows().await;
            let mut breaking = Breaking { rows: &mut *rows, left: 1, at };
            assert!(is_broken(&imported(&mut breaking, &file).await));
            assert_eq!(rows.count(Kind::SystemKeys).await.unwrap(), 0);
            let refused = imported(&mut *rows, &other).await;
            assert!(matches!(refused, Err(MoveError::AnotherFile)), "{refused:?}");
            drop(rows);
            let Err(refused) = world.try_open().await else { panic!("it can be served") };
            assert!(format!("{refused:?}").contains("is not finished"), "{refused:?}");
        }
        imported(&mut *world.rows().await, &file).await.unwrap();
        TransferHarness::on(world, &scene.known).await.check_use().await;
    }
}

/// The access log is a database of its own: what was committed there, and not yet in the other.
#[tokio::test]
async fn a_portion_of_the_access_log_may_come_twice() {
    let mut scene = TransferHarness::open(Engine::Sqlite).await;
    let (_folder, file) = folder();
    let mut rows = scene.world.rows().await;
    exported(&mut *rows, &file, SMALL).await.unwrap();
    let before = dump(&mut *rows).await;
    let target = tempfile::tempdir().unwrap();
    let path = target.path().join("scrip.db");
    let open = || scrip_store::sqlite::transfer::SqliteRows::open(&path).unwrap().unwrap();
    let mut portions = 0;
    loop {
        portions += 1;
        let before = state_of(&path);
        let mut rows = open();
        let at = Breaks::AfterWriting;
        let outcome = imported(&mut Breaking { rows: &mut rows, left: 1, at }, &file).await;
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
    assert_eq!(dump(&mut open()).await, before);
}

fn state_of(vault: &std::path::Path) -> Option<(i64, Vec<u8>)> {
    let vault = Connection::open(vault).ok()?;
    let sql = "SELECT portions, sum FROM import_state";
    vault.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?))).ok()
}

/// What was lost or altered on the way is found before anybody serves it.
#[tokio::test]
async fn what_is_read_back_must_be_what_the_file_has() {
    let mut scene = TransferHarness::open(Engine::Sqlite).await;
    let (_folder, file) = folder();
    exported(&mut *scene.world.rows().await, &file, SMALL).await.unwrap();
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
        let open = || scrip_store::sqlite::transfer::SqliteRows::open(&path).unwrap().unwrap();
        let at = Breaks::Finishing;
        let outcome = imported(&mut Breaking { rows: &mut open(), left: 1, at }, &file).await;
        assert!(is_broken(&outcome), "{outcome:?}");
        let outside = Connection::open(target.path().join(database)).unwrap();
        outside.execute_batch(sql).unwrap();
        drop(outside);
        let outcome = imported(&mut open(), &file).await;
        assert!(
            matches!(outcome, Err(MoveError::Differs { kind }) if kind == expected),
            "{sql}: {outcome:?}"
        );
        let refused = scrip_store::SqliteStore::open(&path).unwrap_err();
        assert!(format!("{refused:?}").contains("is not finished"), "{refused:?}");
    }
}
