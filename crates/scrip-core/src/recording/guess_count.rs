//! Counts the guesses of a caller with the counters of the vault, and records each budget that a count
//! exhausts in the read log.

use crate::{
    Error, Vault,
    equality::{Comparable, Comparison, EvaluatedEntity, GuessCount, bucket::GuessBudget},
    policy::Caller,
    read_log::ReadLogEntry,
    types::{DisclosureRule, Operation},
};

impl Vault {
    /// The application of a proxy that stores what the sender of a call submits; `None` for a sender
    /// without an API key. Its guesses count for the sender: otherwise any client could spend the
    /// budget of the application, or escape it.
    pub fn collect_for(&self, collector: &Caller, sender: Option<&Caller>) -> Caller {
        if !self.disclosure.applies(DisclosureRule::SenderCountsInCollection) {
            return collector.clone();
        }
        collector.collecting_for(sender)
    }

    /// Counts the numbers in a value that the caller submits. `None` if the value must not be
    /// compared, because a budget is exhausted or the value has too many numbers.
    ///
    /// Errors: the counters cannot be read, or the exhausted budget cannot be recorded.
    pub(crate) async fn may_compare(
        &self,
        caller: &Caller,
        value: Comparable<'_>,
    ) -> Result<Option<Comparison>, Error> {
        let mut count = self.guess_count(caller);
        let comparison = count.compare(value).await;
        self.record_exhausted_budgets(caller, &count.exhausted).await?;
        comparison
    }

    /// Checks the budgets of hidden data before an expression is evaluated on it.
    /// Errors: the budget of some data is exhausted, or the counters cannot be read.
    pub(crate) async fn check_rejected_evaluations(
        &self,
        caller: &Caller,
        hidden: &[EvaluatedEntity],
    ) -> Result<(), Error> {
        self.guess_count(caller).check_rejected_evaluations(hidden).await
    }

    /// Counts a rejected evaluation for each of these, before the client learns of the rejection.
    ///
    /// Errors: a budget was exhausted by other requests since its check, or the count cannot be
    /// recorded.
    pub(crate) async fn count_rejected_evaluation(
        &self,
        caller: &Caller,
        hidden: &[EvaluatedEntity],
    ) -> Result<(), Error> {
        let mut count = self.guess_count(caller);
        let counted = count.count_rejected_evaluation(hidden, self.fill_random).await;
        self.record_exhausted_budgets(caller, &count.exhausted).await?;
        counted
    }

    fn guess_count<'a>(&'a self, caller: &'a Caller) -> GuessCount<'a> {
        GuessCount {
            caller,
            ledger: &self.guess_ledger,
            store: &*self.store,
            clock: &*self.clock,
            rules: self.disclosure,
            exhausted: Vec::new(),
        }
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
