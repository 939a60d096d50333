//! Properties of arbitrary text.

use proptest::prelude::*;
use scrip_expression::{Detokenization, Expression, Scope, Template};
use serde_json::{Value, json};

use crate::{FakeHost, evaluate};

/// Filters with arguments that accept any value.
const FILTER_CALLS: &[&str] = &[
    "last4",
    "upcase",
    "size",
    "stringify",
    "first",
    "last",
    "reveal_last: 4",
    "reveal_last: 2, '*'",
    "reveal: 2",
    "reveal: 1, 2, '#'",
    "reveal: 1, last: 1",
    "card_mask",
    "card_mask: 'true'",
    "card_mask: last4: 'true'",
    "replace: '4', data.number",
    "append: 'x'",
    "slice: 1, 6",
    "default: 'd'",
    "pad_left: 20, '0'",
    "to_base64",
];

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
        "[0-9-]{0,20}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map("[a-d]|size|number", inner, 0..5)
                .prop_map(|it| Value::Object(it.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn arbitrary_text_never_panics(source in ".{0,80}") {
        drop(evaluate(&source, &json!({"a": "b"})));
        drop(Detokenization::parse(&json!(source)));
    }

    #[test]
    fn text_of_syntax_symbols_never_panics(
        source in "(\\{\\{|\\}\\}|data|\\.|\\||:|,| |'|\"|last4|json|\\$|reveal_last|4|-|é|\\{%|%\\}|\
                   if|endif|for x in|endfor|assign|=|\\[|\\]|\\(|\\)|raw|comment|else|x){0,24}"
    ) {
        drop(evaluate(&source, &json!({"a": "b"})));
        drop(Detokenization::parse(&json!(source)));
    }

    #[test]
    fn text_without_braces_is_unchanged(source in "[^{]{0,60}") {
        prop_assert_eq!(evaluate(&source, &json!(1)), Ok(Value::String(source)));
    }

    /// See `parse.rs`: both give the same tree, so a comma never shows more than a pipe.
    #[test]
    fn comma_before_a_filter_equals_a_pipe(
        chain in prop::collection::vec((0..FILTER_CALLS.len(), any::<bool>()), 1..5),
        data in any_value(),
        number in "[0-9]{0,19}",
    ) {
        let (mut piped, mut mixed) = (String::from("{{ data"), String::from("{{ data"));
        for (call, comma) in chain {
            piped = format!("{piped} | {}", FILTER_CALLS[call]);
            mixed = format!("{mixed}{} {}", if comma { "," } else { " |" }, FILTER_CALLS[call]);
        }
        let (piped, mixed) = (piped + " }}", mixed + " }}");
        for data in [data, json!(number), json!({"number": number})] {
            let rule = |it: Result<Value, String>| it.map_err(|it| it.replace(char::is_numeric, ""));
            let (left, right) = (rule(evaluate(&piped, &data)), rule(evaluate(&mixed, &data)));
            prop_assert_eq!(left, right, "{} {}", piped, mixed);
        }
    }

    /// With an invalid argument or name, a comma shows nothing.
    #[test]
    fn unknown_name_after_a_comma_is_an_error(name in "[a-z_]{1,12}", call in 0..FILTER_CALLS.len()) {
        let data = json!("4242424242424242");
        let known = Expression::parse(&format!("{{{{ data | {name} }}}}")).is_ok()
            || Expression::parse(&format!("{{{{ data | {name}: 1 }}}}")).is_ok()
            || ["data", "metadata", "nil", "null", "true", "false", "empty", "blank"]
                .contains(&name.as_str());
        let first = evaluate(&format!("{{{{ data, {name}: 4 }}}}"), &data);
        let later = evaluate(&format!("{{{{ data | {}, {name} }}}}", FILTER_CALLS[call]), &data);
        prop_assert!(known || (first.is_err() && later.is_err()), "{}", name);
    }

    #[test]
    fn evaluation_is_deterministic(data in any_value(), call in 0..FILTER_CALLS.len()) {
        let source = format!("{{{{ data | {} }}}}", FILTER_CALLS[call]);
        prop_assert_eq!(evaluate(&source, &data), evaluate(&source, &data));
    }

    /// A mask shows no more characters than requested.
    #[test]
    fn reveal_shows_only_the_requested_characters(number in "[0-9]{5,19}", first in 0_usize..8, last in 0_usize..8) {
        let source = format!("{{{{ data | reveal: {first}, {last} }}}}");
        let masked = evaluate(&source, &json!(number)).unwrap();
        let digits = masked.as_str().unwrap().chars().filter(char::is_ascii_digit).count();
        let expected = if first + last >= number.len() { 0 } else { first + last };
        prop_assert_eq!(digits, expected);
    }

    #[test]
    fn template_without_expressions_is_unchanged(value in any_value()) {
        prop_assume!(!scrip_expression::is_expression(&value.to_string()));
        let host = FakeHost::new(1);
        let scope = Scope::new(&Value::Null, None).with_host_functions(&host);
        let template = Template::parse(&value).unwrap();
        prop_assert_eq!(template.evaluate(&scope), Ok(value.clone()));
        let detokenization = Detokenization::parse(&value).unwrap();
        let scope = Scope::new(&Value::Null, None);
        prop_assert_eq!(detokenization.evaluate(&|_| None, &scope), Ok(value));
    }
}
