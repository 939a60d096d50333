//! Exact decimal arithmetic. Results that do not fit are errors; they are never rounded silently.
//!
//! An integer stays an integer; a number with a decimal point keeps one, as in Liquid.

use std::cmp::Ordering;

use serde_json::{Number, Value};

use crate::inner_steps::count;

/// `coefficient` / 10^`scale`. An integer if the scale is zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Decimal {
    coefficient: i128,
    scale: u32,
}

/// A non-terminating quotient is rounded to as many digits as a double has.
const QUOTIENT_DIGITS: u32 = 16;
/// More decimal places than a coefficient has digits. Beyond this limit, all digits are zeros.
const SCALE_MAX: u32 = 40;
const TOO_LARGE: &str = "this number is too large to calculate with";
const BY_ZERO: &str = "a number cannot be divided by zero";

pub(crate) type DecimalResult = Result<Decimal, &'static str>;

impl Decimal {
    /// Accepts the formats of JSON, and leading zeros.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        count(text.len());
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, Some(exponent.parse::<i32>().ok()?)),
            None => (text, None),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = whole.strip_prefix('-').unwrap_or(whole);
        let is_digits = |it: &str| it.bytes().all(|it| it.is_ascii_digit());
        let has_point = mantissa.len() > whole.len();
        if digits.is_empty() || !is_digits(digits) || !is_digits(fraction) {
            return None;
        }
        if has_point && fraction.is_empty() {
            return None;
        }
        let magnitude: i128 =
            digits.chars().chain(fraction.chars()).try_fold(0_i128, |sum, c| {
                sum.checked_mul(10)?.checked_add(i128::from(c.to_digit(10)?))
            })?;
        let coefficient = if whole.starts_with('-') { magnitude.checked_neg()? } else { magnitude };
        let scale = u32::try_from(fraction.len()).ok()?;
        let number = Self { coefficient, scale };
        let number = exponent.map_or(Some(number), |it| number.shift(it))?;
        (number.scale <= SCALE_MAX).then_some(number)
    }

    fn shift(self, exponent: i32) -> Option<Self> {
        // Zero has no digits to shift, and any exponent would be valid.
        if self.coefficient == 0 {
            return Some(Self { coefficient: 0, scale: 1 });
        }
        let scale = i64::from(self.scale).checked_sub(i64::from(exponent))?;
        if scale >= 1 {
            return Some(Self { scale: u32::try_from(scale).ok()?, ..self }.trim_zeros());
        }
        // A number written with an exponent is not an integer, whatever its value.
        let zeros = u32::try_from(scale.checked_neg()?.checked_add(1)?).ok()?;
        Some(Self { coefficient: self.coefficient.checked_mul(power_of_ten(zeros)?)?, scale: 1 })
    }

    /// For arithmetic: null is zero, and text must be a number.
    pub(crate) fn from_value(value: &Value) -> DecimalResult {
        const NONE: &str = "this is not a number";
        match value {
            Value::Null => Ok(Self { coefficient: 0, scale: 0 }),
            Value::Number(number) => Self::parse(number.as_str()).ok_or(TOO_LARGE),
            Value::String(text) => Self::parse(text.trim()).ok_or(NONE),
            Value::Bool(_) | Value::Array(_) | Value::Object(_) => Err(NONE),
        }
    }

    pub(crate) fn into_value(self) -> Result<Value, &'static str> {
        let number = self.trim_zeros();
        if number.scale > SCALE_MAX {
            return Err(TOO_LARGE);
        }
        let digits = number.coefficient.unsigned_abs().to_string();
        let places = usize::try_from(number.scale).map_err(|_| TOO_LARGE)?;
        let sign = if number.coefficient < 0 { "-" } else { "" };
        let padded = format!("{digits:0>width$}", width = places.saturating_add(1));
        let (whole, fraction) = padded.split_at(padded.len().saturating_sub(places));
        let text = if places == 0 {
            format!("{sign}{whole}")
        } else {
            format!("{sign}{whole}.{fraction}")
        };
        text.parse::<Number>().map(Value::Number).map_err(|_| TOO_LARGE)
    }

    /// Removes trailing zeros, except one after the decimal point.
    fn trim_zeros(mut self) -> Self {
        if self.coefficient == 0 {
            return Self { coefficient: 0, scale: self.scale.min(1) };
        }
        while self.scale > 1 && self.coefficient % 10 == 0 {
            self.coefficient /= 10;
            self.scale = self.scale.saturating_sub(1);
        }
        self
    }

    fn at_scale(self, scale: u32) -> Option<i128> {
        self.coefficient.checked_mul(power_of_ten(scale.checked_sub(self.scale)?)?)
    }

    /// Both coefficients at the same scale.
    fn align(self, other: Self) -> Option<(i128, i128, u32)> {
        let scale = self.scale.max(other.scale);
        Some((self.at_scale(scale)?, other.at_scale(scale)?, scale))
    }

    fn combine(self, other: Self, calculate: fn(i128, i128) -> Option<i128>) -> DecimalResult {
        let (left, right, scale) = self.align(other).ok_or(TOO_LARGE)?;
        Ok(Self { coefficient: calculate(left, right).ok_or(TOO_LARGE)?, scale })
    }

    pub(crate) fn compare(self, other: Self) -> Option<Ordering> {
        let (left, right, _) = self.align(other)?;
        Some(left.cmp(&right))
    }

    pub(crate) fn plus(self, other: Self) -> DecimalResult {
        self.combine(other, i128::checked_add)
    }

    pub(crate) fn minus(self, other: Self) -> DecimalResult {
        self.combine(other, i128::checked_sub)
    }

    pub(crate) fn times(self, other: Self) -> DecimalResult {
        let (left, right) = (self.trim_zeros(), other.trim_zeros());
        let product = left.coefficient.checked_mul(right.coefficient).ok_or(TOO_LARGE)?;
        Ok(Self { coefficient: product, scale: left.scale.saturating_add(right.scale) }
            .trim_zeros())
    }

    pub(crate) fn abs(self) -> DecimalResult {
        Ok(Self { coefficient: self.coefficient.checked_abs().ok_or(TOO_LARGE)?, ..self })
    }

    /// Integer division rounds down, as in Liquid.
    pub(crate) fn divided_by(self, other: Self) -> DecimalResult {
        if other.coefficient == 0 {
            return Err(BY_ZERO);
        }
        let (left, right, scale) = self.align(other).ok_or(TOO_LARGE)?;
        if scale == 0 {
            return Ok(Self { coefficient: floor_div(left, right).ok_or(TOO_LARGE)?, scale });
        }
        quotient(left, right).ok_or(TOO_LARGE)
    }

    pub(crate) fn modulo(self, other: Self) -> DecimalResult {
        if other.coefficient == 0 {
            return Err(BY_ZERO);
        }
        self.combine(other, |left, right| {
            left.checked_sub(floor_div(left, right)?.checked_mul(right)?)
        })
    }

    pub(crate) fn floor(self) -> DecimalResult {
        let unit = power_of_ten(self.scale).ok_or(TOO_LARGE)?;
        let coefficient = floor_div(self.coefficient, unit).ok_or(TOO_LARGE)?;
        Ok(Self { coefficient, scale: 0 })
    }

    pub(crate) fn ceil(self) -> DecimalResult {
        let negated = |it: Self| {
            let coefficient = it.coefficient.checked_neg().ok_or(TOO_LARGE)?;
            Ok(Self { coefficient, ..it })
        };
        negated(negated(self)?.floor()?)
    }

    /// Rounds halves away from zero.
    pub(crate) fn round(self, places: u32) -> DecimalResult {
        if self.scale <= places {
            return Ok(self);
        }
        let unit = power_of_ten(self.scale.saturating_sub(places)).ok_or(TOO_LARGE)?;
        Ok(Self { coefficient: round_div(self.coefficient, unit).ok_or(TOO_LARGE)?, scale: places })
    }
}

