//! The regular expression of a mask.

use std::sync::Arc;

use regex_automata::{
    MatchKind,
    hybrid::dfa::DFA,
    meta::Regex,
    nfa::thompson::{self, WhichCaptures},
    util::syntax,
};
use regex_syntax::hir::{Capture, Hir, HirKind, Look, Repetition};

/// A compiled expression with at least one capture group. One search takes linear time.
#[derive(Debug, Clone)]
pub struct MaskPattern {
    regex: Regex,
    scanner: Arc<DFA>,
}

const EXPRESSION_CHARS_MAX: usize = 1000;
/// The time of a match is proportional to this size and to the size of the body.
const COMPILED_BYTES_MAX: usize = 256 * 1024;
const NESTING_MAX: u32 = 32;
const CAPTURE_GROUPS_MAX: usize = 32;
/// The time to find the captured text of a match is at most proportional to the number of states.
const STATES_MAX: usize = 4096;
/// The memory of the scanner's states. If they need more, they are cleared and computed again, up
/// to this many times for one body.
const SCANNER_BYTES_MAX: usize = 1024 * 1024;
const SCANNER_CLEARS_MAX: usize = 32;

impl MaskPattern {
    /// # Errors
    /// The expression is invalid, too large, or has no capture group.
    pub fn parse(expression: &str) -> Result<Self, &'static str> {
        if expression.is_empty() || expression.chars().count() > EXPRESSION_CHARS_MAX {
            return Err("must have 1 to 1000 characters");
        }
        let syntax = syntax::Config::new().nest_limit(NESTING_MAX);
        let tree = syntax::parse_with(expression, &syntax).map_err(|_| INVALID)?;
        let tree = with_ascii_boundaries(tree);
        if tree.properties().explicit_captures_len() == 0 {
            return Err("must have at least one capture group, which selects the masked text");
        }
        if tree.properties().explicit_captures_len() > CAPTURE_GROUPS_MAX {
            return Err("must have at most 32 capture groups");
        }
        let limits = Regex::config().nfa_size_limit(Some(COMPILED_BYTES_MAX));
        let regex =
            Regex::builder().configure(limits).build_from_hir(&tree).map_err(|_| TOO_LARGE)?;
        Ok(Self { regex, scanner: Arc::new(compile_scanner(&tree)?) })
    }

    #[must_use]
    pub fn regex(&self) -> &Regex {
        &self.regex
    }

    /// The same expression as an automaton that can be run byte by byte, to measure how far a
    /// search reads.
    #[must_use]
    pub fn scanner(&self) -> &DFA {
        &self.scanner
    }
}

fn compile_scanner(tree: &Hir) -> Result<DFA, &'static str> {
    let limits = thompson::Config::new()
        .nfa_size_limit(Some(COMPILED_BYTES_MAX))
        .which_captures(WhichCaptures::None);
    let mut compiler = thompson::Compiler::new();
    let states = compiler.configure(limits).build_from_hir(tree).map_err(|_| TOO_LARGE)?;
    if states.states().len() > STATES_MAX {
        return Err(TOO_LARGE);
    }
    let config = DFA::config()
        .match_kind(MatchKind::LeftmostFirst)
        .cache_capacity(SCANNER_BYTES_MAX)
        .skip_cache_capacity_check(true)
        .minimum_cache_clear_count(Some(SCANNER_CLEARS_MAX));
    DFA::builder().configure(config).build_from_nfa(states).map_err(|_| TOO_LARGE)
}

/// Makes `\b` a boundary of ASCII words. The automaton cannot decide boundaries of other words, and
/// masked values are digits.
fn with_ascii_boundaries(tree: Hir) -> Hir {
    match tree.into_kind() {
        HirKind::Empty => Hir::empty(),
        HirKind::Literal(literal) => Hir::literal(literal.0),
        HirKind::Class(class) => Hir::class(class),
        HirKind::Look(look) => Hir::look(match look {
            Look::WordUnicode => Look::WordAscii,
            Look::WordUnicodeNegate => Look::WordAsciiNegate,
            Look::WordStartUnicode => Look::WordStartAscii,
            Look::WordEndUnicode => Look::WordEndAscii,
            Look::WordStartHalfUnicode => Look::WordStartHalfAscii,
            Look::WordEndHalfUnicode => Look::WordEndHalfAscii,
            look @ (Look::Start
            | Look::End
            | Look::StartLF
            | Look::EndLF
            | Look::StartCRLF
            | Look::EndCRLF
            | Look::WordAscii
            | Look::WordAsciiNegate
            | Look::WordStartAscii
            | Look::WordEndAscii
            | Look::WordStartHalfAscii
            | Look::WordEndHalfAscii) => look,
        }),
        HirKind::Repetition(Repetition { sub, min, max, greedy }) => {
            let sub = Box::new(with_ascii_boundaries(*sub));
            Hir::repetition(Repetition { sub, min, max, greedy })
        }
        HirKind::Capture(Capture { sub, index, name }) => {
            Hir::capture(Capture { sub: Box::new(with_ascii_boundaries(*sub)), index, name })
        }
        HirKind::Concat(parts) => {
            Hir::concat(parts.into_iter().map(with_ascii_boundaries).collect())
        }
        HirKind::Alternation(parts) => {
            Hir::alternation(parts.into_iter().map(with_ascii_boundaries).collect())
        }
    }
}

const TOO_LARGE: &str = "is too large when compiled; use shorter repetitions";
const INVALID: &str =
    "is not a valid regular expression (look-around and back-references are not supported)";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mask_expression_needs_a_capture_group_and_a_bounded_size() {
        for expression in
            ["^(aa).*?$", r#""number":\s*"(\d{13,19})""#, "(?i)(pan)", "(a)(b)?", r"\b(a)\b"]
        {
            assert!(MaskPattern::parse(expression).is_ok(), "{expression} is rejected");
        }
        let long = format!("({})", "a".repeat(1000));
        let nested = format!("{}a{}", "(".repeat(40), ")".repeat(40));
        for expression in [
            "",
            "abc",
            "(?:abc)",
            "(a",
            "a(?=b)(c)",
            r"(a)\1",
            "((a{1000}){1000})",
            r"(\w{1,50})",
            "((?:a?){3000})",
            "(?P<n>a){9999999}",
            long.as_str(),
            nested.as_str(),
        ] {
            assert!(MaskPattern::parse(expression).is_err(), "{expression} is accepted");
        }
    }
}
