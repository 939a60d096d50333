//! A tree evaluated within its budget.

pub(crate) mod budget;
pub(crate) mod compare;
pub(crate) mod evaluate;
mod operand;
pub(crate) mod scope;
