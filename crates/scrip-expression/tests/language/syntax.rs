//! Operands, surrounding text, and errors with their positions.

use scrip_expression::{Scope, Template};
use serde_json::{Value, json};

use crate::{assert_error, assert_evaluates, assert_fails};

#[test]
fn single_output_keeps_its_type() {
    assert_evaluates("{{ data }}", json!(7), json!(7));
    assert_evaluates("{{ data }}", json!({"a": [1]}), json!({"a": [1]}));
    assert_evaluates("{{data.a.b}}", json!({"a": {"b": true}}), json!(true));
    assert_evaluates("{{ data.missing.deep }}", json!({}), Value::Null);
    assert_evaluates("{{ metadata.city }}", json!(1), json!("Paris"));
    assert_evaluates("{{ 'text' }}", json!(1), json!("text"));
    assert_evaluates("{{ \"it's\" }}", json!(1), json!("it's"));
    assert_evaluates("{{ -12 }}", json!(1), json!(-12));
    assert_evaluates("{{ true }}", json!(1), json!(true));
    assert_evaluates("{{ nil }}{{ null }}", json!(1), json!(""));
    assert_evaluates("{{ nil }}", json!(1), Value::Null);
    assert_evaluates("{{ empty }}", json!(1), json!(""));
    assert_evaluates("{{ (1..3) }}", json!(1), json!([1, 2, 3]));
    assert_evaluates("{{ (3..1) }}", json!(1), json!([]));
    assert_evaluates("{{- data -}}", json!(7), json!(7));
    assert_evaluates("  {{- data -}}  ", json!(7), json!(7));
}

#[test]
fn number_literals_are_exact() {
    let long: Value = serde_json::from_str("12345678901234567890123").unwrap();
    assert_evaluates("{{ data }}", long.clone(), long.clone());
    assert_evaluates("{{ 12345678901234567890123 }}", json!(1), long.clone());
    assert_evaluates("{{ data | stringify }}", long, json!("12345678901234567890123"));
    assert_evaluates("{{ 1.50 }}!", json!(1), json!("1.50!"));
    assert_evaluates("{{ 007 }}", json!(1), json!(7));
    assert_evaluates("{{ -00.5 }}!", json!(1), json!("-0.5!"));
}

#[test]
fn paths_resolve_properties_and_indexes() {
    let data = json!({"items": ["x", "y"], "a b": 1, "size": 9, "o": {"k": "v"}, "i": 1, "n": "k"});
    assert_evaluates("{{ data.items.1 }}", data.clone(), json!("y"));
    assert_evaluates("{{ data.items[1] }}", data.clone(), json!("y"));
    assert_evaluates("{{ data.items[-2] }}", data.clone(), json!("x"));
    assert_evaluates("{{ data.items[-3] }}", data.clone(), Value::Null);
    assert_evaluates("{{ data.items[9] }}", data.clone(), Value::Null);
    assert_evaluates("{{ data['a b'] }}", data.clone(), json!(1));
    assert_evaluates("{{ data[\"items\"][0] }}", data.clone(), json!("x"));
    assert_evaluates("{{ data.items[data.i] }}", data.clone(), json!("y"));
    assert_evaluates("{{ data.o[data.n] }}", data.clone(), json!("v"));
    assert_evaluates("{{ data.items.first }}{{ data.items.last }}", data.clone(), json!("xy"));
    assert_evaluates("{{ data.items.size }}", data.clone(), json!(2));
    assert_evaluates("{{ data.size }}", data.clone(), json!(9));
    assert_evaluates("{{ data.o.size }}", data.clone(), json!(1));
    assert_evaluates("{{ data.n.size }}", data.clone(), json!(1));
    assert_evaluates("{{ data.i.size }}", data.clone(), Value::Null);
    assert_evaluates("{{ data.items.size.size }}", data.clone(), Value::Null);
    assert_evaluates("{{ data.items.1.2 }}", data, Value::Null);
    assert_evaluates("{{ data.list.0.1 }}", json!({"list": [[5, 6]]}), json!(6));
    assert_evaluates("{{ data.0 }}", json!({"0": "zero"}), json!("zero"));
}

#[test]
fn template_with_text_and_output_evaluates_to_text() {
    assert_evaluates("plain", json!(1), json!("plain"));
    assert_evaluates("", json!(1), json!(""));
    assert_evaluates("{{ data.a }}|{{ data.b }}", json!({"a": "1", "b": 2}), json!("1|2"));
    assert_evaluates("<{{ data.missing }}>", json!({}), json!("<>"));
    assert_evaluates("{{ data }}!", json!([1, {"b": null}]), json!("[1,{\"b\":null}]!"));
    assert_evaluates("é{{ data }}é", json!("ü"), json!("éüé"));
    assert_evaluates("{{ data }} ", json!(7), json!("7 "));
    assert_evaluates("{{ '}}' }}", json!(1), json!("}}"));
    assert_evaluates("a } b { c", json!(1), json!("a } b { c"));
}

#[test]
fn whitespace_control_trims_around_braces() {
    assert_evaluates("a {{- data }} b", json!("x"), json!("ax b"));
    assert_evaluates("a {{ data -}} b", json!("x"), json!("a xb"));
    assert_evaluates("a {%- if data -%} b {%- endif -%} c", json!(true), json!("abc"));
    assert_evaluates("a {% raw -%} {{ x }} {%- endraw %} b", json!(1), json!("a {{ x }} b"));
    assert_evaluates("a {%- comment %} x {% endcomment -%} b", json!(1), json!("ab"));
}

