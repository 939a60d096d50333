//! The rules of templates: what the expressions of a transform may read, and into which place.
//!
//! A template is written once and applied to messages of callers that may use data and not read it.
//! So the rules are checked when the proxy is written, and not with the data of a call.

use scrip_expression::{MessageRead, MessageTemplate, MessageText, PathStep};
use serde_json::Value;

use crate::{
    FieldError,
    policy::proxy::{
        TransformSource,
        transform::{
            TransformType,
            template::{compile_template, leaf_path},
        },
    },
};

/// The list of a transform.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransformStage {
    Request,
    Response,
}

impl TransformStage {
    /// The stage of an attribute such as `request_transforms`.
    pub(super) fn from_field(field: &str) -> Self {
        if field.starts_with("response") { Self::Response } else { Self::Request }
    }
}

const CVC_RULE: &str = "cannot read an attribute named cvc, except into data.cvc of a card: a CVC must \
                        not be kept";
const ENCRYPTED_RULE: &str =
    "can read encrypted only as the whole data of a new token, without filters";
const TOKEN_CONFIGURATION_RULE: &str = "cannot read the configuration of the proxy into a token";
const ANSWER_CONFIGURATION_RULE: &str =
    "cannot read the configuration of the proxy into an answer; use a request transform";

/// The template of a transform, and the path of its attribute.
fn find_template(source: &TransformSource) -> Option<(Value, &'static str)> {
    let options = source.options.as_ref()?;
    match source.transform_type() {
        TransformType::Tokenize => Some((options.token.clone()?, "options.token")),
        TransformType::AppendJson | TransformType::AppendText | TransformType::AppendHeader => {
            Some((Value::String(options.value.clone()?), "options.value"))
        }
        TransformType::Code | TransformType::Mask => None,
    }
}

/// Every broken rule, with the path of its attribute. An invalid expression is one, too.
pub(super) fn check_template(stage: TransformStage, source: &TransformSource) -> Vec<FieldError> {
    let Some((value, field)) = find_template(source) else { return Vec::new() };
    match compile_template(&value) {
        Ok(template) => check_leaves(stage, source, &value, field, &template),
        Err(error) => {
            let path = leaf_path(field, &error.path);
            vec![FieldError::from_expression_error(path, error.cause)]
        }
    }
}

/// Whether a stored template breaks a rule. `template` is that of the source, compiled.
pub(super) fn breaks_rule(
    stage: TransformStage,
    source: &TransformSource,
    template: &MessageTemplate,
) -> bool {
    let Some((value, field)) = find_template(source) else { return false };
    !check_leaves(stage, source, &value, field, template).is_empty()
}

const ORDER_RULE: &str = "must not be an append_json or a mask after an append_text: it would read \
                          the appended text, which can be the configuration, and whether it fails \
                          would tell the sender of a call about it; put it before the append_text";

/// Every transform of a request that would read a text that an earlier one appended.
///
/// Other appended values are whole values of a JSON document. A text can become a name of a property, and
/// the sender of the call chooses what it is compared with.
pub(super) fn find_order_errors(
    stage: TransformStage,
    sources: &[TransformSource],
) -> impl Iterator<Item = (usize, &'static str)> {
    let is_text = |it: &TransformSource| it.transform_type() == TransformType::AppendText;
    let is_reading = |it: &TransformSource| {
        matches!(it.transform_type(), TransformType::AppendJson | TransformType::Mask)
    };
    let is_request = stage == TransformStage::Request;
    let after_text = sources.iter().enumerate().skip_while(move |(_, it)| !is_text(it));
    after_text
        .filter(move |(_, it)| is_request && is_reading(it))
        .map(|(index, _)| (index, ORDER_RULE))
}

fn check_leaves(
    stage: TransformStage,
    source: &TransformSource,
    value: &Value,
    field: &str,
    template: &MessageTemplate,
) -> Vec<FieldError> {
    let is_token = source.transform_type() == TransformType::Tokenize;
    let is_card = value.get("type").and_then(Value::as_str) == Some("card");
    let mut errors = Vec::new();
    for (path, text) in template.leaves() {
        let place = LeafPlace {
            is_card_cvc: is_token && is_card && is_path(&path, &["data", "cvc"]),
            is_data: is_token && is_path(&path, &["data"]),
            is_token,
            stage,
        };
        let rules = place.find_broken_rules(text);
        errors.extend(rules.map(|rule| FieldError::new(leaf_path(field, &path), rule)));
    }
    errors
}

/// The place of a text with expressions.
struct LeafPlace {
    is_card_cvc: bool,
    is_data: bool,
    is_token: bool,
    stage: TransformStage,
}

