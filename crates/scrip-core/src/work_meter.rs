//! The evaluation budget of a request, shared by all its expressions.

use std::{
    future::poll_fn,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    task::Poll,
};

use scrip_expression::{SpentWork, padded_size};

use crate::{
    Error,
    types::{id::TenantId, metrics::Gauge},
};

/// The maximum charged work of all expressions of one request.
///
/// The maximum is twice that of a single expression. It suffices to fingerprint the largest body
/// and to apply its mask, but not for sixteen indexes that each read it several times.
pub(crate) const REQUEST_WORK_MAX: usize = 16 * 1024 * 1024;

/// The part of the budget that is evaluated on the async worker thread.
///
/// Such an evaluation takes a few milliseconds. A longer evaluation on the worker would delay other
/// requests.
pub const INLINE_WORK_MAX: usize = 1024 * 1024;

/// The work to open a byte of a sealed body: it is decrypted, parsed and wiped.
const OPEN_WORK_PER_BYTE: usize = 2;

/// The work to search a byte for numbers: it is read for the digits of a whole text, and for runs of
/// digits.
const NUMBER_SEARCH_WORK_PER_BYTE: usize = 4;

/// The maximum work of all attempts of a request that conflicts made useless. A token of ordinary size
/// allows hundreds of attempts, and the largest one allows two or three.
const REPEATED_WORK_MAX: usize = REQUEST_WORK_MAX;

/// The part of the bodies of one request that is opened on the async worker thread: 256 KiB, more than
/// a page of ordinary tokens has.
const INLINE_OPEN_WORK_MAX: usize = INLINE_WORK_MAX / 2;

/// The most work that a request of this process did on an async worker.
pub static INLINE_WORK_PEAK: Gauge = Gauge::new();

/// Runs a long evaluation of a tenant without delaying other requests, and returns when it is done.
/// Returns `false`, without running the evaluation, if too many others are running.
pub(crate) type RunLongEvaluation = fn(Option<TenantId>, &mut dyn FnMut()) -> bool;

/// Counts the evaluation work of one request.
#[derive(Debug)]
pub struct WorkMeter {
    remaining: AtomicUsize,
    run_long: RunLongEvaluation,
    /// Tenants take turns, so that one tenant cannot make the others wait.
    tenant: Option<TenantId>,
    /// The part of the work that ran inline.
    inline: AtomicUsize,
    /// The work to open and seal bodies.
    opened: AtomicUsize,
    /// The work of attempts that ended with a conflict.
    repeated: AtomicUsize,
    /// Whether an evaluation was rejected because too many others were running.
    rejected: AtomicBool,
}

/// The work to open or seal bodies, or to search them for numbers. Each size is padded, so that the effect of the work does not tell
/// the length of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BodyWork(usize);

impl BodyWork {
    /// Opens a sealed body of this length, or seals one.
    pub(crate) fn for_bytes(sealed_bytes: usize) -> Self {
        Self(padded_size(sealed_bytes).saturating_mul(OPEN_WORK_PER_BYTE))
    }

    /// Searches a body and evaluated texts of this length for numbers.
    pub(crate) fn for_number_search(bytes: usize) -> Self {
        Self(padded_size(bytes).saturating_mul(NUMBER_SEARCH_WORK_PER_BYTE))
    }

    pub(crate) fn and(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

/// The counters at the start of an attempt to write.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AttemptStart {
    spent: usize,
    opened: usize,
}

/// The result of an evaluation, and its cost.
pub(crate) struct EvaluationAttempt<T> {
    pub(crate) result: T,
    pub(crate) spent: SpentWork,
}

/// Whether the caller may know the value that an expression reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EvaluationInput {
    Known,
    /// The work counts by a padded size. Otherwise the caller could use up the budget except for a few
    /// units, and learn the length of the value from what still succeeds.
    Hidden,
    /// The same for the fingerprint and the indexes of a write, of which a request has few. All texts of
    /// usual length count alike.
    HiddenWrite,
}

/// The work of an expression that reads a thousand bytes.
const HIDDEN_WRITE_WORK_MIN: usize = 4_096;

impl EvaluationInput {
    /// The part of a limit that the evaluation may use. For a hidden value it is a padded size, so that
    /// the evaluation succeeds exactly if its padded work fits.
    fn limit(self, work_max: usize) -> usize {
        match self.charge_min() {
            None => work_max,
            Some(charge_min) if work_max < charge_min => 0,
            Some(_) => work_max.checked_ilog2().map_or(0, |it| 1 << it),
        }
    }

