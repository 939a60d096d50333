//! Deletion of expired rows: by two processes, past altered rows, and with overwriting.

use std::{collections::BTreeMap, fs, sync::Arc, time::Duration};

use rusqlite::Connection;
use scrip_core::{
    Vault,
    audit::SignedWatermark,
    log_tasks::load_authentic_time,
    operations::tokens::expire_token::{erase_cvcs, expire_token},
    policy::{Caller, Directory},
    token::NewToken,
    types::time::ClockWatermark,
};
use scrip_store::SqliteStore;
use scrip_testing::{
    clock::START,
    policy::TOKENS,
    requests::{VISA, card, card_with_cvc, create},
    vault_harness::{Engine, VaultHarness},
};

const MINUTE: Duration = Duration::from_secs(60);

async fn open_vault() -> (VaultHarness, Caller) {
    let harness = VaultHarness::open(Engine::Sqlite).await;
    let (_, caller) = harness.tenant_with_caller(TOKENS).await;
    (harness, caller)
}

fn short_lived_token() -> NewToken {
    NewToken { expires_at: Some(START.plus(MINUTE)), ..card(VISA) }
}

async fn delete_all_expired_tokens(vault: &Vault, directory: &Arc<Directory>) -> usize {
    let mut total = 0;
    loop {
        match expire_token(vault, directory).await.unwrap() {
            0 => return total,
            count => total += count,
        }
        // Yields the file lock to other processes, like a server.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

fn query_count(connection: &Connection, sql: &str) -> i64 {
    connection.query_row(sql, [], |row| row.get(0)).unwrap()
}

/// Counts the expiry records of each token.
fn count_expiry_records(connection: &Connection) -> BTreeMap<String, usize> {
    let sql = "SELECT entity FROM log_records WHERE operation = 'expire_token' AND outcome = 'expired' \
        AND actor IS NULL AND actor_kind = 'vault'";
    let mut statement = connection.prepare(sql).unwrap();
    let mut records = BTreeMap::new();
    for id in statement.query_map([], |row| row.get(0)).unwrap() {
        *records.entry(id.unwrap()).or_default() += 1;
    }
    records
}

/// Two processes delete expired tokens of one file, while one of them creates tokens.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_delete_each_expired_token_once() {
    const EXPIRED_COUNT: usize = 600;
    let (harness, caller) = open_vault().await;
    let mut ids = Vec::new();
    for _ in 0..EXPIRED_COUNT {
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
    let command = SqliteStore::open_for_command(&harness.file()).unwrap();
    let command_vault = Vault { store: Arc::new(command), ..harness.vault.clone() };
    let create_tokens = async {
        for _ in 0..100 {
            create(&harness.vault, &caller, card(VISA)).await.unwrap();
        }
    };
    let directory = harness.shared_directory().await;
    let first_counts = [
        expire_token(&harness.vault, &directory).await.unwrap(),
        expire_token(&command_vault, &directory).await.unwrap(),
    ];
    assert!(first_counts.iter().all(|it| *it > 0), "each process should delete some");
    let (first_total, second_total, ()) = tokio::join!(
        delete_all_expired_tokens(&harness.vault, &directory),
        delete_all_expired_tokens(&command_vault, &directory),
        create_tokens
    );
    assert_eq!(first_counts[0] + first_counts[1] + first_total + second_total, EXPIRED_COUNT);

    let connection = Connection::open(harness.file()).unwrap();
    assert_eq!(query_count(&connection, "SELECT count(*) FROM tokens"), 100);
    let orphan_query =
        "SELECT count(*) FROM token_index WHERE token NOT IN (SELECT seq FROM tokens)";
    assert_eq!(query_count(&connection, orphan_query), 0, "index entries without a token");
    let records = count_expiry_records(&connection);
    assert_eq!(records.len(), EXPIRED_COUNT);
    assert!(ids.iter().all(|it| records.get(it) == Some(&1)));
}

#[tokio::test]
async fn altered_expired_token_is_deleted_and_blocks_no_other() {
    let (harness, caller) = open_vault().await;
    let (altered, next) = (short_lived_token(), short_lived_token());
    let altered =
        create(&harness.vault, &caller, altered).await.unwrap().token.id.as_str().to_owned();
    create(&harness.vault, &caller, next).await.unwrap();
    let connection = Connection::open(harness.file()).unwrap();
    let sql = "UPDATE tokens SET containers = 'nonsense', expires_at = expires_at - 1 WHERE id = ?";
    assert_eq!(connection.execute(sql, [&altered]).unwrap(), 1);
    harness.clock.advance(MINUTE);
    let directory = harness.shared_directory().await;
    assert_eq!(delete_all_expired_tokens(&harness.vault, &directory).await, 2);
    assert_eq!(query_count(&connection, "SELECT count(*) FROM tokens"), 0);
    assert_eq!(count_expiry_records(&connection).get(&altered), Some(&1));
}

/// Sealed CVCs are overwritten in the file, although no key can decrypt them any more.
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
    let count_found = || {
        let file = Connection::open(harness.file()).unwrap();
        // An active reader prevents the checkpoint.
        let checkpoint = || {
            let sql = "PRAGMA wal_checkpoint(TRUNCATE)";
            file.query_row(sql, [], |row| row.get::<_, bool>(0)).unwrap()
        };
        let mut tries = 0;
        while checkpoint() {
            tries += 1;
            assert!(tries < 1000, "the WAL is still in use");
            std::thread::sleep(Duration::from_millis(10));
        }
        let bytes = fs::read(harness.file()).unwrap();
        // Skips the header of the sealed value, which all values have in common.
        let sealed_parts = sealed.iter().map(|it| &it[6..38]);
        sealed_parts.filter(|part| bytes.windows(32).any(|it| it == *part)).count()
    };
    assert_eq!(count_found(), 200, "the control should find all CVCs");
    harness.clock.advance(60 * MINUTE);
    let directory = harness.shared_directory().await;
    while erase_cvcs(&harness.vault, &directory).await.unwrap() > 0 {}
    assert_eq!(count_found(), 0);
}

/// The watermark is the earliest clock that the next start accepts. The record of an operator
/// command, which has its own clock, does not count if a server saved a watermark.
#[tokio::test]
async fn clock_watermark_is_that_of_the_last_record_until_one_is_saved() {
    let (harness, caller) = open_vault().await;
    let store = &harness.vault.store;
    let key = harness.vault.audit_trail.key().unwrap();
    let load_watermark = async || load_authentic_time(&**store, key).await.unwrap().watermark;
    let watermark_at = |it| ClockWatermark { now: it, earliest: it };
    assert_eq!(load_watermark().await, Some(watermark_at(START)));
    harness.clock.advance(MINUTE);
    create(&harness.vault, &caller, card(VISA)).await.unwrap();
    assert_eq!(load_watermark().await, Some(watermark_at(START.plus(MINUTE))));
    let saved = ClockWatermark { now: START.plus(2 * MINUTE), earliest: START };
    store.save_watermark(SignedWatermark::new(key, saved)).await.unwrap();
    harness.clock.advance(60 * MINUTE);
    create(&harness.vault, &caller, card(VISA)).await.unwrap();
    assert_eq!(load_watermark().await, Some(saved));
}
