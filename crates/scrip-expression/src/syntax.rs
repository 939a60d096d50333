//! Parses the source of an expression into a tree.

mod analysis;
pub(crate) mod ast;
pub(crate) mod lexeme;
pub(crate) mod parse;
pub(crate) mod segment;
pub(crate) mod tag;

pub use self::segment::is_expression;
