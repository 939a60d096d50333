//! The regular expression of a mask: classes such as `\d` are those of ASCII.
//!
//! A class of Unicode letters has hundreds of ranges, and compiling some of them takes seconds. A masked
//! value is a number or a key, so ASCII suffices. `.` and negated classes still match whole characters,
//! so that a match never ends inside of one.

use std::sync::Arc;

use regex_automata::{
    MatchKind,
    hybrid::dfa::DFA,
    nfa::thompson::{self, NFA, WhichCaptures, pikevm::PikeVM},
};
use regex_syntax::{
    ast::{
        self, Ast, ClassAscii, ClassAsciiKind, ClassBracketed, ClassPerl, ClassPerlKind, ClassSet,
        ClassSetItem,
    },
    hir::{Capture, Hir, HirKind, Look, Repetition, translate::TranslatorBuilder},
};

/// A compiled expression with at least one capture group.
///
/// The ends of a match are found by two automata, forward and backward. Their states are computed
/// when they are needed. Only the text of a match is searched for captures, which takes time
/// proportional to the steps of the expression.
#[derive(Debug, Clone)]
pub struct MaskPattern(Arc<CompiledPattern>);

#[derive(Debug)]
struct CompiledPattern {
    forward: DFA,
    backward: DFA,
    captures: PikeVM,
    steps: u64,
}

const EXPRESSION_CHARS_MAX: usize = 1000;
const COMPILED_BYTES_MAX: usize = 256 * 1024;
const CAPTURE_GROUPS_MAX: usize = 32;
/// The steps of an expression that a search can be at, after the same character. The time for one
/// byte is at most proportional to them.
const STEPS_MAX: u64 = 256;
/// The number of states that are compiled. A class of characters of several bytes needs many, but a
/// search is only at one of them.
const STATES_MAX: usize = 4096;
/// The memory of the states of one automaton during a search. An expression that needs more for a
/// body is rejected: clearing the states and computing them again would take long.
const AUTOMATON_BYTES_MAX: usize = 1024 * 1024;
const AUTOMATON_CLEARS_MAX: usize = 0;

impl MaskPattern {
    /// Errors: the expression is invalid, too large, or has no capture group.
    pub fn parse(expression: &str) -> Result<Self, MaskPatternError> {
        if expression.is_empty() || expression.chars().count() > EXPRESSION_CHARS_MAX {
            return Err(MaskPatternError::Invalid("must have 1 to 1000 characters"));
        }
        let tree = with_ascii_boundaries(parse_ascii_classes(expression)?);
        if tree.properties().explicit_captures_len() == 0 {
            return Err(MaskPatternError::Invalid(NO_GROUP));
        }
        if tree.properties().explicit_captures_len() > CAPTURE_GROUPS_MAX {
            return Err(MaskPatternError::Invalid("must have at most 32 capture groups"));
        }
        let steps = count_steps(&tree);
        if steps > STEPS_MAX {
            return Err(MaskPatternError::TooLarge);
        }
        let captures = compile_states(&tree, WhichCaptures::All, SearchDirection::Forward)?;
        let captures = PikeVM::new_from_nfa(captures).map_err(|_| MaskPatternError::TooLarge)?;
        let forward = compile_automaton(&tree, SearchDirection::Forward)?;
        let backward = compile_automaton(&tree, SearchDirection::Backward)?;
        Ok(Self(Arc::new(CompiledPattern { forward, backward, captures, steps })))
    }

    /// Finds the end of a match. It can be run byte by byte, to measure how far it reads.
    pub fn forward(&self) -> &DFA {
        &self.0.forward
    }

    /// Finds the start of a match with a known end.
    pub fn backward(&self) -> &DFA {
        &self.0.backward
    }

    /// Finds the captured text in a match.
    pub fn captures(&self) -> &PikeVM {
        &self.0.captures
    }

    /// The memory of the compiled expression, without that of a search.
    pub(crate) fn compiled_bytes(&self) -> usize {
        let CompiledPattern { forward, backward, captures, .. } = &*self.0;
        let automata = forward.memory_usage().saturating_add(backward.memory_usage());
        let states =
            forward.get_nfa().memory_usage().saturating_add(backward.get_nfa().memory_usage());
        automata.saturating_add(states).saturating_add(captures.get_nfa().memory_usage())
    }

