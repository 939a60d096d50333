//! What an answer of the directory server makes of the ranges: all of it, or nothing.

use std::collections::BTreeSet;

use crate::{
    code::Action,
    format::Version,
    message::{CardRange, PRes},
    range::{CardRanges, Point, Range, Span},
};

/// Why an answer is not believed. The ranges stay as they were; the next question is to be one for
/// all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RangeFault {
    #[error("a range ends before it starts, or in another length")]
    Reversed,
    #[error("a range has versions that end before they start, or none")]
    Versions,
    #[error("two ranges overlap")]
    Overlap,
    #[error("a range is to be changed or deleted that is not there")]
    Missing,
    #[error("a range is named twice for the same change")]
    Twice,
    #[error("the answer changes ranges without a serial number to change from")]
    Unfounded,
}

struct Change {
    action: Action,
    start: Point,
    range: Range,
}

impl CardRanges {
    /// The ranges after an answer to a question without serial number: these and no others.
    pub fn of(answer: &PRes) -> Result<Self, RangeFault> {
        Self::default().changed(answer)
    }

    /// The ranges after an answer to a question with our serial number. What goes is taken out
    /// before what comes, so that a range can be split in one answer.
    pub fn changed(&self, answer: &PRes) -> Result<Self, RangeFault> {
        let sent = answer.ranges.as_ref().map(|it| it.items()).unwrap_or_default();
        let changes: Vec<_> = sent.iter().map(|it| read(it, answer)).collect::<Result<_, _>>()?;
        let mut next = self.clone();
        for action in [Action::Delete, Action::Modify, Action::Add] {
            let mut seen = BTreeSet::new();
            for change in changes.iter().filter(|it| it.action == action) {
                if !seen.insert(change.start) {
                    return Err(RangeFault::Twice);
                }
                next.change(change)?;
            }
        }
        // An answer without one leaves nothing to ask from: the next question is for everything.
        next.serial_number.clone_from(&answer.serial_number);
        Ok(next)
    }

    fn change(&mut self, change: &Change) -> Result<(), RangeFault> {
        let same = self.by_start.get(&change.start).is_some_and(|it| it.end == change.range.end);
        match change.action {
            Action::Delete if same => {
                self.by_start.remove(&change.start);
            }
            Action::Modify if same => {
                self.by_start.insert(change.start, change.range.clone());
            }
            Action::Delete | Action::Modify if self.is_empty() => {
                return Err(RangeFault::Unfounded);
            }
            Action::Delete | Action::Modify => return Err(RangeFault::Missing),
            Action::Add if self.overlaps(change) => return Err(RangeFault::Overlap),
            Action::Add => {
                self.by_start.insert(change.start, change.range.clone());
            }
        }
        Ok(())
    }

    /// Ranges do not overlap each other, so only the last that starts before the end can reach in.
    fn overlaps(&self, change: &Change) -> bool {
        let before = self.by_start.range(..=change.range.end).next_back();
        before.is_some_and(|(_, it)| it.end >= change.start)
    }
}

fn read(sent: &CardRange, answer: &PRes) -> Result<Change, RangeFault> {
    let start = Point::of(sent.start.expose()).ok_or(RangeFault::Reversed)?;
    let end = Point::of(sent.end.expose()).ok_or(RangeFault::Reversed)?;
    if start.digits != end.digits || end < start {
        return Err(RangeFault::Reversed);
    }
    let action = sent.action.unwrap_or(Action::Add);
    // The answer's own versions hold where a range has none.
    let ds_start = sent.ds_start.unwrap_or(answer.ds_start);
    let ds_end = sent.ds_end.unwrap_or(answer.ds_end);
    let gone = (action == Action::Delete).then_some(Version::V220.number());
    let (acs_start, acs_end) = (sent.acs_start.or(gone), sent.acs_end.or(gone));
    let acs = acs_start.zip(acs_end).and_then(|(start, end)| Span::new(start, end));
    let range = Range {
        end,
        acs: acs.ok_or(RangeFault::Versions)?,
        ds: Span::new(ds_start, ds_end).ok_or(RangeFault::Versions)?,
        acs_information: sent.acs_information.iter().flat_map(|it| it.items()).copied().collect(),
        method_url: sent.method_url.clone(),
    };
    Ok(Change { action, start, range })
}
