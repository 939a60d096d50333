//! The expression language: text and JSON in, a JSON value out, and no other effects.
//!
//! Architecture invariant: this crate does no I/O, reads no clock and never panics on any input.
//! Errors tell a position and a rule, never a value.

#![warn(clippy::arithmetic_side_effects)]

mod evaluate;
mod filter;
mod lexeme;
mod parse;
mod template;

use std::fmt;

pub use crate::{evaluate::Scope, parse::Expression, template::Template};

/// The longest source that is read.
pub const SOURCE_BYTES_MAX: usize = 4 * 1024;
/// The largest text that one expression may give.
pub const OUTPUT_BYTES_MAX: usize = 64 * 1024;

/// Why an expression cannot be used, and where in its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExpressionError {
    /// Counted in characters from 1, as an editor does.
    pub position: usize,
    pub problem: &'static str,
}

impl fmt::Display for ExpressionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (at character {})", self.problem, self.position)
    }
}

impl std::error::Error for ExpressionError {}

/// Whether a text holds anything to evaluate.
#[must_use]
pub fn is_expression(text: &str) -> bool {
    text.contains("{{") || text.contains("{%")
}
