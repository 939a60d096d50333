//! A table of prefix ranges. A lookup finds the narrowest range that contains the first digits of a
//! number.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
};

use super::BinDetails;
use crate::card::fields::bin_len;

/// The largest eight-digit prefix.
const PREFIX_MAX: u32 = 99_999_999;

/// A range of eight-digit prefixes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrefixRange {
    pub(super) from: u32,
    pub(super) to: u32,
}

impl PrefixRange {
    /// All prefixes that start with these one to eight digits.
    pub fn from_prefix(digits: &str) -> Option<Self> {
        let missing_digits = 8_usize.checked_sub(digits.len()).filter(|it| *it < 8)?;
        if !digits.bytes().all(|it| it.is_ascii_digit()) {
            return None;
        }
        let width = 10_u32.checked_pow(u32::try_from(missing_digits).ok()?)?;
        let from = digits.parse::<u32>().ok()?.checked_mul(width)?;
        Some(Self { from, to: from.checked_add(width)?.checked_sub(1)? })
    }

    /// The first and the last eight-digit prefix.
    pub fn bounds(self) -> [String; 2] {
        [self.from, self.to].map(|it| format!("{it:08}"))
    }

    /// All prefixes with the same visible BIN as this number. For shorter numbers, masked digits
    /// are not used.
    pub(crate) fn from_number(number: &str) -> Option<Self> {
        Self::from_prefix(number.get(..bin_len(number))?)
    }

    /// From the first prefix of one range to the last prefix of another.
    #[must_use]
    pub fn through(self, last: Self) -> Option<Self> {
        (self.from <= last.to).then_some(Self { from: self.from, to: last.to })
    }

    fn width(self) -> u32 {
        self.to.saturating_sub(self.from)
    }
}

/// A range with its details.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BinRow {
    pub range: PrefixRange,
    pub details: BinDetails,
}

/// Disjoint ranges in ascending order, for binary search.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct BinTable {
    pub(super) ranges: Vec<BinRange>,
    /// Each once: many ranges have the same details.
    pub(super) details: Vec<BinDetails>,
    /// The number of rows that the table was built from.
    pub(super) row_count: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BinRange {
    pub(super) from: u32,
    pub(super) to: u32,
    /// The index in the list of details.
    pub(super) details_index: u32,
}

impl BinTable {
    /// The maximum number of rows: more than any issuer list has. Such a table takes less than 200
    /// MB.
    pub const ROWS_MAX: usize = 4_000_000;

    /// Builds a table. Where ranges overlap, the narrower one applies; of two equally narrow
    /// ranges, the one that starts later. If a range occurs twice, the first row applies, and a
    /// different brand in a later row is an additional network of the same cards.
    pub fn build(rows: Vec<BinRow>) -> Self {
        let row_count = u32::try_from(rows.len()).unwrap_or(u32::MAX);
        let rows = sort_and_merge(rows);
        let mut table = Self { row_count, ..Self::default() };
        let mut details_indexes = HashMap::new();
        let mut next_rows = rows.iter().enumerate().peekable();
        // The ranges at the current position, the narrowest at the top. Ranges that ended are
        // removed when they reach the top.
        let mut active_ranges = BinaryHeap::new();
        let mut position = 0;
        loop {
            while let Some((row_index, row)) =
                next_rows.next_if(|(_, row)| row.range.from <= position)
            {
                active_ranges.push(Reverse((
                    row.range.width(),
                    Reverse(row.range.from),
                    row_index,
                )));
            }
            let narrowest =
                active_ranges.peek().and_then(|Reverse((_, _, row_index))| rows.get(*row_index));
            let next_start = next_rows.peek().map(|(_, row)| row.range.from);
            match (narrowest, next_start) {
                (Some(row), _) if row.range.to < position => drop(active_ranges.pop()),
                (Some(row), next_start) => {
                    let last_prefix = next_start.map_or(PREFIX_MAX, |it| it.saturating_sub(1));
                    let to = row.range.to.min(last_prefix);
                    table.append(
                        &mut details_indexes,
                        PrefixRange { from: position, to },
                        row.details,
                    );
                    position = to.saturating_add(1);
                }
                (None, Some(next_start)) => position = next_start,
                (None, None) => break,
            }
        }
        table.ranges.shrink_to_fit();
        table.details.shrink_to_fit();
        table
    }

    /// Appends a range, or extends the last range if it has the same details.
    fn append(
        &mut self,
        details_indexes: &mut HashMap<BinDetails, u32>,
        range: PrefixRange,
        details: BinDetails,
    ) {
        let next_index = u32::try_from(self.details.len()).unwrap_or(u32::MAX);
        let details_index = *details_indexes.entry(details).or_insert(next_index);
        if details_index == next_index {
            self.details.push(details);
        }
        let PrefixRange { from, to } = range;
        match self.ranges.last_mut() {
            Some(last)
                if last.details_index == details_index && last.to.saturating_add(1) == from =>
            {
                last.to = to
            }
            Some(_) | None => self.ranges.push(BinRange { from, to, details_index }),
        }
    }

    /// The details that all cards with this prefix range have in common; `None` when at least one
    /// of them is not in the table.
    pub fn find(&self, range: PrefixRange) -> Option<BinDetails> {
        let first_index = self.ranges.partition_point(|it| it.to < range.from);
        let mut common: Option<BinDetails> = None;
        let mut next_prefix = range.from;
        for table_range in self.ranges.get(first_index..)? {
            if table_range.from > next_prefix {
                return None;
            }
            let details = *self.details.get(usize::try_from(table_range.details_index).ok()?)?;
            common = Some(common.map_or(details, |it| it.intersect(details)));
            if table_range.to >= range.to {
                return common;
            }
            next_prefix = table_range.to.saturating_add(1);
        }
        None
    }

    /// The number of rows that the table was built from.
    pub fn row_count(&self) -> u32 {
        self.row_count
    }

    /// The memory usage in bytes.
    pub fn memory_bytes(&self) -> usize {
        size_of_val(self.ranges.as_slice()).saturating_add(size_of_val(self.details.as_slice()))
    }
}

/// Sorts the rows by start, and merges rows with the same range.
fn sort_and_merge(mut rows: Vec<BinRow>) -> Vec<BinRow> {
    // A stable sort, so that the first row of a range stays the first.
    rows.sort_by_key(|it| (it.range.from, it.range.to));
    rows.dedup_by(|repeated, first| {
        let is_same_range = repeated.range == first.range;
        if let (true, Some(brand)) = (is_same_range, repeated.details.brand) {
            first.details = first.details.with_network(brand, repeated.details.funding);
        }
        is_same_range
    });
    rows
}

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
