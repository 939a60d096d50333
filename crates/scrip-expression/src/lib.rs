//! The expression language: text and JSON in, a JSON value out, and no other effects.
//!
//! Architecture invariant: this crate does no I/O, reads no clock and never panics on any input.
//! Randomness and keyed hashes come from [`HostFunctions`]. Errors contain a position and a rule,
//! never a value.

#![warn(clippy::arithmetic_side_effects)]
#![expect(unexpected_cfgs, reason = "cargo-fuzz sets cfg(fuzzing) for all crates")]

mod cache;
mod detokenize;
mod evaluation;
mod filter;
mod host_functions;
mod inner_steps;
mod json_tree;
mod message;
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
        budget::{padded_size, padded_value_size, value_cost},
        scope::{Scope, SpentWork},
    },
    host_functions::{HmacAlgorithm, HostFunctions},
    json_tree::{LeafError, PathStep},
    message::{
        CountedSize, EvaluatedMessage, ExpressionPlace, FilteredPath, MessageExpression,
        MessageInputs, MessagePart, MessageRead, MessageSource, MessageTemplate, MessageText,
        NoReferences, ReadStep, ResolveReference, UNKNOWN_REFERENCE,
    },
    syntax::{PlainPart, ast::Expression},
    template::Template,
};

#[cfg(any(test, fuzzing))]
pub use crate::inner_steps::take as take_inner_steps;
#[cfg(test)]
extern crate self as scrip_expression;

/// The maximum length of a source.
pub const SOURCE_BYTES_MAX: usize = 4 * 1024;
/// The maximum text output of a mix of text, `{{ }}` and `{% %}`.
pub const OUTPUT_BYTES_MAX: usize = 64 * 1024;
/// The maximum cost of all values that one evaluation reads and creates, including intermediate
/// values.
///
/// A body of 1 MiB can be copied, or read once and rendered once, whatever its content. A short
/// chain of filters over a text of that size passes too.
pub const WORK_BYTES_MAX: usize = 8 * 1024 * 1024;
/// The maximum cost of a filter result, unless the input was larger: 1 MiB, like a body.
pub const VALUE_BYTES_MAX: usize = 1024 * 1024;
/// The maximum number of outputs, filters, path steps, comparisons, date codes and loop iterations
/// of one evaluation. This is far more than any mask needs, and takes a few milliseconds.
pub const STEPS_MAX: usize = 10_000;
/// The maximum nesting of blocks, indexes and ranges. Each level costs a stack frame in the parser
/// and in the evaluator. Readable expressions need far fewer than sixteen levels.
pub const NESTING_MAX: usize = 16;
/// The maximum depth of JSON with expressions at its leaves. The limit for request bodies is lower.
pub const JSON_DEPTH_MAX: usize = 64;

/// The problem of an evaluation that reached the limit of [`Scope::with_work_limit`].
pub const SHARED_WORK_EXCEEDED: &str =
    "the expressions of this request exceed the shared evaluation limit";

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

/// Checks the syntax and the limits of a `JSONPath`.
///
/// # Errors
/// The text is not a `JSONPath`, or it is too complex.
pub fn check_json_path(text: &str) -> Result<(), &'static str> {
    filter::JsonPathQuery::parse(text).map(drop)
}

/// Whether a text contains anything to evaluate.
#[must_use]
pub fn is_expression(text: &str) -> bool {
    text.contains("{{") || text.contains("{%")
}
