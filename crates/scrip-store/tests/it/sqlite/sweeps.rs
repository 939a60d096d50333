//! Sweeping the file: by two processes at once, past rows that somebody altered, and down to zeros.

use std::{collections::BTreeMap, fs, sync::Arc, time::Duration};

use rusqlite::Connection;
use scrip_core::{
    Vault,
    audit::{NotedTime, authentic_time::authentic_time},
    operations::tokens::expire_token::{erase_cvcs, expire_token},
    policy::{Caller, Settings, Transform},
    time::KnownTime,
    token::NewToken,
};
use scrip_store::SqliteStore;
use scrip_testing::{
    clock::START,
    policy::{TOKENS, rule, ruled},
    requests::{VISA, card, card_with_cvc, create},
    vault_harness::{Engine, VaultHarness},
};

const MINUTE: Duration = Duration::from_secs(60);

async fn opened() -> (VaultHarness, Caller) {
    let world = VaultHarness::open(Engine::Sqlite).await;
    let tenant = world.tenant(Settings::default()).await;
    let caller = world.caller(&tenant, ruled([rule("/", Transform::Reveal, TOKENS)])).await;
    (world, caller)
}

fn short_lived() -> NewToken {
    NewToken { expires_at: Some(START.after(MINUTE)), ..card(VISA) }
}

async fn sweep(vault: &Vault) -> usize {
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
fn records(file: &Connection) -> BTreeMap<String, usize> {
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
async fn two_sweepers_remove_each_token_once() {
    const EXPIRED: usize = 600;
    let (world, caller) = opened().await;
    let mut ids = Vec::new();
    for _ in 0..EXPIRED {
        ids.push(
            create(&world.vault, &caller, short_lived())
                .await
                .unwrap()
                .token
                .id
                .as_str()
                .to_owned(),
        );
    }
    world.clock.advance(MINUTE);
    let beside = SqliteStore::open_beside(&world.file()).unwrap();
    let other = Vault { store: Arc::new(beside), ..world.vault.clone() };
    let creating = async {
        for _ in 0..100 {
            create(&world.vault, &caller, card(VISA)).await.unwrap();
        }
    };
    let both = [expire_token(&world.vault).await.unwrap(), expire_token(&other).await.unwrap()];
    assert!(both.iter().all(|it| *it > 0), "each has a part in it");
    let (one, two, ()) = tokio::join!(sweep(&world.vault), sweep(&other), creating);
    assert_eq!(both[0] + both[1] + one + two, EXPIRED);

    let file = Connection::open(world.file()).unwrap();
    assert_eq!(count(&file, "SELECT count(*) FROM tokens"), 100);
    let left = "SELECT count(*) FROM filed WHERE token NOT IN (SELECT seq FROM tokens)";
    assert_eq!(count(&file, left), 0, "entries that lead nowhere");
    let records = records(&file);
    assert_eq!(records.len(), EXPIRED);
    assert!(ids.iter().all(|it| records.get(it) == Some(&1)));
}

#[tokio::test]
async fn an_altered_row_goes_too_and_is_in_nobodys_way() {
    let (world, caller) = opened().await;
    let (altered, next) = (short_lived(), short_lived());
    let altered =
        create(&world.vault, &caller, altered).await.unwrap().token.id.as_str().to_owned();
    create(&world.vault, &caller, next).await.unwrap();
    let file = Connection::open(world.file()).unwrap();
    let sql = "UPDATE tokens SET containers = 'nonsense', expires_at = expires_at - 1 WHERE id = ?";
    assert_eq!(file.execute(sql, [&altered]).unwrap(), 1);
    world.clock.advance(MINUTE);
    assert_eq!(sweep(&world.vault).await, 2);
    assert_eq!(count(&file, "SELECT count(*) FROM tokens"), 0);
    assert_eq!(records(&file).get(&altered), Some(&1));
}

/// The sealed codes are overwritten in the file, though no key could open them any more.
#[tokio::test]
async fn erased_codes_leave_zeros() {
    let (world, caller) = opened().await;
    for _ in 0..200 {
        create(&world.vault, &caller, card_with_cvc(VISA, "123")).await.unwrap();
    }
    let sealed: Vec<Vec<u8>> = {
        let file = Connection::open(world.file()).unwrap();
        let mut statement = file.prepare("SELECT sealed FROM cvcs").unwrap();
        statement.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
    };
    assert_eq!(sealed.len(), 200);
    let found = || {
        let file = Connection::open(world.file()).unwrap();
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
        let bytes = fs::read(world.file()).unwrap();
        // Past what tells how it was sealed, which all have in common.
        let parts = sealed.iter().map(|it| &it[6..38]);
        parts.filter(|part| bytes.windows(32).any(|it| it == *part)).count()
    };
    assert_eq!(found(), 200, "the control");
    world.clock.advance(60 * MINUTE);
    while erase_cvcs(&world.vault).await.unwrap() > 0 {}
    assert_eq!(found(), 0);
}

/// What the next start must not be before. A record that an operator's command wrote, by a clock of
/// its own, does not count beside a server's note.
#[tokio::test]
async fn the_known_time_is_that_of_a_note_else_of_a_record() {
    let (world, caller) = opened().await;
    let store = &world.vault.store;
    let key = world.vault.audit.key().unwrap();
    let found = async || authentic_time(&**store, key).await.unwrap().known;
    let known = |it| KnownTime { now: it, earliest: it };
    assert_eq!(found().await, Some(known(START)));
    world.clock.advance(MINUTE);
    create(&world.vault, &caller, card(VISA)).await.unwrap();
    assert_eq!(found().await, Some(known(START.after(MINUTE))));
    let noted = KnownTime { now: START.after(2 * MINUTE), earliest: START };
    store.note_time(NotedTime::new(key, noted)).await.unwrap();
    world.clock.advance(60 * MINUTE);
    create(&world.vault, &caller, card(VISA)).await.unwrap();
    assert_eq!(found().await, Some(noted));
}
