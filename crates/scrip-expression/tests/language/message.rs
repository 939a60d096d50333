//! Expressions in the messages of a proxy.

use scrip_expression::{
    EvaluatedMessage, ExpressionPlace, MessageInputs, MessagePart, MessageSource, MessageTemplate,
    MessageText, Reference, ReferenceKind, ResolveReference, STEPS_MAX, Scope,
};
use serde_json::{Value, json};

use crate::fake::FakeHost;

const CARD: &str = "26818785-547b-4b28-b0fa-531377e99f4e";

struct FakeVault(Value);

impl ResolveReference for FakeVault {
    fn resolve(&self, reference: &Reference) -> Option<&Value> {
        let token = self.0.get(&reference.id)?;
        match reference.kind {
            ReferenceKind::Data => token.get("data"),
            ReferenceKind::Token | ReferenceKind::TokenIntent => Some(token),
        }
    }
}

fn evaluate(source: &str, place: ExpressionPlace) -> Result<Value, String> {
    let card = json!({"number": "4242424242424242", "expiration_month": 7, "cvc": "123"});
    let vault = FakeVault(json!({ CARD: {"type": "card", "data": card} }));
    let configuration = json!({"secret": "s3", "long name": "l"});
    let objects = match place {
        ExpressionPlace::Body => json!({}),
        ExpressionPlace::Header => json!({
            "proxy": {
                "request": {"headers": {"x-login": "me", "x-date": "today"}, "body": "{}"},
                "config": configuration,
            },
            "config": configuration,
        }),
        ExpressionPlace::Transform => json!({"req": {"pan": "4111"}, "res": {"a": [1, 2]}}),
    };
    let identifiers = json!({"one": {"id": "token-1"}});
    let inputs = MessageInputs {
        references: &vault,
        configuration: &configuration,
        identifiers: &identifiers,
        objects: &objects,
    };
    let host = FakeHost::new(1);
    let scope = Scope::new(&Value::Null, None).with_host_functions(&host);
    let text = MessageText::parse(source, place).map_err(|it| it.to_string())?;
    text.evaluate(&inputs, &scope).map_err(|it| it.to_string())
}

#[track_caller]
fn check_values(place: ExpressionPlace, rows: &[(&str, Value)]) {
    for (source, expected) in rows {
        assert_eq!(evaluate(source, place), Ok(expected.clone()), "{source}");
    }
}

#[track_caller]
fn check_errors(place: ExpressionPlace, rows: &[(&str, &str)]) {
    for (source, expected) in rows {
        assert_eq!(evaluate(source, place), Err((*expected).to_owned()), "{source}");
    }
}

#[test]
fn body_expressions_name_tokens_intents_and_configuration() {
    let number = format!("{{{{ {CARD} | json: '$.number' }}}}");
    let month = format!("{{{{ token: {CARD} | json: '$.data.expiration_month' }}}}");
    let kind = format!("{{{{ token_intent: {CARD} | json: '$.type' }}}}");
    let mixed = format!("a{month}b{{{{config:secret}}}}");
    check_values(
        ExpressionPlace::Body,
        &[
            (&number, json!("4242424242424242")),
            (&month, json!(7)),
            (&kind, json!("card")),
            (&mixed, json!("a7bs3")),
            ("{{ config: secret | append: '!' }}", json!("s3!")),
            ("{{ config: 'long name' }}", json!("l")),
            ("plain } }} {", json!("plain } }} {")),
        ],
    );
}

