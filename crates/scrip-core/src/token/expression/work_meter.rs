//! The evaluation budget of a request, which all its expressions share.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use scrip_expression::SpentWork;

use crate::error::Error;

/// The charged work of all expressions of one request.
///
/// Twice as much as a single expression may cost. The largest body can be fingerprinted and shown under its mask; sixteen indexes that each
/// read it several times cannot be computed.
pub const REQUEST_WORK_MAX: usize = 16 * 1024 * 1024;

/// The part of it that is done where the request arrived.
///
/// It takes a few milliseconds; a worker that
/// is held longer keeps other requests waiting.
pub const INLINE_WORK_MAX: usize = 1024 * 1024;

/// Runs a long evaluation without holding up other requests, and returns when it is over. `false`
/// if there are too many others; then it did not run.
pub type RunLongEvaluation = fn(&mut dyn FnMut()) -> bool;

/// Counts the work of one request.
#[derive(Debug)]
pub struct WorkMeter {
    remaining: AtomicUsize,
    run_long: RunLongEvaluation,
    /// Whether an evaluation did not run because too many others did.
    rejected: AtomicBool,
}

/// What an evaluation gave, and what it cost.
pub(crate) struct EvaluationAttempt<T> {
    pub(crate) result: T,
    pub(crate) spent: SpentWork,
}

impl Default for WorkMeter {
    fn default() -> Self {
        Self::new(run_inline)
    }
}

fn run_inline(evaluate: &mut dyn FnMut()) -> bool {
    evaluate();
    true
}

impl WorkMeter {
    #[must_use]
    pub fn new(run_long: RunLongEvaluation) -> Self {
        let left = AtomicUsize::new(REQUEST_WORK_MAX);
        Self { remaining: left, run_long, rejected: AtomicBool::new(false) }
    }

    /// The work charged so far.
    #[must_use]
    pub fn spent(&self) -> usize {
        REQUEST_WORK_MAX.saturating_sub(self.remaining.load(Relaxed))
    }

    /// Evaluates within the bound that `evaluate` is given, and charges what it spent.
    ///
    /// The first call runs here with what is left of [`INLINE_WORK_MAX`]. If that is not enough,
    /// the evaluation is repeated elsewhere with the whole budget, so it must give the same again.
    pub(crate) fn run<T>(
        &self,
        mut evaluate: impl FnMut(usize) -> EvaluationAttempt<T>,
    ) -> EvaluationAttempt<T> {
        let left = self.remaining.load(Relaxed);
        let inline = INLINE_WORK_MAX.saturating_sub(self.spent()).min(left);
        let mut attempt = evaluate(inline);
        if attempt.spent.is_exhausted && left > inline {
            if (self.run_long)(&mut || attempt = evaluate(left)) {
                // Counted below.
            } else {
                self.rejected.store(true, Relaxed);
            }
        }
        self.charge(attempt.spent.work);
        attempt
    }

    /// Charges work that is no evaluation, such as reading an expression.
    pub(crate) fn charge(&self, work: usize) {
        self.remaining.store(self.remaining.load(Relaxed).saturating_sub(work), Relaxed);
    }

    /// For an attempt that starts again because another request was first: it is charged once.
    pub(crate) fn reset_to(&self, spent: usize) {
        self.remaining.store(REQUEST_WORK_MAX.saturating_sub(spent), Relaxed);
    }

    /// # Errors
    /// An evaluation was rejected because too many others run. Nothing that was computed since then
    /// may be stored or shown.
    pub fn check(&self) -> Result<(), Error> {
        if self.rejected.load(Relaxed) {
            return Err(Error::Unavailable("too many expensive expressions at once".into()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(cost: usize) -> impl FnMut(usize) -> EvaluationAttempt<bool> {
        move |bound| {
            let ran_out = cost > bound;
            EvaluationAttempt {
                result: !ran_out,
                spent: SpentWork { work: cost.min(bound), is_exhausted: ran_out },
            }
        }
    }

    #[test]
    fn evaluation_budget_is_shared_by_all_expressions_of_a_request() {
        let meter = WorkMeter::default();
        assert!(meter.run(attempt(REQUEST_WORK_MAX / 2)).result);
        assert!(meter.run(attempt(REQUEST_WORK_MAX / 2)).result);
        assert!(!meter.run(attempt(1)).result);
        assert_eq!(meter.spent(), REQUEST_WORK_MAX);
    }

    #[test]
    fn evaluation_past_the_inline_bound_uses_the_long_runner() {
        fn reject(_: &mut dyn FnMut()) -> bool {
            false
        }
        let meter = WorkMeter::new(reject);
        assert!(meter.run(attempt(INLINE_WORK_MAX)).result);
        assert!(meter.check().is_ok());
        assert!(!meter.run(attempt(1)).result);
        assert!(matches!(meter.check(), Err(Error::Unavailable(_))));
    }

    #[test]
    fn repeated_evaluation_attempt_is_charged_once() {
        let meter = WorkMeter::default();
        meter.run(attempt(100));
        let start = meter.spent();
        for _ in 0..1000 {
            assert!(meter.run(attempt(INLINE_WORK_MAX)).result);
            meter.reset_to(start);
        }
        assert_eq!(meter.spent(), 100);
    }
}
