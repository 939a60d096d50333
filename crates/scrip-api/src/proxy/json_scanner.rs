//! Scans JSON without building a tree. A message is forwarded byte for byte except for the texts
//! that contain an expression, so key order, number text and spacing stay.
//!
//! The rules are those of the other requests: no duplicate names, at most 32 levels.

mod location;
mod text;

use std::{borrow::Cow, collections::HashSet, ops::Range};

use scrip_core::types::AttributePath;

pub use self::location::{JsonEdit, crosses_value, find_edit, has_similar_property};

pub const DEPTH_MAX: usize = 32;
/// A document that was valid before values were inserted, each with at most about 32 levels.
pub(crate) const RENDERED_DEPTH_MAX: usize = 128;

/// Names of a larger object are compared by hash.
const LINEAR_NAMES_MAX: usize = 16;

/// A violated rule, and the byte at which it is violated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JsonScanError {
    pub rule: &'static str,
    pub offset: usize,
}

/// A text value, without names of properties.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextLeaf {
    /// The position with the quotes.
    pub span: Range<usize>,
    pub has_escapes: bool,
    /// Whether the decoded text contains `{{`.
    pub has_braces: bool,
}

#[derive(Debug, Clone)]
enum ScanStep {
    Name(TextLeaf),
    Index(usize),
}

type ScanResult<T> = Result<T, JsonScanError>;

/// Reads the whole text and calls `on_text` for each text value.
/// Errors: the text violates a rule.
pub fn scan(text: &str, mut on_text: impl FnMut(TextLeaf)) -> ScanResult<()> {
    let mut scanner = JsonScanner::new(text);
    scanner.read_document(&mut |_, leaf| on_text(leaf))
}

/// The path of the text value that begins at this byte.
pub(crate) fn find_path(text: &str, offset: usize) -> AttributePath {
    let mut path = AttributePath::default();
    let mut scanner = JsonScanner::new(text);
    let result = scanner.read_document(&mut |steps, leaf| {
        if leaf.span.start == offset {
            for step in steps {
                match step {
                    ScanStep::Name(name) => path.enter(&name.decode(text)),
                    ScanStep::Index(index) => path.enter_index(*index),
                };
            }
        }
    });
    debug_assert!(result.is_ok(), "the text was scanned before");
    path
}

type OnText<'c> = dyn FnMut(&[ScanStep], TextLeaf) + 'c;

struct JsonScanner<'t> {
    text: &'t str,
    at: usize,
    depth_max: usize,
    path: Vec<ScanStep>,
    /// The names of the open objects, innermost last.
    names: Vec<Cow<'t, str>>,
}

impl<'t> JsonScanner<'t> {
    fn new(text: &'t str) -> Self {
        Self { text, at: 0, depth_max: DEPTH_MAX, path: Vec::new(), names: Vec::new() }
    }

    fn read_document(&mut self, on_text: &mut OnText<'_>) -> ScanResult<()> {
        self.skip_space();
        self.read_value(on_text)?;
        self.skip_space();
        if self.peek().is_some() { Err(self.syntax_error()) } else { Ok(()) }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn advance(&mut self) {
        self.at = self.at.saturating_add(1);
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.advance();
        }
    }

    fn error(&self, rule: &'static str) -> JsonScanError {
        JsonScanError { rule, offset: self.at }
    }

    fn syntax_error(&self) -> JsonScanError {
        let before = self.at.checked_sub(1).and_then(|it| self.text.as_bytes().get(it));
        let is_bare_expression = self.peek() == Some(b'{') && before == Some(&b'{');
        self.error(if is_bare_expression {
            "an expression in JSON must be inside of quotes"
        } else {
            "the body is not valid JSON"
        })
    }

    fn expect(&mut self, byte: u8) -> ScanResult<()> {
        if self.peek() != Some(byte) {
            return Err(self.syntax_error());
        }
        self.advance();
        Ok(())
    }

