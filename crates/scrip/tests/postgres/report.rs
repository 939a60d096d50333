//! What was counted, and what was found that must not be.

use std::collections::BTreeMap;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ConsistencyViolation {
    /// Acknowledged, and not there.
    Lost,
    /// Not what was written.
    WrongContent,
    /// Deleted, and there.
    DeleteUndone,
    /// More than one effect of one idempotency key.
    CreatedTwice,
    /// The same idempotency key got another answer.
    ResponseChanged,
    /// More than one token of a card that is deduplicated.
    DuplicateTokens,
    /// An intent that became more than one token, or none.
    IntentConvertedWrongly,
    /// The rows are not the tokens that the clients know.
    UnknownRows,
    /// A page of a list has a token twice, or the pages lack one.
    WrongListPage,
    /// The trail is not whole.
    AuditChainBroken,
    /// The trail has another number of effects than there were.
    ChangeNotRecorded,
    /// The counts of tokens are not how many there are.
    UsageMiscounted,
    /// An answer with a status that this request cannot have.
    UnexpectedStatus,
}

#[derive(Debug, Default)]
pub(crate) struct RunReport {
    pub(crate) counts: BTreeMap<&'static str, usize>,
    pub(crate) violations: BTreeMap<ConsistencyViolation, usize>,
    /// Statuses that no request should have got.
    pub(crate) unexpected_statuses: BTreeMap<(&'static str, u16), usize>,
}

impl RunReport {
    pub(crate) fn add(&mut self, counter: &'static str) {
        self.add_many(counter, 1);
    }

    pub(crate) fn add_many(&mut self, counter: &'static str, count: usize) {
        *self.counts.entry(counter).or_default() += count;
    }

    pub(crate) fn count(&self, counter: &str) -> usize {
        self.counts.get(counter).copied().unwrap_or_default()
    }

    pub(crate) fn add_violation(&mut self, violation: ConsistencyViolation) {
        *self.violations.entry(violation).or_default() += 1;
    }

    pub(crate) fn expect_status(&mut self, request: &'static str, status: u16, expected: u16) {
        if status != expected {
            self.add_violation(ConsistencyViolation::UnexpectedStatus);
            *self.unexpected_statuses.entry((request, status)).or_default() += 1;
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (what, count) in &other.counts {
            self.add_many(what, *count);
        }
        for (finding, count) in &other.violations {
            *self.violations.entry(*finding).or_default() += count;
        }
        for (refusal, count) in &other.unexpected_statuses {
            *self.unexpected_statuses.entry(*refusal).or_default() += count;
        }
    }

    pub(crate) fn has_violation(&self, violation: ConsistencyViolation) -> bool {
        self.violations.contains_key(&violation)
    }

    pub(crate) fn is_clean(&self) -> bool {
        self.violations.is_empty()
    }
}
