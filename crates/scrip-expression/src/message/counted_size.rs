//! The size by which the value of a template counts for a client that may not read the template.
//!
//! The client chooses the messages that the template reads, and knows their length. The texts of the
//! template and the configuration are padded, each on its own: otherwise the length of the message at
//! which a limit is exceeded would tell their length.

use std::cell::Cell;

use serde_json::Value;

use super::{
    MessageExpression, MessageInputs, MessagePart, MessageTemplate, MessageText,
    selection::JOINING_FILTERS,
    value_reads::{CONFIGURATION, IDENTIFIER, plain_steps},
};
use crate::{
    ExpressionError, LeafError, OUTPUT_BYTES_MAX, Scope,
    budget::{padded_size, padded_value_size},
    inner_steps::count,
    json_tree::JsonTree,
    syntax::ast::{Call, Operand},
    value::datum::to_text,
};

/// The size of a value by what the client may know of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CountedSize {
    /// Texts of the template and of the configuration, padded and not encoded.
    pub hidden: usize,
    /// Messages, as JSON.
    pub known: usize,
}

/// Filters that are no concatenation make a text at most this many times as long.
const FILTER_GROWTH: usize = 6;

impl CountedSize {
    fn hidden(hidden: usize) -> Self {
        Self { hidden, known: 0 }
    }

    /// The size if each hidden byte becomes this many bytes.
    pub fn encoded(self, growth: usize) -> usize {
        self.hidden.saturating_mul(growth).saturating_add(self.known)
    }

    /// The size with another hidden text.
    #[must_use]
    pub fn with_text(self, bytes: usize) -> Self {
        self.plus(Self::hidden(padded_size(bytes)))
    }

    fn plus(self, other: Self) -> Self {
        Self {
            hidden: self.hidden.saturating_add(other.hidden),
            known: self.known.saturating_add(other.known),
        }
    }

    fn times(self, factor: usize) -> Self {
        Self {
            hidden: self.hidden.saturating_mul(factor),
            known: self.known.saturating_mul(factor),
        }
    }
}

impl MessageTemplate {
    /// Like [`MessageTemplate::evaluate`], with the size of the value as JSON.
    /// Errors: as [`MessageExpression::evaluate`].
    pub fn evaluate_exactly(
        &self,
        inputs: &MessageInputs<'_>,
        scope: &Scope<'_>,
    ) -> Result<(Value, CountedSize), LeafError> {
        let value = self.evaluate(inputs, scope)?;
        let known = json_length(&value);
        Ok((value, CountedSize { hidden: 0, known }))
    }

    /// Like [`MessageTemplate::evaluate`], with the size by which the value counts.
    /// Errors: as [`MessageExpression::evaluate`].
    pub fn evaluate_counted(
        &self,
        inputs: &MessageInputs<'_>,
        scope: &Scope<'_>,
    ) -> Result<(Value, CountedSize), LeafError> {
        let size = Cell::new(CountedSize::hidden(literal_size(&self.0)));
        let value = self.0.evaluate(&scope.budget, &|text| {
            let (value, text_size) = text.evaluate_counted(inputs, scope)?;
            size.set(size.get().plus(text_size));
            Ok(value)
        })?;
        Ok((value, size.get()))
    }
}

/// The size of all names and values without expressions.
fn literal_size(tree: &JsonTree<MessageText>) -> usize {
    let sum = |sum: usize, it: usize| sum.saturating_add(it);
    match tree {
        JsonTree::Literal(value) => padded_value_size(value),
        JsonTree::Leaf(_) => 0,
        JsonTree::Array(items) => items.iter().map(literal_size).fold(0, sum),
        JsonTree::Object(properties) => {
            let properties = properties.iter();
            properties.map(|(name, it)| sum(padded_size(name.len()), literal_size(it))).fold(0, sum)
        }
    }
}

impl MessageText {
    fn evaluate_counted(
        &self,
        inputs: &MessageInputs<'_>,
        scope: &Scope<'_>,
    ) -> Result<(Value, CountedSize), ExpressionError> {
        let (mut rendered, mut size) = (String::new(), CountedSize::default());
        let mut literal_bytes = 0_usize;
        for part in self.parts() {
            let (position, part_size) = match part {
                MessagePart::Text(text) => {
                    rendered.push_str(text);
                    let part_size = CountedSize::default().with_text(text.len());
                    literal_bytes = literal_bytes.saturating_add(part_size.hidden);
                    (1, part_size)
                }
                MessagePart::Expression(expression) => {
                    let value = expression.evaluate(inputs, scope)?;
                    let part_size = expression.counted_size(inputs, value.value());
                    if self.single_expression().is_some() {
                        return Ok((value.into_value(), part_size));
                    }
                    rendered.push_str(&to_text(value.value()));
                    (expression.position(), part_size)
                }
            };
            size = size.plus(part_size);
            let fail = |problem| ExpressionError { position, problem };
            scope.budget.charge_bytes(part_size.encoded(1)).map_err(fail)?;
            count(part_size.encoded(1));
            if size.encoded(1) > OUTPUT_BYTES_MAX.saturating_add(literal_bytes) {
                return Err(fail("the output is too large"));
            }
        }
        Ok((Value::String(rendered), size))
    }
}

impl MessageExpression {
    /// The size by which the value of this expression counts.
    fn counted_size(&self, inputs: &MessageInputs<'_>, value: &Value) -> CountedSize {
        let reads = self.reads();
        let is_joining = |it: &Call| JOINING_FILTERS.contains(&it.filter.name);
        let joined = self.calls.iter().filter(|it| is_joining(it));
        let literals: Vec<_> =
            joined.flat_map(|it| &it.arguments).filter_map(literal_text).collect();
        let reads_configuration = reads.iter().any(|it| it.object == CONFIGURATION);
        if !reads_configuration && literals.is_empty() {
            return CountedSize { hidden: 0, known: json_length(value) };
        }
        if self.is_signature() {
            return CountedSize::hidden(padded_value_size(value));
        }
        let mut size = CountedSize::default();
        for read in &reads {
            let found = match read.object {
                CONFIGURATION => read.follow(inputs.configuration),
                IDENTIFIER => read.follow(inputs.identifiers),
                _ => read.find(inputs.objects),
            };
            size = size.plus(match (read.object, found) {
                (CONFIGURATION, found) => {
                    CountedSize::hidden(padded_value_size(found.unwrap_or(&Value::Null)))
                }
                (_, found) => CountedSize { hidden: 0, known: found.map_or(0, json_length) },
            });
        }
        size = literals.iter().fold(size, |size, it| size.with_text(it.len()));
        let is_joined = self.calls.iter().all(|it| is_joining(it) || plain_steps(it).is_some());
        let size = if is_joined { size } else { size.times(FILTER_GROWTH) };
        // Only a filter that repeats its input exceeds this.
        match json_length(value) <= size.encoded(FILTER_GROWTH) {
            true => size,
            false => CountedSize::hidden(padded_value_size(value)),
        }
    }
}

fn literal_text(operand: &Operand) -> Option<&str> {
    match operand {
        Operand::Literal(Value::String(text)) => Some(text),
        Operand::Literal(_)
        | Operand::Empty
        | Operand::Blank
        | Operand::Path(_)
        | Operand::Loop(_)
        | Operand::Range(_) => None,
    }
}

/// The length as JSON.
fn json_length(value: &Value) -> usize {
    struct Length(usize);
    impl std::io::Write for Length {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 = self.0.saturating_add(bytes.len());
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut length = Length(0);
    serde_json::to_writer(&mut length, value).unwrap_or_default();
    length.0
}
