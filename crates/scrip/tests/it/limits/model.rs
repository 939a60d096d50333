//! A simple model of the rate limits: a list of times for each counter. Property tests compare the
//! real counters with the model over random arrivals.

use std::{collections::HashMap, num::NonZeroU32, sync::Arc, time::Duration};

use proptest::{prelude::*, strategy::ValueTree};
use scrip_core::{
    Timestamp,
    policy::rate_limit::{
        ClientNetwork, CounterCheck, CounterDigest, CounterKey, LimitAction, Rate, RateLimitName,
        counters::RateLimitCounters,
    },
};
use scrip_seal::Pepper;
use scrip_server::rate_limit::RedisCounters;
use scrip_testing::process::redis::RedisServer;

#[derive(Default)]
struct CounterModel {
    admitted: Vec<i64>,
    blocked_at: Option<i64>,
}

/// A model of all counters. The unit of time depends on the clock.
struct RateLimitModel {
    counters: HashMap<(RateLimitName, CounterKey), CounterModel>,
    unit: fn(Duration) -> i64,
}

impl RateLimitModel {
    fn new(unit: fn(Duration) -> i64) -> Self {
        Self { counters: HashMap::new(), unit }
    }

    /// Returns whether all counters admit the request. If so, the request counts. If not, the
    /// counters over their limit start a block.
    fn decide(&mut self, now: i64, checks: &[CounterCheck]) -> bool {
        let exhausted_checks: Vec<_> = checks.iter().filter(|it| self.is_over(now, it)).collect();
        let is_admitted = exhausted_checks.is_empty();
        for check in if is_admitted { checks } else { &[] } {
            self.counter(check).admitted.push(now);
        }
        for check in exhausted_checks {
            if !self.is_blocked(now, check) && check.rate.block_duration().is_some() {
                self.counter(check).blocked_at = Some(now);
            }
        }
        is_admitted
    }

    fn counter(&mut self, check: &CounterCheck) -> &mut CounterModel {
        self.counters.entry((check.limit, check.key)).or_default()
    }

    fn is_over(&mut self, now: i64, check: &CounterCheck) -> bool {
        let window = (self.unit)(check.rate.window);
        let admitted = self.counter(check).admitted.iter();
        let count_in_window = admitted.filter(|it| now - **it <= window).count();
        count_in_window >= usize::try_from(check.rate.requests.get()).unwrap()
            || self.is_blocked(now, check)
    }

    fn is_blocked(&mut self, now: i64, check: &CounterCheck) -> bool {
        let block = check.rate.block_duration().map(self.unit);
        let blocked_at = self.counter(check).blocked_at;
        blocked_at.zip(block).is_some_and(|(blocked_at, block)| now - blocked_at <= block)
    }

    /// Checks that in each run of `limit + 1` admitted requests, the last is more than a window
    /// after the first.
    #[track_caller]
    fn assert_within_limit(&self, check: &CounterCheck) {
        let Some(state) = self.counters.get(&(check.limit, check.key)) else { return };
        let window = (self.unit)(check.rate.window);
        let limit = usize::try_from(check.rate.requests.get()).unwrap();
        for (first, last) in state.admitted.iter().zip(state.admitted.iter().skip(limit)) {
            assert!(last - first > window, "{check:?}: {:?}", state.admitted);
        }
    }
}

/// Returns five counters for three rate limits.
fn counter_checks(rates: &[Rate; 3], offset: u8) -> [CounterCheck; 5] {
    let address = |it: u8| ClientNetwork::from_address([10, 0, offset, it].into());
    let build_digest = |it: u8| CounterDigest([it.wrapping_add(offset); 16]);
    let build_check = |row, rate, subject| CounterCheck { limit: row, rate, key: subject };
    let [first, second, third] = *rates;
    let pair = CounterKey::Pair(build_digest(1), address(1));
    [
        build_check(RateLimitName::Address, first, CounterKey::Address(address(1))),
        build_check(RateLimitName::Address, first, CounterKey::Address(address(2))),
        build_check(RateLimitName::PrivateApplication, second, CounterKey::Digest(build_digest(1))),
        build_check(RateLimitName::PrivateApplication, second, CounterKey::Address(address(1))),
        build_check(RateLimitName::PublicApplication, third, pair),
    ]
}

fn choose(checks: &[CounterCheck; 5], mask: u8) -> Vec<CounterCheck> {
    let is_chosen = |it: &(usize, &CounterCheck)| mask & (1 << it.0) != 0;
    checks.iter().enumerate().filter(is_chosen).map(|it| *it.1).collect()
}

fn rate(requests: u32, window: Duration, block: Duration) -> Rate {
    let action = if block.is_zero() { LimitAction::Throttle } else { LimitAction::Block(block) };
    Rate { requests: NonZeroU32::new(requests).unwrap(), window, action }
}

fn any_rate() -> impl Strategy<Value = Rate> {
    let ms = Duration::from_millis;
    let block = prop_oneof![Just(0_u64), 1..80_u64];
    (1..8_u32, 1..60_u64, block)
        .prop_map(move |(limit, window_ms, block_ms)| rate(limit, ms(window_ms), ms(block_ms)))
}

