//! The budgets of guesses and searches, the buckets that count them, and the stored records of counted
//! numbers.

use std::time::Duration;

use scrip_seal::IndexDigest;

use crate::{
    Timestamp,
    policy::{Caller, Quotas, tenant::quota::QuotaLimit},
};

/// The class of a caller. Each class has its own counters, so that browsers cannot exhaust the
/// budget of the backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallerClass {
    /// Public applications and access sessions.
    Public,
    Private,
}

impl CallerClass {
    pub(crate) fn for_caller(caller: &Caller) -> Self {
        if caller.guesses_as_browser() { Self::Public } else { Self::Private }
    }
}

/// The key of one counter. The first byte is the caller class and the kind of the counter; the
/// other bytes are a keyed digest of the group or application.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GuessBucket(pub [u8; 17]);

/// The counters: one for each group of numbers, application, last four digits of a search,
/// application that searches, and hidden data on which expressions of an application fail.
#[derive(Debug, Clone, Copy)]
pub(crate) enum GuessBucketKind {
    Group,
    Application,
    SearchDigits,
    SearchText,
    RejectedEvaluation,
}

impl GuessBucket {
    pub(crate) fn new(class: CallerClass, kind: GuessBucketKind, digest: IndexDigest) -> Self {
        let class_bits = match class {
            CallerClass::Public => 0,
            CallerClass::Private => 4,
        };
        let kind_bits = match kind {
            GuessBucketKind::Group => 0,
            GuessBucketKind::Application => 1,
            GuessBucketKind::SearchDigits => 2,
            GuessBucketKind::SearchText => 3,
            // The bit of the caller class is 4.
            GuessBucketKind::RejectedEvaluation => 8,
        };
        let mut bytes = [0; 17];
        let source = std::iter::once(class_bits | kind_bits).chain(digest.0);
        for (target, byte) in bytes.iter_mut().zip(source) {
            *target = byte;
        }
        Self(bytes)
    }
}

/// The stored record of one counted number or search term. It contains only digests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GuessRecord {
    pub bucket: GuessBucket,
    pub number_digest: [u8; 16],
    /// The time of the last count.
    pub counted_at: Timestamp,
    /// When no window contains the record any more. The record may then be deleted.
    pub expires_at: Timestamp,
}

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
