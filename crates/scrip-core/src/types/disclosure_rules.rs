//! The disclosure rules in force: all of them, except in control runs of the non-interference test.

/// A disclosure rule that a control run can disable, to prove that the test detects the leak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DisclosureRule {
    /// A duplicate must have the same expressions, or expressions of a caller with a reveal right.
    MatchingExpressions,
    /// A conversion without a reveal right accepts only harmless expressions.
    ConversionExpressions,
    /// Look-alike numbers decide whether an expression over a card is accepted.
    LookalikeAcceptance,
    /// No conversion or move gives the caller a stronger right.
    StrongerRight,
    /// A patch of some inputs withholds the digests over the other hidden ones.
    PartialPatch,
    /// A patch of some inputs withholds the leaves of a mask over the other hidden ones.
    PartialPatchOfMask,
    /// Expressions of another application are reset when the secret is replaced.
    InheritedExpressions,
    /// Templates of a proxy read the message as the client sent it, not the data of its tokens.
    TemplatesReadClientMessage,
    /// Browsers and access sessions do not read the configuration of a proxy through a message.
    ConfigurationHiddenFromBrowsers,
    /// Numbers that a proxy collects count for the sender of the call.
    SenderCountsInCollection,
    /// Every run of digits that is as long as a card number counts as a guess.
    EveryDigitRunCounts,
    /// A repeated request of hosted fields is recognized by its key, and its values are neither
    /// compared nor counted.
    FieldCallsAreNotCompared,
}

/// The rules that a vault applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DisclosureRules {
    disabled: &'static [DisclosureRule],
}

impl DisclosureRules {
    /// For control runs of tests only: the tidy test rejects this name in product code.
    pub fn weakened_for_control_run(disabled: &'static [DisclosureRule]) -> Self {
        Self { disabled }
    }

    /// Whether the rule is in force.
    pub fn applies(self, rule: DisclosureRule) -> bool {
        !self.disabled.contains(&rule)
    }
}