/// Generates arrivals: the pause before each arrival, the counters that it checks, and whether it
/// only probes.
fn arrivals() -> impl Strategy<Value = Vec<(i64, u8, bool)>> {
    // Generate bursts with occasional pauses.
    let pause = prop_oneof![6 => Just(0_i64), 4 => 1..4_i64, 1 => 10..100_i64];
    prop::collection::vec((pause, 1..32_u8, prop::bool::weighted(0.1)), 1..400)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    /// Holds with little capacity, too: counters are evicted often, but no relevant count is lost.
    #[test]
    fn counters_decide_like_the_model(
        rates in [any_rate(), any_rate(), any_rate()],
        arrivals in arrivals(),
        counters_max in prop_oneof![Just(1000_usize), Just(9)],
    ) {
        let counters = RateLimitCounters::new(counters_max);
        let mut model = RateLimitModel::new(|it| i64::try_from(it.as_millis()).unwrap());
        let checks = counter_checks(&rates, 0);
        let mut now = 1_000_000;
        for (pause, mask, only_probes) in arrivals {
            now += pause;
            let chosen_checks = choose(&checks, mask);
            let timestamp = Timestamp { unix_ms: now };
            if only_probes {
                let first = &chosen_checks[0];
                let rejected = model.is_over(now, first);
                prop_assert_eq!(counters.probe(timestamp, first).is_err(), rejected);
                if rejected {
                    // A probe can start a block, but does not count.
                    model.decide(now, &chosen_checks[..1]);
                }
                continue;
            }
            let result = counters.count(timestamp, &chosen_checks);
            let is_admitted = model.decide(now, &chosen_checks);
            prop_assert_eq!(result.is_ok(), is_admitted, "at {} {:?}", now, result);
            if let Err(rejected) = result {
                // After the reported time a retry is admitted if no other request arrives.
                let retry_ms = now + i64::try_from(rejected.retry_after.as_millis()).unwrap();
                prop_assert!(chosen_checks.iter().all(|it| !model.is_over(retry_ms, it)));
                let is_rejected_earlier =
                    chosen_checks.iter().any(|it| model.is_over(retry_ms - 1, it));
                let blocks = chosen_checks.iter().any(|it| it.rate.block_duration().is_some());
                prop_assert!(is_rejected_earlier || blocks, "retry_after is longer than necessary");
            }
        }
        checks.iter().for_each(|it| model.assert_within_limit(it));
    }

    /// If the capacity is too small for all counters, some requests are rejected, but no limit is
    /// exceeded.
    #[test]
    fn full_counters_never_allow_more_than_the_limit(
        rates in [any_rate(), any_rate(), any_rate()],
        arrivals in arrivals(),
        counters_max in 0..5_usize,
    ) {
        let counters = RateLimitCounters::new(counters_max);
        let mut model = RateLimitModel::new(|it| i64::try_from(it.as_millis()).unwrap());
        let checks = counter_checks(&rates, 0);
        let mut now = 1_000_000;
        for (pause, mask, _) in arrivals {
            now += pause;
            let chosen_checks = choose(&checks, mask);
            if counters.count(Timestamp { unix_ms: now }, &chosen_checks).is_ok() {
                chosen_checks.iter().for_each(|it| model.counter(it).admitted.push(now));
            }
        }
        checks.iter().for_each(|it| model.assert_within_limit(it));
    }
}

/// Compares the Redis counters with the model. Redis decides with its own clock, so the model uses
/// the times that Redis reports.
#[test]
fn shared_counters_decide_like_the_model() {
    let redis = RedisServer::start();
    let source = scrip_testing::vault::root_key();
    let pepper = Pepper::create(&source).unwrap().0;
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let rounds = if std::env::var_os("SCRIP_TEST_LONG").is_some() { 200 } else { 20 };
    runtime.block_on(async {
        // The deadline is long, so that a busy machine does not fail the test.
        let shared = RedisCounters::start(redis.client(), Duration::from_secs(60)).await;
        for round in 0..rounds {
            compare_with_model(&shared, &pepper, round).await;
        }
    });
}

async fn compare_with_model(shared: &Arc<RedisCounters>, pepper: &Pepper, round: u8) {
    let mut runner = proptest::test_runner::TestRunner::default();
    let mut draw_below = |maximum: u64| (0..maximum).new_tree(&mut runner).unwrap().current();
    let micros = Duration::from_micros;
    let mut draw_rate = || {
        let block = if draw_below(2) == 0 { 0 } else { 1 + draw_below(15_000) };
        let requests = u32::try_from(1 + draw_below(7)).unwrap();
        rate(requests, micros(1000 + draw_below(12_000)), micros(block))
    };
    // The window never ends here, so requests are rejected on a slow machine, too.
    let rates = [rate(20, Duration::from_secs(3600), Duration::ZERO), draw_rate(), draw_rate()];
    let checks = counter_checks(&rates, round);
    let mut model = RateLimitModel::new(|it| i64::try_from(it.as_micros()).unwrap());
    let mut draw_below = |maximum: u64| (0..maximum).new_tree(&mut runner).unwrap().current();
    let mut rejected_count = 0;
    for _ in 0..150 {
        match draw_below(10) {
            0 => tokio::time::sleep(micros(draw_below(20_000))).await,
            1 | 2 => tokio::time::sleep(micros(draw_below(2000))).await,
            _ => (),
        }
        let chosen_checks = choose(&checks, u8::try_from(1 + draw_below(31)).unwrap());
        let result = shared.count(pepper, &chosen_checks).await.unwrap();
        let now = i64::try_from(result.at_us).unwrap();
        let is_admitted = model.decide(now, &chosen_checks);
        let is_ok = result.outcome.is_ok();
        assert_eq!(is_ok, is_admitted, "Redis decided {result:?} for {chosen_checks:?}");
        if let Err(it) = result.outcome {
            rejected_count += 1;
            let retry_us = now + i64::try_from(it.retry_after.as_micros()).unwrap();
            assert!(chosen_checks.iter().all(|it| !model.is_over(retry_us, it)));
        }
    }
    assert!(rejected_count > 0, "no request was rejected");
    checks.iter().for_each(|it| model.assert_within_limit(it));
}
