//! Counters that several servers share in Redis, and behavior while Redis is unavailable.

use std::{sync::Arc, time::Duration};

use scrip_api::limiter::{Limiter, OutagePolicy};
use scrip_core::{
    policy::rate_limit::{
        ClientNetwork, CounterCheck, CounterKey, EffectiveRates, LimitAction, RATE_LIMITS, Rate,
        RateLimitName, address_check,
    },
    types::TenantKind,
};
use scrip_seal::Pepper;
use scrip_server::rate_limit::RedisCounters;
use scrip_testing::{process::redis::RedisServer, vault::root_key};
use tokio::runtime::Runtime;

use crate::limits::harness::{RateLimitHarness, rate_with_requests};

const CLIENT: &str = "198.51.100.1";
/// A deadline that is long enough for a busy machine.
const LONG_DEADLINE: Duration = Duration::from_secs(60);

fn pepper() -> Pepper {
    let root = root_key();
    Pepper::create(&root).unwrap().0
}

fn shared_limiter(
    redis: &RedisServer,
    rates: EffectiveRates,
    outage_policy: OutagePolicy,
) -> (Runtime, Limiter) {
    let runtime = Runtime::new().unwrap();
    let shared = runtime.block_on(RedisCounters::start(redis.client(), LONG_DEADLINE));
    (runtime, Limiter::new(rates, 1000).with_shared_counters(shared, outage_policy))
}

/// Starts a server with Redis connections that run in a runtime of the test.
fn shared_harness(
    redis: &RedisServer,
    rates: EffectiveRates,
    outage_policy: OutagePolicy,
) -> (RateLimitHarness, Runtime) {
    let (runtime, limiter) = shared_limiter(redis, rates, outage_policy);
    (RateLimitHarness::start_with(TenantKind::Test, |app| app.limiter = limiter), runtime)
}

/// Returns the rate table with windows and blocks of one hour. Redis uses its own clock, so short
/// windows would fail on a slow machine.
fn hourly_rates() -> EffectiveRates {
    let hour = Duration::from_secs(3600);
    RATE_LIMITS.iter().fold(EffectiveRates::default(), |rates, it| {
        let action =
            it.rate.block_duration().map_or(LimitAction::Throttle, |_| LimitAction::Block(hour));
        rates.with_rate(it.name, Some(Rate { window: hour, action, ..it.rate }))
    })
}

/// A server that allows three requests of an address in an hour.
fn harness_with_address_limit(redis: &RedisServer) -> (RateLimitHarness, Runtime) {
    let name = RateLimitName::Address;
    let rate = rate_with_requests(hourly_rates().rate(name).unwrap(), 3);
    let rates = hourly_rates().with_rate(name, Some(rate));
    shared_harness(redis, rates, OutagePolicy::CountLocally)
}

