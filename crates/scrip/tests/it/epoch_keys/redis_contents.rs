//! What stands in Redis of epoch keys, for how long, and which Redis will do.

use std::{sync::Arc, thread::sleep, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use scrip_seal::{
    EpochKeys, EpochKeysAway, KeyExchange, KeySource, OpenEpoch, Place, Presence, RootKey, Sealed,
    Secret,
};
use scrip_server::epoch_keys::{
    persistence::Persistence,
    shared::{Disks, SharedKeys},
};
use scrip_testing::redis::Redis;
use tokio::runtime::Runtime;

const VAULT: [u8; 32] = [7; 32];
const EPOCH: Duration = Duration::from_secs(15 * 60);

fn root(byte: u8) -> Arc<RootKey> {
    Arc::new(
        RootKey::from_text(&STANDARD.encode((0..32).map(|it: u8| it ^ byte).collect::<Vec<_>>()))
            .unwrap(),
    )
}

async fn node(redis: &Redis, epoch: Duration, root: Arc<RootKey>) -> EpochKeys {
    let shared = SharedKeys::start(redis.client(), Disks::Refused).await.unwrap();
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

async fn sealed(keys: &EpochKeys, ends_ms: i64) -> Result<Sealed, EpochKeysAway> {
    keys.prepare(ends_ms).await?;
    keys.seal(&place(), &Secret::new(b"4711".to_vec()), ends_ms)
}

fn open(keys: &EpochKeys, sealed: &Sealed, ends_ms: i64) -> Option<Vec<u8>> {
    match keys.open(&place(), sealed, ends_ms).unwrap() {
        OpenEpoch::Open(code) => Some(code.expose().to_vec()),
        OpenEpoch::Gone => None,
        OpenEpoch::Unasked => unreachable!("it was asked for"),
    }
}

/// Fields and values.
type Hash = Vec<(String, Vec<u8>)>;

/// All that Redis has, by name.
fn everything(redis: &Redis) -> Vec<(String, Hash)> {
    let names: Vec<String> = redis.ask(&["KEYS", "*"]);
    names.into_iter().map(|it| (it.clone(), redis.ask(&["HGETALL", &it]))).collect()
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|it| it == part)
}

#[test]
fn what_stands_there_is_wrapped_and_of_use_to_nobody_else() {
    let redis = Redis::start();
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let ends = now_ms() + 3_600_000;
        let ours = node(&redis, EPOCH, root(1)).await;
        let code = sealed(&ours, ends).await.unwrap();
        let all = everything(&redis);
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
        let plain = root(1).unwrap(&place(end, version), &wrapped).unwrap();
        assert_eq!(plain.expose().len(), 32);
        for wrong in [place(end + 1, version), place(end, version + 1), Place::new("epoch key")] {
            assert!(root(1).unwrap(&wrong, &wrapped).is_err());
        }
        let mut seen = wrapped.as_bytes().to_vec();
        assert!(!contains(&seen, plain.expose()) && !contains(&seen, b"4711"));
        seen.extend_from_slice(plain.expose());
        assert!(contains(&seen, plain.expose()), "the control");

        let theirs = node(&redis, EPOCH, root(2)).await;
        assert_eq!(theirs.find(&code, ends).await.unwrap(), Presence::Gone);
        assert!(matches!(sealed(&theirs, ends).await, Err(EpochKeysAway::Foreign)));
        let other = node(&redis, EPOCH, root(1)).await;
        assert_eq!(other.find(&code, ends).await.unwrap(), Presence::Here);
        assert_eq!(open(&other, &code, ends).unwrap(), b"4711");
    });
}

#[test]
fn redis_forgets_a_key_at_the_end_of_its_epoch_and_so_do_nodes() {
    let redis = Redis::start();
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let one = node(&redis, Duration::from_secs(2), root(1)).await;
        let two = node(&redis, Duration::from_secs(2), root(1)).await;
        // On a slow machine an epoch may be over before anything is left there.
        let (ends, code) = loop {
            let ends = now_ms();
            if let Ok(code) = sealed(&one, ends).await
                && two.find(&code, ends).await.unwrap() == Presence::Here
            {
                break (ends, code);
            }
        };
        let end = one.next_end_ms().unwrap();
        while redis.ask::<i64>(&["EXISTS", &name_of(end)]) == 1 {
            sleep(Duration::from_millis(10));
        }
        assert!(now_ms() >= end);
        // Memory has it until somebody looks at the clock.
        assert_eq!(open(&two, &code, ends).unwrap(), b"4711");
        // And does not bring it back.
        one.renew().await.unwrap();
        assert_eq!(redis.ask::<i64>(&["EXISTS", &name_of(end)]), 0);
        for keys in [&one, &two] {
            keys.destroy_ended(end).unwrap();
            assert_eq!(open(keys, &code, ends), None);
            assert_eq!(keys.find(&code, ends).await.unwrap(), Presence::Gone);
        }
        let late = node(&redis, Duration::from_secs(2), root(1)).await;
        assert_eq!(late.find(&code, ends).await.unwrap(), Presence::Gone);
    });
}

