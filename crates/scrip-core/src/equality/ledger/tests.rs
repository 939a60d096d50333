//! The counts of one node: windows, limits, background writes, and random histories compared with a
//! model.

use std::{
    pin::pin,
    task::{Context, Poll, Waker},
};

use uuid::Uuid;

use super::*;
use crate::types::StoreFuture;

/// A store that responds immediately: its futures are ready when they are first polled.
#[derive(Debug, Default)]
struct InMemoryGuessStore {
    records: Mutex<Vec<(TenantId, GuessRecord)>>,
    /// The tenant and the number of rows of each write.
    transactions: Mutex<Vec<(TenantId, usize)>>,
}

impl GuessStore for InMemoryGuessStore {
    fn find_guesses<'a>(
        &'a self,
        tenant: TenantId,
        buckets: &'a [GuessBucket],
        now: Timestamp,
    ) -> StoreFuture<'a, Vec<GuessRecord>> {
        let records = self.records.lock().unwrap();
        let matching = records.iter().filter(|(owner, it)| {
            *owner == tenant && buckets.contains(&it.bucket) && it.expires_at > now
        });
        let matching = matching.map(|(_, it)| *it).collect();
        Box::pin(async move { Ok(matching) })
    }

    fn insert_guesses(&self, tenant: TenantId, records: Vec<GuessRecord>) -> StoreFuture<'_, ()> {
        self.transactions.lock().unwrap().push((tenant, records.len()));
        let mut stored = self.records.lock().unwrap();
        for record in records {
            stored.retain(|(owner, it)| {
                (*owner, it.bucket, it.number_digest)
                    != (tenant, record.bucket, record.number_digest)
            });
            stored.push((tenant, record));
        }
        Box::pin(async { Ok(()) })
    }

    fn delete_expired_guesses(&self, now: Timestamp) -> StoreFuture<'_, usize> {
        self.records.lock().unwrap().retain(|(_, it)| it.expires_at > now);
        Box::pin(async { Ok(0) })
    }
}

fn poll_ready<T>(future: impl Future<Output = T>) -> T {
    let mut context = Context::from_waker(Waker::noop());
    match pin!(future).poll(&mut context) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("the store responds immediately"),
    }
}

fn bucket(byte: u8) -> GuessBucket {
    GuessBucket([byte; 17])
}

fn number(group: u8, id: u8) -> CountedNumber {
    let mut number_digest = [id; 16];
    number_digest[0] = group;
    CountedNumber { bucket: bucket(group), number_digest, spends_application: true }
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
        let request =
            CountRequest { tenant, application_bucket: bucket(255), limits: self.limits, now };
        poll_ready(self.ledger.count(&self.store, request, numbers)).unwrap()
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
    let harness =
        LedgerHarness::new(limits(QuotaLimit::Count(3), QuotaLimit::Off, QuotaLimit::Off));
    for id in 0..3 {
        let exhausted = harness.count(i64::from(id), &[number(1, id)]).exhausted;
        assert_eq!(
            exhausted.contains(&GuessBudget::Day),
            id == 2,
            "only the last number exhausts the budget"
        );
    }
    assert!(
        !harness.is_fingerprint_allowed(10, number(1, 9)),
        "the fourth distinct number is over the limit"
    );
    assert!(
        !harness.is_fingerprint_allowed(11, number(1, 0)),
        "a repeat of a counted number is withheld too"
    );
    assert!(harness.is_fingerprint_allowed(12, number(2, 9)), "another group has its own budget");
    assert!(!harness.is_fingerprint_allowed(DAY_MS - 1, number(1, 0)));
    assert!(
        harness.is_fingerprint_allowed(DAY_MS, number(1, 9)),
        "the first number has left the window"
    );
    assert!(!harness.is_fingerprint_allowed(DAY_MS, number(1, 0)), "the window is full again");
}

