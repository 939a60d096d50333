//! Orders numbers of any length.
//!
//! The order is total and exact, unlike arithmetic, because sorting needs an order for any two
//! numbers.

use std::cmp::Ordering;

use crate::inner_steps::count;

/// A number as its sign, the position of its first digit, and its digits. Zero has no digits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NumberRank {
    sign: i8,
    exponent: i128,
    digits: String,
}

impl NumberRank {
    /// From a number in JSON notation.
    pub(crate) fn from_json_number(text: &str) -> Self {
        count(text.len());
        let (sign, unsigned) = text.strip_prefix('-').map_or((1, text), |it| (-1, it));
        let (mantissa, exponent) = unsigned.split_once(['e', 'E']).unwrap_or((unsigned, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let all = [whole, fraction].concat();
        let digits = all.trim_start_matches('0');
        let zeros = all.len().saturating_sub(digits.len());
        let digits = digits.trim_end_matches('0').to_owned();
        if digits.is_empty() {
            return Self { sign: 0, exponent: 0, digits };
        }
        // An exponent that does not fit counts as the largest possible one: the order stays total.
        let limit = if exponent.starts_with('-') { i128::MIN } else { i128::MAX };
        let exponent: i128 = exponent.trim_start_matches('+').parse().unwrap_or(limit);
        let exponent_of = |count: usize| i128::try_from(count).unwrap_or(i128::MAX);
        let exponent =
            exponent.saturating_add(exponent_of(whole.len())).saturating_sub(exponent_of(zeros));
        Self { sign, exponent, digits }
    }

    /// The maximum number of digits that a comparison reads.
    pub(crate) fn digit_count(&self) -> usize {
        self.digits.len()
    }
}

impl Ord for NumberRank {
    fn cmp(&self, other: &Self) -> Ordering {
        let size = || {
            let exponents = self.exponent.cmp(&other.exponent);
            exponents.then_with(|| self.digits.cmp(&other.digits))
        };
        let within = || if self.sign < 0 { size().reverse() } else { size() };
        self.sign.cmp(&other.sign).then_with(within)
    }
}

impl PartialOrd for NumberRank {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_rank_orders_numbers_exactly() {
        let ordered = [
            "-1e99999999999999999999999999999999999999999",
            "-1e400",
            "-12",
            "-1.5",
            "-1",
            "-0.5",
            "-1e-400",
            "0",
            "1e-400",
            "0.05",
            "0.5",
            "1",
            "1.0001",
            "1.5",
            "9",
            "10",
            "12",
            "1e3",
            "12345678901234567890123",
            "12345678901234567890124",
            "1e400",
            "1e99999999999999999999999999999999999999999",
        ];
        for (at, left) in ordered.iter().enumerate() {
            for (other, right) in ordered.iter().enumerate() {
                assert_eq!(
                    NumberRank::from_json_number(left).cmp(&NumberRank::from_json_number(right)),
                    at.cmp(&other),
                    "{left} {right}"
                );
            }
        }
        for (left, right) in
            [("1", "1.0"), ("10", "1e1"), ("-0", "0.00"), ("0.5", "5E-1"), ("1e+2", "100")]
        {
            assert_eq!(
                NumberRank::from_json_number(left),
                NumberRank::from_json_number(right),
                "{left} {right}"
            );
        }
    }
}
