//! Cases that the vectors of `oracle.rs` do not cover: types, null, exact numbers, errors.

use serde_json::{Value, json};

use crate::{assert_evaluates, assert_fails};

#[test]
fn text_filters_keep_null() {
    for filter in [
        "capitalize",
        "downcase",
        "upcase",
        "strip",
        "lstrip",
        "rstrip",
        "escape",
        "escape_once",
        "strip_html",
        "newline_to_br",
        "strip_newlines",
        "url_encode",
        "url_decode",
        "truncate",
        "truncatewords",
        "remove: 'a'",
        "remove_first: 'a'",
        "remove_last: 'a'",
        "replace: 'a', 'b'",
        "replace_first: 'a', 'b'",
        "replace_last: 'a', 'b'",
        "base64_encode",
        "base64_decode",
        "base64_url_safe_encode",
        "base64_url_safe_decode",
        "slice: 1",
        "first",
        "last",
        "join",
    ] {
        assert_evaluates(&format!("{{{{ data.none | {filter} }}}}"), json!({}), Value::Null);
    }
    assert_evaluates("{{ data.none | append: 'x' }}", json!({}), json!("x"));
    assert_evaluates("{{ data.none | prepend: 'x' }}", json!({}), json!("x"));
    assert_evaluates("{{ data.none | size }}", json!({}), json!(0));
    assert_evaluates("{{ data.none | default: data }}", json!({"a": 1}), json!({"a": 1}));
    assert_evaluates("{{ data.none | split: ',' }}", json!({}), json!([]));
    assert_evaluates("{{ data.none | plus: 1 }}", json!({}), json!(1));
    assert_evaluates("{{ data.none | map: 'x' }}", json!({}), json!([]));
}

