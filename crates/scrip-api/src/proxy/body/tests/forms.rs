//! Form bodies.

use super::*;

const FORM: &str = "application/x-www-form-urlencoded";

#[test]
fn form_values_are_decoded_and_encoded_and_other_fields_stay() {
    check_rendered(
        FORM,
        &[(
            "a=1%2b+2&card[number]={{ CARD | json: '$.number' }}&b=%7B&&c",
            "a=1%2b+2&card[number]=4242424242424242&b=%7B&&c",
        )],
    );
    check_rendered(
        FORM,
        &[
            (
                "n={{ TEXT }}&m=a%2B%7b%7B+TEXT+%7d%7D+b",
                "n=a%3Cb%3E%26%22c%27+d&m=a%2Ba%3Cb%3E%26%22c%27+d+b",
            ),
            ("e={{ CARD | card_exp: \"MM\" | to_number }}", "e=7"),
            ("x={{ CARD | json: '$.none' }}&y", "x=&y"),
            (
                "card%5Bnumber%5D=%7B%7B%20CARD%20%7C%20json%3A%20%27%24.number%27%20%7D%7D",
                "card%5Bnumber%5D=4242424242424242",
            ),
        ],
    );
}

#[test]
fn form_without_expressions_is_untouched() {
    for body in
        ["", "a=%7B&b=%7b", "a={ {&%7b%7b=1", "%zz=%", "{{ CARD }}=1", "a=%7Bx%7B", "{{ CARD }}"]
    {
        check_untouched(FORM, body);
    }
}

/// Each field is looked up by a transform that appends text.
#[test]
fn form_with_more_than_100000_fields_is_rejected() {
    let fields = |count: usize| "a;b&".repeat(count / 2);
    check_untouched(FORM, &fields(100_000));
    let form = format!("{}&a={{{{ CARD }}}}", fields(100_000));
    for body in [fields(100_002), form] {
        check_rejected(FORM, &[(&body, "body: a form has at most 100,000 fields")]);
        let headers = headers(FORM);
        assert!(MessageBody::without_expressions(&headers, body.into()).is_err());
    }
}

#[test]
fn form_errors_name_the_field() {
    check_rejected(
        FORM,
        &[
            (
                "a=1&card[number]={{ nobody }}",
                "body.card.number: no token has this id (at character 1)",
            ),
            (
                "items%5B0%5D[name]=%7B%7B",
                "body.items[0].name: this {{ is never closed (at character 3)",
            ),
            ("a b=x{{ CARD | shout }}", "body.*: unknown filter (at character 44)"),
            ("a=%ff{{ CARD }}", "body.a: a value with expressions must be UTF-8 text"),
        ],
    );
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn text_of_a_token_is_read_back_from_a_form(text in any::<String>()) {
        let vault = FakeVault::with_text(&text);
        let rendered = render_with(&vault, FORM, &fill_ids("x=1&a=<{{ TEXT }}>&y=2")).unwrap();
        let fields: Vec<_> = form_urlencoded::parse(&rendered).into_owned().collect();
        let field = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        prop_assert_eq!(fields, [field("x", "1"), field("a", &format!("<{text}>")), field("y", "2")]);
    }
}
