//! Counters that several servers share; and what happens when they are away.

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use scrip_api::limiter::{Limiter, WhenAway};
use scrip_core::policy::{
    TenantKind,
    rate_limit::{Action, Demand, Figures, Network, Rate, Row, Subject, TABLE, address_demand},
};
use scrip_seal::Pepper;
use scrip_server::rate_limit::Shared;
use scrip_testing::{redis::Redis, vault::root_key};
use tokio::runtime::Runtime;

use crate::limits::harness::LimitsHarness;

const HERE: &str = "198.51.100.1";
/// A machine that is busy is no failure here.
const PATIENT: Duration = Duration::from_secs(60);

fn pepper() -> Pepper {
    let root = root_key();
    Pepper::create(&root).unwrap().0
}

fn sharing(redis: &Redis, figures: Figures, when_away: WhenAway) -> (Runtime, Limiter) {
    let runtime = Runtime::new().unwrap();
    let shared = runtime.block_on(Shared::start(redis.client(), PATIENT));
    (runtime, Limiter::new(figures, 1000).sharing(shared, when_away))
}

/// A server whose connections to Redis live in a runtime of the test's own.
fn scene(redis: &Redis, figures: Figures, when_away: WhenAway) -> (LimitsHarness, Runtime) {
    let (runtime, limiter) = sharing(redis, figures, when_away);
    (LimitsHarness::with(TenantKind::Test, |app| app.limiter = limiter), runtime)
}

/// The table with windows and blocks of an hour: their clock is Redis's, and no machine is so slow.
fn slow() -> Figures {
    let hour = Duration::from_secs(3600);
    TABLE.iter().fold(Figures::default(), |figures, it| {
        let action = it.rate.block().map_or(Action::Throttle, |_| Action::Block(hour));
        figures.with(it.row, Some(Rate { window: hour, action, ..it.rate }))
    })
}

