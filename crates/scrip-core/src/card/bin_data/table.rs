//! A table of ranges: which of them holds a number's first digits, and is the narrowest that does.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
};

use super::BinDetails;
use crate::card::bin_len;

/// The first eight digits of a number, as a number.
const PREFIX_MAX: u32 = 99_999_999;

/// The numbers of eight digits that begin in one way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrefixRange {
    pub(super) from: u32,
    pub(super) to: u32,
}

impl PrefixRange {
    /// All that begin with these digits, of which there are one to eight.
    #[must_use]
    pub fn from_prefix(digits: &str) -> Option<Self> {
        let missing = 8_usize.checked_sub(digits.len()).filter(|it| *it < 8)?;
        if !digits.bytes().all(|it| it.is_ascii_digit()) {
            return None;
        }
        let unit = 10_u32.checked_pow(u32::try_from(missing).ok()?)?;
        let from = digits.parse::<u32>().ok()?.checked_mul(unit)?;
        Some(Self { from, to: from.checked_add(unit)?.checked_sub(1)? })
    }

    /// All that begin as a masked reader sees this one begin: a shorter number is not told apart
    /// by digits that it keeps covered.
    pub(crate) fn from_number(number: &str) -> Option<Self> {
        Self::from_prefix(number.get(..bin_len(number))?)
    }

    /// From the first of one to the last of another.
    #[must_use]
    pub fn through(self, last: Self) -> Option<Self> {
        (self.from <= last.to).then_some(Self { from: self.from, to: last.to })
    }

    fn width(self) -> u32 {
        self.to.saturating_sub(self.from)
    }
}

/// What is said of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BinRow {
    pub range: PrefixRange,
    pub details: BinDetails,
}

/// Stretches that lie apart, in order, so that a search halves them.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct BinTable {
    pub(super) ranges: Vec<BinRange>,
    /// Each once: many stretches have the same.
    pub(super) details: Vec<BinDetails>,
    /// How many rows it was made of.
    pub(super) row_count: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BinRange {
    pub(super) from: u32,
    pub(super) to: u32,
    /// Its place in the list of facts.
    pub(super) details_index: u32,
}

impl BinTable {
    /// More than any issuer list has; a table with as many takes less than 200 MB.
    pub const ROWS_MAX: usize = 4_000_000;

    /// Where ranges overlap, the narrower one is believed; of two that are as narrow, the one that
    /// begins later. Of a range that is there twice the first row is believed, and another brand in
    /// a later one is a second network of the same cards.
    #[must_use]
    pub fn build(rows: Vec<BinRow>) -> Self {
        let count = u32::try_from(rows.len()).unwrap_or(u32::MAX);
        let rows = sort_and_merge(rows);
        let mut table = Self { row_count: count, ..Self::default() };
        let mut known = HashMap::new();
        let mut coming = rows.iter().enumerate().peekable();
        // The narrowest first. Those that ended are taken out when they come up.
        let mut open = BinaryHeap::new();
        let mut at = 0;
        loop {
            while let Some((place, row)) = coming.next_if(|(_, row)| row.range.from <= at) {
                open.push(Reverse((row.range.width(), Reverse(row.range.from), place)));
            }
            let winner = open.peek().and_then(|Reverse((_, _, place))| rows.get(*place));
            let begins = coming.peek().map(|(_, row)| row.range.from);
            match (winner, begins) {
                (Some(row), _) if row.range.to < at => drop(open.pop()),
                (Some(row), begins) => {
                    let last = begins.map_or(PREFIX_MAX, |it| it.saturating_sub(1));
                    let to = row.range.to.min(last);
                    table.append(&mut known, PrefixRange { from: at, to }, row.details);
                    at = to.saturating_add(1);
                }
                (None, Some(begins)) => at = begins,
                (None, None) => break,
            }
        }
        table.ranges.shrink_to_fit();
        table.details.shrink_to_fit();
        table
    }

    fn append(
        &mut self,
        known: &mut HashMap<BinDetails, u32>,
        range: PrefixRange,
        facts: BinDetails,
    ) {
        let next = u32::try_from(self.details.len()).unwrap_or(u32::MAX);
        let place = *known.entry(facts).or_insert(next);
        if place == next {
            self.details.push(facts);
        }
        let PrefixRange { from, to } = range;
        match self.ranges.last_mut() {
            Some(last) if last.details_index == place && last.to.saturating_add(1) == from => {
                last.to = to
            }
            Some(_) | None => self.ranges.push(BinRange { from, to, details_index: place }),
        }
    }

    /// What all cards have in common whose numbers begin like that; nothing when some of them are
    /// not in the table.
    #[must_use]
    pub fn find(&self, block: PrefixRange) -> Option<BinDetails> {
        let first = self.ranges.partition_point(|it| it.to < block.from);
        let mut common: Option<BinDetails> = None;
        let mut next = block.from;
        for stretch in self.ranges.get(first..)? {
            if stretch.from > next {
                return None;
            }
            let facts = *self.details.get(usize::try_from(stretch.details_index).ok()?)?;
            common = Some(common.map_or(facts, |it| it.intersect(facts)));
            if stretch.to >= block.to {
                return common;
            }
            next = stretch.to.saturating_add(1);
        }
        None
    }

    /// How many rows it was made of.
    #[must_use]
    pub fn row_count(&self) -> u32 {
        self.row_count
    }

    /// What it takes in memory.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        size_of_val(self.ranges.as_slice()).saturating_add(size_of_val(self.details.as_slice()))
    }
}

/// In order of their beginnings, each range once.
fn sort_and_merge(mut rows: Vec<BinRow>) -> Vec<BinRow> {
    // Stable, so that the first row of a range stays the first.
    rows.sort_by_key(|it| (it.range.from, it.range.to));
    rows.dedup_by(|again, first| {
        let same = again.range == first.range;
        if let (true, Some(brand)) = (same, again.details.brand) {
            first.details = first.details.with_network(brand, again.details.funding);
        }
        same
    });
    rows
}
