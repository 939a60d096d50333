//! Tags.

use serde_json::json;

use crate::{check, fails};

#[test]
fn branches() {
    let source = "{% if data > 5 %}more{% elsif data == 5 %}same{% else %}less{% endif %}";
    check(source, json!(6), json!("more"));
    check(source, json!(5), json!("same"));
    check(source, json!(5.0), json!("same"));
    check(source, json!(4), json!("less"));
    check(source, json!("9"), json!("less"));
    check("{% unless data %}no{% else %}yes{% endunless %}", json!(false), json!("no"));
    check("{% if data %}{{ data }}{% endif %}", json!(7), json!("7"));
}

#[test]
fn and_and_or_bind_from_the_right() {
    check("{% if true or false and false %}y{% endif %}", json!(1), json!("y"));
    check("{% if false and false or true %}y{% else %}n{% endif %}", json!(1), json!("n"));
    check("{% if data.a and data.b or data.c %}y{% endif %}", json!({"a": 1, "c": 1}), json!("y"));
}

#[test]
fn what_is_empty_and_what_is_blank() {
    for (value, expected) in [
        (json!(""), "eb"),
        (json!("  "), "b"),
        (json!(null), "b"),
        (json!(false), "b"),
        (json!([]), "eb"),
        (json!({}), "eb"),
        (json!(0), ""),
        (json!("x"), ""),
    ] {
        let source = "{% if data == empty %}e{% endif %}{% if blank == data %}b{% endif %}";
        check(source, value, json!(expected));
    }
}

#[test]
fn containing() {
    let source = "{% if data contains 'b' %}y{% else %}n{% endif %}";
    check(source, json!("abc"), json!("y"));
    check(source, json!(["a", "b"]), json!("y"));
    check(source, json!({"b": 1}), json!("y"));
    check(source, json!(["ab"]), json!("n"));
    check(source, json!(null), json!("n"));
    check("{% if data contains nil %}y{% else %}n{% endif %}", json!("abc"), json!("n"));
    check("{% if data contains 1.0 %}y{% endif %}", json!([1]), json!("y"));
}

#[test]
fn cases() {
    let source =
        "{% case data %} dropped {% when 1, 2 %}a{% when 2 or 'x' %}b{% else %}c{% endcase %}";
    check(source, json!(1), json!("a"));
    check(source, json!(2), json!("ab"));
    check(source, json!("x"), json!("b"));
    check(source, json!(9), json!("c"));
}

#[test]
fn loops() {
    let list = || json!(["a", "b", "c", "d"]);
    check("{% for i in data %}{{ i }}{% endfor %}", list(), json!("abcd"));
    check(
        "{% for i in data limit: 2 offset: 1 reversed %}{{ i }}{% endfor %}",
        list(),
        json!("cb"),
    );
    check("{% for i in data.none %}{{ i }}{% else %}none{% endfor %}", json!({}), json!("none"));
    check("{% for i in data limit: 0 %}x{% else %}none{% endfor %}", list(), json!("none"));
    check("{% for i in data offset: 9 %}x{% endfor %}", list(), json!(""));
    check(
        "{% for i in data %}{{ forloop.index }}{{ forloop.rindex0 }}{{ forloop.last }} {% endfor %}",
        json!([1, 2]),
        json!("11false 20true "),
    );
    check(
        "{% for i in data %}{% if i == 'b' %}{% continue %}{% endif %}{% if i == 'd' %}{% break %}{% endif %}{{ i }}{% endfor %}",
        list(),
        json!("ac"),
    );
    check(
        "{% for p in data %}{{ p[0] }}{{ p[1] }}{% endfor %}",
        json!({"a": 1, "b": 2}),
        json!("a1b2"),
    );
    check("{% for i in (1..data) %}{{ i }}{% endfor %}", json!(3), json!("123"));
    check(
        "{% for i in data %}{% for i in data %}{{ i }}{% endfor %}{{ i }};{% endfor %}",
        json!([1, 2]),
        json!("121;122;"),
    );
    check(
        "{% for i in data %}{% if seen %}={% endif %}{% assign seen = i %}{% endfor %}",
        json!([1, 2]),
        json!("="),
    );
}

#[test]
fn variables() {
    check("{% assign x = data | upcase %}{{ x }}", json!("a"), json!("A"));
    check("{% assign x = data.list %}{{ x.size }}{{ x[0] }}", json!({"list": [5]}), json!("15"));
    check("{% capture x %}<{{ data }}>{% endcapture %}{{ x | size }}", json!("ab"), json!("4"));
    check(
        "{% assign x = data | split: ',' %}{% for i in x %}{{ i }}{% endfor %}{{ x.last }}",
        json!("a,b"),
        json!("abb"),
    );
    check(
        "{% assign x = 'a' | hmac: 'sha-1', 'k' %}{{ x | to_base64 }}",
        json!(1),
        json!("U2hhMT5rPmE="),
    );
    fails("{% assign data = 1 %}", json!(1), "this name has a meaning already");
    fails("{% assign x %}", json!(1), "an assignment is a name, = and a value");
    fails("{{ x }}{% assign y = 1 %}", json!(1), "only data and metadata can be named here");
}

#[test]
fn text_that_is_not_read() {
    check("a{% comment %}{{ it's %} {% if {% endcomment %}b", json!(1), json!("ab"));
    check("{% raw %}{{ data }}{% for %}{% endraw %}", json!(1), json!("{{ data }}{% for %}"));
    check("{% # it's a note %}x", json!(1), json!("x"));
    check("{%- echo data | upcase -%}", json!("x"), json!("X"));
}

#[test]
fn what_there_is_not() {
    for tag in [
        "include 'x'",
        "render 'x'",
        "increment x",
        "cycle 'a'",
        "tablerow x in data",
        "endif",
        "when 1",
        "layout 'x'",
    ] {
        fails(&format!("{{% {tag} %}}"), json!(1), "there is no such tag here");
    }
    fails("{% if data %}x", json!(1), "this tag is never closed");
    fails("{% for x in data %}x", json!(1), "this tag is never closed");
    fails("{% comment %}x", json!(1), "this tag is never closed");
    fails("{% raw %}x{% endcomment %}", json!(1), "this tag is never closed");
    fails("{% if data %}{% else %}{% else %}{% endif %}", json!(1), "nothing follows else");
    fails("{% break %}", json!(1), "there is no loop here");
    fails("{% if data | size %}{% endif %}", json!(1), "and, or, or the end was expected");
    fails("{% %}", json!(1), "a tag was expected");
    fails("{% for x data %}{% endfor %}", json!(1), "a loop is a name, in and a list");
    fails(
        "{% for x in data step: 2 %}{% endfor %}",
        json!(1),
        "a loop knows reversed, limit and offset",
    );
    fails(
        "{% for x in data limit: 'x' %}{% endfor %}",
        json!([1]),
        "a loop is bounded by a whole number",
    );
    fails("{{ (1..'x') }}", json!(1), "a range goes from a whole number to a whole number");
}
