//! Finding the expressions in JSON.

use std::collections::HashMap;

use serde_json::Value;

use super::{Detokenization, Leaf, Part, Piece, Reference, ReferenceKind};
use crate::{
    ExpressionError, JSON_DEPTH_MAX, LeafError, SOURCE_BYTES_MAX, filter,
    json_tree::JsonTree,
    syntax::{
        ast::{Operand, Output, Path, Root},
        lexeme::{Misplaced, lexemes},
        parse::{Names, Parser},
        segment::closing,
    },
};

pub(super) fn read(source: &Value) -> Result<Detokenization, LeafError> {
    let mut reader = Reader { references: Vec::new(), known: HashMap::new() };
    let mut leaf = |text: &str| text.contains("{{").then(|| reader.text(text));
    let form = JsonTree::compile(source, &mut leaf, JSON_DEPTH_MAX)?;
    Ok(Detokenization { form, references: reader.references })
}

struct Reader {
    references: Vec<Reference>,
    known: HashMap<Reference, usize>,
}

impl Reader {
    fn text(&mut self, source: &str) -> Result<Leaf, ExpressionError> {
        let mut parts = Vec::new();
        let (mut at, mut position) = (0_usize, 1_usize);
        while let Some(rest) = source.get(at..).filter(|it| !it.is_empty()) {
            let Some((text, inner)) = rest.split_once("{{") else {
                parts.push(Part::Text(rest.to_owned()));
                break;
            };
            if !text.is_empty() {
                parts.push(Part::Text(text.to_owned()));
            }
            position = position.saturating_add(text.chars().count());
            let start = at.saturating_add(text.len()).saturating_add(2);
            let (piece, length) = self.piece(inner, position).map_err(|(byte, problem)| {
                let before = inner.get(..byte).unwrap_or(inner).chars().count();
                // Past the two braces.
                let position = position.saturating_add(2).saturating_add(before);
                ExpressionError { position, problem }
            })?;
            parts.push(Part::Piece(piece));
            let passed = inner.get(..length).unwrap_or_default().chars().count();
            position = position.saturating_add(2).saturating_add(passed);
            at = start.saturating_add(length);
        }
        match <[Part; 1]>::try_from(parts) {
            Ok([Part::Piece(piece)]) => Ok(Leaf::Lone(piece)),
            Ok(parts @ [Part::Text(_)]) => Ok(Leaf::Text(parts.into())),
            Err(parts) => Ok(Leaf::Text(parts)),
        }
    }

    /// What follows `{{`, and how many bytes it takes, the closing braces included.
    fn piece(&mut self, inner: &str, position: usize) -> Result<(Piece, usize), Misplaced> {
        const OPEN: &str = "this {{ is never closed";
        let window = inner.get(..inner.floor_char_boundary(SOURCE_BYTES_MAX)).unwrap_or(inner);
        let open = if window.len() < inner.len() { "the expression is too long" } else { OPEN };
        let head_end = head(window).ok_or((0, open))?;
        let (head, rest) = window.split_at_checked(head_end).unwrap_or((window, ""));
        let end = closing(rest, false).ok_or((0, open))?;
        let filters = lexemes(rest.get(..end).unwrap_or_default(), head_end)?;
        let reference = reference(head).map_err(|problem| (0, problem))?;
        let mut names = Names::closed();
        let end = head_end.saturating_add(end);
        let calls = Parser::new(&filters, end, &mut names, &mut false).calls()?;
        let operand = Operand::Path(Path { root: Root::Data, steps: Vec::new() });
        let output = Output { position, operand, calls };
        let reference = self.place(reference);
        Ok((Piece { reference, output }, end.saturating_add(2)))
    }

    fn place(&mut self, reference: Reference) -> usize {
        let next = self.references.len();
        let place = *self.known.entry(reference.clone()).or_insert(next);
        if place == next {
            self.references.push(reference);
        }
        place
    }
}

/// Where the id ends: at the first pipe or closing brace, or at a comma before a filter.
fn head(inner: &str) -> Option<usize> {
    let end = inner.find(['|', '}'])?;
    let head = inner.get(..end).unwrap_or_default();
    let begins_filter = |comma: &usize| {
        let after = inner.get(comma.saturating_add(1)..).unwrap_or_default().trim_start();
        let part = |it: char| it.is_ascii_alphanumeric() || it == '_';
        let name_end = after.find(|it: char| !part(it)).unwrap_or(after.len());
        let (name, next) = after.split_at_checked(name_end).unwrap_or_default();
        filter::find(name).is_some() && next.trim_start().starts_with([':', ',', '|', '}'])
    };
    let comma = head.match_indices(',').map(|(at, _)| at).find(begins_filter);
    Some(comma.unwrap_or(end))
}

fn reference(head: &str) -> Result<Reference, &'static str> {
    let prefixed = |prefix: &str| {
        let after = head.trim_start().strip_prefix(prefix)?;
        after.trim_start().strip_prefix(':')
    };
    let (kind, id) = if let Some(id) = prefixed("token_intent") {
        (ReferenceKind::TokenIntent, id)
    } else if let Some(id) = prefixed("token") {
        (ReferenceKind::Token, id)
    } else {
        (ReferenceKind::Data, head)
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
