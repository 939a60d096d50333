//! The counts of one node: windows, limits, writing behind, and a random history against a model.

use std::{
    pin::pin,
    task::{Context, Poll, Waker},
};

use uuid::Uuid;

use super::*;
use crate::store::StoreFuture;

/// Answers at once, so a future of it is ready when it is first polled.
#[derive(Debug, Default)]
struct InMemoryGuessStore(Mutex<Vec<(TenantId, GuessRecord)>>);

impl GuessStore for InMemoryGuessStore {
    fn find_guesses<'a>(
        &'a self,
        tenant: TenantId,
        buckets: &'a [GuessBucket],
        now: Timestamp,
    ) -> StoreFuture<'a, Vec<GuessRecord>> {
        let records = self.0.lock().unwrap();
        let found = records.iter().filter(|(owner, it)| {
            *owner == tenant && buckets.contains(&it.bucket) && it.expires_at > now
        });
        let found = found.map(|(_, it)| *it).collect();
        Box::pin(async move { Ok(found) })
    }

    fn insert_guesses(&self, tenant: TenantId, records: Vec<GuessRecord>) -> StoreFuture<'_, ()> {
        let mut stored = self.0.lock().unwrap();
        for record in records {
            stored.retain(|(owner, it)| {
                (*owner, it.bucket, it.number_digest)
                    != (tenant, record.bucket, record.number_digest)
            });
            stored.push((tenant, record));
        }
        Box::pin(async { Ok(()) })
    }

    fn delete_expired_guesses(&self, expired: Timestamp) -> StoreFuture<'_, usize> {
        self.0.lock().unwrap().retain(|(_, it)| it.expires_at > expired);
        Box::pin(async { Ok(0) })
    }
}

fn poll_ready<T>(future: impl Future<Output = T>) -> T {
    let mut context = Context::from_waker(Waker::noop());
    match pin!(future).poll(&mut context) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("the store answers at once"),
    }
}

fn bucket(name: u8) -> GuessBucket {
    GuessBucket([name; 17])
}

fn number(group: u8, name: u8) -> CountedNumber {
    let mut bytes = [name; 16];
    bytes[0] = group;
    CountedNumber { group: bucket(group), number: bytes }
}

fn limits(day: QuotaLimit, quarter: QuotaLimit, application: QuotaLimit) -> GuessLimits {
    GuessLimits { day, quarter, application }
}

struct LedgerHarness {
    ledger: GuessLedger,
    store: InMemoryGuessStore,
    limits: GuessLimits,
}

impl LedgerHarness {
    fn new(limits: GuessLimits) -> Self {
        Self { ledger: GuessLedger::default(), store: InMemoryGuessStore::default(), limits }
    }

    fn count(&self, ms: i64, numbers: &[CountedNumber]) -> GuessCountResult {
        let now = Timestamp { unix_ms: ms };
        let tenant = TenantId(Uuid::nil());
        let counting =
            CountRequest { tenant, application_bucket: bucket(255), limits: self.limits, now };
        poll_ready(self.ledger.count(&self.store, counting, numbers)).unwrap()
    }

    fn is_fingerprint_allowed(&self, ms: i64, it: CountedNumber) -> bool {
        self.count(ms, &[it]).disclosure == FingerprintDisclosure::Allowed
    }

    fn flush(&self, ms: i64) {
        poll_ready(self.ledger.flush(&self.store, Timestamp { unix_ms: ms })).unwrap();
    }
}

const DAY_MS: i64 = 24 * 60 * 60 * 1000;

#[test]
fn exhausted_group_withholds_new_and_repeated_numbers_until_the_window_moves_on() {
    let scene = LedgerHarness::new(limits(QuotaLimit::Count(3), QuotaLimit::Off, QuotaLimit::Off));
    for name in 0..3 {
        let spent = scene.count(i64::from(name), &[number(1, name)]).exhausted;
        assert_eq!(spent.contains(&GuessBudget::Day), name == 2, "spent once, by the last one");
    }
    assert!(!scene.is_fingerprint_allowed(10, number(1, 9)), "the fourth distinct number");
    assert!(!scene.is_fingerprint_allowed(11, number(1, 0)), "a repeat of the first one");
    assert!(scene.is_fingerprint_allowed(12, number(2, 9)), "another group has its own budget");
    assert!(!scene.is_fingerprint_allowed(DAY_MS - 1, number(1, 0)));
    assert!(
        scene.is_fingerprint_allowed(DAY_MS, number(1, 9)),
        "the first one has left the window"
    );
    assert!(!scene.is_fingerprint_allowed(DAY_MS, number(1, 0)), "and made room for one");
}

#[test]
fn repeated_number_counts_once_against_the_budget() {
    let scene = LedgerHarness::new(limits(QuotaLimit::Count(2), QuotaLimit::Off, QuotaLimit::Off));
    for ms in 0..50 {
        assert!(scene.is_fingerprint_allowed(ms, number(1, 0)));
    }
    assert!(scene.is_fingerprint_allowed(50, number(1, 1)));
    assert!(!scene.is_fingerprint_allowed(51, number(1, 0)));
}

