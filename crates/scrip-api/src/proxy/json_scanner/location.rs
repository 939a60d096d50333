//! Finds the bytes of a JSON document that an appended value replaces or follows.

use std::{borrow::Cow, ops::Range};

use scrip_core::policy::proxy::transform::LocationStep;

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

/// Errors: the document violates a rule of JSON, or has no parent for the location.
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

/// Whether an object on the way to the location has another property that a tolerant server could
/// take for the next step.
///
/// Some servers ignore case, or take the last one of two. The document was validated before, so that no
/// object has a name twice. It is read once at most.
pub fn has_similar_property(text: &str, location: &[LocationStep], depth_max: usize) -> bool {
    let mut scanner = JsonScanner { depth_max, ..JsonScanner::new(text) };
    scanner.skip_space();
    matches!(scanner.read_similar(location), Ok(true))
}

impl<'t> JsonScanner<'t> {
    /// Reads a value, and returns whether it has a property that is similar to a step of the
    /// location. The number of steps is limited, so the recursion is.
    fn read_similar(&mut self, location: &[LocationStep]) -> Result<bool, JsonScanError> {
        let Some((step, next_steps)) = location.split_first() else {
            return self.skip_value().map(|()| false);
        };
        let (mut matches, mut is_similar) = (0_usize, false);
        let closing = match (step, self.peek()) {
            (LocationStep::Name(_), Some(b'{')) => b'}',
            (LocationStep::Index(_), Some(b'[')) => b']',
            _ => return self.skip_value().map(|()| false),
        };
        self.read_items(closing, |scanner, position| {
            let is_match = match step {
                LocationStep::Index(index) => *index == position,
                LocationStep::Name(name) => {
                    let other = scanner.read_name()?;
                    is_similar = is_similar || name.is_similar(&other);
                    other == name.as_str()
                }
            };
            if !is_match {
                return scanner.skip_value();
            }
            matches = matches.saturating_add(1);
            is_similar |= scanner.read_similar(next_steps)?;
            Ok(())
        })?;
        Ok(is_similar || matches > 1)
    }

    /// Reads the items of an array or the members of an object. `read_item` gets their positions.
    fn read_items(
        &mut self,
        closing: u8,
        mut read_item: impl FnMut(&mut Self, usize) -> Result<(), JsonScanError>,
    ) -> Result<(), JsonScanError> {
        self.advance();
        let mut count = 0_usize;
        loop {
            self.skip_space();
            if self.peek() == Some(closing) {
                self.advance();
                return Ok(());
            }
            if count > 0 {
                self.expect(b',')?;
                self.skip_space();
            }
            read_item(self, count)?;
            count = count.saturating_add(1);
        }
    }

    /// Reads the name of a member, and moves to its value.
    fn read_name(&mut self) -> Result<Cow<'t, str>, JsonScanError> {
        let leaf = self.read_text()?;
        self.skip_space();
        self.expect(b':')?;
        self.skip_space();
        Ok(leaf.decode(self.text))
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
                    LocationStep::Name(name) => Some(name.as_str().to_owned()),
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
                LocationStep::Name(name) => self.read_name()? == name.as_str(),
            };
            if is_match {
                return Ok(None);
            }
            self.skip_value()?;
            count = count.saturating_add(1);
        }
    }
}
