//! The search budget: distinct terms of `data:` searches, whether they find something or not.
//!
//! A search tells whether a value is among the search indexes of some token. A caller that sees masks
//! only may look for what it knows, but not try values one after the other. A term counts even if
//! the search finds a token: the searcher, or a browser, may have planted that token.

use crate::{
    Error, Vault,
    policy::{
        Caller,
        guessing_budget::{
            CallerClass, DAY, FingerprintDisclosure, GuessBucket, GuessBucketKind, GuessBudget,
            ledger::is_reached,
            numbers::{last_four, searched_numbers, separated_digits},
        },
        tenant::quota::QuotaLimit,
    },
};

/// Terms with at least so many digits are counted by their last four, too.
const DIGITS_MIN: usize = 5;
/// Other terms are counted if they have at most so many characters.
const TEXT_CHARS_MAX: usize = 8;
/// An application has so many terms for each term of digits that a group has.
const APPLICATION_FACTOR: u64 = 50;

/// One of the counters of a term.
#[derive(Debug, Clone, Copy)]
struct SearchCounter {
    bucket: GuessBucket,
    term_digest: [u8; 16],
    limit: QuotaLimit,
    budget: GuessBudget,
}

impl Vault {
    /// Before a search by the value of a search index: counts its term. Repeats count once.
    ///
    /// # Errors
    /// A budget is spent, or the counters cannot be read.
    pub(crate) async fn count_search(&self, caller: &Caller, term: &str) -> Result<(), Error> {
        if caller.principal().reveals_everywhere() {
            return Ok(());
        }
        let numbers = searched_numbers(caller, term);
        if self.count_guesses(caller, &numbers).await? == FingerprintDisclosure::Withheld {
            return Err(Error::BudgetExhausted);
        }
        let counters = search_counters(caller, term);
        if counters.is_empty() {
            return Ok(());
        }
        let (tenant, now) = (caller.tenant().id, self.clock.now());
        let buckets: Vec<_> = counters.iter().map(|it| it.bucket).collect();
        self.guess_ledger.load(&*self.store, tenant, &buckets, now).await?;
        let mut spent = Vec::new();
        {
            let mut state = self.guess_ledger.lock();
            state.check_pending_capacity(counters.len())?;
            let counted = |it: &SearchCounter| state.distinct_count(tenant, it.bucket, now, DAY);
            if counters.iter().any(|it| is_reached(it.limit, counted(it))) {
                return Err(Error::BudgetExhausted);
            }
            for it in &counters {
                state.count_pending((tenant, it.bucket), it.term_digest, now, DAY);
                if is_reached(it.limit, state.distinct_count(tenant, it.bucket, now, DAY)) {
                    spent.push(it.budget);
                }
            }
        }
        self.record_exhausted_budgets(caller, &spent).await
    }
}

/// None for a long text: there are too many of them to try. Digits count by their last four, and for
/// the application as short texts do: an index over other digits of a number than the last ones
/// would give every guess a group of its own.
fn search_counters(caller: &Caller, term: &str) -> Vec<SearchCounter> {
    let QuotaLimit::Count(most) = caller.tenant().quotas.search_misses else { return Vec::new() };
    let (keys, class) = (&caller.tenant().keys, CallerClass::for_caller(caller));
    let digits = separated_digits(term).filter(|it| it.len() >= DIGITS_MIN);
    if digits.is_none() && term.chars().count() > TEXT_CHARS_MAX {
        return Vec::new();
    }
    let text = digits.as_ref().map_or(term, |it| it.as_str());
    let term = keys.guess_digest(&[b"search-term", text.as_bytes()]).0;
    let of_group = digits.as_ref().map(|digits| {
        let name = keys.guess_digest(&[b"search-digits", last_four(digits).as_bytes()]);
        let bucket = GuessBucket::new(class, GuessBucketKind::SearchDigits, name);
        SearchCounter {
            bucket,
            term_digest: term,
            limit: QuotaLimit::Count(most),
            budget: GuessBudget::SearchDigits,
        }
    });
    let name = keys.guess_digest(&[b"search-text", caller.application().0.as_bytes()]);
    let of_application = SearchCounter {
        bucket: GuessBucket::new(class, GuessBucketKind::SearchText, name),
        term_digest: term,
        limit: QuotaLimit::Count(most.saturating_mul(APPLICATION_FACTOR)),
        budget: GuessBudget::SearchText,
    };
    of_group.into_iter().chain([of_application]).collect()
}
