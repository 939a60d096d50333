//! Bounds the work of a search for all matches.
//!
//! One search takes linear time. But a search may read to the end of the body and find a short
//! match at its start, so the searches of a body can together take quadratic time. The meter runs
//! an automaton in front of each search, counts the bytes that it reads, and ends the range of the
//! search there.

use regex_automata::{Anchored, Input, hybrid::dfa::Cache};
use scrip_core::proxy::transform::MaskPattern;

/// All searches together may read the body this many times.
const READINGS_MAX: usize = 16;
/// Small bodies may be read more often.
const READ_BYTES_BASE: usize = 1024 * 1024;

pub(super) struct ScanMeter<'p> {
    pattern: &'p MaskPattern,
    text: &'p str,
    cache: Cache,
    bytes_left: usize,
}

impl<'p> ScanMeter<'p> {
    pub(super) fn new(pattern: &'p MaskPattern, text: &'p str) -> Self {
        let bytes_left = text.len().saturating_mul(READINGS_MAX).saturating_add(READ_BYTES_BASE);
        Self { pattern, text, cache: pattern.scanner().create_cache(), bytes_left }
    }

    /// The end of the bytes that a search from this byte reads. `None` if the budget is used up, or
    /// if the automaton needs ever new states.
    pub(super) fn find_scan_end(&mut self, start: usize) -> Option<usize> {
        let end = self.run_automaton(start)?;
        let read = end.saturating_sub(start).saturating_add(1);
        self.bytes_left = self.bytes_left.checked_sub(read)?;
        Some(end)
    }

    fn run_automaton(&mut self, start: usize) -> Option<usize> {
        let scanner = self.pattern.scanner();
        let input = Input::new(self.text).range(start..).anchored(Anchored::No);
        let mut state = scanner.start_state_forward(&mut self.cache, &input).ok()?;
        for (at, byte) in self.text.as_bytes().iter().enumerate().skip(start) {
            state = scanner.next_state(&mut self.cache, state, *byte).ok()?;
            if state.is_tagged() {
                if state.is_dead() {
                    // The last byte cannot extend the match, but it may decide its end.
                    return Some(self.text.ceil_char_boundary(at.saturating_add(1)));
                }
                if state.is_quit() {
                    return None;
                }
            }
        }
        Some(self.text.len())
    }
}
