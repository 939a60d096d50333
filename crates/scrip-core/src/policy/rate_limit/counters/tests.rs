//! Boundaries, bounds, and what happens when there is no more room.

use std::num::NonZeroU32;

use super::*;
use crate::policy::rate_limit::{ClientNetwork, CounterDigest, LimitAction};

fn rate(requests: u32, window_ms: u64, block_ms: u64) -> Rate {
    let block = Duration::from_millis(block_ms);
    Rate {
        requests: NonZeroU32::new(requests).unwrap(),
        window: Duration::from_millis(window_ms),
        action: if block_ms == 0 { LimitAction::Throttle } else { LimitAction::Block(block) },
    }
}

fn address_key(number: u64) -> CounterKey {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&number.to_be_bytes());
    CounterKey::Address(ClientNetwork(bytes))
}

fn address_check(number: u64, rate: Rate) -> CounterCheck {
    CounterCheck { limit: RateLimitName::Address, key: address_key(number), rate }
}

fn timestamp(unix_ms: i64) -> Timestamp {
    Timestamp { unix_ms }
}

/// The wait in milliseconds, or nothing when it was let in.
fn wait(counters: &RateLimitCounters, now_ms: i64, demand: CounterCheck) -> Option<u128> {
    counters.count(timestamp(now_ms), &[demand]).err().map(|it| it.retry_after.as_millis())
}

#[test]
fn sliding_window_admits_only_after_an_entry_expires() {
    let counters = RateLimitCounters::new(1000);
    let one = address_check(1, rate(3, 100, 0));
    let waits: Vec<_> = [0, 40, 40, 40, 99, 100, 101, 101, 140, 141, 141, 141]
        .map(|it| wait(&counters, it, one))
        .into();
    let expected = [
        None,
        None,
        None,
        Some(61),
        Some(2),
        Some(1),
        None,
        Some(40),
        Some(1),
        None,
        None,
        Some(61),
    ];
    assert_eq!(waits, expected);
    // Who waits as long as it was told is let in.
    assert_eq!(wait(&counters, 141 + 61, one), None);
}

#[test]
fn block_lasts_from_the_rejection_that_started_it() {
    let counters = RateLimitCounters::new(1000);
    let one = address_check(1, rate(2, 100, 500));
    assert_eq!([0, 0].map(|it| wait(&counters, it, one)), [None, None]);
    // The window is free at 101, and the block over after 550.
    assert_eq!(
        [50, 101, 300, 550].map(|it| wait(&counters, it, one)),
        [501, 450, 251, 1].map(Some)
    );
    assert_eq!([551, 551].map(|it| wait(&counters, it, one)), [None, None]);
    // A block that ends before the window is free tells the longer wait.
    let other = address_check(2, rate(2, 1000, 10));
    assert_eq!([0, 0].map(|it| wait(&counters, it, other)), [None, None]);
    let waits = [1, 11, 12, 1000, 1010].map(|it| wait(&counters, it, other));
    assert_eq!(waits, [1000, 990, 989, 11, 1].map(Some));
    assert_eq!(wait(&counters, 1011, other), None);
}

#[test]
fn probe_counts_nothing_and_starts_a_block() {
    let counters = RateLimitCounters::new(1000);
    let one = address_check(1, rate(2, 100, 500));
    for _ in 0..10 {
        assert_eq!(counters.probe(timestamp(0), &one), Ok(()));
    }
    assert_eq!(counters.usage().counters, 0);
    assert_eq!([0, 0].map(|it| wait(&counters, it, one)), [None, None]);
    assert!(counters.probe(timestamp(10), &one).is_err());
    assert_eq!(wait(&counters, 200, one), Some(311), "blocked since 10");
}

