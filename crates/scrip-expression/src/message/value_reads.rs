//! The values that the expressions of a message read, found without an evaluation.

use serde_json::Value;

use super::{MessageExpression, MessageSource, MessageText, expression::MessageObject};
use crate::{
    filter::{PlainStep, mentions},
    syntax::ast::{Call, Operand, Step},
};

/// A value that an expression reads: a path into one of the objects of its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageRead<'t> {
    /// Such as `req`, `res`, `encrypted` or `config`.
    pub object: &'t str,
    pub steps: Vec<ReadStep<'t>>,
    /// Whether the value is the result as it is, without a filter.
    pub is_unfiltered: bool,
}

/// A step of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadStep<'t> {
    Name(&'t str),
    Index(i64),
    /// The name is known only in the evaluation.
    Computed,
}

pub(super) const CONFIGURATION: &str = "config";
pub(super) const IDENTIFIER: &str = "transform_identifier";

impl MessageText {
    /// All values that expressions of the text read.
    pub fn reads(&self) -> impl Iterator<Item = MessageRead<'_>> {
        self.expressions().flat_map(MessageExpression::reads)
    }

    /// Whether an expression can read an attribute with this name: the name is a step of a path, or
    /// an argument of a filter, or the path is computed. `attribute` is in lower case.
    pub fn can_name(&self, attribute: &str) -> bool {
        self.expressions().any(|it| it.can_name(attribute))
    }
}

impl MessageExpression {
    /// All values that the expression reads: its source, and the arguments of its filters.
    pub fn reads(&self) -> Vec<MessageRead<'_>> {
        let mut reads = Vec::new();
        match &self.source {
            MessageSource::Reference(_) => (),
            MessageSource::Configuration(name) => {
                reads.push(self.named_read(CONFIGURATION, name));
            }
            MessageSource::Identifier(name) => reads.push(self.named_read(IDENTIFIER, name)),
            MessageSource::Object(MessageObject(operand)) => {
                let first = reads.len();
                add_operand(operand, &mut reads);
                let mut calls = self.calls.iter();
                if let Some(source) = reads.get_mut(first) {
                    let path_calls = calls.by_ref().map_while(plain_steps);
                    path_calls.for_each(|it| source.steps.extend(it));
                    let has_filters = self.calls.iter().any(|it| plain_steps(it).is_none());
                    source.is_unfiltered = !has_filters;
                }
            }
        }
        for operand in self.calls.iter().flat_map(|it| &it.arguments) {
            add_operand(operand, &mut reads);
        }
        reads
    }

    fn named_read<'t>(&'t self, object: &'t str, name: &'t str) -> MessageRead<'t> {
        let steps = vec![ReadStep::Name(name)];
        MessageRead { object, steps, is_unfiltered: self.calls.is_empty() }
    }

    fn can_name(&self, attribute: &str) -> bool {
        let is_attribute = |step: &ReadStep<'_>| match step {
            ReadStep::Name(name) => name.eq_ignore_ascii_case(attribute),
            ReadStep::Index(_) => false,
            ReadStep::Computed => true,
        };
        let in_argument = |operand: &Operand| match operand {
            Operand::Literal(Value::String(text)) => mentions(text, attribute),
            Operand::Literal(_)
            | Operand::Empty
            | Operand::Blank
            | Operand::Path(_)
            | Operand::Loop(_)
            | Operand::Range(_) => false,
        };
        let in_call = |call: &Call| {
            call.arguments.iter().any(in_argument)
                || call.query.as_ref().is_some_and(|it| it.can_name(attribute))
        };
        self.reads().iter().flat_map(|it| &it.steps).any(is_attribute)
            || self.calls.iter().any(in_call)
    }
}

impl MessageRead<'_> {
    /// The value in the objects of the place. If a step cannot be followed without an evaluation,
    /// the value before it, which contains every value that the expression can read.
    pub fn find<'v>(&self, objects: &'v Value) -> Option<&'v Value> {
        self.follow(objects.get(self.object)?)
    }

    /// Like [`MessageRead::find`], in the value of the object.
    pub(super) fn follow<'v>(&self, object: &'v Value) -> Option<&'v Value> {
        let mut value = object;
        for step in &self.steps {
            let next = match (step, value) {
                (ReadStep::Name(name), Value::Object(object)) => Some(object.get(*name)?),
                (ReadStep::Index(index), Value::Array(items)) => {
                    usize::try_from(*index).ok().and_then(|it| items.get(it))
                }
                (ReadStep::Name(_) | ReadStep::Index(_) | ReadStep::Computed, _) => None,
            };
            let Some(next) = next else { return Some(value) };
            value = next;
        }
        Some(value)
    }
}

