//! Expressions by which a caller could test a value that it may not read.

use super::{MessageExpression, MessageObject, MessagePart, MessageSource, MessageText};
use crate::syntax::{
    analysis::{write_calls, write_operand},
    ast::{Call, Operand},
};

/// The filters that accept every text as an argument.
const TEXT_ARGUMENT_FILTERS: [&str; 3] = ["append", "hmac", "prepend"];

impl MessageExpression {
    /// Whether the characters of a value decide if the expression succeeds, or how long its result is.
    /// Then each such expression tells its caller one thing about the value.
    #[must_use]
    pub fn is_conditional(&self) -> bool {
        self.calls.iter().any(is_conditional)
    }

    /// Whether the expression takes a part of its value and does not change it.
    #[must_use]
    pub fn is_plain_path(&self) -> bool {
        self.calls.iter().all(|it| it.query.as_ref().is_some_and(|it| it.plain_path().is_some()))
    }

    /// A text that two expressions share exactly if they take the same path and have the same filters.
    /// The token is not part of it.
    #[must_use]
    pub fn condition_text(&self) -> String {
        let mut text = String::new();
        match &self.source {
            MessageSource::Reference(reference) => text.push_str(&format!("{:?}", reference.kind)),
            MessageSource::Configuration(name) => text.push_str(&format!("config {name:?}")),
            MessageSource::Identifier(name) => text.push_str(&format!("identifier {name:?}")),
            MessageSource::Object(MessageObject(operand)) => write_operand(&mut text, operand),
        }
        write_calls(&mut text, &self.calls);
        text
    }
}

impl MessageText {
    /// All expressions of the text.
    pub fn expressions(&self) -> impl Iterator<Item = &MessageExpression> {
        self.0.iter().filter_map(|part| match part {
            MessagePart::Expression(expression) => Some(expression),
            MessagePart::Text(_) => None,
        })
    }
}

fn is_conditional(call: &Call) -> bool {
    let is_full_query = call.query.as_ref().is_some_and(|it| it.plain_path().is_none());
    let is_computed = |it: &Operand| !matches!(it, Operand::Literal(_));
    let takes_any_text = TEXT_ARGUMENT_FILTERS.contains(&call.filter.name);
    call.filter.is_conditional
        || is_full_query
        || (!takes_any_text && call.arguments.iter().any(is_computed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ExpressionPlace;

    fn read(source: &str, place: ExpressionPlace) -> MessageExpression {
        MessageText::parse(source, place).unwrap().expressions().next().unwrap().clone()
    }

    #[test]
    fn expression_is_conditional_if_a_filter_can_fail_or_change_the_length_by_the_value() {
        let sources = [
            ("{{ t1 }}", false),
            ("{{ t1 | json: '$.number' | slice: 0, 6 | append: 'x' }}", false),
            ("{{ t1 | json: '$.number' | to_number }}", true),
            ("{{ t1 | json: '$.number' | replace: '7', '' }}", true),
            ("{{ t1 | json: '$..[?@ == 7]' }}", true),
            ("{{ config: key | base64_decode }}", true),
        ];
        for (source, is_expected) in sources {
            assert_eq!(
                read(source, ExpressionPlace::Body).is_conditional(),
                is_expected,
                "{source}"
            );
        }
        let sources = [
            ("{{ proxy.request.body | hmac: 'sha-256', config.key | to_base64 }}", false),
            ("{{ 'Basic ' | append: config.user }}", false),
            ("{{ proxy.request.body | slice: proxy.request.headers.from, 1 }}", true),
        ];
        for (source, is_expected) in sources {
            assert_eq!(
                read(source, ExpressionPlace::Header).is_conditional(),
                is_expected,
                "{source}"
            );
        }
    }

    #[test]
    fn condition_text_ignores_the_token_and_keeps_every_difference() {
        let text = |source: &str| read(source, ExpressionPlace::Body).condition_text();
        assert_eq!(text("{{ t1 | slice: 1 }}"), text("{{t2|slice:1}}"));
        let different = [
            "{{ t1 | slice: 1 }}",
            "{{ t1 | slice: 2 }}",
            "{{ token: t1 | slice: 1 }}",
            "{{ t1 | json: '$.a' | slice: 1 }}",
            "{{ t1 | json: '$.b' | slice: 1 }}",
            "{{ config: t1 | slice: 1 }}",
        ];
        for (at, left) in different.iter().enumerate() {
            for right in different.iter().skip(at + 1) {
                assert_ne!(text(left), text(right), "{left} {right}");
            }
        }
    }
}
