//! JSON bodies.

use super::*;

#[test]
fn json_keeps_types_order_number_text_and_spacing() {
    for content_type in
        ["application/json", "application/vnd.api+json; charset=utf-8", "APPLICATION/JSON"]
    {
        check_rendered(
            content_type,
            &[
                (
                    "{ \"z\": \"{{ CARD | json: '$.number' }}\",\n\t\"a\" : 1.50, \"b\":[\"{{CARD | json: '$.expiration_month'}}\" , 1e+400]}",
                    "{ \"z\": \"4242424242424242\",\n\t\"a\" : 1.50, \"b\":[7 , 1e+400]}",
                ),
                (
                    r#"{"c":"{{ token: CARD | json: '$.data' | json: '$.big' }}","t":"{{ TEXT }}"}"#,
                    r#"{"c":12345678901234567890.10,"t":"a<b>&\"c' d"}"#,
                ),
                (
                    r#"["{{ CARD | card_exp: \"MM/YY\" }}","{{ CARD | card_exp: \"MM\" | to_number }}"]"#,
                    r#"["07/30",7]"#,
                ),
                (
                    r#"{"text":"\u00e9 n\/a: {{ TEXT }}\n{{ config: secret }}"}"#,
                    "{\"text\":\"é n/a: a<b>&\\\"c' d\\ns\\\"3&\"}",
                ),
                (r#""\u007b\u007B TEXT \u007d}""#, r#""a<b>&\"c' d""#),
                (
                    r#"["{{ CARD | json: '$.none' }}","x{{ CARD | json: '$.none' }}"]"#,
                    r#"[null,"x"]"#,
                ),
            ],
        );
    }
}

#[test]
fn name_of_a_property_is_not_evaluated() {
    check_untouched("application/json", r#"{"{{ CARD }}":1}"#);
    check_rendered(
        "application/json",
        &[(
            r#"{"{{ CARD }}":"{{ TEXT }}"}"#,
            concat!(r#"{"{{ 26818785-547b-4b28-b0fa-531377e99f4e }}":"#, r#""a<b>&\"c' d"}"#),
        )],
    );
}

#[test]
fn json_without_expressions_is_untouched_even_if_invalid() {
    for body in [
        "",
        "not json",
        "{\"a\":1,\"a\":2}",
        r#"{"a":"\u007b","a":"{"}"#,
        r#"{"a":"\u007b"}"#,
        r#" {"a" : "}} { {"} "#,
        r#"{"a":{"b":{"c":"\\u007b"}}}"#,
    ] {
        check_untouched("application/json", body);
    }
    let deep = "[".repeat(1000) + &"]".repeat(1000);
    check_untouched("application/json", &deep);
}

#[test]
fn json_errors_name_the_path() {
    check_rejected(
        "application/json",
        &[
            (
                r#"{"card":{"number":["x","{{ nobody }}"]}}"#,
                "body.card.number[1]: no token has this id (at character 1)",
            ),
            (r#"{"a b":"é {{ CARD | shout }}"}"#, "body.*: unknown filter (at character 45)"),
            (r#""{{ nobody }}""#, "body: no token has this id (at character 1)"),
            (r#"["{{ nobody }}"]"#, "body[0]: no token has this id (at character 1)"),
            (
                r#"{"a":"{{ CARD | json: '$.number' | to_boolean }}"}"#,
                "body.a: this is neither true nor false (at character 1)",
            ),
            (
                "{\"a\":\n {{ CARD }}}",
                "an expression in JSON must be inside of quotes (line 2, column 3)",
            ),
            (r#"{"a":"{{ CARD }}","a":1}"#, "an object has a duplicate name (line 1, column 54)"),
            (r#"{"a":"{{ CARD }}",}"#, "the body is not valid JSON (line 1, column 51)"),
        ],
    );
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn text_of_a_token_is_read_back_from_json(text in "\\PC{0,30}|[\\x00-\\x7f]{0,30}") {
        let vault = FakeVault::with_text(&text);
        let body = fill_ids(r#"{"a":"{{ TEXT }}","b":"<{{ TEXT }}>"}"#);
        let rendered = render_with(&vault, "application/json", &body).unwrap();
        let value: Value = serde_json::from_slice(&rendered).unwrap();
        prop_assert_eq!(value, json!({"a": text, "b": format!("<{text}>")}));
    }
}
