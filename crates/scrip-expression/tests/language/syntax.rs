//! Operands, text around them, errors and their places.

use scrip_expression::{Scope, Template};
use serde_json::{Value, json};

use crate::{check, fails, refuse};

#[test]
fn a_lone_output_keeps_its_type() {
    check("{{ data }}", json!(7), json!(7));
    check("{{ data }}", json!({"a": [1]}), json!({"a": [1]}));
    check("{{data.a.b}}", json!({"a": {"b": true}}), json!(true));
    check("{{ data.missing.deep }}", json!({}), Value::Null);
    check("{{ metadata.city }}", json!(1), json!("Paris"));
    check("{{ 'text' }}", json!(1), json!("text"));
    check("{{ \"it's\" }}", json!(1), json!("it's"));
    check("{{ -12 }}", json!(1), json!(-12));
    check("{{ true }}", json!(1), json!(true));
    check("{{ nil }}{{ null }}", json!(1), json!(""));
    check("{{ nil }}", json!(1), Value::Null);
    check("{{ empty }}", json!(1), json!(""));
    check("{{ (1..3) }}", json!(1), json!([1, 2, 3]));
    check("{{ (3..1) }}", json!(1), json!([]));
    check("{{- data -}}", json!(7), json!(7));
    check("  {{- data -}}  ", json!(7), json!(7));
}

#[test]
fn numbers_are_exact() {
    let long: Value = serde_json::from_str("12345678901234567890123").unwrap();
    check("{{ data }}", long.clone(), long.clone());
    check("{{ 12345678901234567890123 }}", json!(1), long.clone());
    check("{{ data | stringify }}", long, json!("12345678901234567890123"));
    check("{{ 1.50 }}!", json!(1), json!("1.50!"));
    check("{{ 007 }}", json!(1), json!(7));
    check("{{ -00.5 }}!", json!(1), json!("-0.5!"));
}

#[test]
fn paths() {
    let data = json!({"items": ["x", "y"], "a b": 1, "size": 9, "o": {"k": "v"}, "i": 1, "n": "k"});
    check("{{ data.items.1 }}", data.clone(), json!("y"));
    check("{{ data.items[1] }}", data.clone(), json!("y"));
    check("{{ data.items[-2] }}", data.clone(), json!("x"));
    check("{{ data.items[-3] }}", data.clone(), Value::Null);
    check("{{ data.items[9] }}", data.clone(), Value::Null);
    check("{{ data['a b'] }}", data.clone(), json!(1));
    check("{{ data[\"items\"][0] }}", data.clone(), json!("x"));
    check("{{ data.items[data.i] }}", data.clone(), json!("y"));
    check("{{ data.o[data.n] }}", data.clone(), json!("v"));
    check("{{ data.items.first }}{{ data.items.last }}", data.clone(), json!("xy"));
    check("{{ data.items.size }}", data.clone(), json!(2));
    check("{{ data.size }}", data.clone(), json!(9));
    check("{{ data.o.size }}", data.clone(), json!(1));
    check("{{ data.n.size }}", data.clone(), json!(1));
    check("{{ data.i.size }}", data.clone(), Value::Null);
    check("{{ data.items.size.size }}", data.clone(), Value::Null);
    check("{{ data.items.1.2 }}", data, Value::Null);
    check("{{ data.list.0.1 }}", json!({"list": [[5, 6]]}), json!(6));
    check("{{ data.0 }}", json!({"0": "zero"}), json!("zero"));
}

#[test]
fn anything_else_is_text() {
    check("plain", json!(1), json!("plain"));
    check("", json!(1), json!(""));
    check("{{ data.a }}|{{ data.b }}", json!({"a": "1", "b": 2}), json!("1|2"));
    check("<{{ data.missing }}>", json!({}), json!("<>"));
    check("{{ data }}!", json!([1, {"b": null}]), json!("[1,{\"b\":null}]!"));
    check("é{{ data }}é", json!("ü"), json!("éüé"));
    check("{{ data }} ", json!(7), json!("7 "));
    check("{{ '}}' }}", json!(1), json!("}}"));
    check("a } b { c", json!(1), json!("a } b { c"));
}

#[test]
fn whitespace_control() {
    check("a {{- data }} b", json!("x"), json!("ax b"));
    check("a {{ data -}} b", json!("x"), json!("a xb"));
    check("a {%- if data -%} b {%- endif -%} c", json!(true), json!("abc"));
    check("a {% raw -%} {{ x }} {%- endraw %} b", json!(1), json!("a {{ x }} b"));
    check("a {%- comment %} x {% endcomment -%} b", json!(1), json!("ab"));
}

