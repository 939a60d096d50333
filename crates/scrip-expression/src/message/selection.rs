//! Expressions on a value that their caller may not read.
//!
//! Whether a filter fails, how long its result is and how long it takes can depend on the value. Then
//! each expression tells its caller something about the value, and the caller chooses what. So a value
//! that the caller may not read can be selected, and not computed with.

use super::{MessageExpression, MessagePart, MessageText};
use crate::{
    filter::PlainStep,
    syntax::ast::{Call, Operand, Step},
};

/// A part of the data that an expression does not send as it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FilteredPath {
    /// The names up to the first step that is no name.
    pub path: Vec<String>,
    pub filter: &'static str,
}

/// Filters that accept every text. Their result is as long as their inputs.
pub(super) const JOINING_FILTERS: [&str; 2] = ["append", "prepend"];
/// Filters with a fixed alphabet. The length of their result follows from the length of their input.
const ENCODING_FILTERS: [&str; 5] =
    ["base64_encode", "base64_url_safe_encode", "to_base16", "to_base64", "to_string"];
const LETTER_FILTERS: [&str; 2] = ["downcase", "upcase"];

impl MessageExpression {
    /// The part that a filter changes; `None` if the expression only selects a part.
    pub fn filtered_path(&self) -> Option<FilteredPath> {
        let plain_path = |it: &Call| it.query.as_ref().and_then(|it| it.plain_path().cloned());
        let filtered = self.calls.iter().position(|it| plain_path(it).is_none())?;
        let steps = self.calls.iter().take(filtered).filter_map(plain_path);
        let steps: Vec<_> = steps.flat_map(|it| it.steps().to_vec()).collect();
        let names = steps.into_iter().map_while(|step| match step {
            PlainStep::Name(name) => Some(name),
            PlainStep::Index(_) => None,
        });
        let filter = self.calls.get(filtered)?.filter.name;
        Some(FilteredPath { path: names.collect(), filter })
    }

    /// Whether the expression is the signature of a message: texts are joined, hashed with a key and
    /// encoded. Nothing in it depends on the characters of the texts.
    pub fn is_signature(&self) -> bool {
        let names: Vec<_> = self.calls.iter().map(|it| it.filter.name).collect();
        let joined = names.iter().take_while(|it| JOINING_FILTERS.contains(it)).count();
        let is_hashed = match names.get(joined..) {
            Some(["hmac", "to_base16", rest @ ..]) => {
                rest.iter().all(|it| LETTER_FILTERS.contains(it))
            }
            Some(["hmac", encoding]) => ENCODING_FILTERS.contains(encoding),
            _ => false,
        };
        // Only some names of algorithms are valid.
        let hash = self.calls.get(joined).and_then(|it| it.arguments.first());
        let has_fixed_algorithm = matches!(hash, Some(Operand::Literal(_)));
        is_hashed && has_fixed_algorithm && self.has_fixed_paths()
    }

    /// Whether the expression joins and encodes texts, and nothing in it depends on their characters.
    pub fn is_joined_text(&self) -> bool {
        let is_allowed = |it: &Call| {
            let name = &it.filter.name;
            JOINING_FILTERS.contains(name) || ENCODING_FILTERS.contains(name)
        };
        self.calls.iter().all(is_allowed) && self.has_fixed_paths()
    }

    /// Whether no step of a path is the value of another path.
    fn has_fixed_paths(&self) -> bool {
        let is_fixed = |operand: &Operand| match operand {
            Operand::Literal(_) => true,
            Operand::Path(path) => path.steps.iter().all(|step| match step {
                Step::Name(_) | Step::Index(_) => true,
                Step::Computed(inner) => matches!(inner, Operand::Literal(_)),
            }),
            Operand::Empty | Operand::Blank | Operand::Loop(_) | Operand::Range(_) => false,
        };
        self.operands().all(is_fixed)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ExpressionPlace;

    fn read(source: &str, place: ExpressionPlace) -> MessageExpression {
        MessageText::parse(source, place).unwrap().expressions().next().unwrap().clone()
    }

    #[test]
    fn filtered_path_is_the_part_before_the_first_filter() {
        let path = |source: &str| {
            let filtered = read(source, ExpressionPlace::Body).filtered_path();
            filtered.map(|it| (it.path.join("."), it.filter))
        };
        assert_eq!(path("{{ card-0001 }}"), None);
        assert_eq!(path("{{ token: card-0001 | json: '$.data' | json: '$.number' }}"), None);
        let filtered = |path: &str, filter| Some((path.to_owned(), filter));
        assert_eq!(path("{{ card-0001 | card_exp: 'MM' }}"), filtered("", "card_exp"));
        assert_eq!(path("{{ card-0001 | json: '$.a.b' | size }}"), filtered("a.b", "size"));
        assert_eq!(path("{{ card-0001 | json: '$.a[0].b' | size }}"), filtered("a", "size"));
        assert_eq!(path("{{ card-0001 | json: '$..b' }}"), filtered("", "json"));
        assert_eq!(path("{{ card-0001 | json: '$[?@.a == 7]' }}"), filtered("", "json"));
    }

    #[test]
    fn signature_joins_texts_and_hashes_them_before_anything_else() {
        let signatures = [
            "{{ proxy.request.body | hmac: 'sha-256', config.key | to_base64 }}",
            "{{ proxy.config.a | append: proxy.request.body | hmac: 'sha-256', 'k' | to_base16 | downcase }}",
        ];
        for source in signatures {
            assert!(read(source, ExpressionPlace::Header).is_signature(), "{source}");
        }
        let others = [
            "{{ proxy.request.body }}",
            "{{ proxy.request.body | hmac: 'sha-256', 'k' }}",
            "{{ proxy.request.body | slice: 0, 1 | hmac: 'sha-256', 'k' | to_base64 }}",
            "{{ proxy.request.body | hmac: 'sha-256', 'k' | to_base64 | replace: '+', '' }}",
            "{{ proxy.request.headers.x | hmac: proxy.request.body, 'k' | to_base64 }}",
            "{{ proxy.request.headers[proxy.request.body] | hmac: 'sha-256', 'k' | to_base64 }}",
            "{{ 'a' | append: proxy.request.headers[proxy.config.key] | hmac: 'sha-256', 'k' | to_base64 }}",
        ];
        for source in others {
            assert!(!read(source, ExpressionPlace::Header).is_signature(), "{source}");
        }
    }

    #[test]
    fn joined_text_has_no_filter_that_depends_on_characters() {
        let joined =
            "{{ proxy.config.user | append: ':' | append: proxy.config.key | base64_encode }}";
        assert!(read(joined, ExpressionPlace::Header).is_joined_text());
        let others = [
            "{{ proxy.request.headers[proxy.config.key] }}",
            "{{ proxy.config.key | slice: 0, 1 }}",
            "{{ config: key | json: '$.a' }}",
        ];
        for source in others {
            assert!(!read(source, ExpressionPlace::Header).is_joined_text(), "{source}");
        }
    }
}
