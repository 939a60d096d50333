//! Golden messages of each transform, and hostile ones.

mod content_types;
mod declared_work;
mod edits;

use hyper::{
    StatusCode,
    header::{CONTENT_ENCODING, HeaderName, HeaderValue},
};
use proptest::prelude::*;
use scrip_core::policy::proxy::TransformSource;
use serde_json::json;

use super::*;
use crate::proxy::{edits::mask::mark, error::CallDelivery, outgoing::OutgoingMessage};

const BYTES_MAX: usize = 2 * 1024 * 1024;
const OK: TransformKind = TransformKind::Answer(StatusCode::OK);

fn compile(transform: Value) -> ProxyTransform {
    let source: TransformSource = serde_json::from_value(transform).unwrap();
    source.compile().unwrap()
}

fn message(content_type: &str, body: &str) -> TransformMessage {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_str(content_type).unwrap());
    TransformMessage { headers, body: Bytes::from(body.to_owned()) }
}

fn with_run<T>(test: impl FnOnce(&mut TransformRun<'_>) -> T) -> T {
    with_client(message("application/json", r#"{"client":"{{ token }}"}"#), test)
}

fn with_client<T>(client: TransformMessage, test: impl FnOnce(&mut TransformRun<'_>) -> T) -> T {
    let entries = [("secret".to_owned(), "s3".to_owned())];
    let (configuration, work) = (UsablePlaintext::from_iter(entries), WorkMeter::default());
    let inputs = TransformInputs {
        configuration: &configuration,
        encrypted: None,
        work: &work,
        fill_random: |it| it.fill(7),
        bytes_max: BYTES_MAX,
        evaluates_expressions: true,
        counting: ValueCounting::Exact,
        is_from_browser: false,
        rules: DisclosureRules::default(),
    };
    let mut run = TransformRun::new(inputs, &client.headers, client.body);
    run.bind_token("card", Plaintext::new(json!({"id": "token-1", "type": "card"})));
    test(&mut run)
}

fn apply(
    transform: Value,
    message: &mut TransformMessage,
    kind: TransformKind,
) -> Result<TransformEffect, ProxyError> {
    with_run(|run| apply_to(run, 1, &compile(transform), message, kind))
}

fn apply_to(
    run: &mut TransformRun<'_>,
    index: usize,
    transform: &ProxyTransform,
    message: &mut TransformMessage,
    kind: TransformKind,
) -> Result<TransformEffect, ProxyError> {
    let TransformKind::Answer(status) = kind else {
        let mut outgoing = OutgoingMessage::of_test(message.clone());
        let effect = run.apply(index, transform, &mut TransformTarget::Request(&mut outgoing));
        *message = outgoing.into_message_of_test();
        return effect;
    };
    run.apply(index, transform, &mut TransformTarget::Response { message, status })
}

fn regex(expression: &str) -> Value {
    json!({"type": "mask", "matcher": "regex", "expression": expression, "replacement": "*"})
}

fn mask(transform: Value, body: &str) -> Result<String, ProxyError> {
    let mut message = message("text/plain", body);
    apply(transform, &mut message, OK)?;
    Ok(String::from_utf8(message.body.to_vec()).unwrap())
}

fn detail(error: &ProxyError) -> String {
    let body = error.response(&crate::trace_id::TraceId("t".into()));
    assert_eq!(
        body.headers().contains_key("bt-proxy-destination-status"),
        error.problem().is_none()
    );
    format!("{error:?}")
}

#[test]
fn mask_replaces_every_occurrence_of_captured_values_inside_each_match() {
    let rows = [
        ("^(aa).*?$", "aabbccaabbccaa", "**bbcc**bbcc**"),
        ("(.*)", "a\nbé", "*\n**"),
        (r#""pan":"(\d+)""#, r#"{"pan":"4242","x":"4242"}"#, r#"{"pan":"****","x":"4242"}"#),
        (r"(?m)^(\d{4})-(\d{4})$", "1111-2222\n3333-3333", "****-****\n****-****"),
        ("(a)(b)?", "ac ab", "*c **"),
        ("x(?:(aa))", "xaaa", "x**a"),
        ("a(aa)", "aaa", "***"),
        ("(é)", "é e é", "* e *"),
        ("()", "abc", "abc"),
        ("(z)", "abc", "abc"),
        (r"(\bcard\b)", "card, cards é card", "****, cards é ****"),
        (r"\B(\d)", "é1 12", "é1 1*"),
        ("(?s)start(.)(.).*end", "start12-1-2\n21end 12", "start**-*-*\n**end 12"),
    ];
    for (expression, body, expected) in rows {
        assert_eq!(mask(regex(expression), body).unwrap(), expected, "{expression}");
    }
    let wide =
        json!({"type": "mask", "matcher": "regex", "expression": "(4+)", "replacement": "✱"});
    assert_eq!(mask(wide, "a44b").unwrap(), "a✱✱b");
}

#[test]
fn mask_that_matches_nothing_returns_the_same_bytes() {
    let mut message = message("text/plain", "abc");
    message.headers.insert("content-md5", HeaderValue::from_static("x"));
    let before = message.body.as_ptr();
    apply(regex("(z)"), &mut message, OK).unwrap();
    assert_eq!(message.body.as_ptr(), before);
    assert!(message.headers.contains_key("content-md5"));
    apply(regex("(b)"), &mut message, OK).unwrap();
    assert_eq!(message.body, "a*c");
    assert!(!message.headers.contains_key("content-md5"));
}

#[test]
fn searches_that_read_the_body_again_and_again_are_rejected() {
    let body = "a".repeat(200_000);
    let error = mask(regex("(a)(?:.*z)?"), &body).unwrap_err();
    assert!(detail(&error).contains("too much work for this body"));
    assert_eq!(
        (error.status(), error.delivery()),
        (StatusCode::BAD_GATEWAY, CallDelivery::Answered)
    );
    // Many matches alone are no reason.
    assert_eq!(mask(regex("(a)"), &body).unwrap(), "*".repeat(200_000));
    assert_eq!(mask(regex(r"(a{1,19})"), &body).unwrap(), "*".repeat(200_000));
    let lines = "{\"pan\":\"4242424242424242\"}\n".repeat(20_000);
    let masked = mask(regex(r#""pan":"(\d{12,19})""#), &lines).unwrap();
    assert_eq!(masked, lines.replace("4242424242424242", "****************"));
}

#[test]
fn mask_of_a_body_that_is_no_utf8_text_is_rejected() {
    let mut encoded = message("text/plain", "4242");
    encoded.headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    let mut encoded_later = message("text/plain", "4242");
    for encoding in ["identity", "gzip"] {
        encoded_later.headers.append(CONTENT_ENCODING, HeaderValue::from_static(encoding));
    }
    let charset = "the charset of the body is not UTF-8";
    let mut binary = message("text/plain", "");
    binary.body = Bytes::from_static(b"\xff4242");
    let messages = [
        (encoded, "the body has a Content-Encoding"),
        (encoded_later, "the body has a Content-Encoding"),
        (binary, "the body is not UTF-8 text"),
        (message("text/plain", "4\u{0}2\u{0}"), "the body is not UTF-8 text"),
        (message("text/plain; charset=utf-16le", "4242"), charset),
        (message("text/plain; charset=ibm037", "4242"), charset),
        (message("text/plain; x; charset=ibm037", "4242"), charset),
        (message("text/plain; x=\"a;\"; y ; charset = ibm037", "4242"), charset),
        (message("text/plain; charset=utf-8; charset=ibm037", "4242"), charset),
        (message("text/plain; charset*=us-ascii'en'ibm037", "4242"), charset),
        (message("text/plain; x=\"open; charset=ibm037", "4242"), charset),
    ];
    for (mut message, expected) in messages {
        for transform in [
            regex("(4)"),
            json!({"type": "mask", "matcher": "chase_stratus_pan", "replacement": "*"}),
        ] {
            let before = message.clone();
            let error = apply(transform, &mut message, OK).unwrap_err();
            assert!(detail(&error).contains(expected), "{}", detail(&error));
            assert_eq!(error.status(), 502);
            assert_eq!(message.body, before.body);
        }
    }
    let mut identity = message("text/plain; charset=UTF-8", "4242");
    identity.headers.insert(CONTENT_ENCODING, HeaderValue::from_static("identity"));
    assert!(apply(regex("(4)"), &mut identity, OK).is_ok());
}

#[test]
fn every_transform_of_an_encoded_body_is_rejected() {
    let transforms = [
        json!({"type": "tokenize", "options": {"token": {"type": "card"}}}),
        json!({"type": "append_json", "options": {"location": "$.a", "value": "v"}}),
        json!({"type": "append_text", "options": {"value": "v"}}),
        json!({"type": "append_header", "options": {"location": "X-A", "value": "v"}}),
    ];
    for transform in transforms {
        let mut encoded = message("application/json", "{}");
        encoded.headers.insert(CONTENT_ENCODING, HeaderValue::from_static("br"));
        let error = apply(transform.clone(), &mut encoded, OK).unwrap_err();
        assert!(detail(&error).contains("the body has a Content-Encoding"), "{transform}");
        let error = apply(transform, &mut encoded, TransformKind::Request).unwrap_err();
        assert_eq!(
            (error.status(), error.delivery()),
            (StatusCode::BAD_REQUEST, CallDelivery::NotSent)
        );
    }
}

#[test]
fn card_number_field_of_fixed_width_messages_is_masked() {
    let stars = "*".repeat(19);
    let rows = [
        ("T74V4242424242424242   VI1200", format!("T74V{stars}VI1200")),
        ("ORDER1234564242424242424242   VI", format!("ORDER123456{stars}VI")),
        ("A378282246310005    AX", format!("A{stars}AX")),
        ("A4242424242424242\nB", format!("A{}\nB", "*".repeat(16))),
        ("A4242424242424242", format!("A{}", "*".repeat(16))),
        ("A6304000000000000000VI", format!("A{stars}VI")),
        ("A4242424242424243   B", "A4242424242424243   B".to_owned()),
        ("A4242424242424242 B", "A4242424242424242 B".to_owned()),
        ("A000000000000000000 B", "A000000000000000000 B".to_owned()),
        ("20240710 134628", "20240710 134628".to_owned()),
        ("é", "é".to_owned()),
    ];
    let transform = json!({"type": "mask", "matcher": "chase_stratus_pan", "replacement": "*"});
    for (body, expected) in rows {
        assert_eq!(mask(transform.clone(), body).unwrap(), expected, "{body}");
    }
}

#[test]
fn token_is_built_from_the_message_and_vault_expressions_stay() {
    let token = json!({"type": "tokenize", "options": {"identifier": "a", "token": {
        "type": "card",
        "data": {"number": "{{ res.number }}", "expiration_month": "{{ res.exp.month }}"},
        "mask": {"number": "{{ data.number | reveal_last: 4 }}"},
        "metadata": {"from": "{{ req.client }}", "first": "{{ transform_identifier: 'card' | json: '$.id' }}"},
        "deduplicate": true,
    }}});
    let mut answer = message(
        "application/json; charset=utf-8",
        r#"{"number":"4242424242424242","exp":{"month":7}}"#,
    );
    let effect = apply(token.clone(), &mut answer, OK).unwrap();
    let TransformEffect::CreateToken(token_request) = effect else { panic!("{effect:?}") };
    assert_eq!(
        *token_request.body.expose(),
        json!({
            "type": "card",
            "data": {"number": "4242424242424242", "expiration_month": 7},
            "mask": {"number": "{{ data.number | reveal_last: 4 }}"},
            "metadata": {"from": "{{ token }}", "first": "token-1"},
            "deduplicate": true,
        })
    );
    let invalid = apply(token, &mut message("application/json", "{"), OK).unwrap_err();
    assert!(detail(&invalid).contains("cannot read the body: the body is not valid JSON"));
}

#[test]
fn message_cannot_add_expressions_to_a_new_token() {
    let template = |token: Value| json!({"type": "tokenize", "options": {"token": token}});
    let body = r#"{"e":"{{ data.number }}","t":"{% if data %}x{% endif %}","o":{"a":["{{ data }}"]},"p":"plain"}"#;
    let rows = [
        (json!({"data": "{{ res.e }}", "metadata": {"a": "{{ res.t }}"}}), true),
        (json!({"id": "{{ res.p }}", "mask": "{{ data.number | last4 }}{{ res.p }}"}), false),
        (json!({"id": "{{ res.p }}", "mask": "{{ data.number | last4 }}"}), true),
        (json!({"id": "{{ res.e }}"}), false),
        (json!({"id": "{{ res.t }}"}), false),
        (json!({"id": "x{{ res.e }}"}), false),
        (json!({"mask": "{{ res.o }}"}), false),
        (json!({"mask": {"data": "{{ res.e }}"}}), false),
        (json!({"search_indexes": ["{{ res.p }}", "{{ res.e }}"]}), false),
    ];
    for (token, is_accepted) in rows {
        let mut answer = message("application/json", body);
        let result = apply(template(token.clone()), &mut answer, OK);
        assert_eq!(result.is_ok(), is_accepted, "{token}");
    }
}

#[test]
fn request_of_a_template_is_that_of_the_client() {
    let append =
        json!({"type": "append_text", "options": {"value": "{{ req.client }}{{ req.sent }}"}});
    let mut request = message("application/json", r#"{"sent":"4242"}"#);
    apply(append.clone(), &mut request, TransformKind::Request).unwrap();
    assert_eq!(request.body, r#"{"sent":"4242"}{{ token }}"#);
    let mut answer = message("text/plain", "answer ");
    apply(append, &mut answer, OK).unwrap();
    assert_eq!(answer.body, "answer {{ token }}");
    let response = json!({"type": "append_text", "options": {"value": "{{ res.a }}"}});
    let error = apply(response, &mut request, TransformKind::Request).unwrap_err();
    assert!(detail(&error).contains("there is no response yet"));
}

#[test]
fn appended_json_keeps_all_other_bytes() {
    let rows = [
        (
            "$.id",
            "{{ transform_identifier: 'card' | json: '$.id' }}",
            r#"{ "z":1.50 }"#,
            r#"{ "z":1.50 ,"id":"token-1"}"#,
        ),
        (
            "$.id",
            "{{ transform_identifier: 'card' }}",
            "{}",
            r#"{"id":{"id":"token-1","type":"card"}}"#,
        ),
        (
            "$.a.b",
            "x\"{{ config: secret }}",
            r#"{"a":{"b":[1]},"c":0}"#,
            r#"{"a":{"b":"x\"s3"},"c":0}"#,
        ),
        ("$['a \"b']", "v", "{}", r#"{"a \"b":"v"}"#),
        ("$.l[1]", "v", r#"{"l":[0]}"#, r#"{"l":[0,"v"]}"#),
    ];
    for (location, value, body, expected) in rows {
        let mut message = message("application/json", body);
        let append =
            json!({"type": "append_json", "options": {"location": location, "value": value}});
        apply(append, &mut message, TransformKind::Request).unwrap();
        assert_eq!(message.body, expected, "{location}");
    }
    for body in ["", "text", "[]", "{\"a\":1,\"a\":2}"] {
        let append = json!({"type": "append_json", "options": {"location": "$.id", "value": "v"}});
        assert!(apply(append, &mut message("application/json", body), OK).is_err(), "{body}");
    }
}

#[test]
fn appended_header_is_added_and_cannot_contain_control_characters() {
    let append = |value: &str| json!({"type": "append_header", "options": {"location": "X-Token", "value": value}});
    let mut answer = message("application/json", r#"{"evil":"a\r\nX-B: c"}"#);
    answer.headers.insert(HeaderName::from_static("x-token"), HeaderValue::from_static("first"));
    apply(append("{{ transform_identifier: 'card' | json: '$.id' }}"), &mut answer, OK).unwrap();
    let values: Vec<_> = answer.headers.get_all("x-token").iter().collect();
    assert_eq!(values, ["first", "token-1"]);
    let error = apply(append("{{ res.evil }}"), &mut answer, OK).unwrap_err();
    assert!(detail(&error).contains("a control character"));
}

#[test]
fn code_transform_is_never_skipped() {
    let code = json!({"type": "code", "code": "module.exports = async (req) => req.args"});
    let mut request = message("application/json", "{}");
    let error = apply(code.clone(), &mut request, TransformKind::Request).unwrap_err();
    assert_eq!(
        (error.status(), error.delivery()),
        (StatusCode::UNPROCESSABLE_ENTITY, CallDelivery::NotSent)
    );
    let error = apply(code, &mut request, OK).unwrap_err();
    assert_eq!(error.delivery(), CallDelivery::Answered);
}

#[test]
fn invalid_value_of_a_transform_names_its_path() {
    let append =
        json!({"type": "append_text", "options": {"value": "{{ transform_identifier: 'none' }}"}});
    let mut request = message("text/plain", "");
    let error = apply(append, &mut request, TransformKind::Request).unwrap_err();
    let errors = error.problem().unwrap().errors().unwrap();
    assert_eq!(
        errors["request_transforms[1]"],
        ["no earlier transform has this identifier (at character 1)"]
    );
}

#[test]
fn transformed_body_has_a_maximum_length() {
    let append = json!({"type": "append_text", "options": {"value": "x"}});
    let mut large = message("text/plain", &"y".repeat(BYTES_MAX));
    assert_eq!(apply(append, &mut large, TransformKind::Request).unwrap_err().status(), 413);
    let wide =
        json!({"type": "mask", "matcher": "regex", "expression": "(y+)", "replacement": "✱"});
    assert!(apply(wide, &mut large, OK).is_err());
}

/// The work is counted for all masks together, and a mask that takes long does not run inline.
#[test]
fn masks_of_a_call_share_a_bounded_amount_of_work() {
    let transform = compile(regex("^([ab]*a[ab]{20})"));
    let body = "a".repeat(200_000);
    let status = StatusCode::OK;
    with_run(|run| {
        let mut long = message("text/plain", &body);
        let mut target = TransformTarget::Response { message: &mut long, status };
        assert!(run.apply_inline(0, &transform, &mut target).unwrap().is_none());
        assert_eq!(long.body, body);
        apply_to(run, 0, &transform, &mut long, OK).unwrap();
        let first_work = run.mask_work;
        assert!(first_work > 200_000 * 20 && first_work < MASK_WORK_MAX, "{first_work}");
        // Each mask does more work than this, so more of them exceed the bound.
        let masks_max = MASK_WORK_MAX / (200_000 * 20);
        let rejection = (1..masks_max).find_map(|_| {
            apply_to(run, 1, &transform, &mut message("text/plain", &body), OK).err()
        });
        let error = rejection.expect("masks without a common bound");
        assert_eq!(error.status(), 502);
        assert!(detail(&error).contains("too much work"), "{}", detail(&error));
        assert_eq!(run.mask_work, MASK_WORK_MAX);
    });
    with_run(|run| {
        let mut short = message("text/plain", "aaaa");
        let mut target = TransformTarget::Response { message: &mut short, status };
        assert!(run.apply_inline(0, &transform, &mut target).unwrap().is_some());
    });
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn mask_keeps_the_number_of_characters(
        body in "[a-c0-9é\\n]{0,60}",
        expression in prop::sample::select(&["(a)", "(a+)b", "(?m)^(.*)$", "(\\d{2,})", "([a-c])(.)", "(é)|b(c)", "()"][..]),
    ) {
        let masked = mask(regex(expression), &body).unwrap();
        prop_assert_eq!(masked.chars().count(), body.chars().count());
        for (left, right) in masked.chars().zip(body.chars()) {
            prop_assert!(left == right || left == '*');
        }
    }

    /// The range that the meter computes does not change the result of the search.
    #[test]
    fn metered_search_finds_the_same_matches(
        body in "[ab\\ncé]{0,40}",
        expression in prop::sample::select(&["(a)b", "(a|ab)(c|bcd)?", "(?m)^(a.*)$", "(a+?)b*", "(b)$", "\\b(a)\\b", "(a)(?:.*c)?", "(b?)", "(a*)(b|$)"][..]),
    ) {
        let masked = mask(regex(expression), &body).unwrap();
        let mut expected = vec![false; body.len()];
        let pattern = regex_automata::meta::Regex::new(&expression.replace("\\b", "(?-u:\\b)")).unwrap();
        for captures in pattern.captures_iter(&body) {
            let found = captures.get_match().unwrap();
            for span in captures.iter().skip(1).flatten() {
                mark(&mut expected, span.start, span.end);
                for (offset, value) in body[found.range()].match_indices(&body[span.range()]) {
                    mark(&mut expected, found.start() + offset, found.start() + offset + value.len());
                }
            }
        }
        let expected: String = body.char_indices().map(|(at, it)| if expected[at] { '*' } else { it }).collect();
        prop_assert_eq!(masked, expected);
    }
}
