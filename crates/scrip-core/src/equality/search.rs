//! The search budget: distinct terms of `data:` searches, whether they find a token or not.
//!
//! A search reveals whether a value is among the search indexes of a token. A caller that reads
//! only masked data may search for a value that it knows, but must not try values one after the
//! other. A term counts even if the search finds a token, because the caller, or a browser, may
//! have created that token.

use crate::{
    Error,
    equality::{
        CallerClass, GuessBucket, GuessBucketKind,
        bucket::{DAY, FingerprintDisclosure, GuessBudget},
        comparison::GuessCount,
        ledger::is_reached,
        numbers::collect_term_numbers,
        separated_digits::{last_four, separated_digits},
    },
    policy::{Caller, tenant::quota::QuotaLimit},
};

/// Terms with at least this many digits also count by their last four digits.
const DIGITS_MIN: usize = 5;
/// Other terms count if they have at most this many characters.
const TEXT_CHARS_MAX: usize = 8;
/// The limit of an application is this many times the limit of a group.
const APPLICATION_FACTOR: u64 = 50;

/// One of the counters of a search term.
#[derive(Debug, Clone, Copy)]
struct SearchCounter {
    bucket: GuessBucket,
    term_digest: [u8; 16],
    limit: QuotaLimit,
    budget: GuessBudget,
}

impl GuessCount<'_> {
    /// Counts the term of a search by the value of a search index. Repeated terms count once.
    /// Errors: the counters cannot be read.
    pub(super) async fn count_search(
        &mut self,
        term: &str,
    ) -> Result<FingerprintDisclosure, Error> {
        let caller = self.caller;
        // An access session does not read what was typed after its authorization.
        if caller.access_session().is_none() && caller.reveals_everywhere() {
            return Ok(FingerprintDisclosure::Allowed);
        }
        let collected = collect_term_numbers(caller, self.rules, term);
        if self.count_guesses(collected).await? == FingerprintDisclosure::Withheld {
            return Ok(FingerprintDisclosure::Withheld);
        }
        let counters = search_counters(caller, term);
        if counters.is_empty() {
            return Ok(FingerprintDisclosure::Allowed);
        }
        let (tenant, now) = (caller.tenant().id, self.clock.now());
        let buckets: Vec<_> = counters.iter().map(|it| it.bucket).collect();
        self.ledger.load(self.store, tenant, &buckets, now).await?;
        let mut state = self.ledger.lock();
        state.check_pending_capacity(tenant, counters.len())?;
        let count_terms = |it: &SearchCounter| state.distinct_count(tenant, it.bucket, now, DAY);
        if counters.iter().any(|it| is_reached(it.limit, count_terms(it))) {
            return Ok(FingerprintDisclosure::Withheld);
        }
        for it in &counters {
            state.add_pending_count((tenant, it.bucket), it.term_digest, now, DAY);
            if is_reached(it.limit, state.distinct_count(tenant, it.bucket, now, DAY)) {
                self.exhausted.push(it.budget);
            }
        }
        Ok(FingerprintDisclosure::Allowed)
    }
}

/// The counters of a term. A long text has none, because a caller cannot try all long texts. Digits
/// count by their last four. They also count for the application, like short texts: with an index
/// over other digits than the last four, every guess would be in a new group.
fn search_counters(caller: &Caller, term: &str) -> Vec<SearchCounter> {
    let QuotaLimit::Count(terms_max) = caller.tenant().quotas.search_misses else {
        return Vec::new();
    };
    let (keys, class) = (&caller.tenant().keys, CallerClass::for_caller(caller));
    let digits = separated_digits(term).filter(|it| it.len() >= DIGITS_MIN);
    if digits.is_none() && term.chars().count() > TEXT_CHARS_MAX {
        return Vec::new();
    }
    let text = digits.as_ref().map_or(term, |it| it.as_str());
    let term_digest = keys.guess_digest(&[b"search-term", text.as_bytes()]).0;
    let group_counter = digits.as_ref().map(|digits| {
        let bucket_digest = keys.guess_digest(&[b"search-digits", last_four(digits).as_bytes()]);
        let bucket = GuessBucket::new(class, GuessBucketKind::SearchDigits, bucket_digest);
        SearchCounter {
            bucket,
            term_digest,
            limit: QuotaLimit::Count(terms_max),
            budget: GuessBudget::SearchDigits,
        }
    });
    let bucket_digest =
        keys.guess_digest(&[b"search-text", caller.guessing_application().0.as_bytes()]);
    let application_counter = SearchCounter {
        bucket: GuessBucket::new(class, GuessBucketKind::SearchText, bucket_digest),
        term_digest,
        limit: QuotaLimit::Count(terms_max.saturating_mul(APPLICATION_FACTOR)),
        budget: GuessBudget::SearchText,
    };
    group_counter.into_iter().chain([application_counter]).collect()
}
