//! The guessing budget and the search budget.
//!
//! A fingerprint, a search or a replayed response reveals whether a number is stored. BIN and last
//! four digits of a card are not secret, so a caller without a reveal right could try the other
//! digits: about a thousand numbers for a card of sixteen digits. The budget counts how many
//! distinct numbers of one group (same kind, first digits and last four) such callers have
//! submitted for evaluation. When the budget is exhausted, the vault does not return any result
//! that depends on equality: no fingerprint, no deduplication, no `data:` search.
//!
//! [`numbers`] finds the numbers to count. [`bucket`] defines the counters: one for each group and
//! for each application. [`ledger`] counts on this node, compares the counts with the limits and
//! writes them to the store in the background. [`search`] counts search terms, and
//! [`rejected_evaluations`] expressions that fail on hidden data.

pub mod bucket;
mod digit_runs;
mod evaluated_entity;
pub mod ledger;
pub(crate) mod numbers;
mod rejected_evaluations;
pub mod search;
mod separated_digits;

use std::time::Duration;

use crate::{
    Error, Vault,
    audit::{Operation, ReadLogEntry},
    policy::{
        Caller, Quotas,
        guessing_budget::{
            ledger::CountRequest,
            numbers::{CountedNumber, EvaluatedTexts, collect_body_numbers, collect_token_numbers},
        },
        tenant::quota::QuotaLimit,
    },
    token::{Plaintext, TokenType},
};

pub(crate) use self::bucket::{CallerClass, GuessBucketKind};
pub use self::{
    bucket::{GuessBucket, GuessRecord},
    evaluated_entity::EvaluatedEntity,
};

/// The length of a day in the quotas.
pub const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// The length of a quarter in the quotas.
pub const QUARTER: Duration = Duration::from_secs(90 * 24 * 60 * 60);

/// Whether the fingerprint of a number may be stored and returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::policy) enum FingerprintDisclosure {
    Allowed,
    /// A budget is exhausted: no fingerprint, no deduplication, whether the number is stored or
    /// not.
    Withheld,
}

words! {
    /// The guessing budgets. Each name is a label of the metric and the outcome of the audit
    /// record.
    pub enum GuessBudget {
        Day = "number_guesses_day",
        Quarter = "number_guesses_quarter",
        Application = "number_guesses_application",
        SearchDigits = "search_misses_digits",
        SearchText = "search_misses_text",
        RejectedEvaluations = "rejected_evaluations",
    }
}

/// The guess limits of one caller.
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

/// The data of one token, and the texts that its fingerprint expression and search indexes
/// evaluated to.
pub(crate) struct EvaluatedNumbers<'a> {
    pub(crate) token_type: TokenType,
    pub(crate) data: &'a Plaintext,
    pub(crate) texts: &'a EvaluatedTexts,
    /// Whether the caller knows the data and the texts. What is counted of other data must follow
    /// from its mask.
    pub(crate) is_known: bool,
    /// The number of tokens in the request.
    pub(crate) tokens: usize,
}

impl Vault {
    /// Counts the numbers of one token before any result that depends on them is stored or
    /// returned.
    ///
    /// # Errors
    /// The counters cannot be read, or the exhausted budget cannot be recorded.
    pub(super) async fn count_numbers(
        &self,
        caller: &Caller,
        evaluated: EvaluatedNumbers<'_>,
    ) -> Result<FingerprintDisclosure, Error> {
        if !self.is_counted(caller) {
            return Ok(FingerprintDisclosure::Allowed);
        }
        let numbers = collect_token_numbers(caller, self.disclosure, &evaluated);
        self.count_guesses(caller, numbers).await
    }

    /// Counts the numbers of a request body before it is compared with an earlier one.
    ///
    /// # Errors
    /// As [`Vault::count_numbers`].
    pub(super) async fn count_request_numbers(
        &self,
        caller: &Caller,
        body: &Plaintext,
    ) -> Result<FingerprintDisclosure, Error> {
        if !self.is_counted(caller) {
            return Ok(FingerprintDisclosure::Allowed);
        }
        let numbers = collect_body_numbers(caller, self.disclosure, body);
        self.count_guesses(caller, numbers).await
    }

    /// Whether a budget is on and the caller could learn a number by guessing. The container of
    /// the new token does not matter, because its fingerprint can be compared with tokens of every
    /// container. Public keys and access sessions are used by browsers, so a reader with a mask may
    /// use them too: their numbers are counted for all rights of the key or session.
    fn is_counted(&self, caller: &Caller) -> bool {
        let is_public = CallerClass::for_caller(caller) == CallerClass::Public;
        !GuessLimits::from_quotas(&caller.tenant().quotas).is_off()
            && (is_public || !caller.reveals_whole_tenant())
    }

    /// Counts the numbers and records the budgets that they exhaust. `None` for too many numbers:
    /// nothing is counted, and nothing is compared.
    ///
    /// # Errors
    /// As [`Vault::count_numbers`].
    async fn count_guesses(
        &self,
        caller: &Caller,
        numbers: Option<Vec<CountedNumber>>,
    ) -> Result<FingerprintDisclosure, Error> {
        let limits = GuessLimits::from_quotas(&caller.tenant().quotas);
        if limits.is_off() {
            return Ok(FingerprintDisclosure::Allowed);
        }
        let Some(numbers) = numbers else { return Ok(FingerprintDisclosure::Withheld) };
        if numbers.is_empty() {
            return Ok(FingerprintDisclosure::Allowed);
        }
        let request = CountRequest::for_caller(caller, limits, self.clock.now());
        let result = self.guess_ledger.count(&*self.store, request, &numbers).await?;
        self.record_exhausted_budgets(caller, &result.exhausted).await?;
        Ok(result.disclosure)
    }

    /// Writes one audit record and increments the metric for each budget that was just exhausted.
    async fn record_exhausted_budgets(
        &self,
        caller: &Caller,
        exhausted: &[GuessBudget],
    ) -> Result<(), Error> {
        if exhausted.is_empty() {
            return Ok(());
        }
        let application = caller.application().to_string();
        let entries = exhausted.iter().map(|it| {
            self.guess_ledger.exhausted.count(*it);
            ReadLogEntry::new(application.clone(), it.as_str())
        });
        self.record_reads(caller, Operation::SpendBudget, entries.collect()).await
    }
}
