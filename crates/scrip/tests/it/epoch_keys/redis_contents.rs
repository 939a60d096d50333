//! Epoch keys in Redis: their format, their expiry, and the Redis configurations that are accepted.

use std::{sync::Arc, thread::sleep, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use scrip_seal::{
    EpochKeyError, EpochKeys, KeyExchange, KeyPresence, KeySource, OpenedValue, Place, RootKey,
    Sealed, Secret,
};
use scrip_server::epoch_keys::redis_exchange::{DiskPolicy, Persistence, RedisKeyExchange};
use scrip_testing::process::redis::RedisServer;
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
    let now = scrip_server::clock::SystemClock;
    scrip_core::types::time::Clock::now(&now).unix_ms
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
        OpenedValue::KeyNotLoaded => unreachable!("the key was requested before"),
    }
}

/// The fields and the values of a Redis hash.
type RedisHash = Vec<(String, Vec<u8>)>;

/// Returns all hashes in Redis by name.
fn all_hashes(redis: &RedisServer) -> Vec<(String, RedisHash)> {
    let names: Vec<String> = redis.query(&["KEYS", "*"]);
    names.into_iter().map(|it| (it.clone(), redis.query(&["HGETALL", &it]))).collect()
}

fn contains(bytes: &[u8], pattern: &[u8]) -> bool {
    bytes.windows(pattern.len()).any(|it| it == pattern)
}

#[test]
fn keys_in_redis_are_wrapped_and_useless_without_the_root_key() {
    let redis = RedisServer::start();
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let expires_ms = now_ms() + 3_600_000;
        let node = start_node(&redis, EPOCH, root_key_from_byte(1)).await;
        let sealed_code = seal_code(&node, expires_ms).await.unwrap();
        let hashes = all_hashes(&redis);
        let [(name, fields)] = hashes.as_slice() else { unreachable!("{hashes:?}") };
        let [(version, wrapped)] = fields.as_slice() else { unreachable!("{fields:?}") };
        let epoch_end: i64 = name.rsplit(':').next().unwrap().parse().unwrap();
        assert_eq!(name, &format!("scrip:epoch:{}:{epoch_end}", "07".repeat(16)));
        assert!(expires_ms < epoch_end && epoch_end <= expires_ms + 900_000);

        // Only the root key unwraps the value, and only as the key of this vault, epoch and
        // version.
        let version = i64::from(u32::from_str_radix(version, 16).unwrap());
        let build_place = |epoch_end, version| {
            Place::new("epoch key").bytes(&VAULT).number(epoch_end).number(version)
        };
        let wrapped = Sealed::from_stored(wrapped.clone());
        let unwrapped_key =
            root_key_from_byte(1).unwrap(&build_place(epoch_end, version), &wrapped).unwrap();
        assert_eq!(unwrapped_key.expose().len(), 32);
        for wrong_place in [
            build_place(epoch_end + 1, version),
            build_place(epoch_end, version + 1),
            Place::new("epoch key"),
        ] {
            assert!(root_key_from_byte(1).unwrap(&wrong_place, &wrapped).is_err());
        }
        let mut bytes = wrapped.as_bytes().to_vec();
        assert!(!contains(&bytes, unwrapped_key.expose()) && !contains(&bytes, b"4711"));
        bytes.extend_from_slice(unwrapped_key.expose());
        let is_found = contains(&bytes, unwrapped_key.expose());
        assert!(is_found, "positive control: the search finds the plain key");

        let node_with_other_root_key = start_node(&redis, EPOCH, root_key_from_byte(2)).await;
        assert_eq!(
            node_with_other_root_key.load_opening_key(&sealed_code, expires_ms).await.unwrap(),
            KeyPresence::Destroyed
        );
        assert!(matches!(
            seal_code(&node_with_other_root_key, expires_ms).await,
            Err(EpochKeyError::ForeignKey)
        ));
        let second_node = start_node(&redis, EPOCH, root_key_from_byte(1)).await;
        let presence = second_node.load_opening_key(&sealed_code, expires_ms).await.unwrap();
        assert_eq!(presence, KeyPresence::Available);
        assert_eq!(open_code(&second_node, &sealed_code, expires_ms).unwrap(), b"4711");
    });
}

