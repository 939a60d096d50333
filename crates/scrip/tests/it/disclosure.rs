//! What answers must not disclose.

mod expressions;
mod planted_tokens;
mod silence;
