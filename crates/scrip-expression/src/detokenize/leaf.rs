//! The compiled strings of a detokenization.

use crate::syntax::ast::Output;

#[derive(Debug, Clone)]
pub(super) enum Leaf {
    /// A string that is a single expression. It becomes the value itself.
    Expression(ReferenceOutput),
    Text(Vec<TextPart>),
}

#[derive(Debug, Clone)]
pub(super) enum TextPart {
    Text(String),
    Expression(ReferenceOutput),
}

#[derive(Debug, Clone)]
pub(super) struct ReferenceOutput {
    /// The index in the list of references.
    pub(super) reference: usize,
    pub(super) output: Output,
}
