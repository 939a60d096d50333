//! The guessing budget and the search budget.
//!
//! A fingerprint, a search or a replayed response tells whether a number is stored. BIN and last four
//! of a card are no secret, so a caller without a reveal right could try the rest: about a thousand
//! numbers for a card of sixteen digits. The budget counts how many distinct numbers of one group
//! (same kind, first digits and last four) such callers have had evaluated. When it is spent,
//! nothing that depends on equality is shown: no fingerprint, no deduplication, no `data:` search.
//!
//! [`numbers`] decides what counts, [`ledger`] keeps the counts of this node, decides how many are
//! in a window of time and writes them behind, [`search`] counts terms of searches.

pub mod bucket;
pub mod ledger;
pub(crate) mod numbers;
pub mod search;

use std::time::Duration;

use crate::{
    Error, Vault,
    audit::{Operation, ReadLogEntry},
    policy::{
        Caller, Quotas,
        guessing_budget::{
            ledger::CountRequest,
            numbers::{
                CountedNumber, EvaluatedTexts, NUMBERS_MAX, compared_numbers, evaluated_numbers,
            },
        },
        tenant::quota::QuotaLimit,
    },
    token::{Plaintext, TokenType},
};

pub(crate) use self::bucket::{CallerClass, GuessBucketKind};
pub use self::bucket::{GuessBucket, GuessRecord};

pub const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// What the quotas call a quarter.
pub const QUARTER: Duration = Duration::from_secs(90 * 24 * 60 * 60);

/// Whether the fingerprint of a number may be stored and shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FingerprintDisclosure {
    Allowed,
    /// A budget is spent: no fingerprint, no deduplication, whether the number is known or not.
    Withheld,
}

words! {
    /// The budgets that can be spent, each a label of the metric and the outcome of the audit record.
    pub enum GuessBudget {
        Day = "number_guesses_day",
        Quarter = "number_guesses_quarter",
        Application = "number_guesses_application",
        SearchDigits = "search_misses_digits",
        SearchText = "search_misses_text",
    }
}

/// The limits that apply to one caller.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GuessLimits {
    pub(crate) day: QuotaLimit,
    pub(crate) quarter: QuotaLimit,
    pub(crate) application: QuotaLimit,
}

impl GuessLimits {
    fn from_quotas(quotas: &Quotas) -> Self {
        Self {
            day: quotas.number_guesses_day,
            quarter: quotas.number_guesses_quarter,
            application: quotas.number_guesses_application,
        }
    }

    fn is_off(&self) -> bool {
        [self.day, self.quarter, self.application].iter().all(|it| *it == QuotaLimit::Off)
    }
}

/// What an operation evaluated for a caller: the data of one token, and the texts that the
/// fingerprint expression and the search indexes gave for it.
pub(crate) struct EvaluatedNumbers<'a> {
    pub(crate) token_type: TokenType,
    pub(crate) data: &'a Plaintext,
    pub(crate) texts: &'a EvaluatedTexts,
}

impl Vault {
    /// Counts the numbers of one token before anything that depends on them is stored or shown.
    ///
    /// # Errors
    /// The counters cannot be read, or that a budget is spent cannot be recorded.
    pub(crate) async fn count_numbers(
        &self,
        caller: &Caller,
        evaluated: EvaluatedNumbers<'_>,
    ) -> Result<FingerprintDisclosure, Error> {
        if !self.is_counted(caller) {
            return Ok(FingerprintDisclosure::Allowed);
        }
        let numbers = evaluated_numbers(caller, &evaluated);
        self.count_guesses(caller, &numbers).await
    }

    /// Counts the numbers of a request body that is about to be compared with an earlier one.
    ///
    /// # Errors
    /// As [`Vault::count_numbers`].
    pub(crate) async fn count_request_numbers(
        &self,
        caller: &Caller,
        body: &Plaintext,
    ) -> Result<FingerprintDisclosure, Error> {
        if !self.is_counted(caller) {
            return Ok(FingerprintDisclosure::Allowed);
        }
        self.count_guesses(caller, &compared_numbers(caller, body)).await
    }

    /// Whether a budget is on and the caller could learn something by guessing. Where the new token
    /// is does not matter: its fingerprint can be compared with those of every container. A public
    /// key or an access session is in the hands of browsers, so a masked reader may have it too:
    /// its numbers are counted whatever it sees itself.
    fn is_counted(&self, caller: &Caller) -> bool {
        let is_public = CallerClass::for_caller(caller) == CallerClass::Public;
        !GuessLimits::from_quotas(&caller.tenant().quotas).is_off()
            && (is_public || !caller.principal().reveals_everywhere())
    }

    pub(crate) async fn count_guesses(
        &self,
        caller: &Caller,
        numbers: &[CountedNumber],
    ) -> Result<FingerprintDisclosure, Error> {
        let limits = GuessLimits::from_quotas(&caller.tenant().quotas);
        if numbers.is_empty() || limits.is_off() {
            return Ok(FingerprintDisclosure::Allowed);
        }
        if numbers.len() > NUMBERS_MAX {
            return Ok(FingerprintDisclosure::Withheld);
        }
        let counting = CountRequest::for_caller(caller, limits, self.clock.now());
        let counted = self.guess_ledger.count(&*self.store, counting, numbers).await?;
        self.record_exhausted_budgets(caller, &counted.exhausted).await?;
        Ok(counted.disclosure)
    }

    /// One audit record and one count of the metric for each budget that was spent just now.
    async fn record_exhausted_budgets(
        &self,
        caller: &Caller,
        spent: &[GuessBudget],
    ) -> Result<(), Error> {
        if spent.is_empty() {
            return Ok(());
        }
        let application = caller.application().to_string();
        let entries = spent.iter().map(|it| {
            self.guess_ledger.exhausted.count(*it);
            ReadLogEntry::new(application.clone(), it.as_str())
        });
        self.record_reads(caller, Operation::SpendBudget, entries.collect()).await
    }
}
