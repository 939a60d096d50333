//! Migrations never change, and run only on the schema before them.

use std::{fs, path::Path};

use rusqlite::Connection;
use scrip_seal::{Checksum, Mac};
use scrip_store::{PostgresStore, SqliteStore, postgres::PostgresSettings};
use scrip_testing::postgres::{TestDatabase, query::query_database};

/// SHA-256 of every migration.
const CHECKSUMS: [(&str, &str); 27] = [
    (
        "postgres/migrations/0001.sql",
        "9ee371d7984c9093af6f5bbf9e40f72ecd56da6e52f8ba316d9789f9f82c3219",
    ),
    (
        "postgres/migrations/0002.sql",
        "f00db661d243e975e73772424555b4ed42559d660cee6cb2736bbdacbd4f3cad",
    ),
    (
        "postgres/migrations/0003.sql",
        "ed2df9ff12fd6379c3e80b3d32527af1d669856f50f02e9cb115bfa4e94e2914",
    ),
    (
        "postgres/migrations/0004.sql",
        "c6e4153991e56fd534376009c020a45aea62b626cb2aae312ea00257a0010058",
    ),
    (
        "postgres/migrations/0005.sql",
        "30804b231bd8b7e2007b39d05d13ecd00aa3ed9d27470d62535510895bf9ef86",
    ),
    (
        "postgres/migrations/0006.sql",
        "1aaccd0a8f62a0f04275ad29720ef872b0370a04634626160dd81f191ebe3649",
    ),
    (
        "postgres/migrations/0007.sql",
        "347c3d2d07cbea54ee4766d544cfb93023a4f7a18724d2cd914a7a267b0bad3d",
    ),
    (
        "postgres/migrations/0008.sql",
        "e482f8ee228d3ff7b564e59b99240a660be283c5c56da6ff731bd9c6f13b2ce6",
    ),
    (
        "postgres/migrations/0009.sql",
        "c453615fed5dcf7fed48cc0078b5824852cc5e59799c9e8390582dac8eceb2f3",
    ),
    (
        "sqlite/migrations/0004.sql",
        "a39b8e7fba7584116e0da7d39f4b154c7ae4c4737ecf339a082d246a20561989",
    ),
    (
        "sqlite/migrations/0005.sql",
        "2656ba2e27215cf0e22d1b3ba9b3025f5eb4154d51ed05317987881b6b56285d",
    ),
    (
        "sqlite/migrations/0006.sql",
        "2a23467b5b48bb97765313e699538316177fa1cb4ed9113dd6cf94b8608d3c73",
    ),
    (
        "sqlite/migrations/0007.sql",
        "dfdcbaa497f7d0c3a72d0b857630270e3af5ad375c9d43276ee5f770bf01552d",
    ),
    (
        "sqlite/migrations/0008.sql",
        "bb17e9f7046511ef694a83c2c9560ef00291b20aaae4fec6b7726b004265ef24",
    ),
    (
        "sqlite/migrations/0009.sql",
        "d86aeb4588e0d79ef99e5572fa2183480f9d309d96ffe00c3f283d4cc4dcaa4b",
    ),
    (
        "sqlite/migrations/0010.sql",
        "03727b1efe50f7652545778edc6db0e56b6cfded02fc40b0a416c30b157c2953",
    ),
    (
        "sqlite/migrations/0011.sql",
        "c2727d776db68361c7cd75fe2edc8073c1c12612fe18ad11261feeaaf2bade43",
    ),
    (
        "sqlite/migrations/0012.sql",
        "ebb0348f0c4413e21f78c80b14af26fb01ed9e68290581804656f2539a479d21",
    ),
    (
        "sqlite/migrations/read-log-0004.sql",
        "b641a4ca0bf5dd993a49fc7bf8221fc45d9304f90a1af472a1579f3514d63080",
    ),
    (
        "sqlite/migrations/read-log-0005.sql",
        "5bf1950b406e7dee2d8001491bec573d88a7ae047747df0f5b345d388421472f",
    ),
    (
        "sqlite/migrations/read-log-0006.sql",
        "ae6188d77713847e7b22960f1de45dab24c217a8a5e0f25e90c186faaba4b85e",
    ),
    (
        "sqlite/migrations/read-log-0007.sql",
        "ae6c4c1e330650464289260de682237c0391f671c64aec333cb3d70e04ce44ec",
    ),
    (
        "sqlite/migrations/read-log-0008.sql",
        "63cccf3d4dd50ca03dc1c5d639bdce19c01b40845b6d11138fb68218416deb41",
    ),
    (
        "sqlite/migrations/read-log-0009.sql",
        "4b02eb6e1c10ada9f76ce743908d5d0eb55644750cc5611a3130046579878dba",
    ),
    (
        "sqlite/migrations/read-log-0010.sql",
        "a4b76c114084edd9abc916265c3770413217514abceee9c022df121c298777bb",
    ),
    (
        "sqlite/migrations/read-log-0011.sql",
        "f0ecba13bce3f3b75037ccf0340971490342ceb88c6d7b190b15ba1582b63f26",
    ),
    (
        "sqlite/migrations/read-log-0012.sql",
        "453a8655189fea89bbfef18f3739f3f027ee4b3e07c0ae0a67932746e8aa4051",
    ),
];