    fn read_value(&mut self, on_text: &mut OnText<'_>) -> ScanResult<()> {
        match self.peek() {
            Some(b'"') => {
                let leaf = self.read_text()?;
                on_text(&self.path, leaf);
                Ok(())
            }
            Some(b'{') => self.read_object(on_text),
            Some(b'[') => self.read_array(on_text),
            Some(b't') => self.read_word("true"),
            Some(b'f') => self.read_word("false"),
            Some(b'n') => self.read_word("null"),
            Some(b'-' | b'0'..=b'9') => self.read_number(),
            _ => Err(self.syntax_error()),
        }
    }

    fn read_word(&mut self, word: &str) -> ScanResult<()> {
        if !self.text.get(self.at..).is_some_and(|it| it.starts_with(word)) {
            return Err(self.syntax_error());
        }
        self.at = self.at.saturating_add(word.len());
        Ok(())
    }

    fn read_number(&mut self) -> ScanResult<()> {
        if self.peek() == Some(b'-') {
            self.advance();
        }
        if self.peek() == Some(b'0') {
            self.advance();
        } else {
            self.read_digits()?;
        }
        if self.peek() == Some(b'.') {
            self.advance();
            self.read_digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.advance();
            if let Some(b'+' | b'-') = self.peek() {
                self.advance();
            }
            self.read_digits()?;
        }
        Ok(())
    }

    fn read_digits(&mut self) -> ScanResult<()> {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.peek() {
            self.advance();
        }
        if self.at == start { Err(self.syntax_error()) } else { Ok(()) }
    }

    fn descend(&mut self, step: ScanStep) -> ScanResult<()> {
        if self.path.len() >= self.depth_max {
            return Err(self.error("the JSON is nested deeper than 32 levels"));
        }
        self.path.push(step);
        Ok(())
    }

    fn read_array(&mut self, on_text: &mut OnText<'_>) -> ScanResult<()> {
        self.descend(ScanStep::Index(0))?;
        self.advance();
        self.skip_space();
        if self.peek() == Some(b']') {
            self.advance();
            self.path.pop();
            return Ok(());
        }
        loop {
            self.skip_space();
            self.read_value(on_text)?;
            self.skip_space();
            if self.peek() != Some(b',') {
                self.expect(b']')?;
                self.path.pop();
                return Ok(());
            }
            self.advance();
            if let Some(ScanStep::Index(index)) = self.path.last_mut() {
                *index = index.saturating_add(1);
            }
        }
    }

    fn read_object(&mut self, on_text: &mut OnText<'_>) -> ScanResult<()> {
        let first_name = self.names.len();
        let mut name_set = HashSet::new();
        let no_name = TextLeaf { span: 0..0, has_escapes: false, has_braces: false };
        self.descend(ScanStep::Name(no_name))?;
        self.advance();
        self.skip_space();
        if self.peek() == Some(b'}') {
            self.advance();
            self.path.pop();
            return Ok(());
        }
        loop {
            self.skip_space();
            if self.peek() != Some(b'"') {
                return Err(self.syntax_error());
            }
            let name = self.read_text()?;
            self.check_name(name.decode(self.text), first_name, &mut name_set)?;
            if let Some(last) = self.path.last_mut() {
                *last = ScanStep::Name(name);
            }
            self.skip_space();
            self.expect(b':')?;
            self.skip_space();
            self.read_value(on_text)?;
            self.skip_space();
            if self.peek() != Some(b',') {
                self.expect(b'}')?;
                self.path.pop();
                self.names.truncate(first_name);
                return Ok(());
            }
            self.advance();
        }
    }

    /// Two readers of a duplicate name may take different values.
    fn check_name(
        &mut self,
        name: Cow<'t, str>,
        first_name: usize,
        name_set: &mut HashSet<Cow<'t, str>>,
    ) -> ScanResult<()> {
        let names = self.names.get(first_name..).unwrap_or_default();
        let is_duplicate = if names.len() < LINEAR_NAMES_MAX {
            names.contains(&name)
        } else {
            if name_set.is_empty() {
                name_set.extend(names.iter().cloned());
            }
            !name_set.insert(name.clone())
        };
        if is_duplicate {
            return Err(self.error("an object has a duplicate name"));
        }
        // In a large object, the set has all names.
        if names.len() < LINEAR_NAMES_MAX {
            self.names.push(name);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