pub(super) fn plain_steps(call: &Call) -> Option<impl Iterator<Item = ReadStep<'_>>> {
    let path = call.query.as_ref()?.plain_path()?;
    Some(path.steps().iter().map(|it| match it {
        PlainStep::Name(name) => ReadStep::Name(name),
        PlainStep::Index(index) => ReadStep::Index(*index),
    }))
}

fn add_operand<'t>(operand: &'t Operand, reads: &mut Vec<MessageRead<'t>>) {
    match operand {
        Operand::Literal(_) | Operand::Empty | Operand::Blank | Operand::Loop(_) => (),
        Operand::Range(bounds) => {
            add_operand(&bounds.0, reads);
            add_operand(&bounds.1, reads);
        }
        Operand::Path(path) => {
            let (object, steps) = match path.steps.split_first() {
                Some((Step::Name(object), steps)) => (object.as_str(), steps),
                Some((Step::Index(_) | Step::Computed(_), _)) | None => return,
            };
            let step = |it: &'t Step| match it {
                Step::Name(name) => ReadStep::Name(name),
                Step::Index(index) => ReadStep::Index(*index),
                Step::Computed(Operand::Literal(Value::String(name))) => ReadStep::Name(name),
                Step::Computed(_) => ReadStep::Computed,
            };
            let read_steps = steps.iter().map(step).collect();
            reads.push(MessageRead { object, steps: read_steps, is_unfiltered: false });
            for computed in steps {
                if let Step::Computed(operand) = computed {
                    add_operand(operand, reads);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::ExpressionPlace;

    fn parse(source: &str) -> MessageText {
        MessageText::parse(source, ExpressionPlace::Transform).unwrap()
    }

    #[test]
    fn read_finds_the_value_or_one_that_contains_it() {
        let objects = json!({"req": {"a": {"b": ["x", "y"]}, "c": "z"}, "res": "text"});
        let rows = [
            ("{{ req.a.b[1] }}", vec![json!("y")]),
            ("{{ req | json: '$.a' | json: '$.b[0]' | upcase }}", vec![json!("x")]),
            ("{{ req.a.b.first }}", vec![json!(["x", "y"])]),
            ("{{ req.a.b[-1] }}", vec![json!(["x", "y"])]),
            ("{{ req[req.c] }}", vec![objects["req"].clone(), json!("z")]),
            ("{{ req | json: '$..b' }}", vec![objects["req"].clone()]),
            ("{{ req.c | append: res }} {{ req.none }}", vec![json!("z"), json!("text")]),
            ("{{ config: a }}", vec![]),
        ];
        for (source, expected) in rows {
            let text = parse(source);
            let found: Vec<_> = text.reads().filter_map(|it| it.find(&objects).cloned()).collect();
            assert_eq!(found, expected, "{source}");
        }
    }

    #[test]
    fn whole_value_is_read_without_a_filter() {
        let is_unfiltered = |source: &str| parse(source).reads().all(|it| it.is_unfiltered);
        assert!(is_unfiltered("{{ encrypted }}"));
        assert!(is_unfiltered("{{ encrypted | json: '$.payer.data' }}"));
        assert!(!is_unfiltered("{{ encrypted.data.number | slice: 0, 4 }}"));
        assert!(!is_unfiltered("{{ encrypted | json: '$..number' }}"));
    }

    #[test]
    fn attribute_is_named_by_paths_queries_and_arguments() {
        for source in [
            "{{ req.card.cvc }}",
            "{{ req.CVC }}",
            "{{ req['cvc'] }}",
            "{{ req[req.a] }}",
            "{{ req | json: '$.cvc' }}",
            "{{ req | json: '$..Cvc' }}",
            "{{ req.a | append: req.cvc }}",
            "{{ req.cards | map: 'cvc' }}",
        ] {
            assert!(parse(source).can_name("cvc"), "{source}");
        }
        for source in ["cvc", "{{ req.card.number }}", "{{ req[0].code }}", "{{ config: key }}"] {
            assert!(!parse(source).can_name("cvc"), "{source}");
        }
    }
}
