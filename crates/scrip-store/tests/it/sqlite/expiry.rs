//! Sweeping the file: by two processes at once, past rows that somebody altered, and down to zeros.

use std::{collections::BTreeMap, fs, sync::Arc, time::Duration};

use rusqlite::Connection;
use scrip_core::{
    Vault,
    audit::{SignedWatermark, authentic_time::load_authentic_time},
    operations::tokens::expire_token::{erase_cvcs, expire_token},
    policy::{Caller, TenantSettings, Transform},
    time::ClockWatermark,
    token::NewToken,
};
use scrip_store::SqliteStore;
use scrip_testing::{
    clock::START,
    policy::{TOKENS, access_rule, access_with_rules},
    requests::{VISA, card, card_with_cvc, create},
    vault_harness::{Engine, VaultHarness},
};

const MINUTE: Duration = Duration::from_secs(60);

async fn open_vault() -> (VaultHarness, Caller) {
    let harness = VaultHarness::open(Engine::Sqlite).await;
    let tenant = harness.tenant(TenantSettings::default()).await;
    let caller = harness
        .caller(&tenant, access_with_rules([access_rule("/", Transform::Reveal, TOKENS)]))
        .await;
    (harness, caller)
}

fn short_lived_token() -> NewToken {
    NewToken { expires_at: Some(START.plus(MINUTE)), ..card(VISA) }
}

async fn delete_all_expired_tokens(vault: &Vault) -> usize {
    let mut swept = 0;
    loop {
        match expire_token(vault).await.unwrap() {
            0 => return swept,
            some => swept += some,
        }
        // As a server does: whoever waits for the file gets it.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

fn count(file: &Connection, sql: &str) -> i64 {
    file.query_row(sql, [], |row| row.get(0)).unwrap()
}

/// How often each token has a record of having expired.
fn expiry_records(file: &Connection) -> BTreeMap<String, usize> {
    let sql = "SELECT entity FROM audit WHERE operation = 'expire_token' AND outcome = 'expired' \
        AND actor IS NULL AND actor_kind = 'vault'";
    let mut statement = file.prepare(sql).unwrap();
    let mut records = BTreeMap::new();
    for id in statement.query_map([], |row| row.get(0)).unwrap() {
        *records.entry(id.unwrap()).or_default() += 1;
    }
    records
}

/// Two processes have the file open and sweep it, while one of them goes on creating.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_sweepers_remove_each_token_once() {
    const EXPIRED: usize = 600;
    let (harness, caller) = open_vault().await;
    let mut ids = Vec::new();
    for _ in 0..EXPIRED {
        ids.push(
            create(&harness.vault, &caller, short_lived_token())
                .await
                .unwrap()
                .token
                .id
                .as_str()
                .to_owned(),
        );
    }
    harness.clock.advance(MINUTE);
    let beside = SqliteStore::open_for_command(&harness.file()).unwrap();
    let other = Vault { store: Arc::new(beside), ..harness.vault.clone() };
    let creating = async {
        for _ in 0..100 {
            create(&harness.vault, &caller, card(VISA)).await.unwrap();
        }
    };
    let both = [expire_token(&harness.vault).await.unwrap(), expire_token(&other).await.unwrap()];
    assert!(both.iter().all(|it| *it > 0), "each has a part in it");
    let (one, two, ()) = tokio::join!(
        delete_all_expired_tokens(&harness.vault),
        delete_all_expired_tokens(&other),
        creating
    );
    assert_eq!(both[0] + both[1] + one + two, EXPIRED);

    let file = Connection::open(harness.file()).unwrap();
    assert_eq!(count(&file, "SELECT count(*) FROM tokens"), 100);
    let left = "SELECT count(*) FROM filed WHERE token NOT IN (SELECT seq FROM tokens)";
    assert_eq!(count(&file, left), 0, "entries that lead nowhere");
    let records = expiry_records(&file);
    assert_eq!(records.len(), EXPIRED);
    assert!(ids.iter().all(|it| records.get(it) == Some(&1)));
}

#[tokio::test]
async fn altered_expired_token_is_swept_and_blocks_no_other() {
    let (harness, caller) = open_vault().await;
    let (altered, next) = (short_lived_token(), short_lived_token());
    let altered =
        create(&harness.vault, &caller, altered).await.unwrap().token.id.as_str().to_owned();
    create(&harness.vault, &caller, next).await.unwrap();
    let file = Connection::open(harness.file()).unwrap();
    let sql = "UPDATE tokens SET containers = 'nonsense', expires_at = expires_at - 1 WHERE id = ?";
    assert_eq!(file.execute(sql, [&altered]).unwrap(), 1);
    harness.clock.advance(MINUTE);
    assert_eq!(delete_all_expired_tokens(&harness.vault).await, 2);
    assert_eq!(count(&file, "SELECT count(*) FROM tokens"), 0);
    assert_eq!(expiry_records(&file).get(&altered), Some(&1));
}

/// The sealed codes are overwritten in the file, though no key could open them any more.
#[tokio::test]
async fn erased_cvcs_are_overwritten_with_zeros() {
    let (harness, caller) = open_vault().await;
    for _ in 0..200 {
        create(&harness.vault, &caller, card_with_cvc(VISA, "123")).await.unwrap();
    }
    let sealed: Vec<Vec<u8>> = {
        let file = Connection::open(harness.file()).unwrap();
        let mut statement = file.prepare("SELECT sealed FROM cvcs").unwrap();
        statement.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
    };
    assert_eq!(sealed.len(), 200);
    let found = || {
        let file = Connection::open(harness.file()).unwrap();
        // A reader that has not ended yet keeps the log from being copied.
        let checkpoint = || {
            let sql = "PRAGMA wal_checkpoint(TRUNCATE)";
            file.query_row(sql, [], |row| row.get::<_, bool>(0)).unwrap()
        };
        let mut tries = 0;
        while checkpoint() {
            tries += 1;
            assert!(tries < 1000, "the log is still in use");
            std::thread::sleep(Duration::from_millis(10));
        }
        let bytes = fs::read(harness.file()).unwrap();
        // Past what tells how it was sealed, which all have in common.
        let parts = sealed.iter().map(|it| &it[6..38]);
        parts.filter(|part| bytes.windows(32).any(|it| it == *part)).count()
    };
    assert_eq!(found(), 200, "the control");
    harness.clock.advance(60 * MINUTE);
    while erase_cvcs(&harness.vault).await.unwrap() > 0 {}
    assert_eq!(found(), 0);
}

/// What the next start must not be before. A record that an operator's command wrote, by a clock of
/// its own, does not count beside a server's note.
#[tokio::test]
async fn clock_watermark_is_the_saved_one_or_that_of_the_last_record() {
    let (harness, caller) = open_vault().await;
    let store = &harness.vault.store;
    let key = harness.vault.audit_trail.key().unwrap();
    let found = async || load_authentic_time(&**store, key).await.unwrap().watermark;
    let known = |it| ClockWatermark { now: it, earliest: it };
    assert_eq!(found().await, Some(known(START)));
    harness.clock.advance(MINUTE);
    create(&harness.vault, &caller, card(VISA)).await.unwrap();
    assert_eq!(found().await, Some(known(START.plus(MINUTE))));
    let noted = ClockWatermark { now: START.plus(2 * MINUTE), earliest: START };
    store.save_watermark(SignedWatermark::new(key, noted)).await.unwrap();
    harness.clock.advance(60 * MINUTE);
    create(&harness.vault, &caller, card(VISA)).await.unwrap();
    assert_eq!(found().await, Some(noted));
}
