//! Finds the matches of a mask with a bounded amount of work.
//!
//! The work of a search is counted and never measured, so a result does not depend on the load of
//! the server. These parts are counted:
//! - each byte that an automaton reads. A search may read to the end of the body and find a short
//!   match at its start, so all searches of a body together can read much more than the body;
//! - each transition that an automaton computes, times the steps of the expression. The transitions
//!   cannot be counted directly, but there are at most as many as bytes were read, and as the table
//!   of transitions has entries;
//! - each byte of a match, times the steps of the expression, times the size of the captures.

use regex_automata::{
    Anchored, Input,
    hybrid::{LazyStateID, dfa},
    nfa::thompson::pikevm,
    util::captures::Captures,
};
use scrip_core::policy::proxy::transform::MaskPattern;

/// The work that is left for the masks of a call.
#[derive(Debug)]
pub(in crate::proxy) struct WorkAllowance(u64);

/// The masks of the call need more work than allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::proxy) struct WorkExceeded;

impl WorkAllowance {
    pub(in crate::proxy) fn new(work: u64) -> Self {
        Self(work)
    }

    pub(in crate::proxy) fn left(&self) -> u64 {
        self.0
    }

    pub(in crate::proxy) fn charge(&mut self, work: u64) -> Result<(), WorkExceeded> {
        match self.0.checked_sub(work) {
            Some(left) => {
                self.0 = left;
                Ok(())
            }
            None => {
                self.0 = 0;
                Err(WorkExceeded)
            }
        }
    }
}

/// The work of one search, in addition to that of its bytes.
const SEARCH_WORK: u64 = 32;
/// A computed transition takes longer than a step of the search for captures.
const TRANSITION_STEP_WORK: u64 = 4;
/// The capture groups that a step of the search for captures can copy in one unit of work.
const GROUPS_PER_STEP: u64 = 4;
/// The work is charged after this many bytes, and at the end of a search.
const CHARGED_BYTES: usize = 1024;
/// The size of one transition in the memory of an automaton.
const TRANSITION_BYTES: usize = size_of::<LazyStateID>();

pub(in crate::proxy) struct MatchFinder<'p, 'w> {
    pattern: &'p MaskPattern,
    text: &'p str,
    forward: AutomatonRun<'p>,
    /// Most bodies have no match, and need neither of these.
    backward: Option<AutomatonRun<'p>>,
    captures: Option<(pikevm::Cache, Captures)>,
    work: &'w mut WorkAllowance,
}

impl<'p, 'w> MatchFinder<'p, 'w> {
    pub(in crate::proxy) fn new(
        pattern: &'p MaskPattern,
        text: &'p str,
        work: &'w mut WorkAllowance,
    ) -> Self {
        let forward = AutomatonRun::new(pattern.forward(), pattern.steps());
        Self { pattern, text, forward, backward: None, captures: None, work }
    }

    /// Finds the next match at or after this byte, which must be the first byte of a character.
    pub(in crate::proxy) fn find(
        &mut self,
        start: usize,
    ) -> Result<Option<&Captures>, WorkExceeded> {
        let Some((start, end)) = self.find_bounds(start)? else { return Ok(None) };
        let slots = self.pattern.captures().get_nfa().group_info().explicit_slot_len();
        let groups = u64::try_from(slots / 2).unwrap_or(u64::MAX);
        let step_work = groups.div_ceil(GROUPS_PER_STEP);
        let length = u64::try_from(end.saturating_sub(start)).unwrap_or(u64::MAX);
        let steps = self.pattern.steps().saturating_mul(length.saturating_add(1));
        self.work.charge(steps.saturating_mul(step_work))?;
        let engine = self.pattern.captures();
        let (cache, captures) =
            self.captures.get_or_insert_with(|| (engine.create_cache(), engine.create_captures()));
        let input = Input::new(self.text).range(start..end).anchored(Anchored::Yes);
        engine.search(cache, &input, captures);
        Ok(Some(captures).filter(|it| it.is_match()).map(|it| &*it))
    }

    /// The start and the end of the next match.
    fn find_bounds(&mut self, mut start: usize) -> Result<Option<(usize, usize)>, WorkExceeded> {
        loop {
            let Some(end) = self.forward.find_end(self.text, start, self.work)? else {
                return Ok(None);
            };
            let pattern = self.pattern;
            let backward = self
                .backward
                .get_or_insert_with(|| AutomatonRun::new(pattern.backward(), pattern.steps()));
            let match_start = backward.find_start(self.text, start, end, self.work)?;
            let match_start = match_start.unwrap_or(end);
            if self.text.is_char_boundary(match_start) && self.text.is_char_boundary(end) {
                return Ok(Some((match_start, end)));
            }
            // An empty match inside of a character.
            start = self.text.ceil_char_boundary(end);
        }
    }
}

