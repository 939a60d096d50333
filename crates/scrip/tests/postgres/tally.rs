//! What was counted, and what was found that must not be.

use std::collections::BTreeMap;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Finding {
    /// Acknowledged, and not there.
    Lost,
    /// Not what was written.
    Altered,
    /// Deleted, and there.
    Undead,
    /// More than one effect of one idempotency key.
    Doubled,
    /// The same idempotency key got another answer.
    Forgotten,
    /// More than one token of a card that is deduplicated.
    Twins,
    /// An intent that became more than one token, or none.
    Converted,
    /// The rows are not the tokens that the clients know.
    Strange,
    /// A page of a list has a token twice, or the pages lack one.
    Mispaged,
    /// The trail is not whole.
    Broken,
    /// The trail has another number of effects than there were.
    Unrecorded,
    /// The counts of tokens are not how many there are.
    Miscounted,
    /// An answer with a status that this request cannot have.
    Refused,
}

#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) counts: BTreeMap<&'static str, usize>,
    pub(crate) findings: BTreeMap<Finding, usize>,
    /// Statuses that no request should have got.
    pub(crate) refusals: BTreeMap<(&'static str, u16), usize>,
}

impl Tally {
    pub(crate) fn add(&mut self, what: &'static str) {
        self.add_many(what, 1);
    }

    pub(crate) fn add_many(&mut self, what: &'static str, count: usize) {
        *self.counts.entry(what).or_default() += count;
    }

    pub(crate) fn count(&self, what: &str) -> usize {
        self.counts.get(what).copied().unwrap_or_default()
    }

    pub(crate) fn note(&mut self, finding: Finding) {
        *self.findings.entry(finding).or_default() += 1;
    }

    pub(crate) fn expect(&mut self, what: &'static str, status: u16, expected: u16) {
        if status != expected {
            self.note(Finding::Refused);
            *self.refusals.entry((what, status)).or_default() += 1;
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (what, count) in &other.counts {
            self.add_many(what, *count);
        }
        for (finding, count) in &other.findings {
            *self.findings.entry(*finding).or_default() += count;
        }
        for (refusal, count) in &other.refusals {
            *self.refusals.entry(*refusal).or_default() += count;
        }
    }

    pub(crate) fn has(&self, finding: Finding) -> bool {
        self.findings.contains_key(&finding)
    }

    pub(crate) fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }
}
