//! The card ranges of one directory server, and the versions that they share with us.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    code::{AcsInformation, RangeAction},
    format::{CardNumber, Text, Url, Version, VersionNumber},
    message::{CardRange, PRes},
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

/// An inclusive range of versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VersionSpan {
    start: VersionNumber,
    end: VersionNumber,
}

impl VersionSpan {
    /// Returns `None` if the range ends before it starts.
    pub fn new(start: VersionNumber, end: VersionNumber) -> Option<Self> {
        (start <= end).then_some(Self { start, end })
    }

    pub fn earliest(self) -> VersionNumber {
        self.start
    }

    pub fn latest(self) -> VersionNumber {
        self.end
    }

    pub fn contains(self, version: Version) -> bool {
        (self.start..=self.end).contains(&version.number())
    }
}

/// The common versions and the recommended one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NegotiatedVersions {
    pub recommended: Version,
    pub available: Vec<Version>,
}

/// The versions that we, the directory server and the ACS support. `None` if there are none.
pub fn negotiate_versions(
    ours: &[Version],
    ds: VersionSpan,
    acs: VersionSpan,
) -> Option<NegotiatedVersions> {
    let is_common = |it: &&Version| ds.contains(**it) && acs.contains(**it);
    let mut available: Vec<_> = ours.iter().filter(is_common).copied().collect();
    available.sort_unstable();
    available.dedup();
    let recommended = *available.last()?;
    Some(NegotiatedVersions { recommended, available })
}

/// Why a `PRes` is rejected. The ranges stay unchanged; the next `PReq` must request all ranges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RangeError {
    #[error("a range ends before it starts, or its ends have different lengths")]
    Reversed,
    #[error("a range has no versions, or its versions end before they start")]
    InvalidVersions,
    #[error("two ranges overlap")]
    Overlap,
    #[error("a changed or deleted range does not exist")]
    Missing,
    #[error("duplicate range in one change")]
    Duplicate,
    #[error("the PRes changes ranges but there are none to change")]
    NothingToChange,
}

struct RangeChange {
    action: RangeAction,
    start: CardNumberKey,
    range: CardRangeDetails,
}

impl CardRanges {
    /// The ranges of a `PRes` to a `PReq` without a serial number: these and no others.
    pub fn from_pres(pres: &PRes) -> Result<Self, RangeError> {
        Self::default().apply_pres(pres)
    }

    /// The ranges after a `PRes` to a `PReq` with our serial number. Deletions are applied before
    /// additions, so one `PRes` can split a range.
    pub fn apply_pres(&self, pres: &PRes) -> Result<Self, RangeError> {
        let card_ranges = pres.ranges.as_ref().map(|it| it.items()).unwrap_or_default();
        let changes: Vec<_> =
            card_ranges.iter().map(|it| parse_change(it, pres)).collect::<Result<_, _>>()?;
        let mut ranges = self.clone();
        for action in [RangeAction::Delete, RangeAction::Modify, RangeAction::Add] {
            let mut changed_starts = BTreeSet::new();
            for change in changes.iter().filter(|it| it.action == action) {
                if !changed_starts.insert(change.start) {
                    return Err(RangeError::Duplicate);
                }
                ranges.apply_change(change)?;
            }
        }
        // Without a serial number in the `PRes`, the next `PReq` requests all ranges.
        ranges.serial_number.clone_from(&pres.serial_number);
        Ok(ranges)
    }

    fn apply_change(&mut self, change: &RangeChange) -> Result<(), RangeError> {
        let exists = self.by_start.get(&change.start).is_some_and(|it| it.end == change.range.end);
        match change.action {
            RangeAction::Delete if exists => {
                self.by_start.remove(&change.start);
            }
            RangeAction::Modify if exists => {
                self.by_start.insert(change.start, change.range.clone());
            }
            RangeAction::Delete | RangeAction::Modify if self.is_empty() => {
                return Err(RangeError::NothingToChange);
            }
            RangeAction::Delete | RangeAction::Modify => return Err(RangeError::Missing),
            RangeAction::Add if self.overlaps(change) => return Err(RangeError::Overlap),
            RangeAction::Add => {
                self.by_start.insert(change.start, change.range.clone());
            }
        }
        Ok(())
    }

    /// Stored ranges do not overlap, so only the last range that starts at or before the end can
    /// overlap.
    fn overlaps(&self, change: &RangeChange) -> bool {
        let last_range = self.by_start.range(..=change.range.end).next_back();
        last_range.is_some_and(|(_, it)| it.end >= change.start)
    }
}

fn parse_change(card_range: &CardRange, pres: &PRes) -> Result<RangeChange, RangeError> {
    let start = CardNumberKey::parse(card_range.start.expose()).ok_or(RangeError::Reversed)?;
    let end = CardNumberKey::parse(card_range.end.expose()).ok_or(RangeError::Reversed)?;
    if start.digits != end.digits || end < start {
        return Err(RangeError::Reversed);
    }
    let action = card_range.action.unwrap_or(RangeAction::Add);
    // The versions of the `PRes` apply if a range has none.
    let ds_start = card_range.ds_start.unwrap_or(pres.ds_start);
    let ds_end = card_range.ds_end.unwrap_or(pres.ds_end);
    let deleted_version = (action == RangeAction::Delete).then_some(Version::V220.number());
    let (acs_start, acs_end) =
        (card_range.acs_start.or(deleted_version), card_range.acs_end.or(deleted_version));
    let acs = acs_start.zip(acs_end).and_then(|(start, end)| VersionSpan::new(start, end));
    let range = CardRangeDetails {
        end,
        acs: acs.ok_or(RangeError::InvalidVersions)?,
        ds: VersionSpan::new(ds_start, ds_end).ok_or(RangeError::InvalidVersions)?,
        acs_information: card_range
            .acs_information
            .iter()
            .flat_map(|it| it.items())
            .copied()
            .collect(),
        method_url: card_range.method_url.clone(),
    };
    Ok(RangeChange { action, start, range })
}

#[cfg(test)]
mod tests;
