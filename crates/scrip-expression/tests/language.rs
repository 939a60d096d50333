//! The language, as tables.

use proptest::prelude::*;
use scrip_expression::{Expression, Scope, Template};
use serde_json::{Value, json};

fn evaluate(source: &str, data: &Value) -> Result<Value, String> {
    let metadata = json!({ "city": "Paris" });
    let expression = Expression::parse(source).map_err(|error| error.to_string())?;
    expression.evaluate(&Scope::new(data, Some(&metadata))).map_err(|error| error.to_string())
}

#[track_caller]
fn check(source: &str, data: Value, expected: Value) {
    assert_eq!(evaluate(source, &data), Ok(expected), "{source}");
}

#[track_caller]
fn refuse(source: &str, expected: &str) {
    assert_eq!(evaluate(source, &json!("data")), Err(expected.to_owned()), "{source}");
}

#[test]
fn a_lone_object_keeps_its_type() {
    check("{{ data }}", json!(7), json!(7));
    check("{{ data }}", json!({"a": [1]}), json!({"a": [1]}));
    check("{{data.a.b}}", json!({"a": {"b": true}}), json!(true));
    check("{{ data.items.1 }}", json!({"items": ["x", "y"]}), json!("y"));
    check("{{ data.missing.deep }}", json!({}), Value::Null);
    check("{{ metadata.city }}", json!(1), json!("Paris"));
    check("{{ 'text' }}", json!(1), json!("text"));
    check("{{ -12 }}", json!(1), json!(-12));
}

#[test]
fn anything_else_is_text() {
    check("plain", json!(1), json!("plain"));
    check("", json!(1), json!(""));
    check("{{ data.a }}|{{ data.b }}", json!({"a": "1", "b": 2}), json!("1|2"));
    check("<{{ data.missing }}>", json!({}), json!("<>"));
    check("{{ data }}!", json!([1, {"b": null}]), json!("[1,{\"b\":null}]!"));
    check("é{{ data }}é", json!("ü"), json!("éüé"));
}

#[test]
fn stringify() {
    check("{{ data | stringify }}", json!("as it is"), json!("as it is"));
    check("{{ data | stringify }}", json!({"b": 1, "a": "x"}), json!("{\"a\":\"x\",\"b\":1}"));
    check("{{ data | json_stringify }}", json!([true]), json!("[true]"));
    check("{{ data | stringify }}", Value::Null, Value::Null);
    let long: Value = serde_json::from_str("12345678901234567890123").unwrap();
    check("{{ data | stringify }}", long, json!("12345678901234567890123"));
}

#[test]
fn last4() {
    check("{{ data | last4 }}", json!("123456789"), json!("6789"));
    check("{{ data | last4 }}", json!("12"), json!("12"));
    check("{{ data | last4 }}", json!(123_456), json!("3456"));
    check("{{ data | last4 }}", json!("aéüßx"), json!("éüßx"));
}

#[test]
fn remove() {
    check("{{ data | remove: '-' }}", json!("123-45-6789"), json!("123456789"));
    check("{{ data | remove: \"12\" }}", json!("1212x"), json!("x"));
    check("{{ data | remove: '' }}", json!("ab"), json!("ab"));
    check("{{ data | remove: '-' }}", Value::Null, Value::Null);
}

#[test]
fn reveal_last() {
    check("{{ data | reveal_last: 4 }}", json!("123-45-6789"), json!("XXX-XX-6789"));
    check("{{ data | reveal_last: 4 }}", json!("Sensitive Value"), json!("XXXXXXXXXXXalue"));
    check("{{ data | reveal_last: 4 }}", json!("123"), json!("123"));
    check("{{ data | reveal_last: 0 }}", json!("ñú"), json!("XX"));
    check("{{ data | reveal_last: 2, '*' }}", json!("12345"), json!("***45"));
    check("{{ data, reveal_last: 2 }}", json!("12345"), json!("XXX45"));
    check("{{ data | reveal_last: 2, '*', last4 }}", json!("12345"), json!("**45"));
    check("{{ data | reveal_last: 4 }}", Value::Null, Value::Null);
}

#[test]
fn errors_tell_the_rule_and_the_place() {
    refuse("{{ data", "this {{ is never closed (at character 1)");
    refuse("{{ }}", "there is no value (at character 4)");
    refuse("é {{ data | shout }}", "there is no such filter (at character 13)");
    refuse(
        "{{ data | last4: 1 }}",
        "this filter takes another number of arguments (at character 11)",
    );
    refuse("{{ data last4 }}", "a | was expected before a filter (at character 9)");
    refuse("{{ other }}", "only data and metadata can be named here (at character 4)");
    refuse("{{ 'open }}", "this {{ is never closed (at character 1)");
    refuse("{{ data. }}", "a property name was expected (at character 10)");
    refuse("{% if data %}x{% endif %}", "tags are not available (at character 1)");
    refuse(
        "{{ data | reveal_last: 'x' }}",
        "reveal_last takes the number of characters to keep (at character 1)",
    );
    refuse("{{ data ~ }}", "this character has no meaning here (at character 9)");
    refuse(&"x".repeat(4097), "the expression is too long (at character 1)");
}

#[test]
fn templates_are_evaluated_leaf_by_leaf() {
    let template = json!({"n": "{{ data.n | last4 }}", "list": ["{{ data.m }}", "fixed", 3, null]});
    let data = json!({"n": "4242424242424242", "m": 12});
    let value = Template::parse(&template).unwrap().evaluate(&Scope::new(&data, None)).unwrap();
    assert_eq!(value, json!({"n": "4242", "list": [12, "fixed", 3, null]}));
}

#[test]
fn work_is_bounded() {
    let large = json!("x".repeat(500_000));
    let evaluated = |template: Value| {
        let template = Template::parse(&template).unwrap();
        template.evaluate(&Scope::new(&large, None)).map(drop).map_err(|error| error.problem)
    };
    assert_eq!(evaluated(json!("{{ data }}")), Ok(()));
    assert_eq!(evaluated(json!("{{ data | stringify }}")), Ok(()));
    assert_eq!(evaluated(json!(vec!["{{ data }}"; 7])), Ok(()));
    assert_eq!(evaluated(json!(vec!["{{ data }}"; 9])), Err("the output is too large"));
    let chain = format!("{{{{ data {} }}}}", "| stringify ".repeat(20));
    assert_eq!(evaluated(json!(chain)), Err("the output is too large"));
    assert_eq!(evaluated(json!("x{{ data }}")), Err("the output is too large"));
    let many = Template::parse(&json!(vec!["{{ data.a }}"; 10_001])).unwrap();
    let steps = many.evaluate(&Scope::new(&json!({}), None)).unwrap_err();
    assert_eq!(steps.problem, "this is too much to evaluate");
}

proptest! {
    #[test]
    fn no_text_panics(source in ".{0,80}") {
        drop(evaluate(&source, &json!({"a": "b"})));
    }

    #[test]
    fn no_expression_like_text_panics(
        source in "(\\{\\{|\\}\\}|data|\\.|\\||:|,| |'|\"|last4|reveal_last|4|-|é|\\{%){0,16}"
    ) {
        drop(evaluate(&source, &json!({"a": "b"})));
    }

    #[test]
    fn text_without_braces_is_itself(source in "[^{]{0,60}") {
        prop_assert_eq!(evaluate(&source, &json!(1)), Ok(Value::String(source)));
    }
}