#[test]
fn filter_results_keep_their_json_type() {
    assert_evaluates("{{ data | split: ',' }}", json!("a,,b,,"), json!(["a", "", "b"]));
    assert_evaluates("{{ data | size }}", json!("éü"), json!(2));
    assert_evaluates("{{ data | first }}", json!([{"a": 1}]), json!({"a": 1}));
    assert_evaluates("{{ data | map: 'a' }}", json!([{"a": 1}, {}]), json!([1, null]));
    assert_evaluates("{{ data | where: 'a', 1 }}", json!([{"a": 1}, {"a": 2}]), json!([{"a": 1}]));
    assert_evaluates(
        "{{ data | sort }}",
        json!([null, "b", 2, "a", 10, 1.5]),
        json!([1.5, 2, 10, "a", "b", null]),
    );
    let far: Value =
        serde_json::from_str(r#"[1e400,{"a":1},-1e400,true,12345678901234567890123,[2]]"#).unwrap();
    let sorted: Value =
        serde_json::from_str(r#"[-1e400,12345678901234567890123,1e400,[2],true,{"a":1}]"#).unwrap();
    assert_evaluates("{{ data | sort }}", far, sorted);
    assert_evaluates(
        "{{ data | sort: 'n' }}",
        json!([{"n": 2}, {"n": 1}]),
        json!([{"n": 1}, {"n": 2}]),
    );
    assert_evaluates("{{ data | sort_natural }}", json!(["b", "A", "a"]), json!(["A", "a", "b"]));
    assert_evaluates("{{ data | uniq }}", json!([1, "1", 1, [1], [1]]), json!([1, "1", [1]]));
    assert_evaluates(
        "{{ data | uniq: 'k' }}",
        json!([{"k": 1}, {"k": 1, "x": 2}]),
        json!([{"k": 1}]),
    );
    assert_evaluates(
        "{{ data | compact: 'k' }}",
        json!([{"k": null}, {"k": 1}]),
        json!([{"k": 1}]),
    );
    assert_evaluates("{{ data | slice: 1, 2 }}", json!([1, 2, 3, 4]), json!([2, 3]));
    assert_evaluates("{{ data | slice: -9, 2 }}", json!("abc"), json!(""));
    assert_evaluates("{{ data | concat: data }}", json!([1]), json!([1, 1]));
    assert_evaluates("{{ data | reverse }}", json!("abc"), json!(["abc"]));
    assert_fails("{{ data | concat: 1 }}", json!([1]), "concat takes a list");
    assert_fails("{{ data | slice: 'x' }}", json!("abc"), "slice takes a start and a length");
}

#[test]
fn arithmetic_filters_are_exact_or_fail() {
    assert_evaluates("{{ data | plus: 0.2 }}", json!(0.1), json!(0.3));
    assert_evaluates("{{ data | times: 1.5 }}!", json!(2), json!("3.0!"));
    assert_evaluates("{{ data | divided_by: 2 }}", json!(7), json!(3));
    assert_evaluates("{{ data | divided_by: 2 }}", json!(-7), json!(-4));
    assert_evaluates("{{ data | divided_by: 7.0 }}", json!(20), json!(2.857_142_857_142_857));
    assert_evaluates("{{ data | divided_by: 4.0 }}", json!(1), json!(0.25));
    assert_evaluates("{{ data | modulo: 3 }}", json!(-7), json!(2));
    assert_evaluates("{{ data | round }}", json!(-2.5), json!(-3));
    assert_evaluates("{{ data | round: 2 }}", json!(1.005), serde_json::from_str("1.01").unwrap());
    assert_evaluates("{{ data | ceil }}", json!(-1.5), json!(-1));
    assert_evaluates("{{ data | floor }}", json!(-1.5), json!(-2));
    assert_evaluates("{{ data | at_most: 2.5 }}", json!(3), json!(2.5));
    assert_evaluates("{{ data | sum: 'a' }}", json!([{"a": 1.5}, {"a": "2"}, {}]), json!(3.5));
    assert_evaluates("{{ data | plus: 1 }}", json!("041"), json!(42));
    let large: Value = serde_json::from_str("99999999999999999999999").unwrap();
    assert_evaluates("{{ data | plus: 1 }}!", large.clone(), json!("100000000000000000000000!"));
    assert_fails("{{ data | times: data }}", large, "this number is too large to calculate with");
    let huge: Value = serde_json::from_str(&"9".repeat(60)).unwrap();
    assert_evaluates("{{ data }}", huge.clone(), huge.clone());
    assert_fails(
        "{{ data | plus: 1 }}",
        huge.clone(),
        "this number is too large to calculate with",
    );
    assert_fails("{{ data | floor }}", huge, "this number is too large to calculate with");
    let small: Value = serde_json::from_str("1e-400").unwrap();
    assert_fails("{{ data | plus: 1 }}", small, "this number is too large to calculate with");
    let thousand: Value = serde_json::from_str("1e3").unwrap();
    assert_evaluates("{{ data | plus: 1 }}!", thousand, json!("1001.0!"));
    assert_fails("{{ data | plus: 1 }}", json!("x"), "this is not a number");
    assert_fails("{{ data | plus: 1 }}", json!(true), "this is not a number");
    assert_fails("{{ data | divided_by: 0 }}", json!(1), "a number cannot be divided by zero");
    assert_fails("{{ data | modulo: 0.0 }}", json!(1), "a number cannot be divided by zero");
}

#[test]
fn markup_filters_escape_strip_and_decode() {
    assert_evaluates(
        "{{ data | escape_once }}",
        json!("&lt;&#39;& &;&#x;"),
        json!("&lt;&#39;&amp; &amp;;&amp;#x;"),
    );
    assert_evaluates("{{ data | strip_html }}", json!("a<b c"), json!("a<b c"));
    assert_evaluates("{{ data | strip_html }}", json!("<SCRIPT>x</script>y"), json!("y"));
    assert_evaluates("{{ data | url_decode }}", json!("a+b%C3%A9"), json!("a bé"));
    assert_fails("{{ data | url_decode }}", json!("%C3"), "this is not URL-encoded text");
    assert_fails("{{ data | url_decode }}", json!("%zz"), "this is not URL-encoded text");
    assert_evaluates("{{ data | base64_url_safe_encode }}", json!("??>>"), json!("Pz8-Pg=="));
    assert_evaluates("{{ data | base64_url_safe_decode }}", json!("Pz8-Pg=="), json!("??>>"));
    assert_fails("{{ data | base64_decode }}", json!("?"), "this is not base64");
    assert_fails(
        "{{ data | base64_decode }}",
        json!("/w=="),
        "the decoded base64 is not UTF-8 text",
    );
}