#[test]
fn repeated_number_counts_once_against_the_budget() {
    let harness =
        LedgerHarness::new(limits(QuotaLimit::Count(2), QuotaLimit::Off, QuotaLimit::Off));
    for ms in 0..50 {
        assert!(harness.is_fingerprint_allowed(ms, number(1, 0)));
    }
    assert!(harness.is_fingerprint_allowed(50, number(1, 1)));
    assert!(!harness.is_fingerprint_allowed(51, number(1, 0)));
}

#[test]
fn numbers_of_one_token_are_counted_until_the_budget_is_exhausted() {
    let harness =
        LedgerHarness::new(limits(QuotaLimit::Count(2), QuotaLimit::Off, QuotaLimit::Off));
    let numbers: Vec<_> = (0..5).map(|it| number(1, it)).collect();
    assert_eq!(harness.count(0, &numbers).disclosure, FingerprintDisclosure::Withheld);
    assert!(!harness.is_fingerprint_allowed(1, number(1, 7)), "two of the five were counted");
}

#[test]
fn application_budget_counts_numbers_after_the_first_of_each_group() {
    let harness =
        LedgerHarness::new(limits(QuotaLimit::Off, QuotaLimit::Off, QuotaLimit::Count(3)));
    for group in 0..100 {
        assert!(
            harness.is_fingerprint_allowed(0, number(group, 0)),
            "the first number of each group is free"
        );
        assert!(
            harness.is_fingerprint_allowed(0, number(group, 0)),
            "a repeat of the first number is free too"
        );
    }
    for group in 0..3 {
        assert!(harness.is_fingerprint_allowed(1, number(group, 1)));
    }
    assert!(
        !harness.is_fingerprint_allowed(2, number(50, 1)),
        "the budget is shared by all groups"
    );
    assert!(!harness.is_fingerprint_allowed(2, number(200, 0)));
    assert!(harness.is_fingerprint_allowed(DAY_MS + 1, number(50, 1)));
}

#[test]
fn guess_counts_survive_restart_and_are_shared_through_the_store() {
    let guess_limits = limits(QuotaLimit::Count(2), QuotaLimit::Count(3), QuotaLimit::Count(9));
    let first_node = LedgerHarness::new(guess_limits);
    assert!(
        first_node.is_fingerprint_allowed(0, number(1, 0))
            && first_node.is_fingerprint_allowed(1, number(1, 1))
    );
    first_node.flush(2);
    let second_node = LedgerHarness {
        ledger: GuessLedger::default(),
        store: first_node.store,
        limits: guess_limits,
    };
    assert!(!second_node.is_fingerprint_allowed(3, number(1, 0)));
    assert!(!second_node.is_fingerprint_allowed(3, number(1, 2)));
    // A day later, the numbers count only for the quarter.
    assert!(second_node.is_fingerprint_allowed(DAY_MS + 5, number(1, 2)));
    second_node.flush(DAY_MS + 6);
    let third_node = LedgerHarness {
        ledger: GuessLedger::default(),
        store: second_node.store,
        limits: guess_limits,
    };
    assert!(
        !third_node.is_fingerprint_allowed(3 * DAY_MS, number(1, 3)),
        "three numbers were counted within 90 days"
    );
    assert!(third_node.is_fingerprint_allowed(90 * DAY_MS, number(1, 3)));
}

#[test]
fn unwritten_guess_counts_wait_for_the_next_flush() {
    let harness =
        LedgerHarness::new(limits(QuotaLimit::Count(1), QuotaLimit::Off, QuotaLimit::Off));
    assert!(harness.is_fingerprint_allowed(0, number(1, 0)));
    // The idle bucket was evicted from memory; pending counts still apply.
    harness.ledger.lock().buckets.clear();
    assert!(!harness.is_fingerprint_allowed(60_000, number(1, 1)));
    harness.flush(60_001);
    assert_eq!(harness.store.records.lock().unwrap().len(), 1);
    assert_eq!(harness.ledger.lock().pending_counts.len(), 0);
}

