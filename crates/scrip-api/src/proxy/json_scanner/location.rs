//! Finds the bytes of a JSON document that an appended value replaces or follows.

use std::ops::Range;

use scrip_core::proxy::transform::LocationStep;

use super::{JsonScanError, JsonScanner};

/// Where to write a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JsonEdit {
    /// The location exists: replace its value.
    Replace(Range<usize>),
    /// Add a property or an item before the closing bracket at this byte.
    Insert { at: usize, needs_comma: bool, name: Option<String> },
}

const NO_PARENT: &str = "the JSON has no object or array in which the location can be added";

/// # Errors
/// The document violates a rule of JSON, or has no parent for the location.
pub fn find_edit(
    text: &str,
    location: &[LocationStep],
    depth_max: usize,
) -> Result<JsonEdit, JsonScanError> {
    let new_scanner = || JsonScanner { depth_max, ..JsonScanner::new(text) };
    new_scanner().read_document(&mut |_, _| ())?;
    let mut scanner = new_scanner();
    scanner.skip_space();
    let mut steps = location.iter().peekable();
    while let Some(step) = steps.next() {
        if let Some(edit) = scanner.enter(step)? {
            // Only the last step may be missing.
            return if steps.peek().is_none() { Ok(edit) } else { Err(scanner.error(NO_PARENT)) };
        }
    }
    let start = scanner.at;
    scanner.skip_value()?;
    Ok(JsonEdit::Replace(start..scanner.at))
}

/// Whether a value on the way to the location begins at a byte that `is_target` accepts. The document
/// was scanned before. It is read once at most, and not for a location of one step.
pub fn crosses_value(
    text: &str,
    location: &[LocationStep],
    is_target: impl Fn(usize) -> bool,
) -> bool {
    let mut scanner = JsonScanner::new(text);
    scanner.skip_space();
    let mut steps = location.iter().peekable();
    while let Some(step) = steps.next() {
        if is_target(scanner.at) {
            return true;
        }
        if steps.peek().is_none() || !matches!(scanner.enter(step), Ok(None)) {
            return false;
        }
    }
    false
}

/// Whether the object of the location has another property that a tolerant server could take for it:
/// some ignore case, or take the last one of two.
#[must_use]
pub fn has_similar_property(text: &str, location: &[LocationStep], depth_max: usize) -> bool {
    let Some((LocationStep::Name(name), parents)) = location.split_last() else { return false };
    let mut scanner = JsonScanner { depth_max, ..JsonScanner::new(text) };
    scanner.skip_space();
    for step in parents {
        if !matches!(scanner.enter(step), Ok(None)) {
            return false;
        }
    }
    let folded = fold_property(name);
    let (mut equal, mut similar) = (0_usize, 0_usize);
    let count_name = |it: &str| {
        if it == name {
            equal = equal.saturating_add(1);
        } else if fold_property(it) == folded {
            similar = similar.saturating_add(1);
        }
    };
    scanner.read_names(count_name).is_ok() && (equal > 1 || similar > 0)
}

/// The same text for names that differ only in case, or in `-` and `_`. Upper case first, because some
/// letters have the upper case of another one.
fn fold_property(name: &str) -> String {
    name.to_uppercase().to_lowercase().replace('-', "_")
}

impl JsonScanner<'_> {
    /// Reads the names of an object.
    fn read_names(&mut self, mut read_name: impl FnMut(&str)) -> Result<(), JsonScanError> {
        self.expect(b'{')?;
        let mut is_first = true;
        loop {
            self.skip_space();
            if self.peek() == Some(b'}') {
                return Ok(());
            }
            if !is_first {
                self.expect(b',')?;
                self.skip_space();
            }
            is_first = false;
            let leaf = self.read_text()?;
            read_name(&leaf.decode(self.text));
            self.skip_space();
            self.expect(b':')?;
            self.skip_space();
            self.skip_value()?;
        }
    }

    fn skip_value(&mut self) -> Result<(), JsonScanError> {
        self.read_value(&mut |_, _| ())
    }

    /// Moves to the value of the step. Returns the place of a new value if there is none.
    fn enter(&mut self, step: &LocationStep) -> Result<Option<JsonEdit>, JsonScanError> {
        let closing = match (step, self.peek()) {
            (LocationStep::Name(_), Some(b'{')) => b'}',
            (LocationStep::Index(_), Some(b'[')) => b']',
            _ => return Err(self.error(NO_PARENT)),
        };
        self.advance();
        let mut count = 0_usize;
        loop {
            self.skip_space();
            if self.peek() == Some(closing) {
                let name = match step {
                    LocationStep::Name(name) => Some(name.clone()),
                    // An array has no gaps.
                    LocationStep::Index(index) if *index == count => None,
                    LocationStep::Index(_) => return Err(self.error(NO_PARENT)),
                };
                return Ok(Some(JsonEdit::Insert { at: self.at, needs_comma: count > 0, name }));
            }
            if count > 0 {
                self.expect(b',')?;
                self.skip_space();
            }
            let is_match = match step {
                LocationStep::Index(index) => *index == count,
                LocationStep::Name(name) => {
                    let leaf = self.read_text()?;
                    self.skip_space();
                    self.expect(b':')?;
                    self.skip_space();
                    leaf.decode(self.text) == name.as_str()
                }
            };
            if is_match {
                return Ok(None);
            }
            self.skip_value()?;
            count = count.saturating_add(1);
        }
    }
}
