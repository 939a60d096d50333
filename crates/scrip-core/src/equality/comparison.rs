//! The proof that a value was counted before it is compared with stored hidden data.
//!
//! Every answer that depends on equality needs a [`Comparison`], and only [`GuessCount::compare`]
//! creates one, after it has counted the numbers in the value. So a lookup by digest that was not
//! counted does not compile:
//!
//! | answer | value | needs the comparison |
//! |---|---|---|
//! | fingerprint, deduplication, computed id | [`Comparable::Token`] | [`Deduplicate`](crate::disclosure::Deduplicate); without it, the token has no fingerprint |
//! | search | [`Comparable::SearchTerm`] | [`SearchFacet`](crate::listing::SearchFacet) |
//! | repeated idempotency key | [`Comparable::Body`] | [`RequestDigest::equals`](crate::idempotency::RequestDigest::equals) |
//!
//! A 3-D Secure session compares the number of its card with the number at its creation. Both are
//! stored, so the caller submits nothing: a number that a caller without a reveal right wrote has
//! another version, and the version is compared too.

use scrip_expression::value_cost;

use crate::{
    Error,
    equality::{
        CallerClass, GuessStore,
        bucket::{FingerprintDisclosure, GuessBudget, GuessLimits},
        evaluated_numbers::EvaluatedNumbers,
        ledger::{CountRequest, GuessLedger},
        numbers::{CollectedNumbers, collect_body_numbers, collect_token_numbers},
    },
    policy::Caller,
    types::{DisclosureRules, Plaintext, time::Clock},
    work_meter::BodyWork,
};

/// A value that will be compared with stored hidden data.
pub(crate) enum Comparable<'a> {
    /// The data of a token or intent, and the texts that its expressions evaluated to.
    Token(EvaluatedNumbers<'a>),
    /// A token that moves to other containers. Its numbers were counted when they were written; if
    /// they were not compared then, it has no fingerprint.
    MovedToken,
    /// The value of a search index.
    SearchTerm(&'a str),
    /// The next page of a search. The sealed cursor proves that the term was counted.
    NextPage,
    /// The body of a request that repeats an idempotency key.
    Body(&'a Plaintext),
    /// A request without a body that repeats an idempotency key, or one of hosted fields, whose body is
    /// not compared.
    NoBody,
}

/// Proof that the numbers in a value were counted, and that the value may be compared.
///
/// Only this module creates one:
///
/// ```compile_fail
/// let comparison = scrip_core::equality::Comparison { _counted: () };
/// ```
///
/// A lookup of duplicates needs one:
///
/// ```compile_fail
/// let deduplicate = scrip_core::disclosure::Deduplicate::Yes;
/// let _: scrip_core::disclosure::Deduplicate = deduplicate;
/// ```
///
/// So does a search for the value of a search index:
///
/// ```compile_fail
/// use scrip_core::listing::{Facet, SearchFacet};
/// fn search(facet: Facet) -> SearchFacet {
///     SearchFacet(facet)
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Comparison {
    _counted: (),
}

impl Comparison {
    /// For tests of stores only: the tidy test rejects this name in product code.
    pub const fn assumed_for_store_test() -> Self {
        Self { _counted: () }
    }
}

/// One count for a caller: the counters, the stored counts, and the budgets that the count exhausts.
/// Record those, whether the count succeeds or not.
pub(crate) struct GuessCount<'a> {
    pub(crate) caller: &'a Caller,
    pub(crate) ledger: &'a GuessLedger,
    pub(crate) store: &'a dyn GuessStore,
    pub(crate) clock: &'a dyn Clock,
    pub(crate) rules: DisclosureRules,
    pub(crate) exhausted: Vec<GuessBudget>,
}

impl GuessCount<'_> {
    /// Counts the numbers in a value that the caller submits. `None` if the value must not be
    /// compared, because a budget is exhausted or the value has too many numbers.
    ///
    /// Errors: the counters cannot be read, or too many long requests are running.
    pub(crate) async fn compare(
        &mut self,
        value: Comparable<'_>,
    ) -> Result<Option<Comparison>, Error> {
        let disclosure = match value {
            Comparable::Token(evaluated) => self.count_numbers(evaluated).await?,
            Comparable::SearchTerm(term) => self.count_search(term).await?,
            Comparable::Body(body) => self.count_request_numbers(body).await?,
            Comparable::MovedToken | Comparable::NextPage | Comparable::NoBody => {
                FingerprintDisclosure::Allowed
            }
        };
        Ok(match disclosure {
            FingerprintDisclosure::Allowed => Some(Comparison { _counted: () }),
            FingerprintDisclosure::Withheld => None,
        })
    }

    /// Counts the numbers of one token before any result that depends on them is stored or
    /// returned.
    /// Errors: the counters cannot be read, or too many long requests are running.
    async fn count_numbers(
        &mut self,
        evaluated: EvaluatedNumbers<'_>,
    ) -> Result<FingerprintDisclosure, Error> {
        if !self.is_counted() {
            return Ok(FingerprintDisclosure::Allowed);
        }
        let collect = || collect_token_numbers(self.caller, self.rules, &evaluated);
        let collected = self.collect_numbers(evaluated.read_bytes(), collect)?;
        self.count_guesses(collected).await
    }

    /// Counts the numbers of a request body before it is compared with an earlier one.
    /// Errors: as [`GuessCount::count_numbers`].
    async fn count_request_numbers(
        &mut self,
        body: &Plaintext,
    ) -> Result<FingerprintDisclosure, Error> {
        if !self.is_counted() {
            return Ok(FingerprintDisclosure::Allowed);
        }
        let collect = || collect_body_numbers(self.caller, self.rules, body);
        let collected = self.collect_numbers(value_cost(body.expose()), collect)?;
        self.count_guesses(collected).await
    }

    /// Searches this many bytes for numbers: a large text outside of the async workers.
    /// Errors: too many long requests are running.
    fn collect_numbers(
        &self,
        bytes: usize,
        collect: impl FnOnce() -> CollectedNumbers,
    ) -> Result<CollectedNumbers, Error> {
        self.caller.work().run_opening(BodyWork::for_number_search(bytes), collect)
    }

    /// Whether a budget is on and the caller could learn a number by guessing. The container of
    /// the new token does not matter, because its fingerprint can be compared with tokens of every
    /// container. Public keys and access sessions are used by browsers, so a reader with a mask may
    /// use them too: their numbers are counted for all rights of the key or session.
    fn is_counted(&self) -> bool {
        let is_public = CallerClass::for_caller(self.caller) == CallerClass::Public;
        !GuessLimits::from_quotas(&self.caller.tenant().quotas).is_off()
            && (is_public || !self.caller.reveals_whole_tenant())
    }

    /// Counts the numbers. Of too many numbers the first ones count, and nothing is compared.
    /// Errors: as [`GuessCount::count_numbers`].
    pub(super) async fn count_guesses(
        &mut self,
        collected: CollectedNumbers,
    ) -> Result<FingerprintDisclosure, Error> {
        let limits = GuessLimits::from_quotas(&self.caller.tenant().quotas);
        if limits.is_off() {
            return Ok(FingerprintDisclosure::Allowed);
        }
        let CollectedNumbers { numbers, has_too_many } = collected;
        if numbers.is_empty() {
            return Ok(FingerprintDisclosure::Allowed);
        }
        let request = CountRequest::for_caller(self.caller, limits, self.clock.now());
        let result = self.ledger.count(self.store, request, &numbers).await?;
        self.exhausted.extend(result.exhausted);
        Ok(if has_too_many { FingerprintDisclosure::Withheld } else { result.disclosure })
    }
}
