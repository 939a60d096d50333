//! What no request waits for, and what an operator asks for.

mod answers;
pub mod backup;
mod guesses;
mod status;
pub(crate) mod sweep;
pub(crate) mod usage;