#[test]
fn numbers_of_one_token_are_counted_until_the_budget_is_exhausted() {
    let scene = LedgerHarness::new(limits(QuotaLimit::Count(2), QuotaLimit::Off, QuotaLimit::Off));
    let many: Vec<_> = (0..5).map(|it| number(1, it)).collect();
    assert_eq!(scene.count(0, &many).disclosure, FingerprintDisclosure::Withheld);
    assert!(!scene.is_fingerprint_allowed(1, number(1, 7)), "two of the five were counted");
}

#[test]
fn application_budget_counts_numbers_after_the_first_of_each_group() {
    let scene = LedgerHarness::new(limits(QuotaLimit::Off, QuotaLimit::Off, QuotaLimit::Count(3)));
    for group in 0..100 {
        assert!(
            scene.is_fingerprint_allowed(0, number(group, 0)),
            "the first of each group is free"
        );
        assert!(scene.is_fingerprint_allowed(0, number(group, 0)), "and so is its repeat");
    }
    for group in 0..3 {
        assert!(scene.is_fingerprint_allowed(1, number(group, 1)));
    }
    assert!(!scene.is_fingerprint_allowed(2, number(50, 1)), "the budget is spent for every group");
    assert!(!scene.is_fingerprint_allowed(2, number(200, 0)));
    assert!(scene.is_fingerprint_allowed(DAY_MS + 1, number(50, 1)));
}

#[test]
fn guess_counts_survive_restart_and_are_shared_through_the_store() {
    let limit = limits(QuotaLimit::Count(2), QuotaLimit::Count(3), QuotaLimit::Count(9));
    let first = LedgerHarness::new(limit);
    assert!(
        first.is_fingerprint_allowed(0, number(1, 0))
            && first.is_fingerprint_allowed(1, number(1, 1))
    );
    first.flush(2);
    let second =
        LedgerHarness { ledger: GuessLedger::default(), store: first.store, limits: limit };
    assert!(!second.is_fingerprint_allowed(3, number(1, 0)));
    assert!(!second.is_fingerprint_allowed(3, number(1, 2)));
    // A day later the numbers count for the quarter only.
    assert!(second.is_fingerprint_allowed(DAY_MS + 5, number(1, 2)));
    second.flush(DAY_MS + 6);
    let third =
        LedgerHarness { ledger: GuessLedger::default(), store: second.store, limits: limit };
    assert!(!third.is_fingerprint_allowed(3 * DAY_MS, number(1, 3)), "three in 90 days");
    assert!(third.is_fingerprint_allowed(90 * DAY_MS, number(1, 3)));
}

#[test]
fn unwritten_guess_counts_wait_for_the_next_flush() {
    let scene = LedgerHarness::new(limits(QuotaLimit::Count(1), QuotaLimit::Off, QuotaLimit::Off));
    assert!(scene.is_fingerprint_allowed(0, number(1, 0)));
    // Long unused and dropped from memory: what waits is still known.
    scene.ledger.lock().buckets.clear();
    assert!(!scene.is_fingerprint_allowed(60_000, number(1, 1)));
    scene.flush(60_001);
    assert_eq!(scene.store.0.lock().unwrap().len(), 1);
    assert_eq!(scene.ledger.lock().pending_count, 0);
}

/// Every evaluation with its time, and distinct numbers counted by looking at all of them.
struct GuessModel(Vec<(i64, u8)>);

impl GuessModel {
    fn distinct(&self, now: i64, window: i64) -> usize {
        let within = self.0.iter().filter(|(at, _)| *at > now - window);
        within.map(|(_, it)| *it).collect::<std::collections::HashSet<_>>().len()
    }
}

#[test]
fn guess_ledger_agrees_with_model_on_random_histories() {
    let mut seed = 0x2545_F491_4F6C_DD1D_u64;
    let mut random = |below: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % below
    };
    for round in 0..40 {
        let scene =
            LedgerHarness::new(limits(QuotaLimit::Count(5), QuotaLimit::Count(9), QuotaLimit::Off));
        let mut model = GuessModel(Vec::new());
        let mut now = 0_i64;
        for step in 0..400 {
            let longest = match random(5) {
                0 => 1,
                1 => 60_000,
                2 => 3_600_000,
                3 => 20 * 3_600_000,
                _ => 12 * 24 * 3_600_000,
            };
            now += i64::try_from(random(longest)).unwrap();
            let it = u8::try_from(random(14)).unwrap();
            let room = model.distinct(now, DAY_MS) < 5 && model.distinct(now, 90 * DAY_MS) < 9;
            assert_eq!(
                scene.is_fingerprint_allowed(now, number(1, it)),
                room,
                "round {round}, step {step}"
            );
            if room {
                model.0.push((now, it));
            }
            if random(3) == 0 {
                scene.flush(now);
            }
            // Whatever window is looked at, it never holds more than the limits.
            assert!(model.distinct(now, DAY_MS) <= 5 && model.distinct(now, 90 * DAY_MS) <= 9);
        }
    }
}