    /// The maximum number of steps that a search is at.
    pub fn steps(&self) -> u64 {
        self.0.steps
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SearchDirection {
    Forward,
    Backward,
}

fn compile_states(
    tree: &Hir,
    captures: WhichCaptures,
    direction: SearchDirection,
) -> Result<NFA, MaskPatternError> {
    let limits = thompson::Config::new()
        .nfa_size_limit(Some(COMPILED_BYTES_MAX))
        .reverse(direction == SearchDirection::Backward)
        .shrink(direction == SearchDirection::Backward)
        .which_captures(captures);
    let mut compiler = thompson::Compiler::new();
    let states = compiler.configure(limits).build_from_hir(tree);
    let states = states.map_err(|_| MaskPatternError::TooLarge)?;
    if states.states().len() > STATES_MAX {
        return Err(MaskPatternError::TooLarge);
    }
    Ok(states)
}

fn compile_automaton(tree: &Hir, direction: SearchDirection) -> Result<DFA, MaskPatternError> {
    let states = compile_states(tree, WhichCaptures::None, direction)?;
    let config = DFA::config()
        .match_kind(match direction {
            SearchDirection::Forward => MatchKind::LeftmostFirst,
            // The start of a leftmost match is the first one of all starts.
            SearchDirection::Backward => MatchKind::All,
        })
        .prefilter(None)
        .cache_capacity(AUTOMATON_BYTES_MAX)
        .skip_cache_capacity_check(true)
        .minimum_cache_clear_count(Some(AUTOMATON_CLEARS_MAX));
    let automaton = DFA::builder().configure(config).build_from_nfa(states);
    automaton.map_err(|_| MaskPatternError::TooLarge)
}

/// The number of steps, with all repetitions written out. A class is one step: all searches are at
/// the same byte of a character, and a class has one state for the bytes that were read of it.
fn count_steps(tree: &Hir) -> u64 {
    let sum = |parts: &[Hir]| parts.iter().map(count_steps).fold(1, u64::saturating_add);
    match tree.kind() {
        HirKind::Empty | HirKind::Class(_) | HirKind::Look(_) => 1,
        HirKind::Literal(literal) => u64::try_from(literal.0.len()).unwrap_or(u64::MAX),
        HirKind::Repetition(Repetition { sub, min, max, .. }) => {
            let count = u64::from(max.unwrap_or(*min).max(1));
            count_steps(sub).saturating_add(1).saturating_mul(count)
        }
        HirKind::Capture(Capture { sub, .. }) => count_steps(sub).saturating_add(2),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => sum(parts),
    }
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

/// Why an expression cannot be a mask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MaskPatternError {
    /// It is larger than this version allows. An earlier version may have stored it.
    TooLarge,
    /// It has a Unicode class. An earlier version may have stored it.
    UnicodeClass,
    Invalid(&'static str),
}

impl MaskPatternError {
    pub fn rule(self) -> &'static str {
        match self {
            Self::TooLarge => TOO_LARGE,
            Self::UnicodeClass => "must not have a class of Unicode properties such as \\pL",
            Self::Invalid(rule) => rule,
        }
    }

    /// Whether an earlier version accepted the expression.
    pub(crate) fn was_allowed(self) -> bool {
        match self {
            Self::TooLarge | Self::UnicodeClass => true,
            Self::Invalid(_) => false,
        }
    }
}

const TOO_LARGE: &str = "is too large: it must have at most 256 steps when all repetitions are \
    written out, and 256 KiB when compiled; use shorter repetitions";
const NO_GROUP: &str = "must have at least one capture group, which selects the masked text";

const NESTING_MAX: u32 = 32;
const INVALID: &str =
    "is not a valid regular expression (look-around and back-references are not supported)";

/// Parses an expression. It is not compiled yet.
fn parse_ascii_classes(expression: &str) -> Result<Hir, MaskPatternError> {
    let invalid = MaskPatternError::Invalid(INVALID);
    let parser = ast::parse::ParserBuilder::new().nest_limit(NESTING_MAX).build().parse(expression);
    let mut tree = parser.map_err(|_| invalid)?;
    replace_classes(&mut tree)?;
    TranslatorBuilder::new().build().translate(expression, &tree).map_err(|_| invalid)
}

/// Replaces `\d`, `\s` and `\w` by classes of ASCII.
fn replace_classes(tree: &mut Ast) -> Result<(), MaskPatternError> {
    match tree {
        Ast::ClassPerl(class) => {
            let kind = ClassSet::Item(ClassSetItem::Ascii(to_ascii(class)));
            let (span, negated) = (class.span, false);
            *tree = Ast::class_bracketed(ClassBracketed { span, negated, kind });
            Ok(())
        }
        Ast::ClassUnicode(_) => Err(MaskPatternError::UnicodeClass),
        Ast::ClassBracketed(class) => replace_in_set(&mut class.kind),
        Ast::Repetition(repetition) => replace_classes(&mut repetition.ast),
        Ast::Group(group) => replace_classes(&mut group.ast),
        Ast::Alternation(parts) => parts.asts.iter_mut().try_for_each(replace_classes),
        Ast::Concat(parts) => parts.asts.iter_mut().try_for_each(replace_classes),
        Ast::Empty(_) | Ast::Flags(_) | Ast::Literal(_) | Ast::Dot(_) | Ast::Assertion(_) => Ok(()),
    }
}

fn replace_in_set(set: &mut ClassSet) -> Result<(), MaskPatternError> {
    match set {
        ClassSet::Item(item) => replace_in_item(item),
        ClassSet::BinaryOp(operation) => {
            replace_in_set(&mut operation.lhs)?;
            replace_in_set(&mut operation.rhs)
        }
    }
}

fn replace_in_item(item: &mut ClassSetItem) -> Result<(), MaskPatternError> {
    match item {
        ClassSetItem::Perl(class) => {
            *item = ClassSetItem::Ascii(to_ascii(class));
            Ok(())
        }
        ClassSetItem::Unicode(_) => Err(MaskPatternError::UnicodeClass),
        ClassSetItem::Bracketed(class) => replace_in_set(&mut class.kind),
        ClassSetItem::Union(union) => union.items.iter_mut().try_for_each(replace_in_item),
        ClassSetItem::Empty(_)
        | ClassSetItem::Literal(_)
        | ClassSetItem::Range(_)
        | ClassSetItem::Ascii(_) => Ok(()),
    }
}

fn to_ascii(class: &ClassPerl) -> ClassAscii {
    let kind = match class.kind {
        ClassPerlKind::Digit => ClassAsciiKind::Digit,
        ClassPerlKind::Space => ClassAsciiKind::Space,
        ClassPerlKind::Word => ClassAsciiKind::Word,
    };
    ClassAscii { span: class.span, kind, negated: class.negated }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_of_an_expression_are_those_of_its_repetitions() {
        for (expression, steps) in [("(a)", 3), ("(abc)", 5), ("(a{3})", 8), (r"(\d{4,9})", 20)] {
            assert_eq!(MaskPattern::parse(expression).unwrap().steps(), steps, "{expression}");
        }
        assert_eq!(MaskPattern::parse("(a{400})").unwrap_err(), MaskPatternError::TooLarge);
        let literal = |chars: usize| MaskPattern::parse(&format!("({})", "a".repeat(chars)));
        assert_eq!(literal(254).unwrap().steps(), STEPS_MAX);
        assert_eq!(literal(255).unwrap_err(), MaskPatternError::TooLarge);
    }

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
            "((?:a?){3000})",
            "^([ab]*a[ab]{1900})",
            "(a{300})",
            "((?:a{16}){16})",
            "(?P<n>a){9999999}",
            r"(\pL)",
            r"([^\p{Greek}])",
            r"(\PN+)",
            long.as_str(),
            nested.as_str(),
        ] {
            assert!(MaskPattern::parse(expression).is_err(), "{expression} is accepted");
        }
    }

