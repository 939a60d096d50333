//! A vault that moved is the same vault, whichever engine it came from and went to.

use std::fs;

use rusqlite::Connection;
use scrip_core::audit::verify::VerificationReport;
use scrip_store::transfer::{PageBounds, RowKind};
use scrip_testing::{
    requests::{DEBIT, VISA},
    vault_harness::{Engine, VaultHarness},
};

use crate::{
    audit::log_tampering::verify_logs,
    transfer::harness::{
        CVC, SMALL_PAGES, TransferHarness, dump_rows, export_folder, run_export, run_import,
    },
};

fn verify_trail(harness: &TransferHarness) -> VerificationReport {
    let key = harness.vault_harness.vault.audit_trail.key().unwrap();
    let existing: Vec<_> = harness.contents.tenants.iter().take(2).map(|it| it.id).collect();
    verify_logs(harness.vault_harness.file().parent().unwrap(), key, &existing, &[])
}

/// Through a file into a new vault of this engine.
async fn move_to(harness: &mut TransferHarness, engine: Engine) -> TransferHarness {
    let (_folder, file) = export_folder();
    let mut from = harness.vault_harness.transfer_engine().await;
    run_export(&mut *from, &file, SMALL_PAGES).await.unwrap();
    let before = dump_rows(&mut *from).await;
    drop(from);
    let vault_harness = VaultHarness::imported(engine, async |rows| {
        run_import(rows, &file).await.unwrap();
        assert_eq!(dump_rows(rows).await, before);
    });
    let vault_harness = vault_harness.await;
    harness.vault_harness.reopen().await;
    TransferHarness::with_contents(vault_harness, &harness.contents).await
}

async fn check_round_trip(engines: [Engine; 3]) {
    let (mut first, output) = TransferHarness::open(engines[0]).await.describe_responses().await;
    let (mut second, there) = move_to(&mut first, engines[1]).await.describe_responses().await;
    assert_eq!(output, there);
    let (third, back) = move_to(&mut second, engines[2]).await.describe_responses().await;
    assert_eq!(output, back);
    for harness in [&first, &second, &third] {
        harness.check_usable().await;
    }
    for (harness, engine) in [(&first, engines[0]), (&third, engines[2])] {
        if let Engine::Sqlite = engine {
            let found = verify_trail(harness);
            assert!(found.problems.is_empty() && found.records > 0, "{:?}", found.problems);
        }
    }
}

#[tokio::test]
async fn vault_is_the_same_after_moving_from_sqlite_to_postgres_and_back() {
    check_round_trip([Engine::Sqlite, Engine::Postgres, Engine::Sqlite]).await;
}

#[tokio::test]
async fn vault_is_the_same_after_moving_from_postgres_to_sqlite_and_back() {
    check_round_trip([Engine::Postgres, Engine::Sqlite, Engine::Postgres]).await;
}

#[tokio::test]
async fn vault_is_the_same_after_moving_within_one_engine() {
    check_round_trip([Engine::Sqlite, Engine::Sqlite, Engine::Sqlite]).await;
    check_round_trip([Engine::Postgres, Engine::Postgres, Engine::Postgres]).await;
}

#[tokio::test]
async fn export_summary_matches_the_vault() {
    let mut harness = TransferHarness::open(Engine::Sqlite).await;
    let (_folder, file) = export_folder();
    let mut rows = harness.vault_harness.transfer_engine().await;
    let exported = run_export(&mut *rows, &file, PageBounds::default()).await.unwrap();
    assert_eq!(exported.summary.info.engine, "embedded");
    assert_eq!(exported.bytes, fs::metadata(&file).unwrap().len());
    for kind in RowKind::ALL {
        let there = rows.count_rows(kind).await.unwrap();
        assert!(there > 0, "the scene has no {}", kind.name());
        assert_eq!(exported.summary.count(kind), there, "{}", kind.name());
    }
    let mut watched = Vec::new();
    let checked =
        scrip_store::transfer::check_export(fs::File::open(&file).unwrap(), |done, all| {
            watched.push((done, all));
        });
    assert_eq!(checked.unwrap(), exported.summary);
    let all = exported.summary.rows();
    assert_eq!(watched.last(), Some(&(all, all)));
}

fn contains(bytes: &[u8], what: &[u8]) -> bool {
    bytes.windows(what.len()).any(|it| it == what)
}

#[tokio::test]
async fn export_contains_no_plaintext_and_no_cvcs() {
    let mut harness = TransferHarness::open(Engine::Sqlite).await;
    let (_folder, file) = export_folder();
    run_export(&mut *harness.vault_harness.transfer_engine().await, &file, SMALL_PAGES)
        .await
        .unwrap();
    let bytes = fs::read(&file).unwrap();
    for number in [VISA, DEBIT] {
        assert!(!contains(&bytes, number.as_bytes()));
    }
    let attacker = Connection::open(harness.vault_harness.file()).unwrap();
    for table in ["cvcs", "intent_cvcs"] {
        let sql = format!("SELECT sealed FROM {table}");
        let sealed: Vec<u8> = attacker.query_row(&sql, [], |row| row.get(0)).unwrap();
        assert!(!contains(&bytes, &sealed), "{table}");
    }
    // Whoever looks would see one.
    let sql = "UPDATE tokens SET body = CAST(?1 AS BLOB) WHERE seq = 1";
    attacker.execute(sql, [format!("{VISA} {CVC}")]).unwrap();
    drop(attacker);
    fs::remove_file(&file).unwrap();
    run_export(&mut *harness.vault_harness.transfer_engine().await, &file, SMALL_PAGES)
        .await
        .unwrap();
    assert!(contains(&fs::read(&file).unwrap(), VISA.as_bytes()));
}

/// What is not a row of its own in a file, and why.
const EXCLUDED_TABLES: [&str; 5] = [
    // Codes are never in a copy.
    "cvcs",
    "intent_cvcs",
    // Follow from the tokens.
    "filed",
    "lanes",
    // Speaks of this vault's import.
    "import_state",
];

#[tokio::test]
async fn every_table_is_exported_or_excluded_by_name() {
    let harness = TransferHarness::open(Engine::Sqlite).await;
    let mut tables = Vec::new();
    let access = harness.vault_harness.file().with_file_name("access.db");
    for file in [harness.vault_harness.file(), access] {
        let attacker = Connection::open(file).unwrap();
        let sql = "SELECT name FROM sqlite_schema WHERE type = 'table'";
        let mut statement = attacker.prepare(sql).unwrap();
        let names = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
        tables.extend(names.map(Result::unwrap));
    }
    // A kind each, and both logs have three.
    tables.retain(|it| !EXCLUDED_TABLES.contains(&it.as_str()));
    assert_eq!(tables.len(), RowKind::ALL.len(), "{tables:?}");

    let harness = TransferHarness::open(Engine::Postgres).await;
    let url = harness.vault_harness.database().url();
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    let connection = tokio::spawn(connection);
    let sql = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'";
    let rows = client.query(sql, &[]).await.unwrap();
    let mut tables: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    tables.retain(|it| !EXCLUDED_TABLES.contains(&it.as_str()) && it != "schema_state");
    // Both logs are in the same three.
    assert_eq!(tables.len() + 3, RowKind::ALL.len(), "{tables:?}");
    drop(client);
    connection.await.unwrap().unwrap();
}
