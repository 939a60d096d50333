//! What an answer of the directory server makes of the ranges: all of it, or nothing.

use std::collections::BTreeSet;

use crate::{
    code::RangeAction,
    format::Version,
    message::{CardRange, PRes},
    range::{CardNumberKey, CardRangeDetails, CardRanges, VersionSpan},
};

/// Why an answer is not believed. The ranges stay as they were; the next question is to be one for
/// all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RangeError {
    #[error("a range ends before it starts, or in another length")]
    Reversed,
    #[error("a range has versions that end before they start, or none")]
    InvalidVersions,
    #[error("two ranges overlap")]
    Overlap,
    #[error("a range is to be changed or deleted that is not there")]
    Missing,
    #[error("a range is named twice for the same change")]
    Duplicate,
    #[error("the answer changes ranges without a serial number to change from")]
    NothingToChange,
}

struct RangeChange {
    action: RangeAction,
    start: CardNumberKey,
    range: CardRangeDetails,
}

impl CardRanges {
    /// The ranges after an answer to a question without serial number: these and no others.
    pub fn from_pres(pres: &PRes) -> Result<Self, RangeError> {
        Self::default().apply_pres(pres)
    }

    /// The ranges after an answer to a question with our serial number. What goes is taken out
    /// before what comes, so that a range can be split in one answer.
    pub fn apply_pres(&self, pres: &PRes) -> Result<Self, RangeError> {
        let card_ranges = pres.ranges.as_ref().map(|it| it.items()).unwrap_or_default();
        let changes: Vec<_> =
            card_ranges.iter().map(|it| parse_change(it, pres)).collect::<Result<_, _>>()?;
        let mut next = self.clone();
        for action in [RangeAction::Delete, RangeAction::Modify, RangeAction::Add] {
            let mut seen = BTreeSet::new();
            for change in changes.iter().filter(|it| it.action == action) {
                if !seen.insert(change.start) {
                    return Err(RangeError::Duplicate);
                }
                next.apply_change(change)?;
            }
        }
        // An answer without one leaves nothing to ask from: the next question is for everything.
        next.serial_number.clone_from(&pres.serial_number);
        Ok(next)
    }

    fn apply_change(&mut self, change: &RangeChange) -> Result<(), RangeError> {
        let same = self.by_start.get(&change.start).is_some_and(|it| it.end == change.range.end);
        match change.action {
            RangeAction::Delete if same => {
                self.by_start.remove(&change.start);
            }
            RangeAction::Modify if same => {
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

    /// Ranges do not overlap each other, so only the last that starts before the end can reach in.
    fn overlaps(&self, change: &RangeChange) -> bool {
        let before = self.by_start.range(..=change.range.end).next_back();
        before.is_some_and(|(_, it)| it.end >= change.start)
    }
}

fn parse_change(card_range: &CardRange, pres: &PRes) -> Result<RangeChange, RangeError> {
    let start = CardNumberKey::parse(card_range.start.expose()).ok_or(RangeError::Reversed)?;
    let end = CardNumberKey::parse(card_range.end.expose()).ok_or(RangeError::Reversed)?;
    if start.digits != end.digits || end < start {
        return Err(RangeError::Reversed);
    }
    let action = card_range.action.unwrap_or(RangeAction::Add);
    // The answer's own versions hold where a range has none.
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