/// A database that has a migration never runs it again, so a change of the file creates databases
/// with the same version and different schemas. SQLite also stores the comments, and a backup with
/// other comments is rejected.
#[test]
fn migrations_never_change() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for (name, expected) in CHECKSUMS {
        let mut checksum = Checksum::new();
        checksum.add(&fs::read(source.join(name)).unwrap());
        let checksum = Mac(checksum.finish()).to_hex();
        assert_eq!(checksum, expected, "{name} was changed: add a new migration instead");
    }
    let list_files = |folder: &str| fs::read_dir(source.join(folder)).unwrap().count();
    let file_count = list_files("sqlite/migrations") + list_files("postgres/migrations");
    assert_eq!(file_count, CHECKSUMS.len(), "the table has no row for a new migration");
}

/// A build between two versions had the next table already.
const NEXT_TABLE: &str = "CREATE TABLE proxies (id INTEGER)";

#[test]
fn sqlite_schema_between_two_versions_is_rejected_without_changes() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("scrip.db");
    let connection = Connection::open(&file).unwrap();
    let schema = include_str!("../../src/sqlite/migrations/0004.sql");
    connection.execute_batch(schema).unwrap();
    let pragmas = "PRAGMA user_version = 4; PRAGMA application_id = 0x73637270;";
    connection.execute_batch(&format!("{pragmas} {NEXT_TABLE}")).unwrap();
    let error = SqliteStore::open(&file).unwrap_err();
    assert!(format!("{error:?}").contains("never released"), "{error:?}");
    let version: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
    let sql = "SELECT count(*) FROM pragma_table_info('log_records') WHERE name = 'detail'";
    let new_columns: i64 = connection.query_row(sql, [], |row| row.get(0)).unwrap();
    assert_eq!((version, new_columns), (4, 0));
    connection.execute_batch("DROP TABLE proxies").unwrap();
    drop(connection);
    SqliteStore::open(&file).unwrap();
}

#[tokio::test]
async fn postgres_schema_between_two_versions_is_rejected_without_changes() {
    let database = TestDatabase::create_empty().await;
    let schema = include_str!("../../src/postgres/migrations/0001.sql");
    let state =
        "CREATE TABLE schema_state (singleton INTEGER PRIMARY KEY, version BIGINT NOT NULL);
        INSERT INTO schema_state (singleton, version) VALUES (1, 1)";
    let url = database.owner_url();
    drop(query_database(&url, &format!("{schema}; {state}; {NEXT_TABLE}")));
    let settings = PostgresSettings::parse(&url).unwrap();
    let error = PostgresStore::migrate(settings.clone()).await.unwrap_err();
    assert!(format!("{error:?}").contains("never released"), "{error:?}");
    assert_eq!(PostgresStore::schema_version(settings.clone()).await.unwrap(), Some(1));
    drop(query_database(&url, "DROP TABLE proxies"));
    let result = PostgresStore::migrate(settings).await.unwrap();
    assert_eq!((result.from, result.to), (1, 9));
}
