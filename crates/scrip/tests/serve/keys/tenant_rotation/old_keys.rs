//! A copy of the database, its vault key and its tenant keys open nothing that was written or
//! encrypted again since.

use std::{fs, path::Path, sync::Arc};

use rusqlite::Connection;
use scrip_core::{
    operations::tokens::get_token::get_token,
    policy::{ApiKeyLookup, Caller, Directory},
    store::{DirectoryStore, Store},
    types::id::TokenId,
};
use scrip_seal::KeySource;
use scrip_server::{
    clock::SystemClock,
    config::{Environment, Settings},
};
use scrip_store::{
    SqliteStore,
    sealed_columns::{SealedDatabase, sealed_columns},
};
use scrip_testing::{vault::new_vault, vault_harness::test_origin};

use crate::{keys::tenant_rotation::RotationProcess, operator::commands::run_json};

const OLD_TOKENS: u64 = 20;
const ALL_TOKENS: u64 = 25;

/// Copies a database, with the root key that opens its vault key.
fn copy_data(test: &RotationProcess, folder: &Path) {
    fs::create_dir(folder).unwrap();
    for name in ["scrip.db", "read_log.db", "root.key"] {
        fs::copy(test.process.data().join(name), folder.join(name)).unwrap();
    }
}

/// The stored policy of a copy, opened with the vault key that its root key opens.
async fn open_keys(folder: &Path) -> (Arc<dyn KeySource>, Directory) {
    let store = SqliteStore::open(&folder.join("scrip.db")).unwrap();
    let records = store.load_directory().await.unwrap();
    let data_dir = [("storage.data_dir", folder.display().to_string())];
    let settings = Settings::load_with(None, &data_dir, &Environment::default()).unwrap();
    let source = settings.unlock(&records).await.unwrap();
    let directory = Directory::open(records, &*source, None).unwrap();
    assert_eq!(directory.alterations(), []);
    (source, directory)
}

/// The numbers of the tokens in a database that the keys of a directory open.
async fn open_tokens(database: &Path, directory: &Directory, api_key: &str) -> Vec<u64> {
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&database.join("scrip.db")).unwrap());
    let vault = new_vault(store, Arc::new(SystemClock));
    let lookup = directory.authenticate(api_key);
    let principal = match lookup.expect("the key is known") {
        ApiKeyLookup::Found { principal, .. } => Some(principal),
        ApiKeyLookup::PolicyAltered => None,
    };
    let principal = principal.expect("the key is found");
    let caller = Caller::new(Arc::clone(principal), test_origin());
    let mut opened = Vec::new();
    for number in 0..ALL_TOKENS {
        let id = TokenId::parse(&format!("token-{number:03}")).unwrap();
        if get_token(&vault, &caller, &id).await.is_ok() {
            opened.push(number);
        }
    }
    opened
}

/// The number of values in a sealed column with this version in their header.
fn count_values(folder: &Path, version: u32) -> i64 {
    let count = |it: scrip_store::sealed_columns::SealedColumn| {
        let file = match it.database {
            SealedDatabase::Vault => "scrip.db",
            SealedDatabase::SqliteReadLog => "read_log.db",
        };
        let connection = Connection::open(folder.join(file)).unwrap();
        let (table, column) = (it.table, it.column);
        let sql = format!("SELECT count(*) FROM {table} WHERE substr({column}, 3, 4) = ?1");
        connection.query_row(&sql, [version.to_be_bytes()], |row| row.get::<_, i64>(0)).unwrap()
    };
    sealed_columns().map(count).sum()
}

#[test]
fn copy_from_before_both_rotations_opens_nothing_of_the_new_database() {
    let test = RotationProcess::new("1000");
    let server = test.process.serve();
    test.create_tokens(&server, 0..OLD_TOKENS);
    drop(server);
    let (old, new) = (test.process.path("old"), test.process.path("new"));
    // Any command that opens the vault writes the log to the database.
    test.status();
    copy_data(&test, &old);
    test.rotate();
    let server = test.process.serve();
    test.wait_until_finished(2);
    run_json(&test.process, &["keys", "rotate", "vault"]);
    test.create_tokens(&server, OLD_TOKENS..ALL_TOKENS);
    test.check_tokens(&server, ALL_TOKENS);
    drop(server);
    test.status();
    copy_data(&test, &new);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let (old_source, old_directory) = open_keys(&old).await;
        let (_, new_directory) = open_keys(&new).await;
        let all_old: Vec<_> = (0..OLD_TOKENS).collect();
        let all_new: Vec<_> = (0..ALL_TOKENS).collect();
        // Controls: each key opens its own database.
        assert_eq!(open_tokens(&old, &old_directory, &test.key).await, all_old);
        assert_eq!(open_tokens(&new, &new_directory, &test.key).await, all_new);
        assert_eq!(open_tokens(&new, &old_directory, &test.key).await, [0; 0]);
        assert!(count_values(&old, 1) >= 20);
        assert_eq!(count_values(&new, 1), 0);
        // The old vault key opens no wrapped key of the new database.
        let store = SqliteStore::open(&new.join("scrip.db")).unwrap();
        let records = store.load_directory().await.unwrap();
        assert!(Directory::open(records, &*old_source, None).is_err());
        drop(store);
        // Control: a row that was not encrypted again opens with the same code.
        let connection = Connection::open(new.join("scrip.db")).unwrap();
        connection.execute("ATTACH ?1 AS old", [old.join("scrip.db").to_str()]).unwrap();
        let sql = "UPDATE tokens SET body = (SELECT it.body FROM old.tokens AS it
            WHERE it.id = tokens.id) WHERE id = 'token-007'";
        assert_eq!(connection.execute(sql, []).unwrap(), 1);
        drop(connection);
        assert_eq!(open_tokens(&new, &old_directory, &test.key).await, [7]);
    });
}