    fn charge(self, spent: SpentWork, work_max: usize) -> usize {
        match self.charge_min() {
            None => spent.work,
            Some(_) if spent.is_exhausted => work_max,
            Some(charge_min) => padded_size(spent.work).max(charge_min),
        }
    }

    /// The least work that counts for a hidden value.
    fn charge_min(self) -> Option<usize> {
        match self {
            Self::Known => None,
            Self::Hidden => Some(padded_size(0)),
            Self::HiddenWrite => Some(HIDDEN_WRITE_WORK_MIN),
        }
    }
}

impl Default for WorkMeter {
    fn default() -> Self {
        Self::new(None, run_inline)
    }
}

fn run_inline(_: Option<TenantId>, evaluate: &mut dyn FnMut()) -> bool {
    evaluate();
    true
}

impl WorkMeter {
    pub fn new(tenant: Option<TenantId>, run_long: RunLongEvaluation) -> Self {
        let remaining = AtomicUsize::new(REQUEST_WORK_MAX);
        let [inline, opened, repeated] = [(); 3].map(|()| AtomicUsize::new(0));
        let rejected = AtomicBool::new(false);
        Self { remaining, run_long, tenant, inline, opened, repeated, rejected }
    }

    /// The work charged so far.
    pub fn spent(&self) -> usize {
        REQUEST_WORK_MAX.saturating_sub(self.remaining.load(Relaxed))
    }

    /// Evaluates within the limit that is passed to `evaluate`, and charges the work.
    ///
    /// The first attempt runs inline with the rest of [`INLINE_WORK_MAX`]. If that is not enough,
    /// the evaluation is repeated by the long runner with the whole budget, so it must be
    /// deterministic.
    pub(crate) fn run<T>(
        &self,
        input: EvaluationInput,
        mut evaluate: impl FnMut(usize) -> EvaluationAttempt<T>,
    ) -> EvaluationAttempt<T> {
        let work_max = input.limit(self.remaining.load(Relaxed));
        let inline_max = input.limit(INLINE_WORK_MAX.saturating_sub(self.spent())).min(work_max);
        let mut attempt = evaluate(inline_max);
        self.count_inline(attempt.spent.work);
        if attempt.spent.is_exhausted && work_max > inline_max {
            if (self.run_long)(self.tenant, &mut || attempt = evaluate(work_max)) {
                // The work of the repeated evaluation is charged below.
            } else {
                self.rejected.store(true, Relaxed);
            }
        }
        self.charge_ahead(input.charge(attempt.spent, work_max));
        attempt
    }

    /// Charges the work of a step and then runs it: inline if the rest of [`INLINE_WORK_MAX`]
    /// suffices, else by the long runner.
    /// Errors: too many other steps are running.
    pub fn run_step<T>(&self, work: usize, step: impl FnOnce() -> T) -> Result<T, Error> {
        self.charge_ahead(work);
        if self.spent() <= INLINE_WORK_MAX {
            self.count_inline(work);
            return Ok(step());
        }
        self.run_long_step(step)
    }

    /// Opens, seals or searches a body: inline within [`INLINE_OPEN_WORK_MAX`], else by the long runner.
    ///
    /// The work is not taken from the budget of expressions: pages and calls have limits of their own
    /// for the bodies that they open.
    /// Errors: too many other steps are running.
    pub(crate) fn run_opening<T>(
        &self,
        BodyWork(work): BodyWork,
        open: impl FnOnce() -> T,
    ) -> Result<T, Error> {
        let opened = self.opened.fetch_add(work, Relaxed).saturating_add(work);
        if opened <= INLINE_OPEN_WORK_MAX {
            self.count_inline(work);
            return Ok(open());
        }
        self.run_long_step(open)
    }

    fn run_long_step<T>(&self, step: impl FnOnce() -> T) -> Result<T, Error> {
        let (mut step, mut result) = (Some(step), None);
        (self.run_long)(self.tenant, &mut || result = step.take().map(|it| it()));
        result.ok_or_else(|| Error::Unavailable("too many long requests at the same time".into()))
    }

    /// Charges work that is not an evaluation, such as parsing an expression.
    pub(crate) fn charge(&self, work: usize) {
        self.count_inline(work);
        self.charge_ahead(work);
    }

