//! Which values of a parsed message contain `{{` or the attribute `cvc`.
//!
//! They are found in one pass when the message is parsed. A template that reads a value looks up its
//! path, so that the work depends on the length of the path and not on the size of the value.

use hyper::StatusCode;
use scrip_core::policy::proxy::transform::template::TemplateStep;
use serde_json::Value;
use zeroize::Zeroizing;

use crate::proxy::{
    edits::{TransformKind, TransformMessage},
    outgoing::OutgoingMessage,
};

/// What a value contains, at any depth.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Marks {
    /// A text or a name with `{{`.
    pub(super) has_braces: bool,
    /// An attribute named `cvc`.
    pub(super) has_cvc: bool,
}

/// A value with a mark, and those of its inner values that have one.
struct MarkedValue {
    marks: Marks,
    inner: MarkedInner,
}

enum MarkedInner {
    Scalar,
    /// In ascending order.
    Array {
        length: usize,
        items: Vec<(usize, MarkedValue)>,
    },
    /// In ascending order. The names are those of a message, so they are wiped.
    Object(Vec<(Zeroizing<String>, MarkedValue)>),
}

/// The marks of all values of a message.
#[derive(Default)]
pub(super) struct MessageMarks(Option<MarkedValue>);

impl std::fmt::Debug for MessageMarks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("MessageMarks")
    }
}

impl Marks {
    const NONE: Self = Self { has_braces: false, has_cvc: false };

    fn of_name(name: &str) -> Self {
        Self { has_braces: has_braces(name), has_cvc: name.eq_ignore_ascii_case("cvc") }
    }

    fn and(self, other: Self) -> Self {
        Self {
            has_braces: self.has_braces || other.has_braces,
            has_cvc: self.has_cvc || other.has_cvc,
        }
    }
}

fn has_braces(text: &str) -> bool {
    text.contains("{{")
}

impl MarkedValue {
    /// `None` if the value has no mark. The depth of a parsed message is limited.
    fn find(value: &Value) -> Option<Self> {
        let (marks, inner) = match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => return None,
            Value::String(text) => {
                (Marks { has_braces: has_braces(text), has_cvc: false }, MarkedInner::Scalar)
            }
            Value::Array(items) => {
                let marked = items.iter().enumerate();
                let marked = marked.filter_map(|(index, it)| Some((index, Self::find(it)?)));
                let marked: Vec<_> = marked.collect();
                let marks = marked.iter().fold(Marks::NONE, |marks, (_, it)| marks.and(it.marks));
                (marks, MarkedInner::Array { length: items.len(), items: marked })
            }
            Value::Object(members) => {
                let mut marks = Marks::NONE;
                let mut marked = Vec::new();
                for (name, value) in members {
                    marks = marks.and(Marks::of_name(name));
                    if let Some(value) = Self::find(value) {
                        marks = marks.and(value.marks);
                        marked.push((Zeroizing::new(name.clone()), value));
                    }
                }
                marked.sort_by(|(first, _), (second, _)| first.cmp(second));
                (marks, MarkedInner::Object(marked))
            }
        };
        (marks != Marks::NONE).then_some(Self { marks, inner })
    }
}

impl MessageMarks {
    pub(super) fn find(message: &Value) -> Self {
        Self(MarkedValue::find(message))
    }

    /// The marks of the value at the end of the path. If a step cannot be followed without an
    /// evaluation, those of the value before it, which contains every value that can be read.
    pub(super) fn at(&self, steps: &[TemplateStep]) -> Marks {
        let Some(mut value) = self.0.as_ref() else { return Marks::NONE };
        for step in steps {
            let next = match (step, &value.inner) {
                (TemplateStep::Name(name), MarkedInner::Object(members)) => {
                    let found = members.binary_search_by(|(it, _)| it.as_str().cmp(name));
                    found.ok().and_then(|it| members.get(it)).map(|(_, value)| value)
                }
                (TemplateStep::Index(index), MarkedInner::Array { length, items }) => {
                    let index = usize::try_from(*index).ok().filter(|it| it < length);
                    let Some(index) = index else { return value.marks };
                    let found = items.binary_search_by_key(&index, |(it, _)| *it);
                    found.ok().and_then(|it| items.get(it)).map(|(_, value)| value)
                }
                (TemplateStep::Name(_) | TemplateStep::Index(_) | TemplateStep::Computed, _) => {
                    return value.marks;
                }
            };
            // A value without a mark, or none.
            let Some(next) = next else { return Marks::NONE };
            value = next;
        }
        value.marks
    }
}