/// A model with the time of every evaluation. It counts distinct numbers by scanning all of them.
struct GuessModel(Vec<(i64, u8)>);

impl GuessModel {
    fn distinct_count(&self, now: i64, window: i64) -> usize {
        let guesses = self.0.iter().filter(|(at, _)| *at > now - window);
        guesses.map(|(_, it)| *it).collect::<std::collections::HashSet<_>>().len()
    }
}

#[test]
fn guess_ledger_agrees_with_model_on_random_histories() {
    let mut seed = 0x2545_F491_4F6C_DD1D_u64;
    let mut random = |bound: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % bound
    };
    for round in 0..40 {
        let harness =
            LedgerHarness::new(limits(QuotaLimit::Count(5), QuotaLimit::Count(9), QuotaLimit::Off));
        let mut model = GuessModel(Vec::new());
        let mut now = 0_i64;
        for step in 0..400 {
            let step_ms_max = match random(5) {
                0 => 1,
                1 => 60_000,
                2 => 3_600_000,
                3 => 20 * 3_600_000,
                _ => 12 * 24 * 3_600_000,
            };
            now += i64::try_from(random(step_ms_max)).unwrap();
            let id = u8::try_from(random(14)).unwrap();
            let is_allowed =
                model.distinct_count(now, DAY_MS) < 5 && model.distinct_count(now, 90 * DAY_MS) < 9;
            assert_eq!(
                harness.is_fingerprint_allowed(now, number(1, id)),
                is_allowed,
                "round {round}, step {step}"
            );
            if is_allowed {
                model.0.push((now, id));
            }
            if random(3) == 0 {
                harness.flush(now);
            }
            // No window ever contains more numbers than the limits.
            assert!(
                model.distinct_count(now, DAY_MS) <= 5
                    && model.distinct_count(now, 90 * DAY_MS) <= 9
            );
        }
    }
}

#[test]
fn counts_of_a_tenant_are_written_in_several_transactions_and_in_turns() {
    let harness = LedgerHarness::new(limits(QuotaLimit::Off, QuotaLimit::Off, QuotaLimit::Off));
    let tenants = [TenantId(Uuid::nil()), TenantId(Uuid::max())];
    let number =
        |id: u16| CountedNumber { number_digest: u128::from(id).to_be_bytes(), ..number(1, 0) };
    let now = Timestamp { unix_ms: 0 };
    for tenant in tenants {
        let request =
            CountRequest { tenant, application_bucket: bucket(255), limits: harness.limits, now };
        let numbers: Vec<_> = (0..1_200).map(number).collect();
        poll_ready(harness.ledger.count(&harness.store, request, &numbers)).unwrap();
    }
    harness.flush(1);
    let transactions = harness.store.transactions.lock().unwrap().clone();
    let sizes: Vec<_> = transactions.iter().map(|it| it.1).collect();
    assert_eq!(sizes, [500, 500, 500, 500, 200, 200]);
    assert_ne!(transactions[0].0, transactions[1].0, "tenants take turns");
    assert!(harness.ledger.lock().pending_counts.is_empty());
}

#[test]
fn tenant_with_too_many_pending_counts_does_not_stop_another_tenant() {
    let ledger = GuessLedger::default();
    let (flood, other) = (TenantId(Uuid::nil()), TenantId(Uuid::max()));
    let now = Timestamp { unix_ms: 0 };
    {
        let mut state = ledger.lock();
        for id in (0_u128..).take(TENANT_PENDING_MAX) {
            let group = bucket(u8::try_from(id % 251).unwrap());
            state.add_pending_count((flood, group), id.to_be_bytes(), now, DAY);
        }
        assert!(state.check_pending_capacity(flood, 1).is_err());
        assert!(state.check_pending_capacity(other, 100).is_ok());
    }
}
