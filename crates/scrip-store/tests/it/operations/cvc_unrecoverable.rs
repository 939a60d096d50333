//! After retention and one epoch no card verification code can be had from anything that is left:
//! the database, its log, a copy of both from before, the root key, and the process itself.

use std::{env, fs, path::Path, sync::Arc, time::Duration};

use rusqlite::Connection;
use scrip_core::{
    Vault,
    id::TokenId,
    operations::tokens::expire_token::erase_cvcs,
    policy::{ApplicationKind, Caller, Directory, Settings, Transform},
};
use scrip_store::SqliteStore;
use scrip_testing::{
    policy::{TOKENS, rule, ruled},
    requests::{VISA, card_with_cvc, create, cvc, get},
    vault::root_key,
    vault_harness::{Engine, VaultHarness, origin, vault_on},
};
use tempfile::TempDir;

use crate::policy::harness::principal;

const HOUR: Duration = Duration::from_secs(60 * 60);
/// As `world.rs` has it.
const EPOCH: Duration = Duration::from_secs(10 * 60);

fn cards() -> usize {
    if env::var_os("SCRIP_TEST_LONG").is_some() { 10_000 } else { 1_000 }
}

fn code(at: usize) -> String {
    format!("{:04}", at % 10_000)
}

/// The files of a vault as they were at one moment.
fn copied(folder: &Path) -> TempDir {
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
async fn recovered(copy: &Path, process: &Vault, key: &str, ids: &[TokenId]) -> usize {
    // The clock of a new vault stands where every test begins, when the codes were fresh.
    let (theirs, _) = vault_on(Arc::new(SqliteStore::open(&copy.join("scrip.db")).unwrap()));
    let theirs = Vault { epochs: Arc::clone(&process.epochs), ..theirs };
    let directory = Directory::load(&*theirs.store, &root_key(), None).await.unwrap();
    let caller = Caller::new(principal(directory.authenticate(key)), origin());
    let sealed = {
        let file = Connection::open(copy.join("scrip.db")).unwrap();
        file.query_row("SELECT count(*) FROM cvcs", [], |row| row.get::<_, i64>(0)).unwrap()
    };
    assert_eq!(usize::try_from(sealed).unwrap(), ids.len(), "the copy has every sealed code");
    let mut recovered = 0;
    for (at, id) in ids.iter().enumerate() {
        if let Some(text) = cvc(&get(&theirs, &caller, id).await) {
            assert_eq!(text, code(at));
            recovered += 1;
        }
    }
    recovered
}

#[tokio::test]
async fn no_code_comes_back_once_its_epoch_is_over() {
    let world = VaultHarness::open(Engine::Sqlite).await;
    let tenant = world.tenant(Settings::default()).await;
    let access = ruled([rule("/", Transform::Reveal, TOKENS)]);
    let key = world.key_of(&tenant, ApplicationKind::Private, access).await;
    let caller = world.known(&key).await;
    let mut ids = Vec::new();
    for at in 0..cards() {
        let written = create(&world.vault, &caller, card_with_cvc(VISA, &code(at))).await.unwrap();
        ids.push(written.token.id);
        // Over some epochs.
        if at % (cards() / 30) == 0 {
            world.clock.advance(Duration::from_secs(60));
        }
    }
    let folder = world.file().parent().unwrap().to_owned();
    let copies = [copied(&folder), copied(&folder), copied(&folder)];

    // The control: with the keys still there, every one of them is had.
    let count = recovered(copies[0].path(), &world.vault, &key, &ids).await;
    assert_eq!(count, ids.len());
    // Until the last epoch is over, some are.
    world.clock.advance(HOUR);
    world.vault.epochs.destroy_ended(world.vault.clock.now().unix_ms).unwrap();
    let count = recovered(copies[1].path(), &world.vault, &key, &ids).await;
    assert!(count < ids.len(), "those of epochs that are over are not");

    world.clock.advance(EPOCH);
    world.vault.epochs.destroy_ended(world.vault.clock.now().unix_ms).unwrap();
    while erase_cvcs(&world.vault).await.unwrap() > 0 {}
    assert_eq!(recovered(copies[2].path(), &world.vault, &key, &ids).await, 0);
    let file = Connection::open(world.file()).unwrap();
    let left: i64 = file.query_row("SELECT count(*) FROM cvcs", [], |row| row.get(0)).unwrap();
    assert_eq!(left, 0);
}
