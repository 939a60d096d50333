//! What stands in Redis of epoch keys, for how long, and which Redis will do.

use std::{sync::Arc, thread::sleep, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use scrip_seal::{
    EpochKeyError, EpochKeys, KeyExchange, KeyPresence, KeySource, OpenedValue, Place, RootKey,
    Sealed, Secret,
};
use scrip_server::epoch_keys::{
    persistence::Persistence,
    redis_exchange::{DiskPolicy, RedisKeyExchange},
};
use scrip_testing::redis::RedisServer;
use tokio::runtime::Runtime;

const VAULT: [u8; 32] = [7; 32];
const EPOCH: Duration = Duration::from_secs(15 * 60);

fn root_key_from_byte(byte: u8) -> Arc<RootKey> {
    Arc::new(
        RootKey::from_text(&STANDARD.encode((0..32).map(|it: u8| it ^ byte).collect::<Vec<_>>()))
            .unwrap(),
    )
}

async fn start_node(redis: &RedisServer, epoch: Duration, root: Arc<RootKey>) -> EpochKeys {
    let shared = RedisKeyExchange::start(redis.client(), DiskPolicy::Forbidden).await.unwrap();
    let keys = EpochKeys::shared(epoch, shared);
    keys.unlock(root, VAULT);
    keys
}

fn now_ms() -> i64 {
    let now = scrip_server::process::clock::SystemClock;
    scrip_core::time::Clock::now(&now).unix_ms
}

fn place() -> Place {
    Place::new("cvc")
}

async fn seal_code(keys: &EpochKeys, ends_ms: i64) -> Result<Sealed, EpochKeyError> {
    keys.load_sealing_key(ends_ms).await?;
    keys.seal(&place(), &Secret::new(b"4711".to_vec()), ends_ms)
}

fn open_code(keys: &EpochKeys, sealed: &Sealed, ends_ms: i64) -> Option<Vec<u8>> {
    match keys.open(&place(), sealed, ends_ms).unwrap() {
        OpenedValue::Open(code) => Some(code.expose().to_vec()),
        OpenedValue::KeyDestroyed => None,
        OpenedValue::KeyNotLoaded => unreachable!("it was asked for"),
    }
}

/// Fields and values.
type RedisHash = Vec<(String, Vec<u8>)>;

/// All that Redis has, by name.
fn all_hashes(redis: &RedisServer) -> Vec<(String, RedisHash)> {
    let names: Vec<String> = redis.query(&["KEYS", "*"]);
    names.into_iter().map(|it| (it.clone(), redis.query(&["HGETALL", &it]))).collect()
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|it| it == part)
}

#[test]
fn keys_in_redis_are_wrapped_and_useless_without_the_root_key() {
    let redis = RedisServer::start();
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let ends = now_ms() + 3_600_000;
        let ours = start_node(&redis, EPOCH, root_key_from_byte(1)).await;
        let code = seal_code(&ours, ends).await.unwrap();
        let all = all_hashes(&redis);
        let [(name, fields)] = all.as_slice() else { unreachable!("{all:?}") };
        let [(version, wrapped)] = fields.as_slice() else { unreachable!("{fields:?}") };
        let end: i64 = name.rsplit(':').next().unwrap().parse().unwrap();
        assert_eq!(name, &format!("scrip:epoch:{}:{end}", "07".repeat(16)));
        assert!(ends < end && end <= ends + 900_000);

        // Only the root key opens it, and only as the key of this vault, epoch and version.
        let version = i64::from(u32::from_str_radix(version, 16).unwrap());
        let place =
            |end, version| Place::new("epoch key").bytes(&VAULT).number(end).number(version);
        let wrapped = Sealed::from_stored(wrapped.clone());
        let plain = root_key_from_byte(1).unwrap(&place(end, version), &wrapped).unwrap();
        assert_eq!(plain.expose().len(), 32);
        for wrong in [place(end + 1, version), place(end, version + 1), Place::new("epoch key")] {
            assert!(root_key_from_byte(1).unwrap(&wrong, &wrapped).is_err());
        }
        let mut seen = wrapped.as_bytes().to_vec();
        assert!(!contains(&seen, plain.expose()) && !contains(&seen, b"4711"));
        seen.extend_from_slice(plain.expose());
        assert!(contains(&seen, plain.expose()), "the control");

        let theirs = start_node(&redis, EPOCH, root_key_from_byte(2)).await;
        assert_eq!(theirs.load_opening_key(&code, ends).await.unwrap(), KeyPresence::Destroyed);
        assert!(matches!(seal_code(&theirs, ends).await, Err(EpochKeyError::ForeignKey)));
        let other = start_node(&redis, EPOCH, root_key_from_byte(1)).await;
        assert_eq!(other.load_opening_key(&code, ends).await.unwrap(), KeyPresence::Available);
        assert_eq!(open_code(&other, &code, ends).unwrap(), b"4711");
    });
}

