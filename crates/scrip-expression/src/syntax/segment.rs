//! Splits a source into text, `{{ }}` and `{% %}`, and applies whitespace control.

use crate::syntax::lexeme::SyntaxError;

#[derive(Debug, Clone, Copy)]
pub(crate) enum Segment<'s> {
    Text(&'s str),
    Output(BraceContent<'s>),
    Tag(BraceContent<'s>),
}

/// The content between the braces.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BraceContent<'s> {
    pub(crate) text: &'s str,
    /// The byte offset of the content.
    pub(crate) offset: usize,
    /// The character position of the opening braces, counted from 1.
    pub(crate) position: usize,
}

struct Segmenter<'s> {
    source: &'s str,
    at: usize,
    /// The character position of `at`, updated incrementally: counting from the start each time
    /// would take quadratic time.
    position: usize,
    trim_next: bool,
    segments: Vec<Segment<'s>>,
}

/// Whether a text contains anything to evaluate.
pub fn is_expression(text: &str) -> bool {
    text.contains("{{") || text.contains("{%")
}

pub(crate) fn split_segments(source: &str) -> Result<Vec<Segment<'_>>, SyntaxError> {
    let segments = Vec::new();
    let mut segmenter = Segmenter { source, at: 0, position: 1, trim_next: false, segments };
    while segmenter.at < source.len() {
        segmenter.read_segment()?;
    }
    Ok(segmenter.segments)
}

impl<'s> Segmenter<'s> {
    fn remaining(&self) -> &'s str {
        self.source.get(self.at..).unwrap_or_default()
    }

    fn advance(&mut self, bytes: usize) -> &'s str {
        let passed = self.remaining().get(..bytes).unwrap_or_default();
        self.at = self.at.saturating_add(bytes);
        self.position = self.position.saturating_add(passed.chars().count());
        passed
    }

    fn read_segment(&mut self) -> Result<(), SyntaxError> {
        let rest = self.remaining();
        // Search for `{{` and `{%` in one pass. With a separate search for each, every segment
        // could read the whole rest again.
        let is_opening = |(at, _): &(usize, &str)| {
            matches!(rest.as_bytes().get(at.saturating_add(1)), Some(b'{' | b'%'))
        };
        let text_length = rest.match_indices('{').find(is_opening).map_or(rest.len(), |(at, _)| at);
        let text = self.advance(text_length);
        self.push_text(text);
        let (opening_offset, position) = (self.at, self.position);
        let (is_tag, problem) = match self.advance(2) {
            "{{" => (false, "this {{ is never closed"),
            "{%" => (true, "this {% is never closed"),
            _ => return Ok(()),
        };
        let end = find_closing(self.remaining(), is_tag).ok_or((opening_offset, problem))?;
        let offset = self.at;
        let inner = self.advance(end);
        self.advance(2);
        let (lead, inner, trim_after) = strip_dashes(inner);
        if lead > 0 {
            self.trim_last();
        }
        self.trim_next = trim_after;
        let inner = BraceContent { text: inner, offset: offset.saturating_add(lead), position };
        match inner.text.trim() {
            _ if !is_tag => self.segments.push(Segment::Output(inner)),
            "raw" => self.read_verbatim("endraw", opening_offset)?,
            "comment" => self.read_verbatim("endcomment", opening_offset)?,
            note if note.starts_with('#') => (),
            _ => self.segments.push(Segment::Tag(inner)),
        }
        Ok(())
    }

    fn push_text(&mut self, text: &'s str) {
        let text = if self.trim_next { text.trim_start() } else { text };
        if !text.is_empty() {
            self.segments.push(Segment::Text(text));
            self.trim_next = false;
        }
    }

    fn trim_last(&mut self) {
        if let Some(Segment::Text(text)) = self.segments.last_mut() {
            *text = text.trim_end();
            if text.is_empty() {
                self.segments.pop();
            }
        }
    }

    /// Reads up to the end tag. The content of `raw` becomes text and is not parsed. The content of
    /// `comment` is dropped.
    fn read_verbatim(&mut self, end: &str, opening_offset: usize) -> Result<(), SyntaxError> {
        let start = self.at;
        loop {
            let Some(tag) = self.remaining().find("{%") else {
                return Err((opening_offset, "this tag has no end tag"));
            };
            self.advance(tag);
            let Some(close) = self.remaining().get(2..).unwrap_or_default().find("%}") else {
                return Err((opening_offset, "this tag has no end tag"));
            };
            // If there are several openings before a closing, only the last can be the end tag. The
            // others are skipped together: continuing from each would take quadratic time.
            let upto = self.remaining().get(..close.saturating_add(2)).unwrap_or_default();
            let last = upto.rfind("{%").unwrap_or_default();
            self.advance(last);
            let stop = self.at;
            self.advance(2);
            let length = close.saturating_sub(last);
            let (lead, name, trim_after) =
                strip_dashes(self.remaining().get(..length).unwrap_or_default());
            if name.trim() != end {
                continue;
            }
            self.advance(length.saturating_add(2));
            if end == "endraw" {
                self.push_text(self.source.get(start..stop).unwrap_or_default());
                if lead > 0 {
                    self.trim_last();
                }
            }
            self.trim_next = trim_after;
            return Ok(());
        }
    }
}

/// Strips the dashes of whitespace control. Returns the number of bytes stripped at the front, the
/// remaining text, and whether there was a dash at the end.
fn strip_dashes(inner: &str) -> (usize, &str, bool) {
    let lead = usize::from(inner.starts_with('-'));
    let inner = inner.strip_prefix('-').unwrap_or(inner);
    match inner.strip_suffix('-') {
        Some(inner) => (lead, inner, true),
        None => (lead, inner, false),
    }
}

/// Returns the byte offset of the first `}}` or `%}` outside of quoted text. A tag that is an
/// inline comment has no quoted text: its quotes are apostrophes.
pub(crate) fn find_closing(inner: &str, is_tag: bool) -> Option<usize> {
    let (first_character, closing) = if is_tag { ('%', "%}") } else { ('}', "}}") };
    if is_tag && inner.trim_start_matches('-').trim_start().starts_with('#') {
        return inner.find(closing);
    }
    let mut quote = None;
    let mut is_half_closed = false;
    for (index, c) in inner.char_indices() {
        match (quote, c) {
            (Some(opening_quote), _) if opening_quote == c => quote = None,
            (Some(_), _) => (),
            (None, '\'' | '"') => quote = Some(c),
            (None, '}') if is_half_closed => return index.checked_sub(1),
            (None, _) => (),
        }
        is_half_closed = quote.is_none() && c == first_character;
    }
    None
}