#[test]
fn redis_and_nodes_drop_a_key_at_the_end_of_its_epoch() {
    let redis = RedisServer::start();
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let first_node = start_node(&redis, Duration::from_secs(2), root_key_from_byte(1)).await;
        let second_node = start_node(&redis, Duration::from_secs(2), root_key_from_byte(1)).await;
        // On a slow machine an epoch may end before a key is stored.
        let (expires_ms, sealed_code) = loop {
            let expires_ms = now_ms();
            if let Ok(sealed_code) = seal_code(&first_node, expires_ms).await
                && second_node.load_opening_key(&sealed_code, expires_ms).await.unwrap()
                    == KeyPresence::Available
            {
                break (expires_ms, sealed_code);
            }
        };
        let epoch_end = first_node.next_expiry_ms().unwrap();
        while redis.query::<i64>(&["EXISTS", &redis_key_name(epoch_end)]) == 1 {
            sleep(Duration::from_millis(10));
        }
        assert!(now_ms() >= epoch_end);
        // The key stays in memory until the expiry check runs.
        assert_eq!(open_code(&second_node, &sealed_code, expires_ms).unwrap(), b"4711");
        // The node does not republish the key.
        first_node.republish().await.unwrap();
        assert_eq!(redis.query::<i64>(&["EXISTS", &redis_key_name(epoch_end)]), 0);
        for keys in [&first_node, &second_node] {
            keys.destroy_expired(epoch_end).unwrap();
            assert_eq!(open_code(keys, &sealed_code, expires_ms), None);
            let presence = keys.load_opening_key(&sealed_code, expires_ms).await.unwrap();
            assert_eq!(presence, KeyPresence::Destroyed);
        }
        let late_node = start_node(&redis, Duration::from_secs(2), root_key_from_byte(1)).await;
        let presence = late_node.load_opening_key(&sealed_code, expires_ms).await.unwrap();
        assert_eq!(presence, KeyPresence::Destroyed);
    });
}

fn redis_key_name(epoch_end: i64) -> String {
    format!("scrip:epoch:{}:{epoch_end}", "07".repeat(16))
}

/// Redis expires the key without help of a node.
#[test]
fn redis_key_expires_at_the_end_of_its_epoch() {
    let redis = RedisServer::start();
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let keys = start_node(&redis, EPOCH, root_key_from_byte(1)).await;
        drop(seal_code(&keys, now_ms() + 3_600_000).await.unwrap());
        let epoch_end = keys.next_expiry_ms().unwrap();
        assert_eq!(redis.query::<i64>(&["PEXPIRETIME", &redis_key_name(epoch_end)]), epoch_end);
        let () = redis.query(&["FLUSHALL"]);
        keys.republish().await.unwrap();
        assert_eq!(redis.query::<i64>(&["PEXPIRETIME", &redis_key_name(epoch_end)]), epoch_end);
    });
}

#[test]
fn cvcs_are_not_encrypted_without_root_key_or_loaded_epoch_key() {
    let redis = RedisServer::start();
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let expires_ms = now_ms() + 3_600_000;
        let shared = RedisKeyExchange::start(redis.client(), DiskPolicy::Forbidden).await.unwrap();
        let keys = EpochKeys::shared(EPOCH, shared);
        assert!(matches!(seal_code(&keys, expires_ms).await, Err(EpochKeyError::VaultSealed)));
        keys.unlock(root_key_from_byte(1), VAULT);
        let code = Secret::new(b"4711".to_vec());
        assert!(matches!(keys.seal(&place(), &code, expires_ms), Err(EpochKeyError::NotLoaded)));
        let code = seal_code(&keys, expires_ms).await.unwrap();
        let second_node = start_node(&redis, EPOCH, root_key_from_byte(1)).await;
        assert!(matches!(
            second_node.open(&place(), &code, expires_ms),
            Ok(OpenedValue::KeyNotLoaded)
        ));
        // A key that Redis would expire immediately is not used for sealing.
        assert!(matches!(seal_code(&second_node, 0).await, Err(EpochKeyError::NotStored)));
    });
}

