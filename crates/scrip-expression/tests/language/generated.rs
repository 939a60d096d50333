//! Randomly generated expressions and their invariants.

mod fuzz;
mod properties;