#[track_caller]
fn eventually(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..6000 {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    unreachable!("never {what}");
}

#[test]
fn two_servers_count_together() {
    let redis = Redis::start();
    let runtime = Runtime::new().unwrap();
    let pepper = pepper();
    let rate = slow().rate(Row::LegacyKey).unwrap();
    let subject = Subject::Address(Network::of([192, 0, 2, 1].into()));
    let demand = Demand { row: Row::LegacyKey, subject, rate };
    runtime.block_on(async {
        let one = Shared::start(redis.client(), PATIENT).await;
        let two = Shared::start(redis.client(), PATIENT).await;
        let tasks = (0..8).map(|it| {
            let shared = Arc::clone(if it % 2 == 0 { &one } else { &two });
            let pepper = &pepper;
            async move {
                let mut admitted = 0;
                for _ in 0..30 {
                    let counted = shared.count(pepper, &[demand]).await.unwrap();
                    admitted += u32::from(counted.outcome.is_ok());
                }
                admitted
            }
        });
        let admitted: u32 = futures_util::future::join_all(tasks).await.into_iter().sum();
        assert_eq!(admitted, 100);
    });
}

#[test]
fn rows_are_refused_with_all_headers() {
    let redis = Redis::start();
    let (scene, _runtime) = scene(&redis, slow(), WhenAway::Local);
    let get = || scene.get(HERE, &scene.keys.private, "/permissions");
    (0..50).for_each(|_| drop(get().is(200)));
    let refused = get();
    refused.refused(429, "test_tenant");
    let header = |name: &str| refused.headers[name].parse::<i64>().unwrap();
    assert!((1..=3601).contains(&header("retry-after")), "{}", header("retry-after"));
    assert_eq!(header("ratelimit-limit"), 50);
    assert_eq!(scene.server.app.limiter.fullness().counters, 0, "nothing is counted here");
}

/// Neither keys nor addresses stand in Redis, and everything there ends by itself.
#[test]
fn what_stands_in_redis_tells_nothing_and_ends() {
    let redis = Redis::start();
    let rate = Rate { requests: NonZeroU32::new(3).unwrap(), ..slow().rate(Row::Address).unwrap() };
    let figures = slow().with(Row::Address, Some(rate));
    let (scene, _runtime) = scene(&redis, figures, WhenAway::Local);
    for _ in 0..5 {
        scene.get(HERE, &scene.keys.private, "/permissions");
    }
    let names: Vec<String> = redis.ask(&["KEYS", "*"]);
    let rows = ["test_tenant", "private_application", "address"];
    for row in rows {
        assert!(names.iter().any(|it| it.starts_with(&format!("scrip:limit:{row}:"))), "{names:?}");
    }
    assert!(names.iter().any(|it| it.ends_with(":block")), "{names:?}");
    for name in &names {
        let end = name.strip_suffix(":block").unwrap_or(name).rsplit(':').next().unwrap();
        let digest = end.len() == 32 && end.bytes().all(|it| it.is_ascii_hexdigit());
        if end == "probe" {
            continue;
        }
        assert!(digest, "{name}");
        let address_hex = "c6336401";
        assert!(!name.contains(address_hex) && !name.contains("198.51"), "{name}");
        let left_ms: i64 = redis.ask(&["PTTL", name]);
        assert!(left_ms > 0 && left_ms <= 3_600_001, "{name} {left_ms}");
    }
}

/// A log there is no longer than its limit.
#[test]
fn what_stands_in_redis_is_bounded() {
    let redis = Redis::start();
    let (runtime, pepper) = (Runtime::new().unwrap(), pepper());
    let brief =
        Rate { window: Duration::from_micros(1), ..slow().rate(Row::AccountUpdater).unwrap() };
    let subject = Subject::Address(Network::of([192, 0, 2, 1].into()));
    let demand = Demand { row: Row::AccountUpdater, subject, rate: brief };
    // With room for another, so that the log does not end before it is looked at.
    let lasting = Demand { rate: slow().rate(Row::PrivateApplication).unwrap(), ..demand };
    runtime.block_on(async {
        let shared = Shared::start(redis.client(), PATIENT).await;
        for _ in 0..100 {
            shared.count(&pepper, &[demand]).await.unwrap();
        }
        assert!(shared.count(&pepper, &[lasting]).await.unwrap().outcome.is_ok());
    });
    let names: Vec<String> = redis.ask(&["KEYS", "scrip:limit:account_updater:*"]);
    assert_eq!(names.len(), 1);
    let length: usize = redis.ask(&["LLEN", &names[0]]);
    assert!(length <= 11, "{length}");
}

/// A blocked address is refused without asking Redis again.
#[test]
fn a_refusal_is_remembered() {
    let redis = Redis::start();
    let rate = Rate { requests: NonZeroU32::new(3).unwrap(), ..slow().rate(Row::Address).unwrap() };
    let figures = slow().with(Row::Address, Some(rate));
    let (scene, _runtime) = scene(&redis, figures, WhenAway::Local);
    for _ in 0..4 {
        scene.get(HERE, "no such key", "/permissions");
    }
    let scripts = || -> String {
        let stats: String = redis.ask(&["INFO", "commandstats"]);
        stats.lines().filter(|it| it.starts_with("cmdstat_eval")).collect()
    };
    let before = scripts();
    for _ in 0..5 {
        scene.get(HERE, "no such key", "/permissions").refused(429, "address");
        scene.get(HERE, &scene.keys.private, "/permissions").refused(429, "address");
    }
    assert_eq!(scripts(), before);
    scene.get("198.51.100.2", &scene.keys.private, "/permissions").is(200);
    assert_ne!(scripts(), before);
}

#[test]
fn away_it_counts_here_and_comes_back() {
    let mut redis = Redis::start();
    let (scene, _runtime) = scene(&redis, Figures::default(), WhenAway::Local);
    let limiter = &scene.server.app.limiter;
    let get = || scene.get(HERE, &scene.keys.private, "/permissions");
    get().is(200);
    assert_eq!(limiter.shared_counters_answer(), Some(true));
    redis.kill();
    // By this server's clock, which stands still.
    (0..50).for_each(|_| drop(get().is(200)));
    get().throttled(scene.now_ms(), Row::TestTenant, 50, 10_001);
    assert_eq!(limiter.shared_counters_answer(), Some(false));
    assert!(limiter.shared_counters_failed().unwrap() >= 51);
    assert!(redis.run());
    eventually("back", || limiter.shared_counters_answer() == Some(true));
    let failed = limiter.shared_counters_failed();
    get().is(200);
    assert_eq!(limiter.shared_counters_failed(), failed);
}

#[test]
fn away_it_can_be_closed() {
    let mut redis = Redis::start();
    let (scene, _runtime) = scene(&redis, Figures::default(), WhenAway::Closed);
    let limiter = &scene.server.app.limiter;
    let get = || scene.get(HERE, &scene.keys.private, "/permissions");
    get().is(200);
    redis.kill();
    for _ in 0..3 {
        let reply = get();
        reply.refused(503, "counted");
        assert_eq!(reply.headers["retry-after"], "1");
        scene.get(HERE, "no such key", "/permissions").refused(503, "counted");
    }
    scene.ask(HERE, "GET", "/readyz").send().is(200);
    assert!(redis.run());
    eventually("back", || limiter.shared_counters_answer() == Some(true));
    get().is(200);
}

/// It is there and does not answer: a request waits for its deadline once, not every one.
#[test]
fn a_redis_that_is_stuck_is_away() {
    let redis = Redis::start();
    let runtime = Runtime::new().unwrap();
    let shared = runtime.block_on(Shared::start(redis.client(), Duration::from_millis(200)));
    let pepper = pepper();
    let here = Network::of([192, 0, 2, 1].into());
    let demand = address_demand(&Figures::default(), here).unwrap();
    let count = || runtime.block_on(shared.count(&pepper, &[demand]));
    eventually("there", || count().is_ok());
    redis.signal("STOP");
    for _ in 0..100 {
        assert!(count().is_err());
    }
    redis.signal("CONT");
    eventually("back", || count().is_ok());
}

/// A Redis that cannot write is away, too: it is asked to write before it is believed.
#[test]
fn a_redis_that_cannot_write_is_away() {
    let redis = Redis::start();
    drop(redis.ask::<String>(&["CONFIG", "SET", "maxmemory", "1"]));
    let (runtime, limiter) = sharing(&redis, Figures::default(), WhenAway::Local);
    assert_eq!(limiter.shared_counters_answer(), Some(false));
    drop(redis.ask::<String>(&["CONFIG", "SET", "maxmemory", "0"]));
    eventually("back", || limiter.shared_counters_answer() == Some(true));
    drop(runtime);
}
