//! The expression language: text and JSON in, a JSON value out, and no other effects.
//!
//! Architecture invariant: this crate does no I/O, reads no clock and never panics on any input.
//! Chance and keyed hashes come from [`Outside`]. Errors tell a position and a rule, never a value.

#![warn(clippy::arithmetic_side_effects)]
#![expect(unexpected_cfgs, reason = "cargo-fuzz sets cfg(fuzzing) for all crates")]

mod cache;
mod detokenize;
mod evaluation;
mod filter;
mod host_functions;
mod inner_steps;
mod json_tree;
mod syntax;
mod template;
mod value;

#[cfg(test)]
mod tests {
    mod cost;
}

use std::fmt;

pub use crate::{
    cache::ExpressionCache,
    detokenize::{Detokenization, Reference, ReferenceKind},
    evaluation::{
        budget::value_cost,
        scope::{Scope, SpentWork},
    },
    host_functions::{HmacAlgorithm, HostFunctions},
    json_tree::{LeafError, PathStep},
    syntax::{PlainPart, ast::Expression},
    template::Template,
};

#[cfg(any(test, fuzzing))]
pub use crate::inner_steps::take as take_inner_steps;
#[cfg(test)]
extern crate self as scrip_expression;

/// The longest source that is read.
pub const SOURCE_BYTES_MAX: usize = 4 * 1024;
/// The largest text that a mix of text, `{{ }}` and `{% %}` may give.
pub const OUTPUT_BYTES_MAX: usize = 64 * 1024;
/// How much all values that one evaluation reads and makes, along its way and at its end, may weigh.
///
/// A body of a mebibyte can be copied, or read once and rendered once, whatever is in it; a short
/// chain of filters over such a text passes too.
pub const WORK_BYTES_MAX: usize = 8 * 1024 * 1024;
/// The heaviest value that a filter may make, unless it was given a heavier one: a mebibyte, as a
/// body.
pub const VALUE_BYTES_MAX: usize = 1024 * 1024;
/// How many outputs, filters, steps of a path, comparisons, codes of a date and turns of a loop one
/// evaluation may run: far above any mask, and a few milliseconds of work.
pub const STEPS_MAX: usize = 10_000;
/// How deep blocks, indexes and ranges may stand within each other. Each level costs a frame of the
/// stack in the parser and in the evaluator; nobody reads a sixteenth level.
pub const NESTING_MAX: usize = 16;
/// How deep JSON with expressions at its leaves may be. A request's body is bounded more tightly.
pub const JSON_DEPTH_MAX: usize = 64;

/// The problem of an evaluation that reached the bound of [`Scope::within_work`].
pub const SHARED_WORK_EXCEEDED: &str =
    "the expressions of this request are too much to evaluate together";

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

impl ExpressionError {
    /// From a byte of the source to the character an editor shows.
    pub(crate) fn at(source: &str, byte: usize, problem: &'static str) -> Self {
        let before = source.char_indices().take_while(|(at, _)| *at < byte).count();
        Self { position: before.saturating_add(1), problem }
    }
}

/// Whether a text holds anything to evaluate.
#[must_use]
pub fn is_expression(text: &str) -> bool {
    text.contains("{{") || text.contains("{%")
}
