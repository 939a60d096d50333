//! The expression language: text and JSON in, a JSON value out, and no other effects.
//!
//! Architecture invariant: this crate does no I/O, reads no clock and never panics on any input.
//! Randomness and keyed hashes come from [`HostFunctions`]. Errors contain a position and a rule,
//! never a value.

#![warn(clippy::arithmetic_side_effects)]
#![expect(unexpected_cfgs, reason = "cargo-fuzz sets cfg(fuzzing) for all crates")]

mod budget;
mod cache;
mod detokenize;
mod error;
mod evaluation;
mod filter;
mod inner_steps;
mod json_tree;
mod limits;
mod message;
mod syntax;
mod template;
mod value;

pub use crate::{
    budget::{SHARED_WORK_EXCEEDED, SpentWork, padded_size, padded_value_size, value_cost},
    cache::ExpressionCache,
    detokenize::{Detokenization, Reference, ReferenceKind},
    error::ExpressionError,
    evaluation::Scope,
    filter::{HmacAlgorithm, HostFunctions, check_json_path},
    json_tree::{LeafError, PathStep},
    limits::{
        JSON_DEPTH_MAX, NESTING_MAX, OUTPUT_BYTES_MAX, SOURCE_BYTES_MAX, STEPS_MAX,
        VALUE_BYTES_MAX, WORK_BYTES_MAX,
    },
    message::{
        CountedSize, EvaluatedMessage, ExpressionPlace, FilteredPath, MessageExpression,
        MessageInputs, MessagePart, MessageRead, MessageSource, MessageTemplate, MessageText,
        NoReferences, ReadStep, ResolveReference, UNKNOWN_REFERENCE,
    },
    syntax::{ast::Expression, is_expression},
    template::Template,
};

#[cfg(any(test, fuzzing))]
pub use crate::inner_steps::take as take_inner_steps;
#[cfg(test)]
extern crate self as scrip_expression;

#[cfg(test)]
mod tests {
    mod cost;
}
