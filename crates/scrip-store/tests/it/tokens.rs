//! Tokens as an engine stores them: the same promises on every engine.

mod answers;
mod batch;
mod conformance;
mod duplicates;
mod guesses;
mod random_operations;
mod sweeps;
mod usage;
