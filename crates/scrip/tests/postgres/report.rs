//! Counts and consistency violations of a scenario.

use std::collections::BTreeMap;

use scrip_testing::destination::token_events::EventViolation;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ConsistencyViolation {
    /// The token was acknowledged and is missing.
    Lost,
    /// The token differs from the written data.
    WrongContent,
    /// The token was deleted and is still present.
    DeleteUndone,
    /// More than one effect of one idempotency key.
    CreatedTwice,
    /// The same idempotency key got a different response.
    ResponseChanged,
    /// More than one token of a deduplicated card.
    DuplicateTokens,
    /// An intent that became more than one token, or none.
    IntentConvertedWrongly,
    /// The rows differ from the tokens that the clients know.
    UnknownRows,
    /// A list contains a token twice, or lacks one.
    WrongListPage,
    /// The audit chain is invalid.
    AuditChainBroken,
    /// The audit log has a different number of records than there were changes.
    ChangeNotRecorded,
    /// The usage counters differ from the number of tokens.
    UsageMiscounted,
    /// A response with an unexpected status.
    UnexpectedStatus,
    /// A token has another fingerprint than before.
    FingerprintChanged,
    /// A search does not find a token.
    NotFoundBySearch,
    /// The stored position of a key rotation went back.
    ProgressWentBack,
    /// A key rotation did not destroy the old key.
    OldKeyKept,
    /// A request failed although no node was killed.
    FailedWithoutKill,
    /// A violated guarantee of webhooks.
    Event(EventViolation),
}

#[derive(Debug, Default)]
pub(crate) struct RunReport {
    pub(crate) counts: BTreeMap<&'static str, usize>,
    pub(crate) violations: BTreeMap<ConsistencyViolation, usize>,
    /// Statuses that no request should get.
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
        self.add_violations(violation, 1);
    }

    pub(crate) fn add_violations(&mut self, violation: ConsistencyViolation, count: usize) {
        *self.violations.entry(violation).or_default() += count;
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
            self.add_violations(*finding, *count);
        }
        for (status, count) in &other.unexpected_statuses {
            *self.unexpected_statuses.entry(*status).or_default() += count;
        }
    }

    pub(crate) fn has_violation(&self, violation: ConsistencyViolation) -> bool {
        self.violations.contains_key(&violation)
    }

    pub(crate) fn is_clean(&self) -> bool {
        self.violations.is_empty()
    }
}
