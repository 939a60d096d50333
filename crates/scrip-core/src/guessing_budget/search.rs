//! The search budget: searches of `data:` that find nothing.
//!
//! A search tells whether a value is among the search indexes of some token. A caller that sees masks
//! only may look for what it knows, but not try values one after the other.

use std::sync::Arc;

use crate::{
    Vault,
    caller::Caller,
    error::Error,
    guessing_budget::{
        Bucket, BucketKind, Budget, CallerClass, DAY, Fingerprinting,
        ledger::{GuessLedger, is_reached},
        numbers::{last_four, searched_numbers, separated_digits},
    },
    id::TenantId,
    quota::Limit,
    time::Timestamp,
};

/// Terms with at least so many digits are counted by their last four.
const DIGITS_MIN: usize = 5;
/// Other terms of at most so many characters are counted for the application.
const TEXT_CHARS_MAX: usize = 8;
/// So many short texts may miss for each term of digits that may.
const TEXTS_PER_DIGITS: u64 = 50;

/// A search that was let in. It counts when it finds nothing.
#[derive(Debug)]
pub(crate) struct AdmittedSearch {
    ledger: Arc<GuessLedger>,
    tenant: TenantId,
    counter: Option<SearchCounter>,
}

#[derive(Debug, Clone, Copy)]
struct SearchCounter {
    bucket: Bucket,
    term: [u8; 16],
    limit: Limit,
    budget: Budget,
}

impl Vault {
    /// Before a search by the value of a search index. `None` where nothing is counted.
    ///
    /// # Errors
    /// A budget is spent, or the counters cannot be read.
    pub(crate) async fn admit_search(
        &self,
        caller: &Caller,
        term: &str,
    ) -> Result<Option<AdmittedSearch>, Error> {
        let misses = caller.tenant().quotas.search_misses;
        if caller.principal().searches_reveal()
            || (misses == Limit::Off && !self.counts_guesses(caller))
        {
            return Ok(None);
        }
        let numbers = searched_numbers(caller, term);
        if self.count(caller, &numbers).await? == Fingerprinting::Withheld {
            return Err(Error::BudgetSpent);
        }
        let (ledger, tenant) = (Arc::clone(&self.guesses), caller.tenant().id);
        let counter = SearchCounter::of(caller, term).filter(|it| it.limit != Limit::Off);
        let Some(counter) = counter else {
            return Ok(Some(AdmittedSearch { ledger, tenant, counter }));
        };
        let now = self.clock.now();
        ledger.load(&*self.store, tenant, &[counter.bucket], now).await?;
        {
            let mut state = ledger.lock();
            state.check_room(1)?;
            let missed = state.distinct(tenant, counter.bucket, now, DAY);
            let searching = state.searching.entry((tenant, counter.bucket)).or_default();
            // Those under way may miss too: many at once are no way around the limit.
            if is_reached(counter.limit, missed.saturating_add(*searching)) {
                return Err(Error::BudgetSpent);
            }
            *searching = searching.saturating_add(1);
        }
        Ok(Some(AdmittedSearch { ledger, tenant, counter: Some(counter) }))
    }

    /// After a search that found nothing.
    ///
    /// # Errors
    /// That the budget is spent cannot be recorded.
    pub(crate) async fn count_miss(
        &self,
        caller: &Caller,
        search: Option<AdmittedSearch>,
    ) -> Result<(), Error> {
        let spent = search.and_then(|it| it.missed(self.clock.now()));
        self.record_spent(caller, spent.as_slice()).await
    }
}

impl AdmittedSearch {
    fn missed(&self, now: Timestamp) -> Option<Budget> {
        let SearchCounter { bucket, term, limit, budget } = self.counter?;
        let mut state = self.ledger.lock();
        let before = state.distinct(self.tenant, bucket, now, DAY);
        state.note((self.tenant, bucket), term, now, DAY);
        let after = state.distinct(self.tenant, bucket, now, DAY);
        (after > before && is_reached(limit, after)).then_some(budget)
    }
}

impl Drop for AdmittedSearch {
    fn drop(&mut self) {
        let Some(counter) = self.counter else { return };
        let key = (self.tenant, counter.bucket);
        let mut state = self.ledger.lock();
        let left = state.searching.get(&key).map_or(0, |it| it.saturating_sub(1));
        if left == 0 {
            state.searching.remove(&key);
        } else {
            state.searching.insert(key, left);
        }
    }
}

impl SearchCounter {
    /// `None` for a long text: there are too many of them to try.
    fn of(caller: &Caller, term: &str) -> Option<Self> {
        let (keys, class) = (&caller.tenant().keys, CallerClass::of(caller));
        let misses = caller.tenant().quotas.search_misses;
        let digits = separated_digits(term).filter(|it| it.len() >= DIGITS_MIN);
        let (kind, name, term, limit, budget) = match &digits {
            Some(digits) => {
                let name = keys.guess_digest(&[b"search-digits", last_four(digits).as_bytes()]);
                (BucketKind::SearchDigits, name, digits.as_str(), misses, Budget::SearchDigits)
            }
            None if term.chars().count() <= TEXT_CHARS_MAX => {
                let id = caller.application().0;
                let name = keys.guess_digest(&[b"search-text", id.as_bytes()]);
                let limit = match misses {
                    Limit::Off => Limit::Off,
                    Limit::Count(most) => Limit::Count(most.saturating_mul(TEXTS_PER_DIGITS)),
                };
                (BucketKind::SearchText, name, term, limit, Budget::SearchText)
            }
            None => return None,
        };
        let bucket = Bucket::new(class, kind, name);
        let term = keys.guess_digest(&[b"search-term", term.as_bytes()]).0;
        Some(Self { bucket, term, limit, budget })
    }
}