impl LeafPlace {
    fn find_broken_rules(&self, text: &MessageText) -> impl Iterator<Item = &'static str> {
        let is_single = text.single_expression().is_some();
        let reads: Vec<_> = text.reads().collect();
        let reads_of = |object: &str| reads.iter().any(|it| it.object == object);
        let is_whole = |it: &MessageRead<'_>| {
            it.is_unfiltered && it.steps.len() <= 2 && is_single && self.is_data
        };
        let breaks_encrypted = reads.iter().any(|it| it.object == "encrypted" && !is_whole(it));
        let rules = [
            (text.can_name("cvc") && !self.is_card_cvc, CVC_RULE),
            (breaks_encrypted, ENCRYPTED_RULE),
            (reads_of("config") && self.is_token, TOKEN_CONFIGURATION_RULE),
            (
                reads_of("config") && !self.is_token && self.stage == TransformStage::Response,
                ANSWER_CONFIGURATION_RULE,
            ),
        ];
        rules.into_iter().filter(|(is_broken, _)| *is_broken).map(|(_, rule)| rule)
    }
}

fn is_path(path: &[PathStep], names: &[&str]) -> bool {
    let is_name = |(step, name): (&PathStep, &&str)| match step {
        PathStep::Name(step) => step == name,
        PathStep::Index(_) => false,
    };
    path.len() == names.len() && path.iter().zip(names).all(is_name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::policy::proxy::ProxyTransform;

    fn errors(stage: TransformStage, transform: Value) -> Vec<String> {
        let source: TransformSource = serde_json::from_value(transform).unwrap();
        check_template(stage, &source).into_iter().map(|it| it.field.into_owned()).collect()
    }

    fn tokenize(token: Value) -> Value {
        json!({"type": "tokenize", "options": {"token": token}})
    }

    #[test]
    fn encrypted_data_becomes_only_the_whole_data_of_a_token() {
        let accepted = [
            "{{ encrypted }}",
            "{{ encrypted.data }}",
            "{{ encrypted.payer }}",
            "{{ encrypted.payer.data }}",
            "{{ encrypted | json: '$.payer.data' }}",
        ];
        for text in accepted {
            let transform = tokenize(json!({"type": "card", "data": text}));
            assert!(errors(TransformStage::Request, transform).is_empty(), "{text}");
        }
        let rejected = [
            json!({"type": "card", "data": {"number": "{{ encrypted.data.number }}"}}),
            json!({"type": "token", "data": "{{ encrypted.data.number | slice: 0, 4 }}"}),
            json!({"type": "token", "data": "x{{ encrypted.data }}"}),
            json!({"type": "token", "data": "x", "metadata": {"a": "{{ encrypted.data }}"}}),
            json!({"type": "token", "data": "{{ req.a | append: encrypted.data }}"}),
        ];
        for token in rejected {
            let found = errors(TransformStage::Request, tokenize(token.clone()));
            assert_eq!(found.len(), 1, "{token}");
        }
        let append = json!({"type": "append_text", "options": {"value": "{{ encrypted }}"}});
        assert_eq!(errors(TransformStage::Request, append), ["options.value"]);
    }

    #[test]
    fn broken_rules_name_their_attribute() {
        let token = json!({"type": "card", "data": {"number": "{{ req.cvc }}"},
            "metadata": {"k": "{{ config: k }}"}, "search_indexes": ["{{ req.cvc }}"]});
        assert_eq!(
            errors(TransformStage::Request, tokenize(token)),
            [
                "options.token.data.number",
                "options.token.metadata.k",
                "options.token.search_indexes[0]"
            ]
        );
        let invalid = tokenize(json!({"data": "{{ req.a"}));
        assert_eq!(errors(TransformStage::Request, invalid.clone()), ["options.token.data"]);
        let source: TransformSource = serde_json::from_value(invalid).unwrap();
        assert_eq!(source.compile().unwrap_err()[0].field, "options.token.data");
        assert!(matches!(source.compile_stored(), Some(ProxyTransform::RejectedTemplate)));
    }

    /// An earlier version accepted such templates. They are loaded, and never run.
    #[test]
    fn stored_template_that_breaks_a_rule_is_rejected_in_calls() {
        use crate::policy::proxy::TransformList;
        let append = json!({"type": "append_text", "options": {"value": "{{ config: a }}"}});
        let stored = json!({"is_single": false, "sources": [append]});
        let list: TransformList = serde_json::from_value(stored).unwrap();
        let compile = |stage| list.compile(stage, None).unwrap();
        assert!(matches!(
            compile(TransformStage::Response).as_slice(),
            [ProxyTransform::RejectedTemplate]
        ));
        assert!(matches!(
            compile(TransformStage::Request).as_slice(),
            [ProxyTransform::AppendText { .. }]
        ));
        assert!(list.has_rejected_template(TransformStage::Response));
        assert!(!list.has_rejected_template(TransformStage::Request));
    }
}