#[test]
fn errors_tell_the_rule_and_the_place() {
    refuse("{{ data", "this {{ is never closed (at character 1)");
    refuse("a {% if data", "this {% is never closed (at character 3)");
    refuse("{{ }}", "there is no value (at character 4)");
    refuse("é {{ data | shout }}", "there is no such filter (at character 13)");
    let count = "this filter takes another number of arguments";
    refuse("{{ data | last4: 1 }}", &format!("{count} (at character 18)"));
    refuse("{{ data | reveal_last }}", &format!("{count} (at character 11)"));
    refuse("{{ data | reveal_last: char: 'x' }}", &format!("{count} (at character 11)"));
    refuse("{{ data last4 }}", "a | was expected before a filter (at character 9)");
    refuse("{{ other }}", "only data and metadata can be named here (at character 4)");
    refuse("{{ 'open }}", "this {{ is never closed (at character 1)");
    refuse("{{ data. }}", "a property name was expected (at character 10)");
    refuse("{{ data[ }}", "there is no value (at character 10)");
    refuse("{{ data[1 }}", "a ] was expected (at character 11)");
    refuse("{{ data[1.5] }}", "an index is a whole number (at character 8)");
    refuse("{{ (1..2 }}", "a ) was expected (at character 10)");
    refuse("{{ data | }}", "a filter name was expected (at character 11)");
    refuse("{{ data | append: }}", "an argument was expected (at character 19)");
    refuse("{{ data ~ }}", "this character has no meaning here (at character 9)");
    refuse("{{ forloop.index }}", "there is no loop here (at character 4)");
    refuse(
        "{{ data | reveal_last: 'x' }}",
        "reveal_last takes the number of characters to keep (at character 1)",
    );
    refuse("x {{ data | to_number }}", "this is not a number (at character 3)");
}

#[test]
fn arguments_go_by_place_or_by_name() {
    let value = || json!("12345");
    check("{{ data | reveal_last: 2, '*' }}", value(), json!("***45"));
    check("{{ data | reveal_last: 2, char: '*' }}", value(), json!("***45"));
    check("{{ data | reveal_last: 2, char='*' }}", value(), json!("***45"));
    check("{{ data | reveal_last: n: 2 }}", value(), json!("XXX45"));
    check("{{ data | reveal: last: 1 }}", value(), json!("XXXX5"));
    check("{{ data | reveal: 1, last: 1 }}", value(), json!("1XXX5"));
    check("{{ data | reveal: 1, last=1, char='-' }}", value(), json!("1---5"));
    check("{{ data | append: data }}", value(), json!("1234512345"));
    check("{{ data | slice: 0, metadata.none }}", value(), json!("1"));
    refuse(
        "{{ data | reveal_last: 2, color: 'x' }}",
        "this filter has no such parameter (at character 27)",
    );
    refuse("{{ data | reveal: 1, first: 2 }}", "this argument was given already (at character 22)");
}

#[test]
fn a_comma_before_a_filter_is_a_pipe() {
    check("{{ data, reveal_last: 2 }}", json!("12345"), json!("XXX45"));
    check(
        "{{ data.n, reveal_last: 4 }}",
        json!({"n": "4242424242424242"}),
        json!("XXXXXXXXXXXX4242"),
    );
    check("{{ data | reveal_last: 2, '*', last4 }}", json!("12345"), json!("**45"));
    check("{{ data, upcase, append: 'x', size }}", json!("ab"), json!(3));
    check("{{ data | reveal: 1, last }}", json!("12345"), json!("X"));
    check("{{ data | card_mask: 'true', last4 }}", json!("4242424242424242"), json!("XXXX"));
    fails("{{ data, shout: 2 }}", json!(1), "there is no such filter");
    fails("{{ data, 4 }}", json!(1), "a filter name was expected");
    fails(
        "{{ data | append: 'x', shout }}",
        json!(1),
        "this filter takes another number of arguments",
    );
    // A variable of that name would make the comma mean two things.
    fails("{% assign size = 2 %}{{ data }}", json!(1), "this is the name of a filter");
    fails("{% for last in data %}{% endfor %}", json!(1), "this is the name of a filter");
}

#[test]
fn templates_are_evaluated_leaf_by_leaf() {
    let template = json!({"n": "{{ data.n | last4 }}", "list": ["{{ data.m }}", "fixed", 3, null]});
    let data = json!({"n": "4242424242424242", "m": 12});
    let value = Template::parse(&template).unwrap().evaluate(&Scope::new(&data, None)).unwrap();
    assert_eq!(value, json!({"n": "4242", "list": [12, "fixed", 3, null]}));
}
