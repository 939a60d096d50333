//! Why the pattern of a mask is rejected.

/// Why an expression cannot be a mask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MaskPatternError {
    /// It is larger than this version allows. An earlier version may have stored it.
    TooLarge,
    /// It has a Unicode class. An earlier version may have stored it.
    UnicodeClass,
    Invalid(&'static str),
}

impl MaskPatternError {
    pub fn rule(self) -> &'static str {
        match self {
            Self::TooLarge => TOO_LARGE,
            Self::UnicodeClass => "must not have a class of Unicode properties such as \\pL",
            Self::Invalid(rule) => rule,
        }
    }

    /// Whether an earlier version accepted the expression.
    pub(crate) fn was_allowed(self) -> bool {
        match self {
            Self::TooLarge | Self::UnicodeClass => true,
            Self::Invalid(_) => false,
        }
    }
}

const TOO_LARGE: &str = "is too large: it must have at most 256 steps when all repetitions are \
    written out, and 256 KiB when compiled; use shorter repetitions";
pub(super) const NO_GROUP: &str =
    "must have at least one capture group, which selects the masked text";