fn power_of_ten(exponent: u32) -> Option<i128> {
    10_i128.checked_pow(exponent)
}

fn floor_div(left: i128, right: i128) -> Option<i128> {
    let quotient = left.checked_div(right)?;
    let exact = left.checked_rem(right)? == 0;
    let rounds_down = !exact && (left < 0) != (right < 0);
    quotient.checked_sub(i128::from(rounds_down))
}

fn round_div(left: i128, unit: i128) -> Option<i128> {
    let (quotient, rest) = (left.checked_div(unit)?, left.checked_rem(unit)?);
    let rounds_up = rest.unsigned_abs() >= unit.unsigned_abs().div_ceil(2);
    quotient.checked_add(i128::from(rounds_up).checked_mul(left.signum())?)
}

/// Long division, with one more digit than the result has.
fn quotient(left: i128, right: i128) -> Option<Decimal> {
    let negative = (left < 0) != (right < 0);
    let (left, right) = (left.checked_abs()?, right.checked_abs()?);
    let (mut coefficient, mut rest) = (left.checked_div(right)?, left.checked_rem(right)?);
    let coefficient_max = power_of_ten(QUOTIENT_DIGITS)?;
    let mut scale = 0_u32;
    while scale == 0 || (rest != 0 && coefficient < coefficient_max) {
        rest = rest.checked_mul(10)?;
        coefficient = coefficient.checked_mul(10)?.checked_add(rest.checked_div(right)?)?;
        rest = rest.checked_rem(right)?;
        scale = scale.checked_add(1)?;
    }
    if coefficient >= coefficient_max && scale > 1 {
        coefficient = round_div(coefficient, 10)?;
        scale = scale.checked_sub(1)?;
    }
    let coefficient = if negative { coefficient.checked_neg()? } else { coefficient };
    Some(Decimal { coefficient, scale }.trim_zeros())
}

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