#[test]
fn header_expressions_name_the_request_and_the_configuration() {
    check_values(
        ExpressionPlace::Header,
        &[
            ("{{ proxy.request.headers.X-Login }}", json!("me")),
            ("{{ proxy | json: '$.request.headers.X-Login' }}", json!("me")),
            ("{{ proxy.request | json: '$.headers.X-Login' }}", json!("me")),
            ("{{ proxy['request']['headers']['X-DATE'] }}", json!("today")),
            ("{{ proxy.request.body }}", json!("{}")),
            ("{{ proxy.config.secret }}", json!("s3")),
            ("{{ config: secret }}", json!("s3")),
            ("{{ config.secret }}", json!("s3")),
            ("{{ proxy.request.headers.none }}", Value::Null),
            (
                "V2-HMAC: {{ proxy | json: '$.request.headers.X-Login' | append: \
                 proxy.request.headers.X-Date | append: proxy.request.body | hmac: 'sha-256', \
                 proxy.config.secret | to_base64 }}",
                json!("V2-HMAC: U2hhMjU2PnMzPm1ldG9kYXl7fQ=="),
            ),
        ],
    );
    check_errors(
        ExpressionPlace::Header,
        &[
            ("{{ data }}", "a header can read only proxy and config (at character 3)"),
            ("{{ res.a }}", "a header can read only proxy and config (at character 3)"),
            (
                "{{ transform_identifier: 'one' }}",
                "a header can read only proxy and config (at character 3)",
            ),
            (
                &format!("{{{{ token: {CARD} }}}}"),
                "a header can read only proxy and config (at character 3)",
            ),
            ("{{ proxy.request.body | append: data }}", "unknown name (at character 33)"),
            (
                "{{ config: none }}",
                "the configuration of the proxy has no value of this name (at character 1)",
            ),
        ],
    );
}

#[test]
fn transform_expressions_name_messages_and_identifiers_and_keep_all_others() {
    check_values(
        ExpressionPlace::Transform,
        &[
            ("{{ req.pan }}", json!("4111")),
            ("{{ res.a }}", json!([1, 2])),
            ("{{ res | json: '$.a[1]' }}", json!(2)),
            ("{{ transform_identifier: 'one' | json: '$.id' }}", json!("token-1")),
            ("{{ transform_identifier: one | json: '$.id' }}", json!("token-1")),
            ("{{ config: secret }}", json!("s3")),
            (
                "{{ data.number | reveal_last: 4 }}{{ req.pan }}",
                json!("{{ data.number | reveal_last: 4 }}4111"),
            ),
            ("{{ data | alias_card }}", json!("{{ data | alias_card }}")),
            ("{{ request }}", json!("{{ request }}")),
        ],
    );
    check_errors(
        ExpressionPlace::Transform,
        &[
            (
                "{{ transform_identifier: 'two' }}",
                "no earlier transform has this identifier (at character 1)",
            ),
            (
                "{{ encrypted | json: '$.data' }}",
                "this object is not available here (at character 1)",
            ),
            ("{{ transform_identifier: }}", "a name was expected (at character 3)"),
            ("{{ transform_identifier: 'a'b' }}", "this {{ is never closed (at character 3)"),
        ],
    );
}

#[test]
fn errors_of_message_expressions_name_rule_and_position() {
    check_errors(
        ExpressionPlace::Body,
        &[
            ("é {{ unknown-id }}", "no token has this id (at character 3)"),
            ("é {{ abc", "this {{ is never closed (at character 5)"),
            ("{{ abc | shout }}", "unknown filter (at character 10)"),
            ("{{ }}", "an id was expected (at character 3)"),
            ("{{ config: }}", "a name was expected (at character 3)"),
            (
                "{{ abc | append: proxy }}",
                "only quoted text and numbers can be used here (at character 18)",
            ),
            (
                &format!("{{{{ {} }}}}", "a".repeat(5000)),
                "the expression is too long (at character 3)",
            ),
        ],
    );
}

