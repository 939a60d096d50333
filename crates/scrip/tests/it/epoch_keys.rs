//! Epoch keys of CVCs, and the clock that expires them.

mod nodes;
mod redis_contents;
mod simulated_clock;
