//! The card ranges of one directory server, and the versions that they share with us.

mod changes;
mod versions;

use std::collections::BTreeMap;

pub use changes::RangeError;
pub use versions::{NegotiatedVersions, VersionSpan, negotiate_versions};

use crate::{
    code::AcsInformation,
    format::{CardNumber, Text, Url},
};

/// A card number as a sort key. A range contains numbers of one length only: a card with 16 digits
/// is in no range of 19 digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CardNumberKey {
    digits: usize,
    // 19 digits fit: the largest number is below 2^64.
    number: u64,
}

impl CardNumberKey {
    pub(crate) fn parse(digits: &str) -> Option<Self> {
        let is_decimal = digits.bytes().all(|it| it.is_ascii_digit());
        let number =
            digits.parse().ok().filter(|_| is_decimal && (13..=19).contains(&digits.len()));
        number.map(|number| Self { digits: digits.len(), number })
    }
}

/// The properties of the cards in one range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CardRangeDetails {
    pub(crate) end: CardNumberKey,
    pub acs: VersionSpan,
    pub ds: VersionSpan,
    pub acs_information: Vec<AcsInformation>,
    pub method_url: Option<Url<256>>,
}

/// The ranges of one directory server, as of a serial number.
#[derive(Debug, Clone, Default)]
pub struct CardRanges {
    pub(crate) by_start: BTreeMap<CardNumberKey, CardRangeDetails>,
    pub(crate) serial_number: Option<Text<1, 20>>,
}

impl CardRanges {
    /// Finds the range of a card in logarithmic time.
    pub fn find(&self, card: &CardNumber) -> Option<&CardRangeDetails> {
        let key = CardNumberKey::parse(card.expose())?;
        let (start, range) = self.by_start.range(..=key).next_back()?;
        (start.digits == key.digits && key <= range.end).then_some(range)
    }

    /// The serial number for the next `PReq`.
    pub fn serial_number(&self) -> Option<&Text<1, 20>> {
        self.serial_number.as_ref()
    }

    pub fn len(&self) -> usize {
        self.by_start.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_start.is_empty()
    }
}

#[cfg(test)]
mod tests;
