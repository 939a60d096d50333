//! The budget of conditional evaluations: how many distinct conditions callers may test on the same
//! hidden data.
//!
//! An expression such as `{{ T | slice: 8, 1 | replace: '7', 'x' | to_number }}` fails only if a digit
//! is a seven, so a call that succeeds also tells something. Twenty such answers are a card number,
//! however few of them are failures. So each distinct expression whose outcome can depend on the
//! characters of hidden data counts once before it is evaluated, whether it fails or not. All
//! applications share the counter: an exhausted one rejects only further distinct conditions, so that
//! it locks nobody out.

use crate::{
    Error, Vault,
    policy::{
        Caller,
        guessing_budget::{
            CallerClass, EvaluatedData, GuessBucket, GuessBucketKind, GuessBudget, QUARTER,
            ledger::is_reached,
        },
        tenant::quota::QuotaLimit,
    },
};

const EXHAUSTED: &str = "too many different expressions with filters that depend on the data were used \
                         with this token within 90 days; use filters such as json, slice and append, \
                         or a key with a reveal right";

/// An expression that tests hidden data.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TestedCondition<'a> {
    pub(crate) data: EvaluatedData,
    /// Equal for expressions with the same outcome on the same data.
    pub(crate) text: &'a str,
}

impl Vault {
    /// Counts conditions before they are evaluated. One that was counted before is free.
    ///
    /// # Errors
    /// The budget of some data is exhausted, or the counters cannot be read or recorded.
    pub(crate) async fn count_conditions(
        &self,
        caller: &Caller,
        conditions: &[TestedCondition<'_>],
    ) -> Result<(), Error> {
        let limit = caller.tenant().quotas.conditional_evaluations();
        if conditions.is_empty() || limit == QuotaLimit::Off {
            return Ok(());
        }
        let (tenant, now) = (caller.tenant().id, self.clock.now());
        let keys = &caller.tenant().keys;
        let class = CallerClass::for_caller(caller);
        let counted: Vec<_> = conditions
            .iter()
            .map(|it| {
                let parts: [&[u8]; 2] = [b"conditional-evaluation", it.data.as_bytes()];
                let digest = keys.guess_digest(&parts);
                let kind = GuessBucketKind::ConditionalEvaluation;
                let condition = keys.guess_digest(&[b"condition", it.text.as_bytes()]).0;
                (GuessBucket::new(class, kind, digest), condition)
            })
            .collect();
        let buckets: Vec<_> = counted.iter().map(|(bucket, _)| *bucket).collect();
        self.guess_ledger.load(&*self.store, tenant, &buckets, now).await?;
        let (mut exhausted, mut is_rejected) = (Vec::new(), false);
        {
            let mut state = self.guess_ledger.lock();
            state.check_pending_capacity(counted.len())?;
            for (bucket, condition) in counted {
                if state.is_counted(tenant, bucket, &condition, now, QUARTER) {
                    continue;
                }
                if is_reached(limit, state.distinct_count(tenant, bucket, now, QUARTER)) {
                    is_rejected = true;
                    break;
                }
                state.add_pending_count((tenant, bucket), condition, now, QUARTER);
                if is_reached(limit, state.distinct_count(tenant, bucket, now, QUARTER)) {
                    exhausted.push(GuessBudget::ConditionalEvaluations);
                }
            }
        }
        self.record_exhausted_budgets(caller, &exhausted).await?;
        if is_rejected {
            return Err(Error::BudgetExhausted { reason: EXHAUSTED });
        }
        Ok(())
    }
}
