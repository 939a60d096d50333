//! Which rules are in force. All of them, except in control runs of the non-interference test.

/// A rule of disclosure that a control run can take out, to show that the test finds the hole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DisclosureRule {
    /// A duplicate must have the same expressions, or ones that a caller with a reveal right wrote.
    MatchingExpressions,
    /// A conversion without a reveal right accepts only harmless expressions.
    ConversionExpressions,
    /// Look-alike numbers decide whether an expression over a card is accepted.
    LookalikeAcceptance,
    /// No conversion or move gives the caller a stronger right.
    StrongerRight,
    /// A patch of some hidden inputs withholds what is computed from them.
    PartialPatch,
    /// Expressions of another application fall back when the secret is replaced.
    InheritedExpressions,
}

/// The rules that a vault applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DisclosureRules {
    disabled: &'static [DisclosureRule],
}

impl DisclosureRules {
    /// For control runs of tests only: the tidy test finds this name in product code.
    #[must_use]
    pub fn weakened_for_control_run(disabled: &'static [DisclosureRule]) -> Self {
        Self { disabled }
    }

    pub(crate) fn applies(self, rule: DisclosureRule) -> bool {
        !self.disabled.contains(&rule)
    }
}