/// The message that a transform changes.
#[derive(Debug)]
pub enum TransformTarget<'m> {
    Request(&'m mut OutgoingMessage),
    /// The destination answered with this status.
    Response {
        message: &'m mut TransformMessage,
        status: StatusCode,
    },
}

impl TransformTarget<'_> {
    pub(super) fn is_encoded(&self) -> bool {
        match self {
            Self::Request(message) => message.is_encoded(),
            Self::Response { message, .. } => message.is_encoded(),
        }
    }

    pub(super) fn body_length(&self) -> usize {
        match self {
            Self::Request(message) => message.body_length(),
            Self::Response { message, .. } => message.body.len(),
        }
    }

    pub(super) fn response(&self) -> Option<&TransformMessage> {
        match self {
            Self::Request(_) => None,
            Self::Response { message, .. } => Some(message),
        }
    }

    pub(super) fn kind(&self) -> TransformKind {
        match self {
            Self::Request(_) => TransformKind::Request,
            Self::Response { status, .. } => TransformKind::Answer(*status),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// The definition: a walk of the value that a path selects.
    fn walk(value: &Value) -> Marks {
        match value {
            Value::String(text) => Marks { has_braces: text.contains("{{"), has_cvc: false },
            Value::Array(items) => items.iter().fold(Marks::NONE, |it, item| it.and(walk(item))),
            Value::Object(members) => members.iter().fold(Marks::NONE, |it, (name, value)| {
                it.and(Marks::of_name(name)).and(walk(value))
            }),
            Value::Null | Value::Bool(_) | Value::Number(_) => Marks::NONE,
        }
    }

    fn select<'v>(value: &'v Value, steps: &[TemplateStep]) -> Option<&'v Value> {
        let Some((step, rest)) = steps.split_first() else { return Some(value) };
        let next = match (step, value) {
            (TemplateStep::Name(name), Value::Object(object)) => Some(object.get(name)?),
            (TemplateStep::Index(index), Value::Array(items)) => {
                usize::try_from(*index).ok().and_then(|it| items.get(it))
            }
            _ => None,
        };
        next.map_or(Some(value), |it| select(it, rest))
    }

    fn values() -> impl Strategy<Value = Value> {
        let name = prop::sample::select(vec!["a", "b", "CVC", "{{"]);
        let leaf = prop::sample::select(vec![json!("x"), json!("y{{"), json!(1), json!(null)]);
        leaf.prop_recursive(4, 24, 4, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(name.clone(), inner, 0..4).prop_map(|it| {
                    Value::Object(it.into_iter().map(|(name, it)| (name.to_owned(), it)).collect())
                }),
            ]
        })
    }

    fn steps() -> impl Strategy<Value = Vec<TemplateStep>> {
        let name = prop::sample::select(vec!["a", "b", "CVC", "{{", "missing"]);
        let step = prop_oneof![
            name.prop_map(|it| TemplateStep::Name(it.to_owned())),
            (-1..4_i64).prop_map(TemplateStep::Index),
            Just(TemplateStep::Computed),
        ];
        prop::collection::vec(step, 0..5)
    }

    proptest! {
        #[test]
        fn marks_are_those_of_the_selected_value(value in values(), steps in steps()) {
            let expected = select(&value, &steps).map_or(Marks::NONE, walk);
            prop_assert_eq!(MessageMarks::find(&value).at(&steps), expected);
        }
    }
}
