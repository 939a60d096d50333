//! The first digits of a card number, as a client sends them.

use super::PrefixRange;

/// The first six to eight digits of a card number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BinPrefix {
    digits: String,
    range: PrefixRange,
}

impl BinPrefix {
    /// Parses six to eight digits. More digits are not accepted: they would tell more about a card
    /// than its mask.
    pub fn parse(text: &str) -> Option<Self> {
        if !(6..=8).contains(&text.len()) {
            return None;
        }
        Some(Self { digits: text.to_owned(), range: PrefixRange::from_prefix(text)? })
    }

    pub fn digits(&self) -> &str {
        &self.digits
    }

    /// All prefixes that begin with these digits.
    pub fn range(&self) -> PrefixRange {
        self.range
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_has_six_to_eight_digits() {
        for (text, bounds) in [
            ("424242", ["42424200", "42424299"]),
            ("0424242", ["04242420", "04242429"]),
            ("42424242", ["42424242", "42424242"]),
        ] {
            let prefix = BinPrefix::parse(text).unwrap();
            assert_eq!(
                (prefix.digits(), prefix.range().bounds()),
                (text, bounds.map(str::to_owned))
            );
        }
        for text in ["", "42424", "424242424", "42424x", "+42424", "424 24", "４２４２４２"] {
            assert_eq!(BinPrefix::parse(text), None, "{text}");
        }
    }
}
