//! Counts the numbers in a value of a caller before the value is compared. The numbers come from
//! [`numbers`](crate::equality::numbers), the counters are in the [`GuessLedger`].

use crate::{
    Error,
    equality::{
        CallerClass, GuessStore,
        guessing_budget::{FingerprintDisclosure, GuessBudget, GuessLimits},
        ledger::{CountRequest, GuessLedger},
        numbers::{CountedNumber, EvaluatedNumbers, collect_body_numbers, collect_token_numbers},
    },
    policy::Caller,
    types::{DisclosureRules, Plaintext, time::Clock},
};

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
    /// Counts the numbers of one token before any result that depends on them is stored or
    /// returned.
    /// Errors: the counters cannot be read.
    pub(super) async fn count_numbers(
        &mut self,
        evaluated: EvaluatedNumbers<'_>,
    ) -> Result<FingerprintDisclosure, Error> {
        if !self.is_counted() {
            return Ok(FingerprintDisclosure::Allowed);
        }
        let numbers = collect_token_numbers(self.caller, self.rules, &evaluated);
        self.count_guesses(numbers).await
    }

    /// Counts the numbers of a request body before it is compared with an earlier one.
    /// Errors: as [`GuessCount::count_numbers`].
    pub(super) async fn count_request_numbers(
        &mut self,
        body: &Plaintext,
    ) -> Result<FingerprintDisclosure, Error> {
        if !self.is_counted() {
            return Ok(FingerprintDisclosure::Allowed);
        }
        let numbers = collect_body_numbers(self.caller, self.rules, body);
        self.count_guesses(numbers).await
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

    /// Counts the numbers. `None` for too many numbers: nothing is counted, and nothing is compared.
    /// Errors: as [`GuessCount::count_numbers`].
    pub(super) async fn count_guesses(
        &mut self,
        numbers: Option<Vec<CountedNumber>>,
    ) -> Result<FingerprintDisclosure, Error> {
        let limits = GuessLimits::from_quotas(&self.caller.tenant().quotas);
        if limits.is_off() {
            return Ok(FingerprintDisclosure::Allowed);
        }
        let Some(numbers) = numbers else { return Ok(FingerprintDisclosure::Withheld) };
        if numbers.is_empty() {
            return Ok(FingerprintDisclosure::Allowed);
        }
        let request = CountRequest::for_caller(self.caller, limits, self.clock.now());
        let result = self.ledger.count(self.store, request, &numbers).await?;
        self.exhausted.extend(result.exhausted);
        Ok(result.disclosure)
    }
}
