//! Finds and compiles the expressions in a string.

use std::collections::HashMap;

use super::{
    leaf::{Leaf, ReferenceOutput, TextPart},
    reference::{Reference, parse_reference},
};
use crate::{
    ExpressionError, SOURCE_BYTES_MAX, filter,
    syntax::{
        ast::{Operand, Output, Path, Root},
        lexeme::{SyntaxError, lexemes},
        parse::{NameTable, Parser},
        segment::find_closing,
    },
};

#[derive(Default)]
pub(super) struct DetokenizationReader {
    pub(super) references: Vec<Reference>,
    index_by_reference: HashMap<Reference, usize>,
}

impl DetokenizationReader {
    pub(super) fn read_text(&mut self, source: &str) -> Result<Leaf, ExpressionError> {
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