#[test]
fn request_counts_on_all_counters_or_none_and_reports_longest_wait() {
    let counters = RateLimitCounters::new(1000);
    let wide = address_check(1, rate(5, 1000, 0));
    let narrow = CounterCheck {
        limit: RateLimitName::ListTokens,
        key: address_key(1),
        rate: rate(1, 100, 0),
    };
    let slow = CounterCheck {
        limit: RateLimitName::LegacyKey,
        key: address_key(1),
        rate: rate(1, 400, 0),
    };
    assert_eq!(counters.count(timestamp(0), &[wide, narrow, slow]), Ok(()));
    let rejection = counters.count(timestamp(0), &[wide, narrow, slow]).unwrap_err();
    assert_eq!(
        (rejection.limit, rejection.retry_after.as_millis()),
        (RateLimitName::LegacyKey, 401)
    );
    let rejection = counters.count(timestamp(0), &[wide, narrow]).unwrap_err();
    assert_eq!(
        (rejection.limit, rejection.retry_after.as_millis()),
        (RateLimitName::ListTokens, 101)
    );
    // None of the refused was counted.
    assert_eq!([0; 4].map(|it| wait(&counters, it, wide)), [None; 4]);
    assert!(wait(&counters, 0, wide).is_some());
}

#[test]
fn lowered_rate_applies_immediately() {
    let counters = RateLimitCounters::new(1000);
    for _ in 0..30 {
        assert_eq!(wait(&counters, 0, address_check(1, rate(50, 100, 0))), None);
    }
    assert_eq!(wait(&counters, 50, address_check(1, rate(25, 100, 0))), Some(51));
    assert_eq!(wait(&counters, 50, address_check(1, rate(31, 100, 0))), None);
    assert_eq!(wait(&counters, 50, address_check(1, rate(31, 100, 0))), Some(51));
}

/// The later of two readers of the clock may be the first to count.
#[test]
fn out_of_order_clock_readings_expire_late_and_never_early() {
    let counters = RateLimitCounters::new(1000);
    let one = address_check(1, rate(2, 100, 0));
    assert_eq!([10, 5].map(|it| wait(&counters, it, one)), [None; 2]);
    assert_eq!([106, 110].map(|it| wait(&counters, it, one)), [5, 1].map(Some));
    assert_eq!([111, 109].map(|it| wait(&counters, it, one)), [None; 2], "it is 111 by then");
    assert!(wait(&counters, 108, one).is_some());
}

#[test]
fn new_counters_share_overflow_at_capacity_and_existing_keep_theirs() {
    let counters = RateLimitCounters::new(100);
    let of = |it| address_check(it, rate(3, 1000, 0));
    for it in 0..100 {
        assert_eq!(wait(&counters, 0, of(it)), None);
    }
    assert_eq!(counters.usage().counters, 100);
    // Three in all for whoever else comes.
    let newcomers: Vec<_> = (100..110).filter(|it| wait(&counters, 0, of(*it)).is_none()).collect();
    assert_eq!(newcomers, [100, 101, 102]);
    assert_eq!(counters.usage().counters, 100);
    for it in 0..100 {
        assert_eq!([0; 2].map(|now| wait(&counters, now, of(it))), [None; 2], "two more for {it}");
        assert!(wait(&counters, 0, of(it)).is_some());
    }
}

#[test]
fn overflow_admissions_count_against_a_new_own_counter() {
    let counters = RateLimitCounters::new(1);
    let of = |it| address_check(it, rate(3, 1000, 0));
    assert_eq!(wait(&counters, 0, of(1)), None);
    assert_eq!([900; 2].map(|now| wait(&counters, now, of(2))), [None; 2], "at the overflow");
    counters.sweep(timestamp(1001));
    assert_eq!(counters.usage().counters, 0);
    assert_eq!(wait(&counters, 1001, of(2)), None, "the third in its window");
    assert_eq!(counters.usage().counters, 1, "its own now");
    assert!(wait(&counters, 1001, of(2)).is_some(), "two of them stand elsewhere");
    assert!(wait(&counters, 1900, of(2)).is_some());
    assert_eq!([1901; 2].map(|now| wait(&counters, now, of(2))), [None; 2]);
    assert!(wait(&counters, 1901, of(2)).is_some(), "one of its own is left");
}

