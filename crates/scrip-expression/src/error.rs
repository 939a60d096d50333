//! Why an expression is invalid.

use std::fmt;

/// Why an expression is invalid, and the position in its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExpressionError {
    /// Counted in characters from 1, like in an editor.
    pub position: usize,
    pub problem: &'static str,
}

impl fmt::Display for ExpressionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (at character {})", self.problem, self.position)
    }
}

impl std::error::Error for ExpressionError {}

impl ExpressionError {
    /// Converts a byte offset of the source to a character position.
    pub(crate) fn at(source: &str, byte: usize, problem: &'static str) -> Self {
        let characters_before =
            source.char_indices().take_while(|(index, _)| *index < byte).count();
        Self { position: characters_before.saturating_add(1), problem }
    }
}
