//! The scanner accepts the same texts as the parser of the other requests.

use proptest::prelude::*;
use scrip_core::policy::proxy::transform::JsonLocation;

use super::*;
use crate::wire::json;

fn scan_leaves(text: &str) -> Result<Vec<String>, JsonScanError> {
    let mut leaves = Vec::new();
    scan(text, |leaf| leaves.push(leaf.decode(text).into_owned()))?;
    Ok(leaves)
}

#[test]
fn scanner_finds_text_values_and_not_names() {
    let text = r#" {"a" : ["x", 1.50, {"b":"y\u0041"}], "c":null, "":"" , "t":true} "#;
    assert_eq!(scan_leaves(text).unwrap(), ["x", "yA", ""]);
    assert_eq!(scan_leaves(r#""top""#).unwrap(), ["top"]);
}

#[test]
fn braces_are_found_in_every_spelling() {
    let rows = [
        (r#""{{""#, true),
        (r#""a{{b""#, true),
        (r#""\u007b\u007B""#, true),
        (r#""{\u007b""#, true),
        (r#""\u007b{""#, true),
        (r#""{ {""#, false),
        (r#""{\n{""#, false),
        (r#""{\\u007b""#, false),
        (r#""{""#, false),
    ];
    for (text, expected) in rows {
        let mut has_braces = false;
        scan(text, |leaf| has_braces |= leaf.has_braces).unwrap();
        assert_eq!(has_braces, expected, "{text}");
    }
}

#[test]
fn path_of_a_text_is_found_by_its_position() {
    let text = r#"{"a":[1,{"b c":"","d":"x"}],"d":["x"]}"#;
    let path = |needle: &str| find_path(text, text.find(needle).unwrap()).as_str().to_owned();
    assert_eq!(path(r#""x"}"#), "a[1].d");
    assert_eq!(path(r#""x"]"#), "d[0]");
    assert_eq!(path(r#""","#), "a[1].*");
}

#[test]
fn invalid_json_is_rejected_with_its_rule() {
    let deep = format!("{}{}", "[".repeat(33), "]".repeat(33));
    let open = "[".repeat(100_000);
    let rows = [
        ("", "the body is not valid JSON"),
        ("[1,]", "the body is not valid JSON"),
        ("{\"a\":{{ id }}}", "an expression in JSON must be inside of quotes"),
        ("{{ id }}", "an expression in JSON must be inside of quotes"),
        (r#"{"a":1,"\u0061":2}"#, "an object has a duplicate name"),
        (&deep, "the JSON is nested deeper than 32 levels"),
        (&open, "the JSON is nested deeper than 32 levels"),
    ];
    for (text, expected) in rows {
        assert_eq!(scan_leaves(text).unwrap_err().rule, expected, "{text:.40}");
    }
}

#[test]
fn duplicate_name_is_found_in_objects_of_every_size() {
    let properties: Vec<_> = (0..1000).map(|it| format!("\"{it}\":{{\"0\":{it}}}")).collect();
    let properties = properties.join(",");
    assert!(scan_leaves(&format!("{{{properties}}}")).is_ok());
    for duplicate in [0, 15, 16, 17, 999] {
        let text = format!("{{{properties},\"{duplicate}\":0}}");
        assert!(scan_leaves(&text).is_err(), "{duplicate}");
    }
}

#[test]
fn edit_of_a_location_replaces_or_adds_a_value() {
    let text = r#" { "a" : {"b":[1, "x" ]}, "e":{} } "#;
    let find = |text: &str, location: &str| {
        find_edit(text, JsonLocation::parse(location).unwrap().steps(), DEPTH_MAX)
    };
    let edit = |location: &str| find(text, location);
    let replace = |it: &str| {
        let start = text.find(it).unwrap();
        Ok(JsonEdit::Replace(start..start + it.len()))
    };
    assert_eq!(edit("$.a.b[1]"), replace(r#""x""#));
    assert_eq!(edit("$.a.b"), replace(r#"[1, "x" ]"#));
    let insert = |before: &str, needs_comma: bool, name: Option<&str>| {
        let at = text.find(before).unwrap() + before.len() - 1;
        Ok(JsonEdit::Insert { at, needs_comma, name: name.map(str::to_owned) })
    };
    assert_eq!(edit("$.a.b[2]"), insert("\"x\" ]", true, None));
    assert_eq!(edit("$.a.c"), insert("]}", true, Some("c")));
    assert_eq!(edit("$.e.f"), insert("{}", false, Some("f")));
    assert_eq!(edit("$.z"), insert("{} }", true, Some("z")));
    for location in ["$.a.b[3]", "$.x.y", "$.a[0]", "$.a.b.c", "$[0]", "$.a.b[0].c"] {
        let rule = edit(location).unwrap_err().rule;
        assert!(rule.starts_with("the JSON has no object or array"), "{location}: {rule}");
    }
    assert!(find("{,}", "$.a").is_err());
}

#[test]
fn location_crosses_the_values_on_its_way() {
    let text = r#" {"a": {"b": ["x", {"c": 1}]}, "d": "y"}"#;
    let crosses = |location: &str, value: &str| {
        let start = text.find(value).unwrap();
        crosses_value(text, JsonLocation::parse(location).unwrap().steps(), |it| it == start)
    };
    assert!(crosses("$.z", text.trim_start()), "the root is on every way");
    assert!(crosses("$.d.e", "\"y\"") && crosses("$.a.b[0].c", "\"x\""));
    assert!(!crosses("$.d", "\"y\""), "the value of the location is replaced");
    assert!(!crosses("$.a.b[1].c", "\"x\"") && !crosses("$.e.f", "\"y\""));
}

#[test]
fn property_with_a_similar_name_is_found() {
    let is_found = |text: &str, location: &str| {
        let location = JsonLocation::parse(location).unwrap();
        has_similar_property(text, location.steps(), DEPTH_MAX)
    };
    for text in [r#"{"my_id":1,"MY_ID":2}"#, r#"{"my-id":1}"#, "{\"a\":{},\"mY_\\u0069d\":1}"] {
        assert!(is_found(text, "$.my_id"), "{text}");
    }
    assert!(is_found("{\"\u{17f}ale\":1}", "$.sale"), "this letter has the upper case S");
    assert!(is_found(r#"{"a":[0,{"ID":1}]}"#, "$.a[1].id"));
    for text in [r#"{"my_id":1}"#, r#"{"a":{"MY_ID":1}}"#, r#"{"myid":1}"#, "[1]", "{}", "{,"] {
        assert!(!is_found(text, "$.my_id"), "{text}");
    }
}

fn json_text() -> impl Strategy<Value = String> {
    const PIECES: &[&str] = &[
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"",
        "\"a\"",
        "\"b\":",
        "\\u007b",
        "\\ud83d\\ude00",
        "\\ud800",
        "\\",
        "-",
        "0",
        "12",
        ".",
        "e+",
        "true",
        "null",
        " ",
        "\n",
        "\u{1}",
        "é",
        "{\"a\":1}",
        "[1,2]",
    ];
    let pieces = prop::collection::vec(prop::sample::select(PIECES), 0..8);
    pieces.prop_map(|it| it.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(5_000) })]

    #[test]
    fn scanner_accepts_the_same_texts_as_the_strict_parser(text in json_text()) {
        prop_assert_eq!(scan_leaves(&text).is_ok(), json::read(text.as_bytes()).is_ok(), "{}", text);
    }

    #[test]
    fn scanner_decodes_texts_like_the_strict_parser(inner in ".{0,20}") {
        let text = serde_json::to_string(&inner).unwrap();
        prop_assert_eq!(scan_leaves(&text).unwrap(), [inner]);
    }
}