#[test]
fn blocked_overflow_blocks_only_new_counters() {
    let counters = RateLimitCounters::new(1);
    let of = |it| address_check(it, rate(2, 100, 500));
    assert_eq!(wait(&counters, 0, of(1)), None);
    assert_eq!([2, 3].map(|it| wait(&counters, 0, of(it))), [None; 2]);
    assert_eq!([4, 5].map(|it| wait(&counters, 0, of(it))), [Some(501); 2]);
    assert_eq!(counters.probe(timestamp(50), &of(6)).unwrap_err().retry_after.as_millis(), 451);
    assert_eq!(wait(&counters, 50, of(1)), None);
}

/// When logs cannot grow, a counter lends the place of its next admission, and still has its limit.
#[test]
fn counters_that_cannot_grow_keep_their_limit() {
    let counters = RateLimitCounters::new(100);
    let places_max = counters.usage().entries_max;
    let filler = address_check(0, rate(4_000_000, 1000, 0));
    for _ in 0..places_max + 10 {
        assert_eq!(wait(&counters, 0, filler), None, "its log is full, and it goes on");
    }
    assert!(counters.usage().entries <= places_max);
    let of = |it| address_check(it, rate(12, 1000, 0));
    let admitted =
        |it, now_ms| (0..100).filter(|_| wait(&counters, now_ms, of(it)).is_none()).count();
    // Four places are a counter's own, and the first takes the last four there are. What was lent
    // to the filler may be theirs too, for all that is known.
    assert_eq!([1, 2].map(|it| admitted(it, 0)), [8, 4]);
    assert_eq!([1, 2].map(|it| admitted(it, 1001)), [12, 12], "the filler's places are free");
    assert_eq!(admitted(1, 2001), 0);
    assert_eq!(admitted(1, 2002), 12);
}

#[test]
fn expired_counters_release_their_capacity() {
    let counters = RateLimitCounters::new(1000);
    let of = |it| address_check(it, rate(50, 100, 500));
    for it in 0..600 {
        for _ in 0..20 {
            assert_eq!(wait(&counters, 0, of(it)), None);
        }
    }
    counters.sweep(timestamp(100));
    assert_eq!(counters.usage().counters, 600, "all of them still count");
    // By others, a few with each request.
    for now_ms in 101..300 {
        counters.count(timestamp(now_ms), &[of(0)]).ok();
    }
    assert!(counters.usage().counters <= 500, "half is never looked for");
    counters.sweep(timestamp(300));
    let before = counters.usage();
    for now_ms in 1000..1500 {
        counters.count(timestamp(now_ms), &[of(u64::try_from(now_ms).unwrap())]).ok();
    }
    let after = counters.usage();
    assert!(after.counters <= 600 && after.entries <= before.entries, "{before:?} {after:?}");
}

/// After a burst, a log that is used little gives its places back.
#[test]
fn sliding_window_log_shrinks_after_a_burst() {
    let counters = RateLimitCounters::new(1000);
    let one = address_check(1, rate(2000, 100, 0));
    for _ in 0..2000 {
        assert_eq!(wait(&counters, 0, one), None);
    }
    assert!(counters.usage().entries >= 1996);
    for now_ms in 200..400 {
        assert_eq!(wait(&counters, now_ms, one), None);
    }
    assert!(counters.usage().entries < 500, "{:?}", counters.usage());
}

#[test]
fn concurrent_threads_never_exceed_the_rate() {
    let counters = RateLimitCounters::new(1000);
    let pair = [
        address_check(1, rate(500, 1000, 0)),
        CounterCheck {
            limit: RateLimitName::ListTokens,
            key: CounterKey::Digest(CounterDigest([7; 16])),
            rate: rate(400, 1000, 0),
        },
    ];
    let admitted: usize = std::thread::scope(|scope| {
        let ask = |first: usize| {
            let mut order = pair;
            order.rotate_left(first % 2);
            (0..300).filter(|_| counters.count(timestamp(5), &order).is_ok()).count()
        };
        let threads: Vec<_> = (0..4).map(|it| scope.spawn(move || ask(it))).collect();
        threads.into_iter().map(|it| it.join().unwrap()).sum()
    });
    assert_eq!(admitted, 400);
}
