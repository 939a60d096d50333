//! Answers whether a value that a caller submits equals stored hidden data.
//!
//! A fingerprint, a found duplicate, a search result, a taken id and a replayed response each answer
//! this question. Every such answer needs a [`Comparison`], and only [`Vault::may_compare`] creates
//! one, after it has counted the numbers in the value. So a lookup by digest that was not counted does
//! not compile:
//!
//! | answer | value | needs the comparison |
//! |---|---|---|
//! | fingerprint, deduplication, computed id | [`Comparable::Token`] | [`Deduplicate`](crate::token::Deduplicate); without it, the token has no fingerprint |
//! | search | [`Comparable::SearchTerm`] | [`SearchFacet`](crate::listing::SearchFacet) |
//! | repeated idempotency key | [`Comparable::Body`] | [`RequestDigest::equals`](crate::idempotency::RequestDigest::equals) |
//!
//! A 3-D Secure session compares the number of its card with the number at its creation. Both are
//! stored, so the caller submits nothing: a number that a caller without a reveal right wrote has
//! another version, and the version is compared too.

pub mod guessing_budget;

use crate::{
    Error, Vault,
    policy::{
        Caller,
        guessing_budget::{EvaluatedNumbers, FingerprintDisclosure},
    },
    token::{Plaintext, disclosure::DisclosureRule},
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
    /// A request without a body that repeats an idempotency key.
    NoBody,
}

/// Proof that the numbers in a value were counted, and that the value may be compared.
///
/// Only this module creates one:
///
/// ```compile_fail
/// let comparison = scrip_core::policy::equality::Comparison { _counted: () };
/// ```
///
/// A lookup of duplicates needs one:
///
/// ```compile_fail
/// let deduplicate = scrip_core::token::Deduplicate::Yes;
/// let _: scrip_core::token::Deduplicate = deduplicate;
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
    #[must_use]
    pub const fn assumed_for_store_test() -> Self {
        Self { _counted: () }
    }
}

impl Vault {
    /// The application of a proxy that stores what the sender of a call submits; `None` for a sender
    /// without an API key. Its guesses count for the sender: otherwise any client could spend the
    /// budget of the application, or escape it.
    #[must_use]
    pub fn collect_for(&self, collector: &Caller, sender: Option<&Caller>) -> Caller {
        if !self.disclosure.applies(DisclosureRule::SenderCountsInCollection) {
            return collector.clone();
        }
        collector.collecting_for(sender)
    }

    /// Counts the numbers in a value that the caller submits. `None` if the value must not be
    /// compared, because a budget is exhausted or the value has too many numbers.
    ///
    /// # Errors
    /// The counters cannot be read, or the exhausted budget cannot be recorded.
    pub(crate) async fn may_compare(
        &self,
        caller: &Caller,
        value: Comparable<'_>,
    ) -> Result<Option<Comparison>, Error> {
        let disclosure = match value {
            Comparable::Token(evaluated) => self.count_numbers(caller, evaluated).await?,
            Comparable::SearchTerm(term) => self.count_search(caller, term).await?,
            Comparable::Body(body) => self.count_request_numbers(caller, body).await?,
            Comparable::MovedToken | Comparable::NextPage | Comparable::NoBody => {
                FingerprintDisclosure::Allowed
            }
        };
        Ok(match disclosure {
            FingerprintDisclosure::Allowed => Some(Comparison { _counted: () }),
            FingerprintDisclosure::Withheld => None,
        })
    }
}
