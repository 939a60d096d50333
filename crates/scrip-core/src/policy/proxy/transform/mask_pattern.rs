//! The regular expression of a mask.

use std::sync::Arc;

use regex_automata::{MatchKind, hybrid::dfa::DFA, meta::Regex, nfa::thompson, util::syntax};

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
/// The memory of the scanner's states. If they need more, states are computed again.
const SCANNER_BYTES_MAX: usize = 1024 * 1024;

impl MaskPattern {
    /// # Errors
    /// The expression is invalid, too large, or has no capture group.
    pub fn parse(expression: &str) -> Result<Self, &'static str> {
        if expression.is_empty() || expression.chars().count() > EXPRESSION_CHARS_MAX {
            return Err("must have 1 to 1000 characters");
        }
        let limits = Regex::config().nfa_size_limit(Some(COMPILED_BYTES_MAX));
        let syntax = syntax::Config::new().nest_limit(NESTING_MAX);
        let regex =
            Regex::builder().configure(limits).syntax(syntax).build(expression).map_err(|it| {
                match it.size_limit() {
                    Some(_) => "is too large when compiled; use shorter repetitions",
                    None => INVALID,
                }
            })?;
        if regex.captures_len() < 2 {
            return Err("must have at least one capture group, which selects the masked text");
        }
        if regex.captures_len() > CAPTURE_GROUPS_MAX {
            return Err("must have at most 31 capture groups");
        }
        let scanner_config = DFA::config()
            .match_kind(MatchKind::LeftmostFirst)
            .unicode_word_boundary(true)
            .cache_capacity(SCANNER_BYTES_MAX)
            .skip_cache_capacity_check(true);
        let scanner = DFA::builder()
            .configure(scanner_config)
            .thompson(thompson::Config::new().nfa_size_limit(Some(COMPILED_BYTES_MAX)))
            .syntax(syntax)
            .build(expression)
            .map_err(|_| INVALID)?;
        Ok(Self { regex, scanner: Arc::new(scanner) })
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

const INVALID: &str =
    "is not a valid regular expression (look-around and back-references are not supported)";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mask_expression_needs_a_capture_group_and_a_bounded_size() {
        for expression in ["^(aa).*?$", r#""number":\s*"(\d{13,19})""#, "(?i)(pan)", "(a)(b)?"] {
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
            "(?P<n>a){9999999}",
            long.as_str(),
            nested.as_str(),
        ] {
            assert!(MaskPattern::parse(expression).is_err(), "{expression} is accepted");
        }
    }
}
