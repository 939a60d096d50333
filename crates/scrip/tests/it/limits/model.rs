//! The limits once more, as plainly as they can be said: a list of times for each counter. What
//! counts for real is compared with it, over random arrivals.

use std::{collections::HashMap, num::NonZeroU32, sync::Arc, time::Duration};

use proptest::{prelude::*, strategy::ValueTree};
use scrip_core::{
    policy::rate_limit::{
        ClientNetwork, CounterCheck, CounterDigest, CounterKey, LimitAction, Rate, RateLimitName,
        counters::RateLimitCounters,
    },
    time::Timestamp,
};
use scrip_seal::Pepper;
use scrip_server::rate_limit::RedisCounters;
use scrip_testing::redis::RedisServer;

#[derive(Default)]
struct CounterModel {
    admitted: Vec<i64>,
    blocked_at: Option<i64>,
}

/// In whatever unit of time the clock has.
struct RateLimitModel {
    counters: HashMap<(RateLimitName, CounterKey), CounterModel>,
    unit: fn(Duration) -> i64,
}

impl RateLimitModel {
    fn new(unit: fn(Duration) -> i64) -> Self {
        Self { counters: HashMap::new(), unit }
    }

    /// Whether all of them let it in; if so it counts, and if not those that are over block.
    fn decide(&mut self, now: i64, checks: &[CounterCheck]) -> bool {
        let refusing: Vec<_> = checks.iter().filter(|it| self.is_over(now, it)).collect();
        let admitted = refusing.is_empty();
        for check in if admitted { checks } else { &[] } {
            self.counter(check).admitted.push(now);
        }
        for check in refusing {
            if !self.is_blocked(now, check) && check.rate.block_duration().is_some() {
                self.counter(check).blocked_at = Some(now);
            }
        }
        admitted
    }

    fn counter(&mut self, check: &CounterCheck) -> &mut CounterModel {
        self.counters.entry((check.limit, check.key)).or_default()
    }

    fn is_over(&mut self, now: i64, check: &CounterCheck) -> bool {
        let window = (self.unit)(check.rate.window);
        let inside = self.counter(check).admitted.iter().filter(|at| now - **at <= window).count();
        inside >= usize::try_from(check.rate.requests.get()).unwrap() || self.is_blocked(now, check)
    }

    fn is_blocked(&mut self, now: i64, check: &CounterCheck) -> bool {
        let block = check.rate.block_duration().map(self.unit);
        self.counter(check).blocked_at.zip(block).is_some_and(|(at, block)| now - at <= block)
    }

