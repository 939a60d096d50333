//! The budget of rejected evaluations: how often an expression of a caller may fail on the same hidden
//! data.
//!
//! A caller that may use a token, or reads it with a mask, learns something from each expression that
//! fails or succeeds on its data. Each application has one counter for the data of each token. All
//! browsers together have one of their own, so that they cannot lock out a backend.

use crate::{
    Error,
    equality::{
        CallerClass, EvaluatedEntity, GuessBucket, GuessBucketKind,
        comparison::GuessCount,
        guessing_budget::{DAY, GuessBudget},
        ledger::is_reached,
    },
    policy::{Caller, tenant::quota::QuotaLimit},
};

const EXHAUSTED: &str = "too many expressions failed on the data of this token within 24 hours; a \
                         key with a reveal right is not limited";

impl GuessCount<'_> {
    /// Checks the budgets of hidden data before an expression is evaluated on it.
    /// Errors: the budget of some data is exhausted, or the counters cannot be read.
    pub(crate) async fn check_rejected_evaluations(
        &self,
        hidden: &[EvaluatedEntity],
    ) -> Result<(), Error> {
        let caller = self.caller;
        let limit = caller.tenant().quotas.rejected_evaluations();
        if hidden.is_empty() || limit == QuotaLimit::Off {
            return Ok(());
        }
        let (tenant, now) = (caller.tenant().id, self.clock.now());
        let buckets: Vec<_> = hidden.iter().map(|it| data_bucket(caller, *it)).collect();
        self.ledger.load(self.store, tenant, &buckets, now).await?;
        let state = self.ledger.lock();
        let is_exhausted =
            |it: &GuessBucket| is_reached(limit, state.distinct_count(tenant, *it, now, DAY));
        if buckets.iter().any(is_exhausted) {
            return Err(Error::BudgetExhausted { reason: EXHAUSTED });
        }
        Ok(())
    }

    /// Counts a rejected evaluation for each of these, before the client learns of the rejection.
    ///
    /// Errors: a budget was exhausted by other requests since its check, or too many counts wait to
    /// be stored.
    pub(crate) async fn count_rejected_evaluation(
        &mut self,
        hidden: &[EvaluatedEntity],
        fill_random: fn(&mut [u8]),
    ) -> Result<(), Error> {
        self.check_rejected_evaluations(hidden).await?;
        let caller = self.caller;
        let limit = caller.tenant().quotas.rejected_evaluations();
        if hidden.is_empty() || limit == QuotaLimit::Off {
            return Ok(());
        }
        let (tenant, now) = (caller.tenant().id, self.clock.now());
        let mut state = self.ledger.lock();
        state.check_pending_capacity(tenant, hidden.len())?;
        for data in hidden {
            let bucket = data_bucket(caller, *data);
            // Every rejection counts, also of a repeated expression.
            let mut rejection = [0; 16];
            fill_random(&mut rejection);
            state.add_pending_count((tenant, bucket), rejection, now, DAY);
            if is_reached(limit, state.distinct_count(tenant, bucket, now, DAY)) {
                self.exhausted.push(GuessBudget::RejectedEvaluations);
            }
        }
        Ok(())
    }
}

fn data_bucket(caller: &Caller, data: EvaluatedEntity) -> GuessBucket {
    let (keys, application) = (&caller.tenant().keys, caller.guessing_application().0);
    let class = CallerClass::for_caller(caller);
    // A page can have sessions of several public applications.
    let application: &[u8] = match class {
        CallerClass::Public => b"",
        CallerClass::Private => application.as_bytes(),
    };
    let parts: [&[u8]; 3] = [b"rejected-evaluation", application, data.as_bytes()];
    GuessBucket::new(class, GuessBucketKind::RejectedEvaluation, keys.guess_digest(&parts))
}
