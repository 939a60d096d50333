//! After its retention and one epoch, no CVC can be recovered from the remaining data: the
//! database, its WAL, an older copy of both, the root key, and the process.

use std::{env, fs, path::Path, sync::Arc, time::Duration};

use rusqlite::Connection;
use scrip_core::{
    Vault,
    operations::tokens::expire_token::erase_cvcs,
    policy::Caller,
    store::open_directory,
    types::{ApplicationKind, Transform, id::TokenId},
};
use scrip_store::SqliteStore;
use scrip_testing::{
    policy::{TOKENS, access_rule, access_with_rules},
    requests::{VISA, card_with_cvc, create, get, visible_cvc},
    vault::root_key,
    vault_harness::{Engine, VaultHarness, test_origin, vault_with_stopped_clock},
};
use tempfile::TempDir;

use crate::policy::harness::expect_principal;

const HOUR: Duration = Duration::from_secs(60 * 60);
/// The length of an epoch in `vault_harness.rs`.
const EPOCH: Duration = Duration::from_secs(10 * 60);

fn card_count() -> usize {
    if env::var_os("SCRIP_TEST_LONG").is_some() { 10_000 } else { 1_000 }
}

fn cvc_number(index: usize) -> String {
    format!("{:04}", index % 10_000)
}

/// Copies the files of a vault.
fn copy_files(folder: &Path) -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        // SQLite rebuilds the WAL index from the WAL.
        if entry.file_name() != "scrip.db-shm" {
            fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
        }
    }
    copy
}

/// Simulates an attacker with a copy of the files, the root key and the remaining keys of this
/// process. The attacker can set the clock. Returns the number of recovered CVCs.
async fn count_recovered_cvcs(copy: &Path, process: &Vault, key: &str, ids: &[TokenId]) -> usize {
    // The clock of a new vault starts at the start time of the test, when the CVCs were new.
    let (attacker_vault, _) =
        vault_with_stopped_clock(Arc::new(SqliteStore::open(&copy.join("scrip.db")).unwrap()));
    let attacker_vault = Vault { epoch_keys: Arc::clone(&process.epoch_keys), ..attacker_vault };
    let directory = open_directory(&*attacker_vault.store, &root_key(), None).await.unwrap();
    let caller = Caller::new(expect_principal(directory.authenticate(key)), test_origin());
    let sealed_count = {
        let connection = Connection::open(copy.join("scrip.db")).unwrap();
        connection.query_row("SELECT count(*) FROM cvcs", [], |row| row.get::<_, i64>(0)).unwrap()
    };
    assert_eq!(
        usize::try_from(sealed_count).unwrap(),
        ids.len(),
        "the copy should contain every sealed CVC"
    );
    let mut recovered_count = 0;
    for (index, id) in ids.iter().enumerate() {
        if let Some(text) = visible_cvc(&get(&attacker_vault, &caller, id).await) {
            assert_eq!(text, cvc_number(index));
            recovered_count += 1;
        }
    }
    recovered_count
}

#[tokio::test]
async fn cvcs_are_unrecoverable_after_retention_and_one_epoch() {
    let harness = VaultHarness::open(Engine::Sqlite).await;
    let tenant = harness.default_tenant().await;
    let access = access_with_rules([access_rule("/", Transform::Reveal, TOKENS)]);
    let key = harness.create_api_key(&tenant, ApplicationKind::Private, access).await;
    let caller = harness.authenticate(&key).await;
    let mut ids = Vec::new();
    for index in 0..card_count() {
        let created =
            create(&harness.vault, &caller, card_with_cvc(VISA, &cvc_number(index))).await.unwrap();
        ids.push(created.token.id);
        // The CVCs are spread over several epochs.
        if index % (card_count() / 30) == 0 {
            harness.clock.advance(Duration::from_secs(60));
        }
    }
    let folder = harness.file().parent().unwrap().to_owned();
    let copies = [copy_files(&folder), copy_files(&folder), copy_files(&folder)];

    // Control: while the keys exist, every CVC is recovered.
    let count = count_recovered_cvcs(copies[0].path(), &harness.vault, &key, &ids).await;
    assert_eq!(count, ids.len());
    // Until the last epoch ends, some CVCs can be recovered.
    harness.clock.advance(HOUR);
    harness.vault.epoch_keys.destroy_expired(harness.vault.clock.now().unix_ms).unwrap();
    let count = count_recovered_cvcs(copies[1].path(), &harness.vault, &key, &ids).await;
    assert!(count < ids.len(), "CVCs of past epochs should be unrecoverable");

    harness.clock.advance(EPOCH);
    harness.vault.epoch_keys.destroy_expired(harness.vault.clock.now().unix_ms).unwrap();
    let directory = harness.shared_directory().await;
    while erase_cvcs(&harness.vault, &directory).await.unwrap() > 0 {}
    assert_eq!(count_recovered_cvcs(copies[2].path(), &harness.vault, &key, &ids).await, 0);
    let connection = Connection::open(harness.file()).unwrap();
    let remaining_count: i64 =
        connection.query_row("SELECT count(*) FROM cvcs", [], |row| row.get(0)).unwrap();
    assert_eq!(remaining_count, 0);
}