    /// Of any so many in a row, the last came more than a window after the first.
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

/// Five counters, of three rows; two of them are of one row.
fn counter_checks(rates: &[Rate; 3], offset: u8) -> [CounterCheck; 5] {
    let address = |it: u8| ClientNetwork::from_address([10, 0, offset, it].into());
    let mark = |it: u8| CounterDigest([it.wrapping_add(offset); 16]);
    let check = |row, rate, subject| CounterCheck { limit: row, rate, key: subject };
    let [first, second, third] = *rates;
    [
        check(RateLimitName::Address, first, CounterKey::Address(address(1))),
        check(RateLimitName::Address, first, CounterKey::Address(address(2))),
        check(RateLimitName::PrivateApplication, second, CounterKey::Digest(mark(1))),
        check(RateLimitName::PrivateApplication, second, CounterKey::Address(address(1))),
        check(RateLimitName::PublicApplication, third, CounterKey::Pair(mark(1), address(1))),
    ]
}

fn choose(all: &[CounterCheck; 5], mask: u8) -> Vec<CounterCheck> {
    let is_chosen = |it: &(usize, &CounterCheck)| mask & (1 << it.0) != 0;
    all.iter().enumerate().filter(is_chosen).map(|it| *it.1).collect()
}

fn rate(requests: u32, window: Duration, block: Duration) -> Rate {
    let action = if block.is_zero() { LimitAction::Throttle } else { LimitAction::Block(block) };
    Rate { requests: NonZeroU32::new(requests).unwrap(), window, action }
}

fn any_rate() -> impl Strategy<Value = Rate> {
    let ms = Duration::from_millis;
    let block = prop_oneof![Just(0_u64), 1..80_u64];
    (1..8_u32, 1..60_u64, block).prop_map(move |(n, w, b)| rate(n, ms(w), ms(b)))
}

/// How long after the one before, on which counters, and whether it only asks.
fn arrivals() -> impl Strategy<Value = Vec<(i64, u8, bool)>> {
    // Bursts, and now and then a pause.
    let pause = prop_oneof![6 => Just(0_i64), 4 => 1..4_i64, 1 => 10..100_i64];
    prop::collection::vec((pause, 1..32_u8, prop::bool::weighted(0.1)), 1..400)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    /// With little room too: then counters are reclaimed all the time, and still nothing is
    /// forgotten that counts.
    #[test]
    fn counters_decide_like_the_model(
        rates in [any_rate(), any_rate(), any_rate()],
        arrivals in arrivals(),
        counters_max in prop_oneof![Just(1000_usize), Just(9)],
    ) {
        let counters = RateLimitCounters::new(counters_max);
        let mut model = RateLimitModel::new(|it| i64::try_from(it.as_millis()).unwrap());
        let all = counter_checks(&rates, 0);
        let mut now = 1_000_000;
        for (pause, mask, only_asks) in arrivals {
            now += pause;
            let chosen = choose(&all, mask);
            let at = Timestamp { unix_ms: now };
            if only_asks {
                let first = &chosen[0];
                let rejected = model.is_over(now, first);
                prop_assert_eq!(counters.probe(at, first).is_err(), rejected);
                if rejected {
                    // Asking begins a block, and that is all.
                    model.decide(now, &chosen[..1]);
                }
                continue;
            }
            let counted = counters.count(at, &chosen);
            let is_let_in = model.decide(now, &chosen);
            prop_assert_eq!(counted.is_ok(), is_let_in, "at {} {:?}", now, counted);
            if let Err(rejected) = counted {
                // Whoever waits so long is let in, if nobody comes in between.
                let then = now + i64::try_from(rejected.retry_after.as_millis()).unwrap();
                prop_assert!(chosen.iter().all(|it| !model.is_over(then, it)));
                let early = chosen.iter().any(|it| model.is_over(then - 1, it));
                let blocks = chosen.iter().any(|it| it.rate.block_duration().is_some());
                prop_assert!(early || blocks, "nobody waits for nothing");
            }
        }
        all.iter().for_each(|it| model.assert_within_limit(it));
    }

    /// When there is no room for everybody, some are refused for others; but nobody has more.
    #[test]
    fn full_counters_never_allow_more_than_the_limit(
        rates in [any_rate(), any_rate(), any_rate()],
        arrivals in arrivals(),
        counters_max in 0..5_usize,
    ) {
        let counters = RateLimitCounters::new(counters_max);
        let mut model = RateLimitModel::new(|it| i64::try_from(it.as_millis()).unwrap());
        let all = counter_checks(&rates, 0);
        let mut now = 1_000_000;
        for (pause, mask, _) in arrivals {
            now += pause;
            let chosen = choose(&all, mask);
            if counters.count(Timestamp { unix_ms: now }, &chosen).is_ok() {
                chosen.iter().for_each(|it| model.counter(it).admitted.push(now));
            }
        }
        all.iter().for_each(|it| model.assert_within_limit(it));
    }
}

/// The same in Redis, whose own clock decides: the times that it tells are the model's.
#[test]
fn shared_counters_decide_like_the_model() {
    let redis = RedisServer::start();
    let source = scrip_testing::vault::root_key();
    let pepper = Pepper::create(&source).unwrap().0;
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let rounds = if std::env::var_os("SCRIP_TEST_LONG").is_some() { 200 } else { 20 };
    runtime.block_on(async {
        // Long: a machine that is busy is no failure here.
        let shared = RedisCounters::start(redis.client(), Duration::from_secs(60)).await;
        for round in 0..rounds {
            compare_with_model(&shared, &pepper, round).await;
        }
    });
}

async fn compare_with_model(shared: &Arc<RedisCounters>, pepper: &Pepper, round: u8) {
    let mut runner = proptest::test_runner::TestRunner::default();
    let mut draw = |most: u64| (0..most).new_tree(&mut runner).unwrap().current();
    let us = Duration::from_micros;
    let mut one = || {
        let block = if draw(2) == 0 { 0 } else { 1 + draw(15_000) };
        rate(u32::try_from(1 + draw(7)).unwrap(), us(1000 + draw(12_000)), us(block))
    };
    // One whose window never ends here: however slow the machine is, somebody is refused.
    let rates = [rate(20, Duration::from_secs(3600), Duration::ZERO), one(), one()];
    let all = counter_checks(&rates, round);
    let mut model = RateLimitModel::new(|it| i64::try_from(it.as_micros()).unwrap());
    let mut draw = |most: u64| (0..most).new_tree(&mut runner).unwrap().current();
    let mut rejected = 0;
    for _ in 0..150 {
        match draw(10) {
            0 => tokio::time::sleep(us(draw(20_000))).await,
            1 | 2 => tokio::time::sleep(us(draw(2000))).await,
            _ => (),
        }
        let chosen = choose(&all, u8::try_from(1 + draw(31)).unwrap());
        let counted = shared.count(pepper, &chosen).await.unwrap();
        let now = i64::try_from(counted.at_us).unwrap();
        let is_let_in = model.decide(now, &chosen);
        assert_eq!(counted.outcome.is_ok(), is_let_in, "{counted:?} {chosen:?}");
        if let Err(it) = counted.outcome {
            rejected += 1;
            let then = now + i64::try_from(it.retry_after.as_micros()).unwrap();
            assert!(chosen.iter().all(|it| !model.is_over(then, it)));
        }
    }
    assert!(rejected > 0, "somebody was refused");
    all.iter().for_each(|it| model.assert_within_limit(it));
}
