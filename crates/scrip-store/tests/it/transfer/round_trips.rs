//! An exported and imported vault is the same vault, on any pair of engines.

use std::fs;

use rusqlite::Connection;
use scrip_core::audit::verify::VerificationReport;
use scrip_store::transfer::{PageBounds, RowKind};
use scrip_testing::{
    requests::{DEBIT, VISA},
    vault_harness::{Engine, VaultHarness},
};

use crate::{
    audit::log_files::verify_logs,
    transfer::harness::{
        CVC, SMALL_PAGES, TransferHarness, dump_rows, export_folder, run_export, run_import,
    },
};

fn verify_trail(harness: &TransferHarness) -> VerificationReport {
    let key = harness.vault_harness.vault.audit_trail.key().unwrap();
    let existing_tenants: Vec<_> =
        harness.contents.tenants.iter().take(2).map(|it| it.id).collect();
    verify_logs(harness.vault_harness.file().parent().unwrap(), key, &existing_tenants, &[])
}

/// Exports to a file and imports into a new vault of this engine.
async fn move_to(harness: &mut TransferHarness, engine: Engine) -> TransferHarness {
    let (_folder, file) = export_folder();
    let mut engine_to_export = harness.vault_harness.transfer_engine().await;
    run_export(&mut *engine_to_export, &file, SMALL_PAGES).await.unwrap();
    let rows_before = dump_rows(&mut *engine_to_export).await;
    drop(engine_to_export);
    let vault_harness = VaultHarness::imported(engine, async |target| {
        run_import(target, &file).await.unwrap();
        assert_eq!(dump_rows(target).await, rows_before);
    });
    let vault_harness = vault_harness.await;
    harness.vault_harness.reopen().await;
    TransferHarness::with_contents(vault_harness, &harness.contents).await
}

async fn check_round_trip(engines: [Engine; 3]) {
    let (mut first, first_responses) =
        TransferHarness::open(engines[0]).await.describe_responses().await;
    let (mut second, second_responses) =
        move_to(&mut first, engines[1]).await.describe_responses().await;
    assert_eq!(first_responses, second_responses);
    let (third, third_responses) =
        move_to(&mut second, engines[2]).await.describe_responses().await;
    assert_eq!(first_responses, third_responses);
    for harness in [&first, &second, &third] {
        harness.check_usable().await;
    }
    for (harness, engine) in [(&first, engines[0]), (&third, engines[2])] {
        if let Engine::Sqlite = engine {
            let report = verify_trail(harness);
            assert!(report.problems.is_empty() && report.records > 0, "{:?}", report.problems);
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
    let mut engine = harness.vault_harness.transfer_engine().await;
    let exported = run_export(&mut *engine, &file, PageBounds::default()).await.unwrap();
    assert_eq!(exported.summary.info.engine, "embedded");
    assert_eq!(exported.bytes, fs::metadata(&file).unwrap().len());
    for kind in RowKind::ALL.into_iter().filter(|it| !it.is_retired()) {
        let row_count = engine.count_rows(kind).await.unwrap();
        assert!(row_count > 0, "the harness has no {}", kind.name());
        assert_eq!(exported.summary.count(kind), row_count, "{}", kind.name());
    }
    let mut progress = Vec::new();
    let summary = scrip_store::transfer::check_export(
        fs::File::open(&file).unwrap(),
        |checked_rows, total_rows| {
            progress.push((checked_rows, total_rows));
        },
    );
    assert_eq!(summary.unwrap(), exported.summary);
    let total_rows = exported.summary.rows();
    assert_eq!(progress.last(), Some(&(total_rows, total_rows)));
}

fn contains(bytes: &[u8], searched: &[u8]) -> bool {
    bytes.windows(searched.len()).any(|it| it == searched)
}

#[tokio::test]
async fn export_contains_no_plaintext_and_no_cvcs() {
    let mut harness = TransferHarness::open(Engine::Sqlite).await;
    let (_folder, file) = export_folder();
    harness.export(&file).await.unwrap();
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
    // Control: the search finds plaintext that is in a row.
    let sql = "UPDATE tokens SET body = CAST(?1 AS BLOB) WHERE seq = 1";
    attacker.execute(sql, [format!("{VISA} {CVC}")]).unwrap();
    drop(attacker);
    fs::remove_file(&file).unwrap();
    harness.export(&file).await.unwrap();
    assert!(contains(&fs::read(&file).unwrap(), VISA.as_bytes()));
}

/// Tables that are not in the file.
const EXCLUDED_TABLES: [&str; 8] = [
    // CVCs are never in a copy.
    "cvcs",
    "intent_cvcs",
    // The import creates these rows from other rows.
    "token_index",
    "tenant_locks",
    // The state of the import into this vault.
    "import_state",
    // The keys say how far a rotation is. A server stores a missing progress row again.
    "key_rotations",
    // Requests belong to a running vault. The setting switches dual control on after an import.
    "approvals",
    "dual_control",
];

#[tokio::test]
async fn every_table_is_exported_or_excluded_by_name() {
    let harness = TransferHarness::open(Engine::Sqlite).await;
    let mut tables = Vec::new();
    let read_log = harness.vault_harness.file().with_file_name("read_log.db");
    for file in [harness.vault_harness.file(), read_log] {
        let attacker = Connection::open(file).unwrap();
        let sql = "SELECT name FROM sqlite_schema WHERE type = 'table'";
        let mut statement = attacker.prepare(sql).unwrap();
        let names = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
        tables.extend(names.map(Result::unwrap));
    }
    // One kind per table, and three for each log.
    tables.retain(|it| !EXCLUDED_TABLES.contains(&it.as_str()));
    // An export moves the deliveries of reads to the other deliveries.
    tables.retain(|it| it != "read_deliveries");
    let kind_count = RowKind::ALL.iter().filter(|it| !it.is_retired()).count();
    assert_eq!(tables.len(), kind_count, "{tables:?}");

    let harness = TransferHarness::open(Engine::Postgres).await;
    let url = harness.vault_harness.database().url();
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    let connection = tokio::spawn(connection);
    let sql = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'";
    let rows = client.query(sql, &[]).await.unwrap();
    let mut tables: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    tables.retain(|it| !EXCLUDED_TABLES.contains(&it.as_str()) && it != "schema_state");
    // Both logs share the same three tables.
    assert_eq!(tables.len() + 3, kind_count, "{tables:?}");
    drop(client);
    connection.await.unwrap().unwrap();
}