    fn find<'t>(expression: &str, text: &'t str) -> Option<&'t str> {
        let pattern = MaskPattern::parse(expression).unwrap();
        let mut cache = pattern.captures().create_cache();
        let mut captures = pattern.captures().create_captures();
        pattern.captures().captures(&mut cache, text, &mut captures);
        captures.get_group(1).map(|it| &text[it.range()])
    }

    #[test]
    fn classes_are_ascii_and_match_whole_characters() {
        for (expression, text, expected) in [
            (r"(\d+)", "٣12", Some("12")),
            (r"(\w+)", "éab", Some("ab")),
            (r"x(\s)", "x\u{a0}", None),
            (r"^(\D)", "é1", Some("é")),
            (r"^(\W)", "💳a", Some("💳")),
            (r"^([^\d])$", "💳", Some("💳")),
            (r"^([\W\d]+)$", "1é2", Some("1é2")),
            (r"^([^\W_]+)", "ab_", Some("ab")),
            (r"^(.)$", "💳", Some("💳")),
            (r"^(é)$", "é", Some("é")),
            ("(?i)(PAN)", "pan", Some("pan")),
            (r"(?i)([\d&&[^0]]+)", "0123", Some("123")),
        ] {
            assert_eq!(find(expression, text), expected, "{expression}");
        }
    }

    /// The bound keeps the work to compile a mask and the memory of a compiled mask small.
    #[test]
    fn worst_expressions_compile_to_little_memory() {
        for class in [r"\W*", ".*", "[^a]*", r"[^\w\x{80}-\x{7ff}]?", r"\D", "[^é💳]+?"] {
            let repeats = (1..=250).rev().map(|count| format!("({})", class.repeat(count)));
            let pattern = repeats.map(|it| MaskPattern::parse(&it)).find_map(Result::ok);
            let bytes = pattern.unwrap().compiled_bytes();
            assert!(bytes <= 768 * 1024, "{class}: {bytes} bytes");
        }
    }
}
