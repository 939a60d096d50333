//! Window boundaries, capacity limits, and overflow counters.

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

/// The wait in milliseconds; `None` when the request was admitted.
fn wait(counters: &RateLimitCounters, now_ms: i64, check: CounterCheck) -> Option<u128> {
    counters.count(timestamp(now_ms), &[check]).err().map(|it| it.retry_after.as_millis())
}

#[test]
fn sliding_window_admits_only_after_an_entry_expires() {
    let counters = RateLimitCounters::new(1000);
    let check = address_check(1, rate(3, 100, 0));
    let waits: Vec<_> = [0, 40, 40, 40, 99, 100, 101, 101, 140, 141, 141, 141]
        .map(|it| wait(&counters, it, check))
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
    // A client that waits for `retry_after` is admitted.
    assert_eq!(wait(&counters, 141 + 61, check), None);
}

#[test]
fn block_lasts_from_the_rejection_that_started_it() {
    let counters = RateLimitCounters::new(1000);
    let check = address_check(1, rate(2, 100, 500));
    assert_eq!([0, 0].map(|it| wait(&counters, it, check)), [None, None]);
    // The window has capacity again at 101, and the block ends after 550.
    assert_eq!(
        [50, 101, 300, 550].map(|it| wait(&counters, it, check)),
        [501, 450, 251, 1].map(Some)
    );
    assert_eq!([551, 551].map(|it| wait(&counters, it, check)), [None, None]);
    // If a block ends before the window has capacity, the wait is the longer of the two.
    let second_check = address_check(2, rate(2, 1000, 10));
    assert_eq!([0, 0].map(|it| wait(&counters, it, second_check)), [None, None]);
    let waits = [1, 11, 12, 1000, 1010].map(|it| wait(&counters, it, second_check));
    assert_eq!(waits, [1000, 990, 989, 11, 1].map(Some));
    assert_eq!(wait(&counters, 1011, second_check), None);
}

#[test]
fn probe_counts_nothing_and_starts_a_block() {
    let counters = RateLimitCounters::new(1000);
    let check = address_check(1, rate(2, 100, 500));
    for _ in 0..10 {
        assert_eq!(counters.probe(timestamp(0), &check), Ok(()));
    }
    assert_eq!(counters.usage().counters, 0);
    assert_eq!([0, 0].map(|it| wait(&counters, it, check)), [None, None]);
    assert!(counters.probe(timestamp(10), &check).is_err());
    assert_eq!(wait(&counters, 200, check), Some(311), "blocked since 10");
}

