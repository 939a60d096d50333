//! After retention and one epoch no card verification code can be had from anything that is left:
//! the database, its log, a copy of both from before, the root key, and the process itself.

use std::{env, fs, path::Path, sync::Arc, time::Duration};

use rusqlite::Connection;
use scrip_core::{
    Vault,
    id::TokenId,
    operations::tokens::expire_token::erase_cvcs,
    policy::{ApplicationKind, Caller, Directory, TenantSettings, Transform},
};
use scrip_store::SqliteStore;
use scrip_testing::{
    policy::{TOKENS, access_rule, access_with_rules},
    requests::{VISA, card_with_cvc, create, get, visible_cvc},
    vault::root_key,
    vault_harness::{Engine, VaultHarness, test_origin, vault_with_stopped_clock},
};
use tempfile::TempDir;

use crate::policy::harness::principal;

const HOUR: Duration = Duration::from_secs(60 * 60);
/// As `world.rs` has it.
const EPOCH: Duration = Duration::from_secs(10 * 60);

fn cards() -> usize {
    if env::var_os("SCRIP_TEST_LONG").is_some() { 10_000 } else { 1_000 }
}

fn cvc_number(at: usize) -> String {
    format!("{:04}", at % 10_000)
}

/// The files of a vault as they were at one moment.
fn copy_files(folder: &Path) -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        // The index of the log is made anew from the log.
        if entry.file_name() != "scrip.db-shm" {
            fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
        }
    }
    copy
}

/// Whoever has a copy, the root key and the keys that this process has left reads every card, by a
/// clock of their own choice; how many codes they get.
async fn count_recovered_cvcs(copy: &Path, process: &Vault, key: &str, ids: &[TokenId]) -> usize {
    // The clock of a new vault stands where every test begins, when the codes were fresh.
    let (theirs, _) =
        vault_with_stopped_clock(Arc::new(SqliteStore::open(&copy.join("scrip.db")).unwrap()));
    let theirs = Vault { epoch_keys: Arc::clone(&process.epoch_keys), ..theirs };
    let directory = Directory::load(&*theirs.store, &root_key(), None).await.unwrap();
    let caller = Caller::new(principal(directory.authenticate(key)), test_origin());
    let sealed = {
        let file = Connection::open(copy.join("scrip.db")).unwrap();
        file.query_row("SELECT count(*) FROM cvcs", [], |row| row.get::<_, i64>(0)).unwrap()
    };
    assert_eq!(usize::try_from(sealed).unwrap(), ids.len(), "the copy has every sealed code");
    let mut recovered = 0;
    for (at, id) in ids.iter().enumerate() {
        if let Some(text) = visible_cvc(&get(&theirs, &caller, id).await) {
            assert_eq!(text, cvc_number(at));
            recovered += 1;
        }
    }
    recovered
}

#[tokio::test]
async fn cvcs_are_unrecoverable_after_retention_and_one_epoch() {
    let harness = VaultHarness::open(Engine::Sqlite).await;
    let tenant = harness.tenant(TenantSettings::default()).await;
    let access = access_with_rules([access_rule("/", Transform::Reveal, TOKENS)]);
    let key = harness.create_api_key(&tenant, ApplicationKind::Private, access).await;
    let caller = harness.authenticate(&key).await;
    let mut ids = Vec::new();
    for at in 0..cards() {
        let written =
            create(&harness.vault, &caller, card_with_cvc(VISA, &cvc_number(at))).await.unwrap();
        ids.push(written.token.id);
        // Over some epochs.
        if at % (cards() / 30) == 0 {
            harness.clock.advance(Duration::from_secs(60));
        }
    }
    let folder = harness.file().parent().unwrap().to_owned();
    let copies = [copy_files(&folder), copy_files(&folder), copy_files(&folder)];

    // The control: with the keys still there, every one of them is had.
    let count = count_recovered_cvcs(copies[0].path(), &harness.vault, &key, &ids).await;
    assert_eq!(count, ids.len());
    // Until the last epoch is over, some are.
    harness.clock.advance(HOUR);
    harness.vault.epoch_keys.destroy_expired(harness.vault.clock.now().unix_ms).unwrap();
    let count = count_recovered_cvcs(copies[1].path(), &harness.vault, &key, &ids).await;
    assert!(count < ids.len(), "those of epochs that are over are not");

    harness.clock.advance(EPOCH);
    harness.vault.epoch_keys.destroy_expired(harness.vault.clock.now().unix_ms).unwrap();
    while erase_cvcs(&harness.vault).await.unwrap() > 0 {}
    assert_eq!(count_recovered_cvcs(copies[2].path(), &harness.vault, &key, &ids).await, 0);
    let file = Connection::open(harness.file()).unwrap();
    let left: i64 = file.query_row("SELECT count(*) FROM cvcs", [], |row| row.get(0)).unwrap();
    assert_eq!(left, 0);
}
