//! One share, and its text, which a holder keeps and types.

use std::{fmt, ops::RangeInclusive};

use aws_lc_rs::constant_time::verify_slices_are_equal;
use thiserror::Error;
use zeroize::Zeroizing;

use crate::{
    Checksum, Secret,
    shares::{base32, label::ShareLabel},
};

/// The share of one holder. It is wiped when dropped; `Debug` does not print its value.
pub struct Share {
    pub(super) label: ShareLabel,
    pub(super) index: u8,
    pub(super) threshold: u8,
    pub(super) value: Secret,
}

/// Why a share is rejected. Contains no part of a share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ShareError {
    #[error("the text is not a share: a share begins with scrip1-")]
    NotAShare,
    #[error("the share has a typing error: compare it with the original and type it again")]
    TypingError,
    #[error("the share belongs to another vault")]
    OtherVault,
    #[error("the share belongs to another set of this vault, for example to an earlier one")]
    OtherSet,
    #[error("the share has another threshold or length than its set: it is not genuine")]
    OtherForm,
    #[error("share {index} was entered before: another holder must enter a different one")]
    Repeated { index: u8 },
    #[error("a different share {index} was entered before: one of them is not genuine")]
    Conflicting { index: u8 },
    #[error("{have} of {need} shares were entered")]
    TooFew { have: u8, need: u8 },
    #[error("the shares contradict each other: at least one of them is not genuine")]
    Inconsistent,
}

/// Also names the version of the form.
const PREFIX: &[u8] = b"scrip1";
/// The length of a secret, and of each of its shares.
pub(super) const VALUE_BYTES: RangeInclusive<usize> = 16..=VALUE_BYTES_MAX;
const VALUE_BYTES_MAX: usize = 64;
pub(super) const THRESHOLD_MIN: u8 = 2;
/// An altered text is accepted with a probability of 2⁻⁴⁰.
const CHECKSUM_BYTES: usize = 5;
/// More than the longest share. Spaces may be added to it.
const TEXT_BYTES_MAX: usize = 1024;
/// The longest part before the value: a prefix, a label and two numbers.
const HEAD_BYTES_MAX: usize = 32;

impl Share {
    /// Parses the form that [`Share::to_text`] writes. Spaces, line breaks and the case of letters
    /// do not matter.
    /// Errors: the text is not a share or has a typing error.
    pub fn parse(text: &str) -> Result<Self, ShareError> {
        let symbols = remove_spaces(text)?;
        let mut parts = symbols.split(|it| *it == b'-');
        if !parts.next().is_some_and(|it| it.eq_ignore_ascii_case(PREFIX)) {
            return Err(ShareError::NotAShare);
        }
        Self::parse_parts(&mut parts).ok_or(ShareError::TypingError)
    }

    /// The text for the holder: `scrip1-VAULT-SET-INDEX-THRESHOLD-VALUE`. `VALUE` is base 32 of
    /// the share and of a checksum over all parts, so that a typing error in any part is detected.
    ///
    /// The threshold is a part, so that a collection of shares can show its progress before the
    /// vault is unsealed.
    pub fn to_text(&self) -> Secret {
        let mut value =
            Zeroizing::new(Vec::with_capacity(VALUE_BYTES_MAX.saturating_add(CHECKSUM_BYTES)));
        value.extend_from_slice(self.value.expose());
        value.extend_from_slice(&self.checksum());
        let value = base32::encode(&value);
        let head = format!("-{}-{}-{}-", self.label, self.index, self.threshold);
        let mut text = Vec::with_capacity(value.len().saturating_add(HEAD_BYTES_MAX));
        for part in [PREFIX, head.as_bytes(), &value] {
            text.extend_from_slice(part);
        }
        Secret::new(text)
    }

    /// Of which vault and set the share is.
    pub fn label(&self) -> ShareLabel {
        self.label
    }

    /// The number of the share, from 1.
    pub fn index(&self) -> u8 {
        self.index
    }

    /// How many shares of the set reconstruct the secret.
    pub fn threshold(&self) -> u8 {
        self.threshold
    }

    /// `parts` are those after the prefix.
    fn parse_parts<'a>(parts: &mut impl Iterator<Item = &'a [u8]>) -> Option<Self> {
        let label = ShareLabel::from_parts(parts.next()?, parts.next()?)?;
        let index = parse_number(parts.next()?).filter(|it| *it > 0)?;
        let threshold = parse_number(parts.next()?).filter(|it| *it >= THRESHOLD_MIN)?;
        let bytes = base32::decode(parts.next()?)?;
        if parts.next().is_some() {
            return None;
        }
        let (value, checksum) = bytes.split_last_chunk::<CHECKSUM_BYTES>()?;
        if !VALUE_BYTES.contains(&value.len()) {
            return None;
        }
        let share = Self { label, index, threshold, value: Secret::new(value.to_vec()) };
        verify_slices_are_equal(&share.checksum(), checksum).is_ok().then_some(share)
    }

    /// Every part except the last one has a fixed length, so no two shares have the same input.
    fn checksum(&self) -> [u8; CHECKSUM_BYTES] {
        let mut checksum = Checksum::new();
        checksum.add(PREFIX);
        checksum.add(&self.label.vault);
        checksum.add(&self.label.set);
        checksum.add(&[self.index, self.threshold]);
        checksum.add(self.value.expose());
        let [first, second, third, fourth, fifth, ..] = checksum.finish();
        [first, second, third, fourth, fifth]
    }
}

impl fmt::Debug for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Share({}-{}-{})", self.label, self.index, self.threshold)
    }
}

fn remove_spaces(text: &str) -> Result<Zeroizing<Vec<u8>>, ShareError> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(ShareError::NotAShare);
    }
    let mut symbols = Zeroizing::new(Vec::with_capacity(text.len()));
    for symbol in text.chars().filter(|it| !it.is_whitespace()) {
        // No symbol of a share is beyond ASCII, so any other byte stands for these.
        symbols.push(u8::try_from(symbol).unwrap_or(u8::MAX));
    }
    Ok(symbols)
}

/// A decimal number without sign and leading zeros: each number has one spelling.
fn parse_number(digits: &[u8]) -> Option<u8> {
    let number = str::from_utf8(digits).ok()?.parse::<u8>().ok()?;
    (number.to_string().as_bytes() == digits).then_some(number)
}