#[test]
fn syntax_errors_report_rule_and_position() {
    assert_error("{{ data", "this {{ is never closed (at character 1)");
    assert_error("a {% if data", "this {% is never closed (at character 3)");
    assert_error("{{ }}", "a value was expected (at character 4)");
    assert_error("é {{ data | shout }}", "unknown filter (at character 13)");
    let count = "wrong number of arguments for this filter";
    assert_error("{{ data | last4: 1 }}", &format!("{count} (at character 18)"));
    assert_error("{{ data | reveal_last }}", &format!("{count} (at character 11)"));
    assert_error("{{ data | reveal_last: char: 'x' }}", &format!("{count} (at character 11)"));
    assert_error("{{ data last4 }}", "a | was expected before a filter (at character 9)");
    assert_error(
        "{{ other }}",
        "unknown name: an expression can read data, a fingerprint expression also metadata (at character 4)",
    );
    assert_error("{{ 'open }}", "this {{ is never closed (at character 1)");
    assert_error("{{ data. }}", "a property name was expected (at character 10)");
    assert_error("{{ data[ }}", "a value was expected (at character 10)");
    assert_error("{{ data[1 }}", "a ] was expected (at character 11)");
    assert_error("{{ data[1.5] }}", "an index is a whole number (at character 8)");
    assert_error("{{ (1..2 }}", "a ) was expected (at character 10)");
    assert_error("{{ data | }}", "a filter name was expected (at character 11)");
    assert_error("{{ data | append: }}", "an argument was expected (at character 19)");
    assert_error("{{ data ~ }}", "unexpected character (at character 9)");
    assert_error("{{ forloop.index }}", "only allowed inside a loop (at character 4)");
    assert_error(
        "{{ data | reveal_last: 'x' }}",
        "reveal_last takes the number of characters to keep (at character 1)",
    );
    assert_error("x {{ data | to_number }}", "this is not a number (at character 3)");
}

#[test]
fn arguments_are_positional_or_named() {
    let value = || json!("12345");
    assert_evaluates("{{ data | reveal_last: 2, '*' }}", value(), json!("***45"));
    assert_evaluates("{{ data | reveal_last: 2, char: '*' }}", value(), json!("***45"));
    assert_evaluates("{{ data | reveal_last: 2, char='*' }}", value(), json!("***45"));
    assert_evaluates("{{ data | reveal_last: n: 2 }}", value(), json!("XXX45"));
    assert_evaluates("{{ data | reveal: last: 1 }}", value(), json!("XXXX5"));
    assert_evaluates("{{ data | reveal: 1, last: 1 }}", value(), json!("1XXX5"));
    assert_evaluates("{{ data | reveal: 1, last=1, char='-' }}", value(), json!("1---5"));
    assert_evaluates("{{ data | append: data }}", value(), json!("1234512345"));
    assert_evaluates("{{ data | slice: 0, metadata.none }}", value(), json!("1"));
    assert_error(
        "{{ data | reveal_last: 2, color: 'x' }}",
        "unknown parameter of this filter (at character 27)",
    );
    assert_error(
        "{{ data | reveal: 1, first: 2 }}",
        "this argument is given twice (at character 22)",
    );
}

#[test]
fn comma_before_a_filter_acts_as_pipe() {
    assert_evaluates("{{ data, reveal_last: 2 }}", json!("12345"), json!("XXX45"));
    assert_evaluates(
        "{{ data.n, reveal_last: 4 }}",
        json!({"n": "4242424242424242"}),
        json!("XXXXXXXXXXXX4242"),
    );
    assert_evaluates("{{ data | reveal_last: 2, '*', last4 }}", json!("12345"), json!("**45"));
    assert_evaluates("{{ data, upcase, append: 'x', size }}", json!("ab"), json!(3));
    assert_evaluates("{{ data | reveal: 1, last }}", json!("12345"), json!("X"));
    assert_evaluates(
        "{{ data | card_mask: 'true', last4 }}",
        json!("4242424242424242"),
        json!("XXXX"),
    );
    assert_fails("{{ data, shout: 2 }}", json!(1), "unknown filter");
    assert_fails("{{ data, 4 }}", json!(1), "a filter name was expected");
    assert_fails(
        "{{ data | append: 'x', shout }}",
        json!(1),
        "wrong number of arguments for this filter",
    );
    // A variable with that name would make the comma ambiguous.
    assert_fails("{% assign size = 2 %}{{ data }}", json!(1), "this is the name of a filter");
    assert_fails("{% for last in data %}{% endfor %}", json!(1), "this is the name of a filter");
}

#[test]
fn templates_are_evaluated_leaf_by_leaf() {
    let template = json!({"n": "{{ data.n | last4 }}", "list": ["{{ data.m }}", "fixed", 3, null]});
    let data = json!({"n": "4242424242424242", "m": 12});
    let value = Template::parse(&template).unwrap().evaluate(&Scope::new(&data, None)).unwrap();
    assert_eq!(value, json!({"n": "4242", "list": [12, "fixed", 3, null]}));
}
