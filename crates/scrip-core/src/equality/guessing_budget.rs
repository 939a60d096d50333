//! The names and the limits of the guessing budget and the search budget.

use std::time::Duration;

use crate::policy::{Quotas, tenant::quota::QuotaLimit};

/// The length of a day in the quotas.
pub const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// The length of a quarter in the quotas.
pub(crate) const QUARTER: Duration = Duration::from_secs(90 * 24 * 60 * 60);

/// Whether the fingerprint of a number may be stored and returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FingerprintDisclosure {
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
    pub(super) fn from_quotas(quotas: &Quotas) -> Self {
        Self {
            day: quotas.number_guesses_day,
            quarter: quotas.number_guesses_quarter,
            application: quotas.number_guesses_application,
        }
    }

    pub(super) fn is_off(&self) -> bool {
        [self.day, self.quarter, self.application].iter().all(|it| *it == QuotaLimit::Off)
    }
}