    fn count_inline(&self, work: usize) {
        let inline = self.inline.fetch_add(work, Relaxed).saturating_add(work);
        INLINE_WORK_PEAK.raise_to(u64::try_from(inline).unwrap_or(u64::MAX));
    }

    /// Charges work of a later step, so that the step does not run inline if it is long.
    pub fn charge_ahead(&self, work: usize) {
        self.remaining.store(self.remaining.load(Relaxed).saturating_sub(work), Relaxed);
    }

    pub(crate) fn start_attempt(&self) -> AttemptStart {
        AttemptStart { spent: self.spent(), opened: self.opened.load(Relaxed) }
    }

    /// Resets the counters for another attempt after a conflict, and charges the work of the last one.
    ///
    /// The budget of expressions is that of the first attempt, so that their results do not depend on
    /// other writers. The worker served other requests during the write, so the attempt may run inline
    /// like the first one.
    /// Errors: the attempts of this request needed too much work.
    pub(crate) fn repeat_attempt(&self, start: AttemptStart) -> Result<(), Error> {
        let evaluated = self.spent().saturating_sub(start.spent);
        let opened = self.opened.load(Relaxed).saturating_sub(start.opened);
        self.remaining.store(REQUEST_WORK_MAX.saturating_sub(start.spent), Relaxed);
        self.opened.store(start.opened, Relaxed);
        self.inline.store(0, Relaxed);
        self.charge_repetition(evaluated.saturating_add(opened))
    }

    /// Charges the work on one body in an attempt that ended with a conflict.
    /// Errors: as [`repeat_attempt`](Self::repeat_attempt).
    pub(crate) fn charge_repeated_body(&self, BodyWork(work): BodyWork) -> Result<(), Error> {
        self.charge_repetition(work)
    }

    fn charge_repetition(&self, work: usize) -> Result<(), Error> {
        let repeated = self.repeated.fetch_add(work, Relaxed).saturating_add(work);
        if repeated > REPEATED_WORK_MAX {
            return Err(contention_error());
        }
        Ok(())
    }

    /// Checks that no evaluation was rejected.
    /// Errors: an evaluation was rejected because too many others were running. Nothing computed
    /// since then may be stored or returned.
    pub fn check(&self) -> Result<(), Error> {
        if self.rejected.load(Relaxed) {
            return Err(Error::Unavailable(
                "too many expensive expressions at the same time".into(),
            ));
        }
        Ok(())
    }
}

/// The error of a request whose attempts to write all ended with a conflict.
pub(crate) fn contention_error() -> Error {
    Error::Unavailable("too many concurrent writers of one token".into())
}

