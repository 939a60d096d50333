//! Evaluation of a compiled expression within a budget.

pub(crate) mod compare;
pub(crate) mod evaluate;
mod operand;
pub(crate) mod scope;