#[track_caller]
fn wait_until(expectation: &str, condition: impl Fn() -> bool) {
    for _ in 0..6000 {
        if condition() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    unreachable!("never {expectation}");
}

#[test]
fn two_servers_share_counters() {
    let redis = RedisServer::start();
    let runtime = Runtime::new().unwrap();
    let pepper = pepper();
    let rate = hourly_rates().rate(RateLimitName::LegacyKey).unwrap();
    let subject = CounterKey::Address(ClientNetwork::from_address([192, 0, 2, 1].into()));
    let check = CounterCheck { limit: RateLimitName::LegacyKey, key: subject, rate };
    runtime.block_on(async {
        let first_counters = RedisCounters::start(redis.client(), LONG_DEADLINE).await;
        let second_counters = RedisCounters::start(redis.client(), LONG_DEADLINE).await;
        let tasks = (0..8).map(|it| {
            let shared = Arc::clone(if it % 2 == 0 { &first_counters } else { &second_counters });
            let pepper = &pepper;
            async move {
                let mut admitted = 0;
                for _ in 0..30 {
                    let result = shared.count(pepper, &[check]).await.unwrap();
                    admitted += u32::from(result.outcome.is_ok());
                }
                admitted
            }
        });
        let admitted: u32 = futures_util::future::join_all(tasks).await.into_iter().sum();
        assert_eq!(admitted, 100);
    });
}

#[test]
fn shared_limit_rejects_with_all_rate_limit_headers() {
    let redis = RedisServer::start();
    let (harness, _runtime) = shared_harness(&redis, hourly_rates(), OutagePolicy::CountLocally);
    let send_request = || harness.get(CLIENT, &harness.keys.private, "/permissions");
    (0..50).for_each(|_| drop(send_request().expect_status(200)));
    let rejected_response = send_request();
    rejected_response.expect_problem(429, "test_tenant");
    let header = |name: &str| rejected_response.headers[name].parse::<i64>().unwrap();
    assert!((1..=3601).contains(&header("retry-after")), "{}", header("retry-after"));
    assert_eq!(header("ratelimit-limit"), 50);
    let local_counters = harness.server.app.limiter.counter_usage().counters;
    assert_eq!(local_counters, 0, "the server counted locally");
}

/// Redis contains neither keys nor addresses, and every entry expires.
#[test]
fn redis_counters_contain_no_keys_or_addresses_and_expire() {
    let redis = RedisServer::start();
    let (harness, _runtime) = harness_with_address_limit(&redis);
    for _ in 0..5 {
        harness.get(CLIENT, &harness.keys.private, "/permissions");
    }
    let names: Vec<String> = redis.query(&["KEYS", "*"]);
    let rows = ["test_tenant", "private_application", "address"];
    for row in rows {
        assert!(names.iter().any(|it| it.starts_with(&format!("scrip:limit:{row}:"))), "{names:?}");
    }
    assert!(names.iter().any(|it| it.ends_with(":block")), "{names:?}");
    for name in &names {
        let name_suffix = name.strip_suffix(":block").unwrap_or(name).rsplit(':').next().unwrap();
        let digest =
            name_suffix.len() == 32 && name_suffix.bytes().all(|it| it.is_ascii_hexdigit());
        if name_suffix == "probe" {
            continue;
        }
        assert!(digest, "{name}");
        let address_hex = "c6336401";
        assert!(!name.contains(address_hex) && !name.contains("198.51"), "{name}");
        let left_ms: i64 = redis.query(&["PTTL", name]);
        assert!(left_ms > 0 && left_ms <= 3_600_001, "{name} expires in {left_ms} ms");
    }
}

/// A sliding window log in Redis is no longer than its limit.
#[test]
fn redis_counter_size_is_bounded_by_its_limit() {
    let redis = RedisServer::start();
    let (runtime, pepper) = (Runtime::new().unwrap(), pepper());
    let limit = RateLimitName::AccountUpdater;
    let hourly_rate = |name| hourly_rates().rate(name).unwrap();
    let rate = Rate { window: Duration::from_micros(1), ..hourly_rate(limit) };
    let key = CounterKey::Address(ClientNetwork::from_address([192, 0, 2, 1].into()));
    let check = CounterCheck { limit, key, rate };
    // This check has a longer window and is admitted, so that the log does not expire before the
    // test reads it.
    let rate = hourly_rate(RateLimitName::PrivateApplication);
    let larger_check = CounterCheck { rate, ..check };
    runtime.block_on(async {
        let shared = RedisCounters::start(redis.client(), LONG_DEADLINE).await;
        for _ in 0..100 {
            shared.count(&pepper, &[check]).await.unwrap();
        }
        assert!(shared.count(&pepper, &[larger_check]).await.unwrap().outcome.is_ok());
    });
    let names: Vec<String> = redis.query(&["KEYS", "scrip:limit:account_updater:*"]);
    assert_eq!(names.len(), 1);
    let length: usize = redis.query(&["LLEN", &names[0]]);
    assert!(length <= 11, "{length}");
}

/// A blocked address is rejected without another Redis query.
#[test]
fn rejection_is_cached_without_another_redis_query() {
    let redis = RedisServer::start();
    let (harness, _runtime) = harness_with_address_limit(&redis);
    for _ in 0..4 {
        harness.get(CLIENT, "no such key", "/permissions");
    }
    let count_script_calls = || -> String {
        let stats: String = redis.query(&["INFO", "commandstats"]);
        stats.lines().filter(|it| it.starts_with("cmdstat_eval")).collect()
    };
    let calls_before = count_script_calls();
    for _ in 0..5 {
        harness.get(CLIENT, "no such key", "/permissions").expect_problem(429, "address");
        harness.get(CLIENT, &harness.keys.private, "/permissions").expect_problem(429, "address");
    }
    assert_eq!(count_script_calls(), calls_before);
    harness.get("198.51.100.2", &harness.keys.private, "/permissions").expect_status(200);
    assert_ne!(count_script_calls(), calls_before);
}

#[test]
fn falls_back_to_local_counters_while_redis_is_down() {
    let mut redis = RedisServer::start();
    let (harness, _runtime) =
        shared_harness(&redis, EffectiveRates::default(), OutagePolicy::CountLocally);
    let limiter = &harness.server.app.limiter;
    let send_request = || harness.get(CLIENT, &harness.keys.private, "/permissions");
    send_request().expect_status(200);
    assert_eq!(limiter.shared_counters_available(), Some(true));
    redis.kill();
    // The local counters use the clock of this server, which the test does not advance.
    (0..50).for_each(|_| drop(send_request().expect_status(200)));
    send_request().expect_rate_limited(harness.now_ms(), RateLimitName::TestTenant, 50, 10_001);
    assert_eq!(limiter.shared_counters_available(), Some(false));
    assert!(limiter.shared_counter_failures().unwrap() >= 51);
    assert!(redis.restart());
    wait_until("back", || limiter.shared_counters_available() == Some(true));
    let failures = limiter.shared_counter_failures();
    send_request().expect_status(200);
    assert_eq!(limiter.shared_counter_failures(), failures);
}

#[test]
fn reject_policy_rejects_requests_while_redis_is_down() {
    let mut redis = RedisServer::start();
    let (harness, _runtime) =
        shared_harness(&redis, EffectiveRates::default(), OutagePolicy::RejectAll);
    let limiter = &harness.server.app.limiter;
    let send_request = || harness.get(CLIENT, &harness.keys.private, "/permissions");
    send_request().expect_status(200);
    redis.kill();
    for _ in 0..3 {
        let response = send_request();
        response.expect_problem(503, "rate limiter");
        assert_eq!(response.headers["retry-after"], "1");
        harness.get(CLIENT, "no such key", "/permissions").expect_problem(503, "rate limiter");
    }
    harness.request(CLIENT, "GET", "/readyz").send().expect_status(200);
    assert!(redis.restart());
    wait_until("back", || limiter.shared_counters_available() == Some(true));
    send_request().expect_status(200);
}

/// Redis accepts connections but does not respond. Only the first request waits for the deadline.
#[test]
fn unresponsive_redis_is_treated_as_unavailable() {
    let redis = RedisServer::start();
    let runtime = Runtime::new().unwrap();
    let shared = runtime.block_on(RedisCounters::start(redis.client(), Duration::from_millis(200)));
    let pepper = pepper();
    let client_network = ClientNetwork::from_address([192, 0, 2, 1].into());
    let check = address_check(&EffectiveRates::default(), client_network).unwrap();
    let count = || runtime.block_on(shared.count(&pepper, &[check]));
    wait_until("there", || count().is_ok());
    redis.signal("STOP");
    for _ in 0..100 {
        assert!(count().is_err());
    }
    redis.signal("CONT");
    wait_until("back", || count().is_ok());
}

/// A Redis that cannot write is unavailable, too: the server tests a write before it uses Redis
/// again.
#[test]
fn redis_that_cannot_write_is_treated_as_unavailable() {
    let redis = RedisServer::start();
    drop(redis.query::<String>(&["CONFIG", "SET", "maxmemory", "1"]));
    let (runtime, limiter) =
        shared_limiter(&redis, EffectiveRates::default(), OutagePolicy::CountLocally);
    assert_eq!(limiter.shared_counters_available(), Some(false));
    drop(redis.query::<String>(&["CONFIG", "SET", "maxmemory", "0"]));
    wait_until("back", || limiter.shared_counters_available() == Some(true));
    drop(runtime);
}
