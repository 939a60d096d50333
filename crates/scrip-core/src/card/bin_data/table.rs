//! A table of ranges: which of them holds a number's first digits, and is the narrowest that does.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
};

use super::Facts;
use crate::card::bin_len;

/// The first eight digits of a number, as a number.
const PREFIX_MAX: u32 = 99_999_999;

/// The numbers of eight digits that begin in one way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    pub(super) from: u32,
    pub(super) to: u32,
}

impl Block {
    /// All that begin with these digits, of which there are one to eight.
    #[must_use]
    pub fn of_prefix(digits: &str) -> Option<Self> {
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
    pub(crate) fn of_number(number: &str) -> Option<Self> {
        Self::of_prefix(number.get(..bin_len(number))?)
    }

    /// From the first of one to the last of another.
    #[must_use]
    pub fn up_to(self, last: Self) -> Option<Self> {
        (self.from <= last.to).then_some(Self { from: self.from, to: last.to })
    }

    fn width(self) -> u32 {
        self.to.saturating_sub(self.from)
    }
}

/// What is said of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    pub range: Block,
    pub facts: Facts,
}

/// Stretches that lie apart, in order, so that a search halves them.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct BinTable {
    pub(super) stretches: Vec<Stretch>,
    /// Each once: many stretches have the same.
    pub(super) facts: Vec<Facts>,
    /// How many rows it was made of.
    pub(super) rows: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stretch {
    pub(super) from: u32,
    pub(super) to: u32,
    /// Its place in the list of facts.
    pub(super) facts: u32,
}

impl BinTable {
    /// More than any issuer list has; a table with as many takes less than 200 MB.
    pub const ROWS_MAX: usize = 4_000_000;

    /// Where ranges overlap, the narrower one is believed; of two that are as narrow, the one that
    /// begins later. Of a range that is there twice the first row is believed, and another brand in
    /// a later one is a second network of the same cards.
    #[must_use]
    pub fn build(rows: Vec<Row>) -> Self {
        let count = u32::try_from(rows.len()).unwrap_or(u32::MAX);
        let rows = joined(rows);
        let mut table = Self { rows: count, ..Self::default() };
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
                    table.append(&mut known, Block { from: at, to }, row.facts);
                    at = to.saturating_add(1);
                }
                (None, Some(begins)) => at = begins,
                (None, None) => break,
            }
        }
        table.stretches.shrink_to_fit();
        table.facts.shrink_to_fit();
        table
    }

    fn append(&mut self, known: &mut HashMap<Facts, u32>, range: Block, facts: Facts) {
        let next = u32::try_from(self.facts.len()).unwrap_or(u32::MAX);
        let place = *known.entry(facts).or_insert(next);
        if place == next {
            self.facts.push(facts);
        }
        let Block { from, to } = range;
        match self.stretches.last_mut() {
            Some(last) if last.facts == place && last.to.saturating_add(1) == from => last.to = to,
            Some(_) | None => self.stretches.push(Stretch { from, to, facts: place }),
        }
    }

    /// What all cards have in common whose numbers begin like that; nothing when some of them are
    /// not in the table.
    #[must_use]
    pub fn find(&self, block: Block) -> Option<Facts> {
        let first = self.stretches.partition_point(|it| it.to < block.from);
        let mut common: Option<Facts> = None;
        let mut next = block.from;
        for stretch in self.stretches.get(first..)? {
            if stretch.from > next {
                return None;
            }
            let facts = *self.facts.get(usize::try_from(stretch.facts).ok()?)?;
            common = Some(common.map_or(facts, |it| it.common(facts)));
            if stretch.to >= block.to {
                return common;
            }
            next = stretch.to.saturating_add(1);
        }
        None
    }

    /// How many rows it was made of.
    #[must_use]
    pub fn rows(&self) -> u32 {
        self.rows
    }

    /// What it takes in memory.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of_val(self.stretches.as_slice()).saturating_add(size_of_val(self.facts.as_slice()))
    }
}

/// In order of their beginnings, each range once.
fn joined(mut rows: Vec<Row>) -> Vec<Row> {
    // Stable, so that the first row of a range stays the first.
    rows.sort_by_key(|it| (it.range.from, it.range.to));
    rows.dedup_by(|again, first| {
        let same = again.range == first.range;
        if let (true, Some(brand)) = (same, again.facts.brand) {
            first.facts = first.facts.with(brand, again.facts.funding);
        }
        same
    });
    rows
}
