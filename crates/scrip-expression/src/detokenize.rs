//! JSON with detokenization expressions in its strings.
//!
//! ```text
//! {{ <id> | filters }}                a token's data
//! {{ token: <id> | filters }}         the whole token
//! {{ token_intent: <id> | filters }}  a token intent
//! ```
//! An id may contain spaces, dots, colons, quotes and commas, but neither `|` nor `}`: it ends at
//! the first of these. A comma before the name of a filter acts as a pipe here too; any other comma
//! belongs to the id. If an id is split wrongly, it is unknown, so no data is revealed by mistake.
//! There are no tags and no whitespace control: a dash after `{{` belongs to the id.

use std::collections::HashMap;

use serde_json::Value;

use crate::{
    ExpressionError, JSON_DEPTH_MAX, LeafError, OUTPUT_BYTES_MAX, SOURCE_BYTES_MAX, Scope,
    evaluation::evaluate::{BoundedText, Evaluator},
    filter,
    json_tree::{JsonTree, root_error},
    syntax::{
        ast::{Operand, Output, Path, Root},
        lexeme::{SyntaxError, lexemes},
        parse::{NameTable, Parser},
        segment::find_closing,
    },
};

/// JSON with its detokenization expressions compiled.
#[derive(Debug, Clone)]
pub struct Detokenization {
    root: JsonTree<Leaf>,
    references: Vec<Reference>,
}

impl Detokenization {
    /// Errors: a string contains an invalid expression, or the JSON is nested too deep.
    pub fn parse(source: &Value) -> Result<Self, LeafError> {
        let mut reader = DetokenizationReader::default();
        let mut leaf = |text: &str| text.contains("{{").then(|| reader.read_text(text));
        let root = JsonTree::compile(source, &mut leaf, JSON_DEPTH_MAX)?;
        Ok(Self { root, references: reader.references })
    }

    /// The distinct references, in the order of their first use.
    pub fn references(&self) -> &[Reference] {
        &self.references
    }

    /// The number of distinct tokens and token intents. A token that is referenced in two ways
    /// counts once.
    pub fn token_count(&self) -> usize {
        let is_intent = |it: &Reference| it.kind == ReferenceKind::TokenIntent;
        let mut tokens: Vec<_> =
            self.references.iter().map(|it| (is_intent(it), it.id.as_str())).collect();
        tokens.sort_unstable();
        tokens.dedup();
        tokens.len()
    }

    /// `resolve` returns the value of each reference. All leaves share the budget of the scope; the
    /// data of the scope is not accessible.
    ///
    /// Errors: a reference is unknown, a filter rejects its value, or a limit is exceeded.
    pub fn evaluate<'v>(
        &'v self,
        resolve: &dyn Fn(&Reference) -> Option<&'v Value>,
        scope: &Scope<'_>,
    ) -> Result<Value, LeafError> {
        let values: Vec<_> = self.references.iter().map(resolve).collect();
        let evaluation = DetokenizationEvaluator { scope, values: &values };
        self.root.evaluate(&scope.budget, &|leaf| evaluation.leaf(leaf))
    }
}

struct DetokenizationEvaluator<'e, 's> {
    scope: &'e Scope<'s>,
    values: &'e [Option<&'e Value>],
}

impl<'e> DetokenizationEvaluator<'e, '_> {
    fn leaf(&self, leaf: &'e Leaf) -> Result<Value, ExpressionError> {
        match leaf {
            Leaf::Expression(piece) => self.evaluator_for(piece)?.evaluate_to_value(&piece.output),
            Leaf::Text(parts) => self.evaluate_text(parts).map(Value::String),
        }
    }

    /// Only the output of the expressions is limited; the text between them comes from the request.
    fn evaluate_text(&self, parts: &'e [TextPart]) -> Result<String, ExpressionError> {
        let mut rendered = BoundedText { text: String::new(), bytes_max: OUTPUT_BYTES_MAX };
        for part in parts {
            match part {
                TextPart::Text(text) => {
                    rendered.bytes_max = rendered.bytes_max.saturating_add(text.len());
                    rendered.push(text, &self.scope.budget).map_err(root_error)?;
                }
                TextPart::Expression(piece) => {
                    self.evaluator_for(piece)?.render_output(&piece.output, &mut rendered)?
                }
            }
        }
        Ok(rendered.text)
    }

    fn evaluator_for(
        &self,
        expression: &ReferenceOutput,
    ) -> Result<Evaluator<'e>, ExpressionError> {
        let value = self.values.get(expression.reference).copied().flatten();
        let position = expression.output.position;
        let problem = "no token has this id";
        Ok(Evaluator::new(self.scope, value.ok_or(ExpressionError { position, problem })?, 0))
    }
}

#[derive(Debug, Clone)]
enum Leaf {
    /// A string that is a single expression. It becomes the value itself.
    Expression(ReferenceOutput),
    Text(Vec<TextPart>),
}

#[derive(Debug, Clone)]
enum TextPart {
    Text(String),
    Expression(ReferenceOutput),
}

#[derive(Debug, Clone)]
struct ReferenceOutput {
    /// The index in the list of references.
    reference: usize,
    output: Output,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReferenceKind {
    /// Only the data of a token.
    Data,
    /// A token with all its attributes.
    Token,
    TokenIntent,
}

/// A token or a token intent that an expression names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reference {
    pub kind: ReferenceKind,
    pub id: String,
}

