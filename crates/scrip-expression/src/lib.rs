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
/// The largest text that a mix of text and `{{ }}` may give.
pub const OUTPUT_BYTES_MAX: usize = 64 * 1024;
/// How much all values that one evaluation makes, along its way and at its end, may weigh. Above
/// the largest body, so that a value alone always passes.
pub const WORK_BYTES_MAX: usize = 4 * 1024 * 1024;
/// How many outputs and filters one evaluation may run.
pub const STEPS_MAX: usize = 10_000;

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
