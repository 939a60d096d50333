//! A vault that moved is the same vault, whichever engine it came from and went to.

use std::fs;

use rusqlite::Connection;
use scrip_core::audit::verify::Verified;
use scrip_store::transfer::{Bounds, Kind};
use scrip_testing::{
    requests::{DEBIT, VISA},
    vault_harness::{Engine, VaultHarness},
};

use crate::{
    audit::trail::verify,
    transfer::harness::{CODE, SMALL, TransferHarness, dump, exported, folder, imported},
};

fn trail(scene: &TransferHarness) -> Verified {
    let key = scene.world.vault.audit.key().unwrap();
    let living: Vec<_> = scene.known.tenants.iter().take(2).map(|it| it.id).collect();
    verify(scene.world.file().parent().unwrap(), key, &living, &[])
}

/// Through a file into a new vault of this engine.
async fn moved(scene: &mut TransferHarness, engine: Engine) -> TransferHarness {
    let (_folder, file) = folder();
    let mut from = scene.world.rows().await;
    exported(&mut *from, &file, SMALL).await.unwrap();
    let before = dump(&mut *from).await;
    drop(from);
    let world = VaultHarness::filled(engine, async |rows| {
        imported(rows, &file).await.unwrap();
        assert_eq!(dump(rows).await, before);
    });
    let world = world.await;
    scene.world.open_again().await;
    TransferHarness::on(world, &scene.known).await
}

async fn check_round(engines: [Engine; 3]) {
    let (mut first, said) = TransferHarness::open(engines[0]).await.answers().await;
    let (mut second, there) = moved(&mut first, engines[1]).await.answers().await;
    assert_eq!(said, there);
    let (third, back) = moved(&mut second, engines[2]).await.answers().await;
    assert_eq!(said, back);
    for scene in [&first, &second, &third] {
        scene.check_use().await;
    }
    for (scene, engine) in [(&first, engines[0]), (&third, engines[2])] {
        if let Engine::Sqlite = engine {
            let found = trail(scene);
            assert!(found.problems.is_empty() && found.records > 0, "{:?}", found.problems);
        }
    }
}

#[tokio::test]
async fn from_embedded_to_postgres_and_back() {
    check_round([Engine::Sqlite, Engine::Postgres, Engine::Sqlite]).await;
}

#[tokio::test]
async fn from_postgres_to_embedded_and_back() {
    check_round([Engine::Postgres, Engine::Sqlite, Engine::Postgres]).await;
}

#[tokio::test]
async fn from_each_engine_to_the_same() {
    check_round([Engine::Sqlite, Engine::Sqlite, Engine::Sqlite]).await;
    check_round([Engine::Postgres, Engine::Postgres, Engine::Postgres]).await;
}

#[tokio::test]
async fn a_file_says_what_is_in_it() {
    let mut scene = TransferHarness::open(Engine::Sqlite).await;
    let (_folder, file) = folder();
    let mut rows = scene.world.rows().await;
    let exported = exported(&mut *rows, &file, Bounds::default()).await.unwrap();
    assert_eq!(exported.summary.about.engine, "embedded");
    assert_eq!(exported.bytes, fs::metadata(&file).unwrap().len());
    for kind in Kind::ALL {
        let there = rows.count(kind).await.unwrap();
        assert!(there > 0, "the scene has no {}", kind.name());
        assert_eq!(exported.summary.count(kind), there, "{}", kind.name());
    }
    let mut watched = Vec::new();
    let checked = scrip_store::transfer::check(fs::File::open(&file).unwrap(), |done, all| {
        watched.push((done, all));
    });
    assert_eq!(checked.unwrap(), exported.summary);
    let all = exported.summary.rows();
    assert_eq!(watched.last(), Some(&(all, all)));
}

fn has(bytes: &[u8], what: &[u8]) -> bool {
    bytes.windows(what.len()).any(|it| it == what)
}

#[tokio::test]
async fn nothing_in_a_file_is_plain_and_no_code_is_in_it() {
    let mut scene = TransferHarness::open(Engine::Sqlite).await;
    let (_folder, file) = folder();
    exported(&mut *scene.world.rows().await, &file, SMALL).await.unwrap();
    let bytes = fs::read(&file).unwrap();
    for number in [VISA, DEBIT] {
        assert!(!has(&bytes, number.as_bytes()));
    }
    let outside = Connection::open(scene.world.file()).unwrap();
    for table in ["cvcs", "intent_cvcs"] {
        let sql = format!("SELECT sealed FROM {table}");
        let sealed: Vec<u8> = outside.query_row(&sql, [], |row| row.get(0)).unwrap();
        assert!(!has(&bytes, &sealed), "{table}");
    }
    // Whoever looks would see one.
    let sql = "UPDATE tokens SET body = CAST(?1 AS BLOB) WHERE seq = 1";
    outside.execute(sql, [format!("{VISA} {CODE}")]).unwrap();
    drop(outside);
    fs::remove_file(&file).unwrap();
    exported(&mut *scene.world.rows().await, &file, SMALL).await.unwrap();
    assert!(has(&fs::read(&file).unwrap(), VISA.as_bytes()));
}

/// What is not a row of its own in a file, and why.
const LEFT_OUT: [&str; 5] = [
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
async fn every_table_moves_or_is_left_out_for_a_reason() {
    let scene = TransferHarness::open(Engine::Sqlite).await;
    let mut tables = Vec::new();
    let access = scene.world.file().with_file_name("access.db");
    for file in [scene.world.file(), access] {
        let outside = Connection::open(file).unwrap();
        let sql = "SELECT name FROM sqlite_schema WHERE type = 'table'";
        let mut statement = outside.prepare(sql).unwrap();
        let names = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
        tables.extend(names.map(Result::unwrap));
    }
    // A kind each, and both logs have three.
    tables.retain(|it| !LEFT_OUT.contains(&it.as_str()));
    assert_eq!(tables.len(), Kind::ALL.len(), "{tables:?}");

    let scene = TransferHarness::open(Engine::Postgres).await;
    let url = scene.world.database().url();
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    let connection = tokio::spawn(connection);
    let sql = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'";
    let rows = client.query(sql, &[]).await.unwrap();
    let mut tables: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    tables.retain(|it| !LEFT_OUT.contains(&it.as_str()) && it != "schema_state");
    // Both logs are in the same three.
    assert_eq!(tables.len() + 3, Kind::ALL.len(), "{tables:?}");
    drop(client);
    connection.await.unwrap().unwrap();
}