/// Yields to other requests between two pieces of work of one request.
pub(crate) async fn yield_now() {
    let mut has_yielded = false;
    poll_fn(|context| {
        if std::mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(cost: usize) -> impl FnMut(usize) -> EvaluationAttempt<bool> {
        move |work_max| {
            let is_exhausted = cost > work_max;
            EvaluationAttempt {
                result: !is_exhausted,
                spent: SpentWork { work: cost.min(work_max), is_exhausted },
            }
        }
    }

    #[test]
    fn work_on_a_hidden_value_does_not_tell_its_length() {
        for before in [1, 300, 1_024, INLINE_WORK_MAX, REQUEST_WORK_MAX - 2_100] {
            let outcome = |cost: usize| {
                let meter = WorkMeter::default();
                meter.charge_ahead(before);
                let is_accepted = meter.run(EvaluationInput::Hidden, attempt(cost)).result;
                (is_accepted, meter.spent())
            };
            for (short, long) in [(30, 31), (257, 512), (1_025, 2_048), (2_049, 4_096)] {
                assert_eq!(outcome(short), outcome(long), "{short} and {long} after {before}");
            }
        }
    }

    #[test]
    fn write_over_a_hidden_text_of_up_to_a_thousand_bytes_counts_alike() {
        let outcome = |cost: usize, before: usize| {
            let meter = WorkMeter::default();
            meter.charge_ahead(before);
            let is_accepted = meter.run(EvaluationInput::HiddenWrite, attempt(cost)).result;
            (is_accepted, meter.spent())
        };
        for left in [1, 255, 256, 512, 4_095, 4_096, 8_192] {
            let before = REQUEST_WORK_MAX - left;
            assert_eq!(outcome(30, before), outcome(4_000, before), "{left} units are left");
        }
    }

    #[test]
    fn evaluation_budget_is_shared_by_all_expressions_of_a_request() {
        let meter = WorkMeter::default();
        assert!(meter.run(EvaluationInput::Known, attempt(REQUEST_WORK_MAX / 2)).result);
        assert!(meter.run(EvaluationInput::Known, attempt(REQUEST_WORK_MAX / 2)).result);
        assert!(!meter.run(EvaluationInput::Known, attempt(1)).result);
        assert_eq!(meter.spent(), REQUEST_WORK_MAX);
    }

    #[test]
    fn evaluation_over_the_inline_limit_uses_the_long_runner() {
        fn reject(_: Option<TenantId>, _: &mut dyn FnMut()) -> bool {
            false
        }
        let meter = WorkMeter::new(None, reject);
        assert!(meter.run(EvaluationInput::Known, attempt(INLINE_WORK_MAX)).result);
        assert!(meter.check().is_ok());
        assert!(!meter.run(EvaluationInput::Known, attempt(1)).result);
        assert!(matches!(meter.check(), Err(Error::Unavailable(_))));
    }

    #[test]
    fn step_is_charged_and_runs_inline_only_within_the_inline_limit() {
        fn reject(_: Option<TenantId>, _: &mut dyn FnMut()) -> bool {
            false
        }
        let meter = WorkMeter::new(None, reject);
        assert_eq!(meter.run_step(INLINE_WORK_MAX, || 7).unwrap(), 7);
        assert!(matches!(meter.run_step(1, || 7), Err(Error::Unavailable(_))));
        assert_eq!(meter.spent(), INLINE_WORK_MAX + 1);
        let meter = WorkMeter::default();
        assert_eq!(meter.run_step(usize::MAX, || 7).unwrap(), 7);
    }

    #[test]
    fn page_of_ordinary_tokens_is_opened_inline_and_large_bodies_by_the_long_runner() {
        fn reject(_: Option<TenantId>, _: &mut dyn FnMut()) -> bool {
            false
        }
        let ordinary = WorkMeter::new(None, reject);
        for _ in 0..100 {
            assert_eq!(ordinary.run_opening(BodyWork::for_bytes(2_000), || 7).unwrap(), 7);
        }
        let large = WorkMeter::new(None, reject);
        let body_work = BodyWork::for_bytes(200_000);
        assert_eq!(large.run_opening(body_work, || 7).unwrap(), 7);
        assert!(matches!(large.run_opening(body_work, || 7), Err(Error::Unavailable(_))));
        assert_eq!(large.spent(), 0, "opening leaves the budget of expressions");
        let meter = WorkMeter::default();
        assert_eq!(meter.run_opening(BodyWork::for_bytes(usize::MAX), || 7).unwrap(), 7);
    }

    #[test]
    fn repeated_attempt_has_the_budget_of_the_first_one() {
        let meter = WorkMeter::default();
        meter.run(EvaluationInput::Known, attempt(100));
        let start = meter.start_attempt();
        for _ in 0..16 {
            assert!(meter.run(EvaluationInput::Known, attempt(INLINE_WORK_MAX)).result);
            meter.repeat_attempt(start).unwrap();
        }
        assert_eq!(meter.spent(), 100);
    }

    #[test]
    fn work_of_repeated_attempts_is_bounded() {
        let count_attempts = |sealed_bytes: usize| {
            let meter = WorkMeter::default();
            let start = meter.start_attempt();
            let body_work = BodyWork::for_bytes(sealed_bytes);
            (1..=256)
                .take_while(|_| {
                    meter.run_opening(body_work.and(body_work), || ()).unwrap();
                    meter.repeat_attempt(start).is_ok()
                })
                .count()
        };
        assert_eq!(count_attempts(2_000), 256);
        assert_eq!(count_attempts(2 * 1024 * 1024), 2);
        assert_eq!(count_attempts(usize::MAX), 0);
        let meter = WorkMeter::default();
        let body_work = BodyWork::for_bytes(REQUEST_WORK_MAX / 4);
        assert!(meter.charge_repeated_body(body_work).is_ok());
        assert!(meter.charge_repeated_body(body_work).is_ok());
        assert!(matches!(meter.charge_repeated_body(body_work), Err(Error::Unavailable(_))));
    }
}