/// An automaton with the states that it has computed for a body.
struct AutomatonRun<'p> {
    automaton: &'p dfa::DFA,
    cache: dfa::Cache,
    steps: u64,
    initial_memory: usize,
    read_bytes: usize,
    uncharged_bytes: usize,
    charged_transitions: usize,
}

impl<'p> AutomatonRun<'p> {
    fn new(automaton: &'p dfa::DFA, steps: u64) -> Self {
        let cache = automaton.create_cache();
        let initial_memory = cache.memory_usage();
        let (read_bytes, uncharged_bytes, charged_transitions) = (0, 0, 0);
        Self {
            automaton,
            cache,
            steps,
            initial_memory,
            read_bytes,
            uncharged_bytes,
            charged_transitions,
        }
    }

    /// The end of the leftmost match.
    fn find_end(
        &mut self,
        text: &str,
        start: usize,
        work: &mut WorkAllowance,
    ) -> Result<Option<usize>, WorkExceeded> {
        let input = Input::new(text).range(start..).anchored(Anchored::No);
        let state = self.automaton.start_state_forward(&mut self.cache, &input);
        let mut state = state.map_err(|_| WorkExceeded)?;
        let mut end = None;
        for (at, byte) in text.as_bytes().iter().enumerate().skip(start) {
            state = self.read(state, *byte, work)?;
            if state.is_tagged() {
                if state.is_match() {
                    // An automaton is one byte behind, because the end may depend on it.
                    end = Some(at);
                } else if state.is_dead() {
                    self.charge(work)?;
                    return Ok(end);
                }
            }
        }
        if self.read_end(state)?.is_match() {
            end = Some(text.len());
        }
        self.charge(work)?;
        Ok(end)
    }

    /// The first start of a match with this end.
    fn find_start(
        &mut self,
        text: &str,
        start_min: usize,
        end: usize,
        work: &mut WorkAllowance,
    ) -> Result<Option<usize>, WorkExceeded> {
        let input = Input::new(text).range(start_min..end).anchored(Anchored::Yes);
        let state = self.automaton.start_state_reverse(&mut self.cache, &input);
        let mut state = state.map_err(|_| WorkExceeded)?;
        let mut start = None;
        let bytes = text.as_bytes().get(start_min..end).unwrap_or_default();
        for (at, byte) in bytes.iter().enumerate().rev() {
            state = self.read(state, *byte, work)?;
            if state.is_tagged() {
                if state.is_match() {
                    start = Some(start_min.saturating_add(at).saturating_add(1));
                } else if state.is_dead() {
                    self.charge(work)?;
                    return Ok(start);
                }
            }
        }
        let previous = start_min.checked_sub(1).and_then(|it| text.as_bytes().get(it));
        let state = match previous {
            Some(byte) => self.read(state, *byte, work)?,
            None => self.read_end(state)?,
        };
        if state.is_match() {
            start = Some(start_min);
        }
        self.charge(work)?;
        Ok(start)
    }

    fn read(
        &mut self,
        state: LazyStateID,
        byte: u8,
        work: &mut WorkAllowance,
    ) -> Result<LazyStateID, WorkExceeded> {
        self.uncharged_bytes = self.uncharged_bytes.saturating_add(1);
        if self.uncharged_bytes >= CHARGED_BYTES {
            self.charge_bytes(work)?;
        }
        let next = self.automaton.next_state(&mut self.cache, state, byte);
        next.ok().filter(|it| !it.is_quit()).ok_or(WorkExceeded)
    }

    fn read_end(&mut self, state: LazyStateID) -> Result<LazyStateID, WorkExceeded> {
        self.automaton.next_eoi_state(&mut self.cache, state).map_err(|_| WorkExceeded)
    }

    /// Charges the work of a search.
    fn charge(&mut self, work: &mut WorkAllowance) -> Result<(), WorkExceeded> {
        work.charge(SEARCH_WORK)?;
        self.charge_bytes(work)
    }

    fn charge_bytes(&mut self, work: &mut WorkAllowance) -> Result<(), WorkExceeded> {
        let bytes = std::mem::take(&mut self.uncharged_bytes);
        self.read_bytes = self.read_bytes.saturating_add(bytes);
        let memory = self.cache.memory_usage().saturating_sub(self.initial_memory);
        let transitions = self.read_bytes.min(memory / TRANSITION_BYTES);
        let computed = transitions.saturating_sub(self.charged_transitions);
        self.charged_transitions = self.charged_transitions.max(transitions);
        let computed = u64::try_from(computed).unwrap_or(u64::MAX);
        let step_work = self.steps.saturating_mul(TRANSITION_STEP_WORK);
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        work.charge(computed.saturating_mul(step_work).saturating_add(bytes))
    }
}
