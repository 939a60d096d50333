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

use crate::{
    Error,
    equality::{
        guess_count::GuessCount, guessing_budget::FingerprintDisclosure, numbers::EvaluatedNumbers,
    },
    types::Plaintext,
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

impl GuessCount<'_> {
    /// Counts the numbers in a value that the caller submits. `None` if the value must not be
    /// compared, because a budget is exhausted or the value has too many numbers.
    ///
    /// Errors: the counters cannot be read.
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
}
