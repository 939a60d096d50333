//! Keys of verification codes, and the clock by which they end.

mod nodes;
mod redis_contents;
mod simulated_clock;
