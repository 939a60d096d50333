//! Tags.

use serde_json::json;

use crate::{assert_evaluates, assert_fails};

#[test]
fn if_and_unless_choose_a_branch() {
    let source = "{% if data > 5 %}more{% elsif data == 5 %}same{% else %}less{% endif %}";
    assert_evaluates(source, json!(6), json!("more"));
    assert_evaluates(source, json!(5), json!("same"));
    assert_evaluates(source, json!(5.0), json!("same"));
    assert_evaluates(source, json!(4), json!("less"));
    assert_evaluates(source, json!("9"), json!("less"));
    assert_evaluates("{% unless data %}no{% else %}yes{% endunless %}", json!(false), json!("no"));
    assert_evaluates("{% if data %}{{ data }}{% endif %}", json!(7), json!("7"));
}

#[test]
fn boolean_operators_associate_to_the_right() {
    assert_evaluates("{% if true or false and false %}y{% endif %}", json!(1), json!("y"));
    assert_evaluates(
        "{% if false and false or true %}y{% else %}n{% endif %}",
        json!(1),
        json!("n"),
    );
    assert_evaluates(
        "{% if data.a and data.b or data.c %}y{% endif %}",
        json!({"a": 1, "c": 1}),
        json!("y"),
    );
}

#[test]
fn empty_and_blank_compare_as_in_liquid() {
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
        assert_evaluates(source, value, json!(expected));
    }
}

#[test]
fn contains_searches_text_lists_and_objects() {
    let source = "{% if data contains 'b' %}y{% else %}n{% endif %}";
    assert_evaluates(source, json!("abc"), json!("y"));
    assert_evaluates(source, json!(["a", "b"]), json!("y"));
    assert_evaluates(source, json!({"b": 1}), json!("y"));
    assert_evaluates(source, json!(["ab"]), json!("n"));
    assert_evaluates(source, json!(null), json!("n"));
    assert_evaluates("{% if data contains nil %}y{% else %}n{% endif %}", json!("abc"), json!("n"));
    assert_evaluates("{% if data contains 1.0 %}y{% endif %}", json!([1]), json!("y"));
}

#[test]
fn case_renders_every_matching_arm() {
    let source =
        "{% case data %} dropped {% when 1, 2 %}a{% when 2 or 'x' %}b{% else %}c{% endcase %}";
    assert_evaluates(source, json!(1), json!("a"));
    assert_evaluates(source, json!(2), json!("ab"));
    assert_evaluates(source, json!("x"), json!("b"));
    assert_evaluates(source, json!(9), json!("c"));
}

#[test]
fn for_loops_support_limit_offset_and_forloop() {
    let list = || json!(["a", "b", "c", "d"]);
    assert_evaluates("{% for i in data %}{{ i }}{% endfor %}", list(), json!("abcd"));
    assert_evaluates(
        "{% for i in data limit: 2 offset: 1 reversed %}{{ i }}{% endfor %}",
        list(),
        json!("cb"),
    );
    assert_evaluates(
        "{% for i in data.none %}{{ i }}{% else %}none{% endfor %}",
        json!({}),
        json!("none"),
    );
    assert_evaluates(
        "{% for i in data limit: 0 %}x{% else %}none{% endfor %}",
        list(),
        json!("none"),
    );
    assert_evaluates("{% for i in data offset: 9 %}x{% endfor %}", list(), json!(""));
    assert_evaluates(
        "{% for i in data %}{{ forloop.index }}{{ forloop.rindex0 }}{{ forloop.last }} {% endfor %}",
        json!([1, 2]),
        json!("11false 20true "),
    );
    assert_evaluates(
        "{% for i in data %}{% if i == 'b' %}{% continue %}{% endif %}{% if i == 'd' %}{% break %}{% endif %}{{ i }}{% endfor %}",
        list(),
        json!("ac"),
    );
    assert_evaluates(
        "{% for p in data %}{{ p[0] }}{{ p[1] }}{% endfor %}",
        json!({"a": 1, "b": 2}),
        json!("a1b2"),
    );
    assert_evaluates("{% for i in (1..data) %}{{ i }}{% endfor %}", json!(3), json!("123"));
    assert_evaluates(
        "{% for i in data %}{% for i in data %}{{ i }}{% endfor %}{{ i }};{% endfor %}",
        json!([1, 2]),
        json!("121;122;"),
    );
    assert_evaluates(
        "{% for i in data %}{% if seen %}={% endif %}{% assign seen = i %}{% endfor %}",
        json!([1, 2]),
        json!("="),
    );
}

#[test]
fn assign_and_capture_define_variables() {
    assert_evaluates("{% assign x = data | upcase %}{{ x }}", json!("a"), json!("A"));
    assert_evaluates(
        "{% assign x = data.list %}{{ x.size }}{{ x[0] }}",
        json!({"list": [5]}),
        json!("15"),
    );
    assert_evaluates(
        "{% capture x %}<{{ data }}>{% endcapture %}{{ x | size }}",
        json!("ab"),
        json!("4"),
    );
    assert_evaluates(
        "{% assign x = data | split: ',' %}{% for i in x %}{{ i }}{% endfor %}{{ x.last }}",
        json!("a,b"),
        json!("abb"),
    );
    assert_evaluates(
        "{% assign x = 'a' | hmac: 'sha-1', 'k' %}{{ x | to_base64 }}",
        json!(1),
        json!("U2hhMT5rPmE="),
    );
    assert_fails("{% assign data = 1 %}", json!(1), "this name is reserved");
    assert_fails("{% assign x %}", json!(1), "an assignment is a name, = and a value");
    assert_fails(
        "{{ x }}{% assign y = 1 %}",
        json!(1),
        "unknown name: an expression can read data, a fingerprint expression also metadata",
    );
}

#[test]
fn raw_and_comment_are_not_evaluated() {
    assert_evaluates("a{% comment %}{{ it's %} {% if {% endcomment %}b", json!(1), json!("ab"));
    assert_evaluates(
        "{% raw %}{{ data }}{% for %}{% endraw %}",
        json!(1),
        json!("{{ data }}{% for %}"),
    );
    assert_evaluates("{% # it's a note %}x", json!(1), json!("x"));
    assert_evaluates("{%- echo data | upcase -%}", json!("x"), json!("X"));
}

#[test]
fn unsupported_or_unclosed_tags_are_rejected() {
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
        assert_fails(&format!("{{% {tag} %}}"), json!(1), "unknown tag");
    }
    assert_fails("{% if data %}x", json!(1), "this tag has no end tag");
    assert_fails("{% for x in data %}x", json!(1), "this tag has no end tag");
    assert_fails("{% comment %}x", json!(1), "this tag has no end tag");
    assert_fails("{% raw %}x{% endcomment %}", json!(1), "this tag has no end tag");
    assert_fails(
        "{% if data %}{% else %}{% else %}{% endif %}",
        json!(1),
        "no branch may follow else",
    );
    assert_fails("{% break %}", json!(1), "only allowed inside a loop");
    assert_fails("{% if data | size %}{% endif %}", json!(1), "and, or, or the end was expected");
    assert_fails("{% %}", json!(1), "a tag was expected");
    assert_fails("{% for x data %}{% endfor %}", json!(1), "a loop is a name, in and a list");
    assert_fails(
        "{% for x in data step: 2 %}{% endfor %}",
        json!(1),
        "a loop supports reversed, limit and offset",
    );
    assert_fails(
        "{% for x in data limit: 'x' %}{% endfor %}",
        json!([1]),
        "a loop limit must be a whole number",
    );
    assert_fails("{{ (1..'x') }}", json!(1), "the ends of a range must be whole numbers");
}