pub(crate) fn parse_reference(id_text: &str) -> Result<Reference, &'static str> {
    let strip_kind = |prefix: &str| {
        let text_after = id_text.trim_start().strip_prefix(prefix)?;
        text_after.trim_start().strip_prefix(':')
    };
    let (kind, id) = if let Some(id) = strip_kind("token_intent") {
        (ReferenceKind::TokenIntent, id)
    } else if let Some(id) = strip_kind("token") {
        (ReferenceKind::Token, id)
    } else {
        (ReferenceKind::Data, id_text)
    };
    let id = id.trim();
    if id.is_empty() {
        return Err("an id was expected");
    }
    let forbidden = |it: char| "#/\\+?[]|&=%<>{}^".contains(it);
    if !(3..=400).contains(&id.chars().count()) || id.contains(forbidden) {
        return Err("this is not an id");
    }
    Ok(Reference { kind, id: id.to_owned() })
}

#[derive(Default)]
struct DetokenizationReader {
    references: Vec<Reference>,
    index_by_reference: HashMap<Reference, usize>,
}

impl DetokenizationReader {
    fn read_text(&mut self, source: &str) -> Result<Leaf, ExpressionError> {
        let mut parts = Vec::new();
        let (mut offset, mut position) = (0_usize, 1_usize);
        while let Some(remaining) = source.get(offset..).filter(|it| !it.is_empty()) {
            let Some((text, inner)) = remaining.split_once("{{") else {
                parts.push(TextPart::Text(remaining.to_owned()));
                break;
            };
            if !text.is_empty() {
                parts.push(TextPart::Text(text.to_owned()));
            }
            position = position.saturating_add(text.chars().count());
            let start = offset.saturating_add(text.len()).saturating_add(2);
            let (expression, length) =
                self.read_expression(inner, position).map_err(|(byte, problem)| {
                    let characters_before = inner.get(..byte).unwrap_or(inner).chars().count();
                    // Skip the two braces.
                    let position = position.saturating_add(2).saturating_add(characters_before);
                    ExpressionError { position, problem }
                })?;
            parts.push(TextPart::Expression(expression));
            let character_count = inner.get(..length).unwrap_or_default().chars().count();
            position = position.saturating_add(2).saturating_add(character_count);
            offset = start.saturating_add(length);
        }
        match <[TextPart; 1]>::try_from(parts) {
            Ok([TextPart::Expression(expression)]) => Ok(Leaf::Expression(expression)),
            Ok(parts @ [TextPart::Text(_)]) => Ok(Leaf::Text(parts.into())),
            Err(parts) => Ok(Leaf::Text(parts)),
        }
    }

    /// Reads an expression after `{{`. Returns its length in bytes, including the closing braces.
    fn read_expression(
        &mut self,
        inner: &str,
        position: usize,
    ) -> Result<(ReferenceOutput, usize), SyntaxError> {
        const NEVER_CLOSED: &str = "this {{ is never closed";
        let window = inner.get(..inner.floor_char_boundary(SOURCE_BYTES_MAX)).unwrap_or(inner);
        let unclosed_problem =
            if window.len() < inner.len() { "the expression is too long" } else { NEVER_CLOSED };
        let head_end = find_id_end(window).ok_or((0, unclosed_problem))?;
        let (head, filters_text) = window.split_at_checked(head_end).unwrap_or((window, ""));
        let filters_length = find_closing(filters_text, false).ok_or((0, unclosed_problem))?;
        let filters = lexemes(filters_text.get(..filters_length).unwrap_or_default(), head_end)?;
        let reference = parse_reference(head).map_err(|problem| (0, problem))?;
        let mut names = NameTable::without_names();
        let expression_end = head_end.saturating_add(filters_length);
        let calls = Parser::new(&filters, expression_end, &mut names, &mut false).parse_calls()?;
        let operand = Operand::Path(Path { root: Root::Data, steps: Vec::new() });
        let output = Output { position, operand, calls };
        let reference = self.reference_index(reference);
        Ok((ReferenceOutput { reference, output }, expression_end.saturating_add(2)))
    }

    fn reference_index(&mut self, reference: Reference) -> usize {
        let next = self.references.len();
        let index = *self.index_by_reference.entry(reference.clone()).or_insert(next);
        if index == next {
            self.references.push(reference);
        }
        index
    }
}

/// The end of the id: the first pipe or closing brace, or a comma before a filter.
pub(crate) fn find_id_end(inner: &str) -> Option<usize> {
    let head_end = inner.find(['|', '}'])?;
    let head = inner.get(..head_end).unwrap_or_default();
    let begins_filter = |comma: &usize| {
        let text_after = inner.get(comma.saturating_add(1)..).unwrap_or_default().trim_start();
        let is_name_character = |it: char| it.is_ascii_alphanumeric() || it == '_';
        let name_end =
            text_after.find(|it: char| !is_name_character(it)).unwrap_or(text_after.len());
        let (name, next) = text_after.split_at_checked(name_end).unwrap_or_default();
        filter::find_filter(name).is_some() && next.trim_start().starts_with([':', ',', '|', '}'])
    };
    let comma = head.match_indices(',').map(|(index, _)| index).find(begins_filter);
    Some(comma.unwrap_or(head_end))
}
