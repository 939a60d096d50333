//! Output of an action, as text or JSON.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The output of an action. The text of a list is derived from its JSON.
#[derive(Debug, Serialize, Deserialize)]
pub struct CommandOutput {
    pub text: String,
    pub json: Value,
    /// Why the command fails although it has an output, such as the problems in a report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// A column of a list: a heading, and the place of its value in the JSON of a row.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    heading: &'static str,
    pointer: &'static str,
    form: CellForm,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CellForm {
    Value,
    /// The length of an array.
    Count,
    /// The first characters of a text.
    Start(usize),
}

impl Column {
    pub const fn new(heading: &'static str, pointer: &'static str) -> Self {
        Self { heading, pointer, form: CellForm::Value }
    }

    pub const fn count(heading: &'static str, pointer: &'static str) -> Self {
        Self { heading, pointer, form: CellForm::Count }
    }

    pub const fn start(heading: &'static str, pointer: &'static str, characters: usize) -> Self {
        Self { heading, pointer, form: CellForm::Start(characters) }
    }

    fn cell(&self, row: &Value) -> String {
        match (row.pointer(self.pointer), self.form) {
            (None | Some(Value::Null), _) => "-".to_owned(),
            (Some(Value::Array(items)), CellForm::Count) => items.len().to_string(),
            (Some(Value::Array(items)), _) => {
                items.iter().map(to_text).collect::<Vec<_>>().join(" ")
            }
            (Some(value), CellForm::Start(characters)) => {
                to_text(value).chars().take(characters).collect()
            }
            (Some(value), CellForm::Value | CellForm::Count) => to_text(value),
        }
    }
}

fn to_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            value.to_string()
        }
    }
}

impl CommandOutput {
    pub fn new(text: impl Into<String>, json: Value) -> Self {
        Self { text: text.into(), json, failure: None }
    }

    /// A table of rows. The JSON has them below this name.
    pub fn list<const N: usize>(name: &str, columns: [Column; N], rows: Vec<Value>) -> Self {
        let cells: Vec<_> = rows.iter().map(|row| columns.map(|it| it.cell(row))).collect();
        let text = table(columns.map(|it| it.heading), &cells);
        Self::new(text, Value::Object(Map::from_iter([(name.to_owned(), Value::Array(rows))])))
    }

    /// Adds a member to the JSON, and lines to the text.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>, lines: &str) -> Self {
        if let Value::Object(members) = &mut self.json {
            members.insert(name.to_owned(), value.into());
        }
        self.text += lines;
        self
    }
}

/// Formats a table with headings; each column is as wide as its widest cell.
pub fn table<const N: usize>(names: [&str; N], rows: &[[String; N]]) -> String {
    let names = names.map(str::to_owned);
    let rows: Vec<_> = rows.iter().map(|row| row.each_ref().map(|it| limit_cell(it))).collect();
    let mut widths = [0; N];
    for row in rows.iter().chain([&names]) {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for row in [&names].into_iter().chain(&rows) {
        let mut line = String::new();
        for (width, cell) in widths.iter().zip(row) {
            line += &format!("{cell:<width$}  ");
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

/// Formats names and values, one line each.
pub fn name_value_list(rows: &[(&str, String)]) -> String {
    let width = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    rows.iter().map(|(name, value)| format!("{name:<width$}  {value}\n")).collect()
}

/// Returns text such as `2 tenants and 1 token`.
pub fn holds(tenants: u64, tokens: u64) -> String {
    format!("{} and {}", format_count(tenants, "tenant"), format_count(tokens, "token"))
}

/// Returns text such as `1 chain` or `2 chains`, for a noun with a plural in -s.
pub fn format_count(count: impl TryInto<u64>, noun: &str) -> String {
    match count.try_into().unwrap_or(u64::MAX) {
        1 => format!("1 {noun}"),
        count => format!("{count} {noun}s"),
    }
}

/// Returns text such as `12.3 MiB`.
pub fn format_bytes(count: u64) -> String {
    const UNITS: [(u32, &str); 3] = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let unit = UNITS.into_iter().find(|(shift, _)| count >> shift > 0);
    let Some((shift, name)) = unit else { return format!("{count} B") };
    let tenths = (u128::from(count) * 10) >> shift;
    format!("{}.{} {name}", tenths / 10, tenths % 10)
}

/// Longer text in a table is cut: it was not written by Scrip.
const CELL_CHARS_MAX: usize = 500;

fn limit_cell(text: &str) -> String {
    replace_control_characters(text, false).chars().take(CELL_CHARS_MAX).collect()
}

/// Replaces characters that control a terminal or the direction of text. A stored text can contain
/// them if a client or a database user wrote it.
pub fn replace_control_characters(text: &str, has_lines: bool) -> String {
    let is_direction = |it: char| matches!(it, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let replace = |it: char| match it {
        '\n' if has_lines => it,
        it if it.is_control() || is_direction(it) => char::REPLACEMENT_CHARACTER,
        it => it,
    };
    text.chars().map(replace).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_cells_contain_no_control_characters_and_have_a_limit() {
        let rows = [["a\u{1b}[31m\u{9d}\u{202e}b\n".to_owned()], ["x".repeat(100_000)]];
        let text = table(["name"], &rows);
        assert!(text.contains("\na\u{fffd}[31m\u{fffd}\u{fffd}b\u{fffd}\n"), "{text:.80}");
        assert_eq!(text.lines().last().map(str::len), Some(CELL_CHARS_MAX));
    }

    #[test]
    fn table_columns_are_aligned() {
        let rows = [["é".to_owned(), "x".to_owned()], ["long".to_owned(), String::new()]];
        assert_eq!(table(["a", "b"], &rows), "a     b\né     x\nlong\n");
        assert_eq!(
            name_value_list(&[("a", "1".to_owned()), ("bc", "2".to_owned())]),
            "a   1\nbc  2\n"
        );
    }

    #[test]
    fn only_a_count_of_one_has_a_singular_noun() {
        for (count, expected) in [(0, "0 chains"), (1, "1 chain"), (2, "2 chains")] {
            assert_eq!(format_count(count, "chain"), expected);
        }
        assert_eq!(holds(1, 0), "1 tenant and 0 tokens");
    }

    #[test]
    fn byte_counts_are_formatted_with_binary_units() {
        for (count, expected) in [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB")] {
            assert_eq!(format_bytes(count), expected);
        }
        assert_eq!(format_bytes(u64::MAX), "17179869183.9 GiB");
    }
}
