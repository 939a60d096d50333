//! Finding the expressions in JSON.

use std::collections::HashMap;

use serde_json::Value;

use super::{Detokenization, Leaf, Reference, ReferenceKind, ReferenceOutput, TextPart};
use crate::{
    ExpressionError, JSON_DEPTH_MAX, LeafError, SOURCE_BYTES_MAX, filter,
    json_tree::JsonTree,
    syntax::{
        ast::{Operand, Output, Path, Root},
        lexeme::{SyntaxError, lexemes},
        parse::{NameTable, Parser},
        segment::find_closing,
    },
};

pub(super) fn read_json(source: &Value) -> Result<Detokenization, LeafError> {
    let mut reader =
        DetokenizationReader { references: Vec::new(), index_by_reference: HashMap::new() };
    let mut leaf = |read_text: &str| read_text.contains("{{").then(|| reader.read_text(read_text));
    let read_node = JsonTree::compile(source, &mut leaf, JSON_DEPTH_MAX)?;
    Ok(Detokenization { root: read_node, references: reader.references })
}

struct DetokenizationReader {
    references: Vec<Reference>,
    index_by_reference: HashMap<Reference, usize>,
}

impl DetokenizationReader {
    fn read_text(&mut self, source: &str) -> Result<Leaf, ExpressionError> {
        let mut parts = Vec::new();
        let (mut offset, mut position) = (0_usize, 1_usize);
        while let Some(rest) = source.get(offset..).filter(|it| !it.is_empty()) {
            let Some((text, inner)) = rest.split_once("{{") else {
                parts.push(TextPart::Text(rest.to_owned()));
                break;
            };
            if !text.is_empty() {
                parts.push(TextPart::Text(text.to_owned()));
            }
            position = position.saturating_add(text.chars().count());
            let start = offset.saturating_add(text.len()).saturating_add(2);
            let (expression, length) =
                self.read_expression(inner, position).map_err(|(byte, problem)| {
                    let before = inner.get(..byte).unwrap_or(inner).chars().count();
                    // Past the two braces.
                    let position = position.saturating_add(2).saturating_add(before);
                    ExpressionError { position, problem }
                })?;
            parts.push(TextPart::Expression(expression));
            let character_count = inner.get(..length).unwrap_or_default().chars().count();
            position = position.saturating_add(2).saturating_add(character_count);
            offset = start.saturating_add(length);
        }
        match <[TextPart; 1]>::try_from(parts) {
            Ok([TextPart::Expression(piece)]) => Ok(Leaf::Expression(piece)),
            Ok(parts @ [TextPart::Text(_)]) => Ok(Leaf::Text(parts.into())),
            Err(parts) => Ok(Leaf::Text(parts)),
        }
    }

    /// What follows `{{`, and how many bytes it takes, the closing braces included.
    fn read_expression(
        &mut self,
        inner: &str,
        position: usize,
    ) -> Result<(ReferenceOutput, usize), SyntaxError> {
        const NEVER_CLOSED: &str = "this {{ is never closed";
        let window = inner.get(..inner.floor_char_boundary(SOURCE_BYTES_MAX)).unwrap_or(inner);
        let open =
            if window.len() < inner.len() { "the expression is too long" } else { NEVER_CLOSED };
        let head_end = find_id_end(window).ok_or((0, open))?;
        let (head, rest) = window.split_at_checked(head_end).unwrap_or((window, ""));
        let end = find_closing(rest, false).ok_or((0, open))?;
        let filters = lexemes(rest.get(..end).unwrap_or_default(), head_end)?;
        let reference = parse_reference(head).map_err(|problem| (0, problem))?;
        let mut names = NameTable::without_names();
        let end = head_end.saturating_add(end);
        let calls = Parser::new(&filters, end, &mut names, &mut false).parse_calls()?;
        let operand = Operand::Path(Path { root: Root::Data, steps: Vec::new() });
        let output = Output { position, operand, calls };
        let reference = self.reference_index(reference);
        Ok((ReferenceOutput { reference, output }, end.saturating_add(2)))
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

/// Where the id ends: at the first pipe or closing brace, or at a comma before a filter.
fn find_id_end(inner: &str) -> Option<usize> {
    let end = inner.find(['|', '}'])?;
    let head = inner.get(..end).unwrap_or_default();
    let begins_filter = |comma: &usize| {
        let after = inner.get(comma.saturating_add(1)..).unwrap_or_default().trim_start();
        let part = |it: char| it.is_ascii_alphanumeric() || it == '_';
        let name_end = after.find(|it: char| !part(it)).unwrap_or(after.len());
        let (name, next) = after.split_at_checked(name_end).unwrap_or_default();
        filter::find_filter(name).is_some() && next.trim_start().starts_with([':', ',', '|', '}'])
    };
    let comma = head.match_indices(',').map(|(at, _)| at).find(begins_filter);
    Some(comma.unwrap_or(end))
}

fn parse_reference(id_text: &str) -> Result<Reference, &'static str> {
    let prefixed = |prefix: &str| {
        let after = id_text.trim_start().strip_prefix(prefix)?;
        after.trim_start().strip_prefix(':')
    };
    let (kind, id) = if let Some(id) = prefixed("token_intent") {
        (ReferenceKind::TokenIntent, id)
    } else if let Some(id) = prefixed("token") {
        (ReferenceKind::Token, id)
    } else {
        (ReferenceKind::Data, id_text)
    };
    let id = id.trim();
    if id.is_empty() {
        return Err("there is no id");
    }
    let forbidden = |it: char| "#/\\+?[]|&=%<>{}^".contains(it);
    if !(3..=400).contains(&id.chars().count()) || id.contains(forbidden) {
        return Err("this is not an id");
    }
    Ok(Reference { kind, id: id.to_owned() })
}
