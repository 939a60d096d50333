//! Reads a list of issuer ranges.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{BufRead, BufReader},
};

use anyhow::bail;
use csv::{ByteRecord, ReaderBuilder, Trim};
use scrip_core::card::bin_data::{BinRow, BinTable};
use scrip_operator::output::format_count;
use serde_json::{Value, json};

use super::columns::Columns;
use crate::commands::progress::{Progress, ProgressUnit, WithoutTerminal};

/// Maximum number of line numbers in a report.
const LINES_MAX: usize = 10;
/// Rows between two reports of progress.
const PROGRESS_ROWS: u64 = 5_000;
const BUFFER_BYTES: usize = 1024 * 1024;

/// Result of an import. It never contains a value of a row.
#[derive(Debug, Default)]
pub(super) struct ImportReport {
    pub(super) rows: u64,
    rejected: BTreeMap<&'static str, LineTally>,
    incomplete: BTreeMap<&'static str, LineTally>,
}

#[derive(Debug, Default)]
struct LineTally {
    count: u64,
    lines: Vec<u64>,
}

impl LineTally {
    fn add(&mut self, line: u64) {
        self.count = self.count.saturating_add(1);
        if self.lines.len() < LINES_MAX {
            self.lines.push(line);
        }
    }

    fn lines_text(&self) -> String {
        let lines: Vec<_> = self.lines.iter().map(u64::to_string).collect();
        let lines = lines.join(", ");
        match self.count {
            1 => format!("line {lines}"),
            2..=10 => format!("lines {lines}"),
            _ => format!("lines {lines} and others"),
        }
    }
}

impl ImportReport {
    fn rejected_count(&self) -> u64 {
        self.rejected.values().map(|it| it.count).sum()
    }

    /// One line per problem.
    pub(super) fn text(&self) -> String {
        let rejected = self.rejected.iter().map(|(reason, it)| {
            format!(
                "rejected {}, because {reason}: {}\n",
                format_count(it.count, "row"),
                it.lines_text()
            )
        });
        let incomplete = self.incomplete.iter().map(|(attribute, it)| {
            format!(
                "imported {} without {attribute}: {}\n",
                format_count(it.count, "row"),
                it.lines_text()
            )
        });
        rejected.chain(incomplete).collect()
    }

    pub(super) fn rejected_json(&self) -> Value {
        tallies_json(&self.rejected)
    }

    pub(super) fn incomplete_json(&self) -> Value {
        tallies_json(&self.incomplete)
    }
}

fn tallies_json(tallies: &BTreeMap<&'static str, LineTally>) -> Value {
    let to_json = |(reason, it): (&&str, &LineTally)| json!({ "reason": reason, "count": it.count, "lines": it.lines });
    tallies.iter().map(to_json).collect()
}

/// Reads the rows of a list, and reports rejected and incomplete rows.
/// Errors: the file cannot be read, its header is unknown, or most of its rows are invalid.
pub(super) fn read_list(file: File) -> anyhow::Result<(BinTable, ImportReport)> {
    let total_bytes = file.metadata().map_or(0, |it| it.len());
    let mut progress =
        Progress::new("reading the list", ProgressUnit::Bytes, WithoutTerminal::Lines);
    let mut reader = BufReader::with_capacity(BUFFER_BYTES, file);
    let delimiter = find_delimiter(reader.fill_buf()?);
    let mut reader = ReaderBuilder::new()
        .delimiter(delimiter)
        .flexible(true)
        .trim(Trim::All)
        .from_reader(reader);
    let columns = Columns::from_header(reader.byte_headers()?)?;
    let (mut imported_rows, mut report) = (Vec::<BinRow>::new(), ImportReport::default());
    let mut record = ByteRecord::new();
    while reader.read_byte_record(&mut record)? {
        report.rows = report.rows.saturating_add(1);
        let (line, byte) = record.position().map_or((0, 0), |it| (it.line(), it.byte()));
        match columns.read_row(&record) {
            Ok((row, unknown)) => {
                imported_rows.push(row);
                unknown.iter().for_each(|it| report.incomplete.entry(it).or_default().add(line));
            }
            Err(reason) => report.rejected.entry(reason).or_default().add(line),
        }
        if imported_rows.len() > BinTable::ROWS_MAX {
            bail!("it has more than {} rows", BinTable::ROWS_MAX);
        }
        if report.rows.is_multiple_of(PROGRESS_ROWS) {
            progress.update(byte, total_bytes);
        }
    }
    drop(progress);
    if report.rows == 0 {
        bail!("it has no rows; nothing was imported");
    }
    // The file probably has another layout.
    if report.rejected_count() > report.rows / 2 {
        bail!(
            "most of its rows cannot be used; nothing was imported\n{}",
            report.text().trim_end()
        );
    }
    Ok((BinTable::build(imported_rows), report))
}

/// Returns the delimiter that occurs most often in the header.
fn find_delimiter(beginning: &[u8]) -> u8 {
    let header = beginning.split(|it| *it == b'\n').next().unwrap_or_default();
    let count = |delimiter: u8| header.iter().filter(|it| **it == delimiter).count();
    // `max_by_key` returns the last of equals: the comma.
    [b'\t', b';', b','].into_iter().max_by_key(|it| count(*it)).unwrap_or(b',')
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, SeekFrom, Write};

    use super::*;

    fn temporary_file(text: &str) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file.seek(SeekFrom::Start(0)).unwrap();
        file
    }

    #[test]
    fn list_with_quotes_semicolons_and_byte_order_mark_is_read() {
        let list = "\u{feff}bin;brand;type;issuer;alpha_2\r\n\
            424242;VISA;CREDIT;\"A; \"\"bank\"\"\nin two lines\";US\r\n\
            \"555555\"; mastercard ;DEBIT;;GB\r\n";
        let (table, report) = read_list(temporary_file(list)).unwrap();
        assert_eq!((table.row_count(), report.rows), (2, 2));
        assert_eq!(report.text(), "");
    }

    #[test]
    fn rejected_rows_are_reported_by_line_without_values() {
        let mut list = "bin,brand,country\n".to_owned();
        for number in 0..40 {
            list += if number % 3 == 0 { "secret,visa,US\n" } else { "424242,visa,Nowhere\n" };
        }
        let (table, report) = read_list(temporary_file(&list)).unwrap();
        assert_eq!((table.row_count(), report.rows), (26, 40));
        let text = report.text();
        let first_line = "rejected 14 rows, because its BIN contains characters other than digits: \
                        lines 2, 5, 8, 11, 14, 17, 20, 23, 26, 29 and others\n";
        assert!(text.starts_with(first_line), "{text}");
        assert!(text.contains("imported 26 rows without an unknown country: lines 3, 4, 6"));
        assert!(!text.contains("secret") && !text.contains("Nowhere"));
        assert_eq!(report.rejected_json()[0]["count"], 14);
        assert_eq!(report.rejected_json()[0]["lines"].as_array().unwrap().len(), LINES_MAX);
    }

    #[test]
    fn file_that_is_not_a_bin_list_is_rejected() {
        for (text, expected) in [
            ("", "its header has no column for the BIN"),
            ("bin,brand\n", "it has no rows"),
            ("name,brand\n1,visa\n", "its header has no column for the BIN"),
            ("bin,brand\nx,visa\ny,visa\n424242,visa\n", "most of its rows cannot be used"),
        ] {
            let error = read_list(temporary_file(text)).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
        }
    }
}
