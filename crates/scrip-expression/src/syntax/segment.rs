//! A source, cut into text, `{{ }}` and `{% %}`, with whitespace control applied.

use crate::syntax::lexeme::SyntaxError;

#[derive(Debug, Clone, Copy)]
pub(crate) enum Segment<'s> {
    Text(&'s str),
    Output(BraceContent<'s>),
    Tag(BraceContent<'s>),
}

/// What stands between the braces.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BraceContent<'s> {
    pub(crate) text: &'s str,
    /// The byte at which the text begins.
    pub(crate) offset: usize,
    /// The character at which the braces open, counted from 1.
    pub(crate) position: usize,
}

struct Segmenter<'s> {
    source: &'s str,
    at: usize,
    /// The character that stands at `at`, counted along: counting from the start each time would
    /// cost the square of the source.
    position: usize,
    trim_next: bool,
    segments: Vec<Segment<'s>>,
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
        // One pass for both: two searches would read the rest again for each of many braces.
        let opens = |(at, _): &(usize, &str)| {
            matches!(rest.as_bytes().get(at.saturating_add(1)), Some(b'{' | b'%'))
        };
        let opening = rest.match_indices('{').find(opens).map_or(rest.len(), |(at, _)| at);
        let text = self.advance(opening);
        self.push_text(text);
        let (opens, position) = (self.at, self.position);
        let (is_tag, problem) = match self.advance(2) {
            "{{" => (false, "this {{ is never closed"),
            "{%" => (true, "this {% is never closed"),
            _ => return Ok(()),
        };
        let end = find_closing(self.remaining(), is_tag).ok_or((opens, problem))?;
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
            "raw" => self.read_verbatim("endraw", opens)?,
            "comment" => self.read_verbatim("endcomment", opens)?,
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

    /// What stands up to an end tag: text as it is for `raw`, nothing for `comment`.
    fn read_verbatim(&mut self, end: &str, opens: usize) -> Result<(), SyntaxError> {
        let start = self.at;
        loop {
            let Some(tag) = self.remaining().find("{%") else {
                return Err((opens, "this tag is never closed"));
            };
            self.advance(tag);
            let Some(close) = self.remaining().get(2..).unwrap_or_default().find("%}") else {
                return Err((opens, "this tag is never closed"));
            };
            // Of several openings before one closing only the last can be the end tag. The others are
            // passed over together: to read on from each would cost the square of the source.
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

/// Without the dashes that take the whitespace around away: how many bytes one took at the front,
/// what is left, and whether there was one at the end.
fn strip_dashes(inner: &str) -> (usize, &str, bool) {
    let lead = usize::from(inner.starts_with('-'));
    let inner = inner.strip_prefix('-').unwrap_or(inner);
    match inner.strip_suffix('-') {
        Some(inner) => (lead, inner, true),
        None => (lead, inner, false),
    }
}

/// Where `}}` or `%}` stands, quoted text aside. A note in a tag has no quotes, only apostrophes.
pub(crate) fn find_closing(inner: &str, is_tag: bool) -> Option<usize> {
    let (first, both) = if is_tag { ('%', "%}") } else { ('}', "}}") };
    if is_tag && inner.trim_start_matches('-').trim_start().starts_with('#') {
        return inner.find(both);
    }
    let mut quote = None;
    let mut is_half_closed = false;
    for (at, c) in inner.char_indices() {
        match (quote, c) {
            (Some(open), _) if open == c => quote = None,
            (Some(_), _) => (),
            (None, '\'' | '"') => quote = Some(c),
            (None, '}') if is_half_closed => return at.checked_sub(1),
            (None, _) => (),
        }
        is_half_closed = quote.is_none() && c == first;
    }
    None
}