/// Concurrent sealing on two nodes that start together uses one key.
#[test]
fn concurrent_nodes_use_the_first_key_of_an_epoch() {
    let redis = RedisServer::start();
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let expires_ms = now_ms() + 3_600_000;
        let first_node = start_node(&redis, EPOCH, root_key_from_byte(1)).await;
        let second_node = start_node(&redis, EPOCH, root_key_from_byte(1)).await;
        let sealed_codes = (0..64)
            .map(|it| seal_code(if it % 2 == 0 { &first_node } else { &second_node }, expires_ms));
        let sealed_codes = futures_util::future::join_all(sealed_codes).await;
        let versions = sealed_codes.iter().map(|it| it.as_ref().unwrap().key_version().unwrap());
        let versions: std::collections::BTreeSet<_> = versions.collect();
        assert_eq!((versions.len(), first_node.key_count(), second_node.key_count()), (1, 1, 1));
    });
}

#[test]
fn redis_with_persistence_is_rejected() {
    let runtime = Runtime::new().unwrap();
    let start_exchange = |redis: &RedisServer, disks| {
        runtime.block_on(RedisKeyExchange::start(redis.client(), disks)).map(|it| it.is_available())
    };
    let cases: [(&[&str], Persistence); 3] = [
        (&["--appendonly", "yes"], Persistence::On),
        (&["--save", "3600 1"], Persistence::On),
        (&["--rename-command", "CONFIG", ""], Persistence::Unknown),
    ];
    for (arguments, expected) in cases {
        let redis = RedisServer::start_with(arguments);
        assert_eq!(start_exchange(&redis, DiskPolicy::Forbidden), Err(expected), "{arguments:?}");
        assert_eq!(start_exchange(&redis, DiskPolicy::Allowed), Ok(true), "{arguments:?}");
    }
    let redis = RedisServer::start();
    assert_eq!(start_exchange(&redis, DiskPolicy::Forbidden), Ok(true));
    // A Redis with a replica is rejected too: synchronization may write to a disk.
    let port = redis.url().trim_end_matches('/').rsplit(':').next().unwrap().to_owned();
    let _replica = RedisServer::start_with(&["--replicaof", "127.0.0.1", &port]);
    let is_rejected_as_replicated =
        || start_exchange(&redis, DiskPolicy::Forbidden) == Err(Persistence::Replicated);
    assert!((0..200).any(|_| {
        sleep(Duration::from_millis(50));
        is_rejected_as_replicated()
    }));
    assert_eq!(start_exchange(&redis, DiskPolicy::Allowed), Ok(true));
}

#[test]
fn redis_that_restarts_with_persistence_is_not_used() {
    let mut redis = RedisServer::start();
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let expires_ms = now_ms() + 3_600_000;
        let keys = start_node(&redis, EPOCH, root_key_from_byte(1)).await;
        redis.kill();
        assert!(matches!(seal_code(&keys, expires_ms).await, Err(EpochKeyError::NoResponse)));
        assert!(redis.restart_with(&["--appendonly", "yes"]));
        for _ in 0..20 {
            tokio::time::sleep(Duration::from_millis(50)).await;
            assert!(matches!(seal_code(&keys, expires_ms).await, Err(EpochKeyError::NoResponse)));
        }
        let () = redis.query(&["CONFIG", "SET", "appendonly", "no"]);
        while seal_code(&keys, expires_ms).await.is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
}
