//! Reads quoted texts.

use std::borrow::Cow;

use super::{JsonScanner, ScanResult, TextLeaf};

const LEFT_BRACE: u32 = 0x7b;

impl JsonScanner<'_> {
    /// Reads a text from its opening quote to its closing one.
    pub(super) fn read_text(&mut self) -> ScanResult<TextLeaf> {
        let start = self.at;
        let (mut has_escapes, mut has_braces, mut is_after_brace) = (false, false, false);
        self.advance();
        loop {
            let is_brace = match self.peek() {
                Some(b'"') => {
                    self.advance();
                    return Ok(TextLeaf { span: start..self.at, has_escapes, has_braces });
                }
                Some(b'\\') => {
                    has_escapes = true;
                    self.read_escape()? == LEFT_BRACE
                }
                Some(0..=0x1f) | None => return Err(self.syntax_error()),
                Some(byte) => {
                    self.advance();
                    byte == b'{'
                }
            };
            has_braces |= is_brace && is_after_brace;
            is_after_brace = is_brace;
        }
    }

    /// Reads an escape and returns its character, or 0 if it cannot be a brace.
    fn read_escape(&mut self) -> ScanResult<u32> {
        self.advance();
        match self.peek() {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                self.advance();
                Ok(0)
            }
            Some(b'u') => match self.read_code_unit()? {
                0xd800..=0xdbff => {
                    // Only a pair of surrogates is a character.
                    self.expect(b'\\')?;
                    match self.read_code_unit()? {
                        0xdc00..=0xdfff => Ok(0),
                        _ => Err(self.syntax_error()),
                    }
                }
                0xdc00..=0xdfff => Err(self.syntax_error()),
                unit => Ok(unit),
            },
            _ => Err(self.syntax_error()),
        }
    }

    /// Reads `u` and four hexadecimal digits.
    fn read_code_unit(&mut self) -> ScanResult<u32> {
        self.expect(b'u')?;
        let end = self.at.saturating_add(4);
        let digits = self.text.as_bytes().get(self.at..end);
        let digits = digits.filter(|it| it.iter().all(u8::is_ascii_hexdigit));
        let digits = digits.and_then(|it| std::str::from_utf8(it).ok());
        let unit = digits.and_then(|it| u32::from_str_radix(it, 16).ok());
        let unit = unit.ok_or_else(|| self.syntax_error())?;
        self.at = end;
        Ok(unit)
    }
}

impl TextLeaf {
    /// The text without quotes and escapes. `text` is the document.
    pub fn decode<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let quoted = text.get(self.span.clone()).unwrap_or_default();
        if self.has_escapes {
            return Cow::Owned(serde_json::from_str(quoted).unwrap_or_default());
        }
        Cow::Borrowed(quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default())
    }
}