#[test]
fn analysis_tells_which_expressions_can_read_the_cvc() {
    let rows = [
        ("ID", true),
        ("ID | json: '$'", true),
        ("ID | json: '$.cvc'", true),
        ("ID | json: \"$['cvc']\"", true),
        ("ID | json: '$.number'", false),
        ("ID | json: '$.number' | last4", false),
        ("ID | json: '$[0]'", false),
        ("ID | json: '$.*'", true),
        ("ID | json: '$..number'", true),
        ("ID | json: '$[?@ == 1]'", true),
        ("ID | card_exp: 'MM'", false),
        ("ID | stringify", true),
        ("ID | json: '$' | json: '$.number'", false),
        ("ID | json: '$' | stringify", true),
        ("token: ID", true),
        ("token: ID | json: '$.data'", true),
        ("token: ID | json: '$.data.cvc'", true),
        ("token: ID | json: '$.data' | json: '$.cvc'", true),
        ("token: ID | json: '$.data' | json: '$.number'", false),
        ("token: ID | json: '$.data' | card_exp: 'MM'", false),
        ("token: ID | json: '$.id'", false),
        ("token: ID | json: '$.cvc'", false),
        ("token_intent: ID | json: '$.data.number'", false),
        ("token_intent: ID | json: '$.data'", true),
        ("config: ID", false),
    ];
    for (source, expected) in rows {
        let source = format!("{{{{ {} }}}}", source.replace("ID", CARD));
        let text = MessageText::parse(&source, ExpressionPlace::Body).unwrap();
        assert_eq!(text.single_expression().unwrap().can_read_cvc(), expected, "{source}");
    }
}

#[test]
fn template_evaluates_each_text_and_names_the_path_of_an_error() {
    let template =
        json!({"type": "card", "data": {"number": "{{ req.pan }}", "list": ["{{ res.a }}"]}});
    let objects = json!({"req": {"pan": "4111"}, "res": {"a": 5}});
    let null = Value::Null;
    let vault = FakeVault(json!({}));
    let inputs = MessageInputs {
        references: &vault,
        configuration: &null,
        identifiers: &null,
        objects: &objects,
    };
    let scope = Scope::new(&null, None);
    let compiled = MessageTemplate::parse(&template, ExpressionPlace::Transform).unwrap();
    let expected = json!({"type": "card", "data": {"number": "4111", "list": [5]}});
    assert_eq!(compiled.evaluate(&inputs, &scope), Ok(expected));
    let invalid = json!({"a": ["x", "{{ req.pan | shout }}"]});
    let error = MessageTemplate::parse(&invalid, ExpressionPlace::Transform).unwrap_err();
    assert_eq!((error.path.len(), error.cause.problem), (2, "unknown filter"));
}

#[test]
fn unfiltered_value_of_a_token_is_borrowed() {
    let vault = FakeVault(json!({ CARD: {"data": "4242"} }));
    let null = Value::Null;
    let inputs = MessageInputs {
        references: &vault,
        configuration: &null,
        identifiers: &null,
        objects: &null,
    };
    let source = format!("{{{{ {CARD} }}}}");
    let text = MessageText::parse(&source, ExpressionPlace::Body).unwrap();
    let [MessagePart::Expression(expression)] = text.parts() else { panic!("{text:?}") };
    assert!(matches!(expression.source(), MessageSource::Reference(it) if it.id == CARD));
    let scope = Scope::new(&null, None);
    let value = expression.evaluate(&inputs, &scope).unwrap();
    assert!(matches!(value, EvaluatedMessage::Borrowed(_)));
    assert_eq!(format!("{text:?}{value:?}{inputs:?}").find("4242"), None);
}

#[test]
fn evaluation_of_a_message_is_bounded_by_the_budget_of_its_scope() {
    let source = "{{ config: a }}".repeat(STEPS_MAX + 1);
    let text = MessageText::parse(&source, ExpressionPlace::Body).unwrap();
    let vault = FakeVault(json!({}));
    let (null, configuration) = (Value::Null, json!({"a": "b"}));
    let inputs = MessageInputs {
        references: &vault,
        configuration: &configuration,
        identifiers: &null,
        objects: &null,
    };
    let error = text.evaluate(&inputs, &Scope::new(&null, None)).unwrap_err();
    assert_eq!(error.problem, "the expression exceeds the evaluation limit");
    let scope = Scope::new(&null, None).with_work_limit(100);
    assert!(text.evaluate(&inputs, &scope).is_err());
    assert!(scope.spent_work().is_exhausted);
}