#[test]
fn redis_and_nodes_drop_a_key_at_the_end_of_its_epoch() {
    let redis = RedisServer::start();
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let one = start_node(&redis, Duration::from_secs(2), root_key_from_byte(1)).await;
        let two = start_node(&redis, Duration::from_secs(2), root_key_from_byte(1)).await;
        // On a slow machine an epoch may be over before anything is left there.
        let (ends, code) = loop {
            let ends = now_ms();
            if let Ok(code) = seal_code(&one, ends).await
                && two.load_opening_key(&code, ends).await.unwrap() == KeyPresence::Available
            {
                break (ends, code);
            }
        };
        let end = one.next_expiry_ms().unwrap();
        while redis.query::<i64>(&["EXISTS", &redis_name(end)]) == 1 {
            sleep(Duration::from_millis(10));
        }
        assert!(now_ms() >= end);
        // Memory has it until somebody looks at the clock.
        assert_eq!(open_code(&two, &code, ends).unwrap(), b"4711");
        // And does not bring it back.
        one.republish().await.unwrap();
        assert_eq!(redis.query::<i64>(&["EXISTS", &redis_name(end)]), 0);
        for keys in [&one, &two] {
            keys.destroy_expired(end).unwrap();
            assert_eq!(open_code(keys, &code, ends), None);
            assert_eq!(keys.load_opening_key(&code, ends).await.unwrap(), KeyPresence::Destroyed);
        }
        let late = start_node(&redis, Duration::from_secs(2), root_key_from_byte(1)).await;
        assert_eq!(late.load_opening_key(&code, ends).await.unwrap(), KeyPresence::Destroyed);
    });
}

fn redis_name(end: i64) -> String {
    format!("scrip:epoch:{}:{end}", "07".repeat(16))
}

/// The end is Redis's own business: nobody has to be there to destroy it.
#[test]
fn redis_key_expires_at_the_end_of_its_epoch() {
    let redis = RedisServer::start();
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let keys = start_node(&redis, EPOCH, root_key_from_byte(1)).await;
        drop(seal_code(&keys, now_ms() + 3_600_000).await.unwrap());
        let end = keys.next_expiry_ms().unwrap();
        assert_eq!(redis.query::<i64>(&["PEXPIRETIME", &redis_name(end)]), end);
        let () = redis.query(&["FLUSHALL"]);
        keys.republish().await.unwrap();
        assert_eq!(redis.query::<i64>(&["PEXPIRETIME", &redis_name(end)]), end);
    });
}