#[test]
fn request_counts_on_all_counters_or_none_and_reports_longest_wait() {
    let counters = RateLimitCounters::new(1000);
    let address = address_check(1, rate(5, 1000, 0));
    let list = CounterCheck {
        limit: RateLimitName::ListTokens,
        key: address_key(1),
        rate: rate(1, 100, 0),
    };
    let legacy = CounterCheck {
        limit: RateLimitName::LegacyKey,
        key: address_key(1),
        rate: rate(1, 400, 0),
    };
    assert_eq!(counters.count(timestamp(0), &[address, list, legacy]), Ok(()));
    let rejection = counters.count(timestamp(0), &[address, list, legacy]).unwrap_err();
    assert_eq!(
        (rejection.limit, rejection.retry_after.as_millis()),
        (RateLimitName::LegacyKey, 401)
    );
    let rejection = counters.count(timestamp(0), &[address, list]).unwrap_err();
    assert_eq!(
        (rejection.limit, rejection.retry_after.as_millis()),
        (RateLimitName::ListTokens, 101)
    );
    // No rejected request was counted.
    assert_eq!([0; 4].map(|it| wait(&counters, it, address)), [None; 4]);
    assert!(wait(&counters, 0, address).is_some());
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

/// Of two threads that read the clock, the later reader may count first.
#[test]
fn out_of_order_clock_readings_expire_late_and_never_early() {
    let counters = RateLimitCounters::new(1000);
    let check = address_check(1, rate(2, 100, 0));
    assert_eq!([10, 5].map(|it| wait(&counters, it, check)), [None; 2]);
    assert_eq!([106, 110].map(|it| wait(&counters, it, check)), [5, 1].map(Some));
    assert_eq!([111, 109].map(|it| wait(&counters, it, check)), [None; 2], "both count as 111");
    assert!(wait(&counters, 108, check).is_some());
}

#[test]
fn new_counters_share_the_overflow_at_capacity_and_existing_counters_keep_their_logs() {
    let counters = RateLimitCounters::new(100);
    let check_for = |it| address_check(it, rate(3, 1000, 0));
    for it in 0..100 {
        assert_eq!(wait(&counters, 0, check_for(it)), None);
    }
    assert_eq!(counters.usage().counters, 100);
    // All new counters together have three admissions.
    let newcomers: Vec<_> =
        (100..110).filter(|it| wait(&counters, 0, check_for(*it)).is_none()).collect();
    assert_eq!(newcomers, [100, 101, 102]);
    assert_eq!(counters.usage().counters, 100);
    for it in 0..100 {
        assert_eq!(
            [0; 2].map(|now| wait(&counters, now, check_for(it))),
            [None; 2],
            "two more for {it}"
        );
        assert!(wait(&counters, 0, check_for(it)).is_some());
    }
}

#[test]
fn overflow_admissions_count_against_a_counter_created_later() {
    let counters = RateLimitCounters::new(1);
    let check_for = |it| address_check(it, rate(3, 1000, 0));
    assert_eq!(wait(&counters, 0, check_for(1)), None);
    assert_eq!(
        [900; 2].map(|now| wait(&counters, now, check_for(2))),
        [None; 2],
        "in the overflow"
    );
    counters.sweep(timestamp(1001));
    assert_eq!(counters.usage().counters, 0);
    assert_eq!(wait(&counters, 1001, check_for(2)), None, "the third in its window");
    assert_eq!(counters.usage().counters, 1, "it has its own counter now");
    assert!(wait(&counters, 1001, check_for(2)).is_some(), "two admissions are in the overflow");
    assert!(wait(&counters, 1900, check_for(2)).is_some());
    assert_eq!([1901; 2].map(|now| wait(&counters, now, check_for(2))), [None; 2]);
    assert!(wait(&counters, 1901, check_for(2)).is_some(), "one admission of its own still counts");
}

#[test]
fn blocked_overflow_blocks_only_new_counters() {
    let counters = RateLimitCounters::new(1);
    let check_for = |it| address_check(it, rate(2, 100, 500));
    assert_eq!(wait(&counters, 0, check_for(1)), None);
    assert_eq!([2, 3].map(|it| wait(&counters, 0, check_for(it))), [None; 2]);
    assert_eq!([4, 5].map(|it| wait(&counters, 0, check_for(it))), [Some(501); 2]);
    assert_eq!(
        counters.probe(timestamp(50), &check_for(6)).unwrap_err().retry_after.as_millis(),
        451
    );
    assert_eq!(wait(&counters, 50, check_for(1)), None);
}

/// A counter with a log that cannot grow writes its admissions to the overflow, and its limit still
/// applies.
#[test]
fn counters_that_cannot_grow_keep_their_limit() {
    let counters = RateLimitCounters::new(100);
    let entries_max = counters.usage().entries_max;
    let filler = address_check(0, rate(4_000_000, 1000, 0));
    for _ in 0..entries_max + 10 {
        assert_eq!(wait(&counters, 0, filler), None, "its log is full, and requests are admitted");
    }
    assert!(counters.usage().entries <= entries_max);
    let check_for = |it| address_check(it, rate(12, 1000, 0));
    let count_admitted =
        |it, now_ms| (0..100).filter(|_| wait(&counters, now_ms, check_for(it)).is_none()).count();
    // Each counter has four entries, and the first counter takes the last four free ones. The
    // overflow entries of the filler may belong to these counters too, so they count against them.
    assert_eq!([1, 2].map(|it| count_admitted(it, 0)), [8, 4]);
    assert_eq!([1, 2].map(|it| count_admitted(it, 1001)), [12, 12], "the filler's entries expired");
    assert_eq!(count_admitted(1, 2001), 0);
    assert_eq!(count_admitted(1, 2002), 12);
}

#[test]
fn expired_counters_release_their_capacity() {
    let counters = RateLimitCounters::new(1000);
    let check_for = |it| address_check(it, rate(50, 100, 500));
    for it in 0..600 {
        for _ in 0..20 {
            assert_eq!(wait(&counters, 0, check_for(it)), None);
        }
    }
    counters.sweep(timestamp(100));
    assert_eq!(counters.usage().counters, 600, "all of them still count");
    // Requests on other counters evict them, a few per request.
    for now_ms in 101..300 {
        counters.count(timestamp(now_ms), &[check_for(0)]).ok();
    }
    assert!(counters.usage().counters <= 500, "eviction stops below half of the capacity");
    counters.sweep(timestamp(300));
    let before = counters.usage();
    for now_ms in 1000..1500 {
        counters.count(timestamp(now_ms), &[check_for(u64::try_from(now_ms).unwrap())]).ok();
    }
    let after = counters.usage();
    assert!(
        after.counters <= 600 && after.entries <= before.entries,
        "usage before: {before:?}, after: {after:?}"
    );
}

/// After a burst, a log with few entries releases its capacity.
#[test]
fn sliding_window_log_shrinks_after_a_burst() {
    let counters = RateLimitCounters::new(1000);
    let check = address_check(1, rate(2000, 100, 0));
    for _ in 0..2000 {
        assert_eq!(wait(&counters, 0, check), None);
    }
    assert!(counters.usage().entries >= 1996);
    for now_ms in 200..400 {
        assert_eq!(wait(&counters, now_ms, check), None);
    }
    assert!(counters.usage().entries < 500, "usage: {:?}", counters.usage());
}

#[test]
fn concurrent_threads_never_exceed_the_rate() {
    let counters = RateLimitCounters::new(1000);
    let checks = [
        address_check(1, rate(500, 1000, 0)),
        CounterCheck {
            limit: RateLimitName::ListTokens,
            key: CounterKey::Digest(CounterDigest([7; 16])),
            rate: rate(400, 1000, 0),
        },
    ];
    let admitted: usize = std::thread::scope(|scope| {
        let count_admitted = |rotation: usize| {
            let mut rotated = checks;
            rotated.rotate_left(rotation % 2);
            (0..300).filter(|_| counters.count(timestamp(5), &rotated).is_ok()).count()
        };
        let threads: Vec<_> = (0..4).map(|it| scope.spawn(move || count_admitted(it))).collect();
        threads.into_iter().map(|it| it.join().unwrap()).sum()
    });
    assert_eq!(admitted, 400);
}