fn name_of(end: i64) -> String {
    format!("scrip:epoch:{}:{end}", "07".repeat(16))
}

/// The end is Redis's own business: nobody has to be there to destroy it.
#[test]
fn the_end_of_the_epoch_is_written_beside_the_key() {
    let redis = Redis::start();
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let keys = node(&redis, EPOCH, root(1)).await;
        drop(sealed(&keys, now_ms() + 3_600_000).await.unwrap());
        let end = keys.next_end_ms().unwrap();
        assert_eq!(redis.ask::<i64>(&["PEXPIRETIME", &name_of(end)]), end);
        let () = redis.ask(&["FLUSHALL"]);
        keys.renew().await.unwrap();
        assert_eq!(redis.ask::<i64>(&["PEXPIRETIME", &name_of(end)]), end);
    });
}

#[test]
fn a_node_that_is_sealed_or_has_not_asked_seals_nothing() {
    let redis = Redis::start();
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let ends = now_ms() + 3_600_000;
        let shared = SharedKeys::start(redis.client(), Disks::Refused).await.unwrap();
        let keys = EpochKeys::shared(EPOCH, shared);
        assert!(matches!(sealed(&keys, ends).await, Err(EpochKeysAway::Sealed)));
        keys.unlock(root(1), VAULT);
        let code = Secret::new(b"4711".to_vec());
        assert!(matches!(keys.seal(&place(), &code, ends), Err(EpochKeysAway::Unasked)));
        let code = sealed(&keys, ends).await.unwrap();
        let other = node(&redis, EPOCH, root(1)).await;
        assert!(matches!(other.open(&place(), &code, ends), Ok(OpenEpoch::Unasked)));
        // A key that Redis would forget at once is not sealed with.
        assert!(matches!(sealed(&other, 0).await, Err(EpochKeysAway::Forgotten)));
    });
}

/// Many at once, on two nodes that begin together: all with one key.
#[test]
fn the_first_key_of_an_epoch_is_everybodys() {
    let redis = Redis::start();
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let ends = now_ms() + 3_600_000;
        let one = node(&redis, EPOCH, root(1)).await;
        let two = node(&redis, EPOCH, root(1)).await;
        let all = (0..64).map(|it| sealed(if it % 2 == 0 { &one } else { &two }, ends));
        let all = futures_util::future::join_all(all).await;
        let versions = all.iter().map(|it| it.as_ref().unwrap().key_version().unwrap());
        let versions: std::collections::BTreeSet<_> = versions.collect();
        assert_eq!((versions.len(), one.held(), two.held()), (1, 1, 1));
    });
}

#[test]
fn a_redis_that_keeps_things_is_refused() {
    let runtime = Runtime::new().unwrap();
    let start = |redis: &Redis, disks| {
        runtime.block_on(SharedKeys::start(redis.client(), disks)).map(|it| it.answers())
    };
    let cases: [(&[&str], Persistence); 3] = [
        (&["--appendonly", "yes"], Persistence::On),
        (&["--save", "3600 1"], Persistence::On),
        (&["--rename-command", "CONFIG", ""], Persistence::Untold),
    ];
    for (more, expected) in cases {
        let redis = Redis::with(more);
        assert_eq!(start(&redis, Disks::Refused), Err(expected), "{more:?}");
        assert_eq!(start(&redis, Disks::Allowed), Ok(true), "{more:?}");
    }
    let redis = Redis::start();
    assert_eq!(start(&redis, Disks::Refused), Ok(true));
    // To bring a replica up to date, either of the two may write to a disk.
    let port = redis.url().trim_end_matches('/').rsplit(':').next().unwrap().to_owned();
    let _copy = Redis::with(&["--replicaof", "127.0.0.1", &port]);
    let is_copied = || start(&redis, Disks::Refused) == Err(Persistence::Copied);
    assert!((0..200).any(|_| {
        sleep(Duration::from_millis(50));
        is_copied()
    }));
    assert_eq!(start(&redis, Disks::Allowed), Ok(true));
}

/// One that is turned on later is not used either, once it is connected to anew.
#[test]
fn a_redis_that_comes_back_with_a_disk_is_not_used() {
    let mut redis = Redis::start();
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let ends = now_ms() + 3_600_000;
        let keys = node(&redis, EPOCH, root(1)).await;
        redis.kill();
        assert!(matches!(sealed(&keys, ends).await, Err(EpochKeysAway::Silent)));
        assert!(redis.run_with(&["--appendonly", "yes"]));
        for _ in 0..20 {
            tokio::time::sleep(Duration::from_millis(50)).await;
            assert!(matches!(sealed(&keys, ends).await, Err(EpochKeysAway::Silent)));
        }
        let () = redis.ask(&["CONFIG", "SET", "appendonly", "no"]);
        while sealed(&keys, ends).await.is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
}
