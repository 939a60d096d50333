//! Expressions made by chance, and what must hold for all of them.

mod fuzz;
mod properties;
