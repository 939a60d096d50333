//! What no request waits for, and what an operator asks for.

pub(crate) mod answers;
mod guesses;
mod status;
mod sweep;
pub(crate) mod usage;