#[test]
fn sealed_or_unprepared_node_cannot_seal_cvcs() {
    let redis = RedisServer::start();
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let ends = now_ms() + 3_600_000;
        let shared = RedisKeyExchange::start(redis.client(), DiskPolicy::Forbidden).await.unwrap();
        let keys = EpochKeys::shared(EPOCH, shared);
        assert!(matches!(seal_code(&keys, ends).await, Err(EpochKeyError::VaultSealed)));
        keys.unlock(root_key_from_byte(1), VAULT);
        let code = Secret::new(b"4711".to_vec());
        assert!(matches!(keys.seal(&place(), &code, ends), Err(EpochKeyError::NotLoaded)));
        let code = seal_code(&keys, ends).await.unwrap();
        let other = start_node(&redis, EPOCH, root_key_from_byte(1)).await;
        assert!(matches!(other.open(&place(), &code, ends), Ok(OpenedValue::KeyNotLoaded)));
        // A key that Redis would forget at once is not sealed with.
        assert!(matches!(seal_code(&other, 0).await, Err(EpochKeyError::NotStored)));
    });
}

/// Many at once, on two nodes that begin together: all with one key.
#[test]
fn concurrent_nodes_use_the_first_key_of_an_epoch() {
    let redis = RedisServer::start();
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let ends = now_ms() + 3_600_000;
        let one = start_node(&redis, EPOCH, root_key_from_byte(1)).await;
        let two = start_node(&redis, EPOCH, root_key_from_byte(1)).await;
        let all = (0..64).map(|it| seal_code(if it % 2 == 0 { &one } else { &two }, ends));
        let all = futures_util::future::join_all(all).await;
        let versions = all.iter().map(|it| it.as_ref().unwrap().key_version().unwrap());
        let versions: std::collections::BTreeSet<_> = versions.collect();
        assert_eq!((versions.len(), one.key_count(), two.key_count()), (1, 1, 1));
    });
}

#[test]
fn redis_with_persistence_is_rejected() {
    let runtime = Runtime::new().unwrap();
    let start = |redis: &RedisServer, disks| {
        runtime.block_on(RedisKeyExchange::start(redis.client(), disks)).map(|it| it.is_available())
    };
    let cases: [(&[&str], Persistence); 3] = [
        (&["--appendonly", "yes"], Persistence::On),
        (&["--save", "3600 1"], Persistence::On),
        (&["--rename-command", "CONFIG", ""], Persistence::Unknown),
    ];
    for (more, expected) in cases {
        let redis = RedisServer::start_with(more);
        assert_eq!(start(&redis, DiskPolicy::Forbidden), Err(expected), "{more:?}");
        assert_eq!(start(&redis, DiskPolicy::Allowed), Ok(true), "{more:?}");
    }
    let redis = RedisServer::start();
    assert_eq!(start(&redis, DiskPolicy::Forbidden), Ok(true));
    // To bring a replica up to date, either of the two may write to a disk.
    let port = redis.url().trim_end_matches('/').rsplit(':').next().unwrap().to_owned();
    let _copy = RedisServer::start_with(&["--replicaof", "127.0.0.1", &port]);
    let is_copied = || start(&redis, DiskPolicy::Forbidden) == Err(Persistence::Replicated);
    assert!((0..200).any(|_| {
        sleep(Duration::from_millis(50));
        is_copied()
    }));
    assert_eq!(start(&redis, DiskPolicy::Allowed), Ok(true));
}

/// One that is turned on later is not used either, once it is connected to anew.
#[test]
fn redis_that_reconnects_with_persistence_is_not_used() {
    let mut redis = RedisServer::start();
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let ends = now_ms() + 3_600_000;
        let keys = start_node(&redis, EPOCH, root_key_from_byte(1)).await;
        redis.kill();
        assert!(matches!(seal_code(&keys, ends).await, Err(EpochKeyError::NoResponse)));
        assert!(redis.restart_with(&["--appendonly", "yes"]));
        for _ in 0..20 {
            tokio::time::sleep(Duration::from_millis(50)).await;
            assert!(matches!(seal_code(&keys, ends).await, Err(EpochKeyError::NoResponse)));
        }
        let () = redis.query(&["CONFIG", "SET", "appendonly", "no"]);
        while seal_code(&keys, ends).await.is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
}
