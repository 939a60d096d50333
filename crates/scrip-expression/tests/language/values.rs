//! Filters that Liquid does not have, except those for cards and aliases.

use serde_json::{Value, json};

use crate::{assert_evaluates, assert_fails};

#[test]
fn stringify_renders_compact_json() {
    for filter in ["stringify", "json_stringify", "to_string"] {
        let over = |data, expected| {
            assert_evaluates(&format!("{{{{ data | {filter} }}}}"), data, expected)
        };
        over(json!("as it is"), json!("as it is"));
        over(json!({"b": 1, "a": "x"}), json!("{\"a\":\"x\",\"b\":1}"));
        over(json!([true, null]), json!("[true,null]"));
        over(json!(false), json!("false"));
        over(json!(1.5), json!("1.5"));
        over(Value::Null, Value::Null);
    }
}

#[test]
fn last4_returns_the_last_four_characters() {
    assert_evaluates("{{ data | last4 }}", json!("123456789"), json!("6789"));
    assert_evaluates("{{ data | last4 }}", json!("12"), json!("12"));
    assert_evaluates("{{ data | last4 }}", json!(""), json!(""));
    assert_evaluates("{{ data | last4 }}", json!(123_456), json!("3456"));
    assert_evaluates("{{ data | last4 }}", json!("aéüßx"), json!("éüßx"));
    assert_evaluates("{{ data | last4 }}", Value::Null, Value::Null);
}

#[test]
fn reveal_last_masks_all_but_the_last_characters() {
    assert_evaluates("{{ data | reveal_last: 4 }}", json!("123-45-6789"), json!("XXX-XX-6789"));
    assert_evaluates(
        "{{ data | reveal_last: 4 }}",
        json!("Sensitive Value"),
        json!("XXXXXXXXXXXalue"),
    );
    assert_evaluates("{{ data | reveal_last: 4 }}", json!("123"), json!("123"));
    assert_evaluates("{{ data | reveal_last: 4 }}", json!("1234"), json!("1234"));
    assert_evaluates("{{ data | reveal_last: 4 }}", json!(""), json!(""));
    assert_evaluates("{{ data | reveal_last: 4 }}", json!(123_456), json!("XX3456"));
    assert_evaluates("{{ data | reveal_last: 0 }}", json!("ñú"), json!("XX"));
    assert_evaluates("{{ data | reveal_last: '2' }}", json!("12345"), json!("XXX45"));
    assert_evaluates("{{ data | reveal_last: 2, '*' }}", json!("12345"), json!("***45"));
    assert_evaluates("{{ data | reveal_last: 4 }}", Value::Null, Value::Null);
    assert_fails(
        "{{ data | reveal_last: -1 }}",
        json!("x"),
        "reveal_last takes the number of characters to keep",
    );
    assert_fails(
        "{{ data | reveal_last: data.none }}",
        json!("x"),
        "reveal_last takes the number of characters to keep",
    );
    assert_fails(
        "{{ data | reveal_last: 1, 'ab' }}",
        json!("x"),
        "reveal_last takes a single mask character",
    );
    assert_fails(
        "{{ data | reveal_last: 1, '' }}",
        json!("x"),
        "reveal_last takes a single mask character",
    );
}

#[test]
fn reveal_masks_all_but_first_and_last_characters() {
    assert_evaluates("{{ data | reveal }}", json!("123-45"), json!("XXXXXX"));
    assert_evaluates(
        "{{ data | reveal: 6 }}",
        json!("4242424242424242"),
        json!("424242XXXXXXXXXX"),
    );
    assert_evaluates("{{ data | reveal: 2, 2 }}", json!("12345"), json!("12X45"));
    assert_evaluates("{{ data | reveal: 0, 2, '#' }}", json!("12345"), json!("###45"));
    assert_evaluates(
        "{{ data | reveal: 0, 4, '*', '-' }}",
        json!("123-45-6789"),
        json!("***-**-6789"),
    );
    assert_evaluates("{{ data | reveal: 2, 3 }}", json!("12345"), json!("XXXXX"));
    assert_evaluates("{{ data | reveal: 99 }}", json!("12345"), json!("XXXXX"));
    assert_evaluates("{{ data | reveal: 9, 9, '*', '-' }}", json!("1-2"), json!("*-*"));
    assert_evaluates("{{ data | reveal: 1, 1 }}", json!(""), json!(""));
    assert_evaluates("{{ data | reveal: 1, 1 }}", json!("éüß"), json!("éXß"));
    assert_evaluates("{{ data | reveal: 1 }}", Value::Null, Value::Null);
    assert_fails(
        "{{ data | reveal: 'x' }}",
        json!("1"),
        "reveal takes the numbers of characters to show",
    );
}

#[test]
fn json_filter_evaluates_bounded_json_paths() {
    let data = json!({"a": {"b": [10, 20, {"c": "deep"}]}, "x y": 1, "list": [{"k": 1}, {"k": 2}]});
    assert_evaluates("{{ data | json: '$.a.b[2].c' }}", data.clone(), json!("deep"));
    assert_evaluates("{{ data | json: '$' }}", data.clone(), data.clone());
    assert_evaluates("{{ data | json: '$.none.at.all' }}", data.clone(), Value::Null);
    assert_evaluates("{{ data | json: \"$['x y']\" }}", data.clone(), json!(1));
    assert_evaluates("{{ data | json: '$..c' }}", data.clone(), json!("deep"));
    assert_evaluates("{{ data | json: '$.list[?@.k == 2].k' }}", data.clone(), json!(2));
    assert_evaluates("{{ data | json: '$.a.b[-1:]' }}", data.clone(), json!({"c": "deep"}));
    assert_evaluates("{{ data | json: '$.list[0]' | json: '$.k' }}", data.clone(), json!(1));
    assert_evaluates("{{ data.list | first | json: '$.k' }}", data.clone(), json!(1));
    assert_evaluates("{{ data | json: '$.x' }}", json!("text"), Value::Null);
    assert_evaluates("{{ data | json: '$.x' }}", Value::Null, Value::Null);
    let long: Value = serde_json::from_str("[12345678901234567890123]").unwrap();
    assert_evaluates("{{ data | json: '$[0]' }}!", long, json!("12345678901234567890123!"));
    assert_fails("{{ data | json: '$.list[*]' }}", data.clone(), "json found more than one value");
    assert_fails("{{ data | json: '$.a.b[0,1]' }}", data.clone(), "json found more than one value");
    assert_fails("{{ data | json: 'list' }}", data.clone(), "this is not a JSONPath");
    assert_fails("{{ data | json: data }}", data.clone(), "json takes a path in quotes");
    assert_fails("{{ data | json }}", data.clone(), "wrong number of arguments for this filter");
    for path in [
        "$..a..b",
        "$[?@.a[?@.b]]",
        "$[?$.a]",
        "$[*,*][*,*][*,*][*,*]",
        "$[?((((((((@.a))))))))]",
        "$.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    ] {
        assert_fails(
            &format!("{{{{ data | json: '{path}' }}}}"),
            data.clone(),
            "this JSONPath is too complex",
        );
    }
    assert_fails("{{ data | json: \"$[?match(@.a, 'x')]\" }}", data, "this is not a JSONPath");
}

#[test]
fn pad_filters_pad_to_length() {
    assert_evaluates("{{ data | pad_left: 5, '0' }}", json!("42"), json!("00042"));
    assert_evaluates("{{ data | pad_left: 5, '0' }}", json!(42), json!("00042"));
    assert_evaluates("{{ data | pad_right: 5, '.' }}", json!("é"), json!("é...."));
    assert_evaluates("{{ data | pad_left: 3 }}", json!("x"), json!("  x"));
    assert_evaluates("{{ data | pad_left: 2, '0' }}", json!("1234"), json!("1234"));
    assert_evaluates("{{ data | pad_left: 2, '0' }}", json!(""), json!("00"));
    assert_evaluates("{{ data | pad_right: 5, '0' }}", Value::Null, Value::Null);
    assert_fails(
        "{{ data | pad_left: 5, 'ab' }}",
        json!("x"),
        "padding takes a length and one character",
    );
    assert_fails(
        "{{ data | pad_left: 'x', 'a' }}",
        json!("x"),
        "padding takes a length and one character",
    );
    assert_fails("{{ data | pad_right: 100000, 'a' }}", json!("x"), "the output is too large");
}

#[test]
fn to_number_and_to_boolean_convert_text() {
    assert_evaluates("{{ data | to_number }}", json!("12"), json!(12));
    assert_evaluates("{{ data | to_number }}", json!(" 007 "), json!(7));
    assert_evaluates("{{ data | to_number }}!", json!("-0.50"), json!("-0.50!"));
    assert_evaluates(
        "{{ data | to_number }}!",
        json!("12345678901234567890123"),
        json!("12345678901234567890123!"),
    );
    assert_evaluates("{{ data | to_number }}", json!(5), json!(5));
    assert_evaluates("{{ data | to_number }}", Value::Null, Value::Null);
    for wrong in
        [json!(""), json!("x"), json!("1x"), json!("."), json!("-"), json!(true), json!([1])]
    {
        assert_fails("{{ data | to_number }}", wrong, "this is not a number");
    }
    assert_evaluates("{{ data | to_boolean }}", json!("true"), json!(true));
    assert_evaluates("{{ data | to_boolean }}", json!("False"), json!(false));
    assert_evaluates("{{ data | to_boolean }}", json!(true), json!(true));
    assert_evaluates("{{ data | to_boolean }}", Value::Null, Value::Null);
    for wrong in [json!(""), json!("yes"), json!(1), json!({})] {
        assert_fails("{{ data | to_boolean }}", wrong, "this is neither true nor false");
    }
}

/// The fake hash is the algorithm name, the key and the message.
#[test]
fn hmac_returns_bytes_for_encoders() {
    assert_evaluates(
        "{{ data | hmac: 'sha-256', 'k' | to_base16 }}",
        json!("m"),
        json!("5368613235363E6B3E6D"),
    );
    assert_evaluates(
        "{{ data | hmac: 'sha-256', 'k' }}",
        json!("m"),
        json!("5368613235363E6B3E6D"),
    );
    assert_evaluates("<{{ data | hmac: 'sha-1', 'k' }}>", json!("m"), json!("<536861313E6B3E6D>"));
    assert_evaluates(
        "{{ data | hmac: 'SHA-512', key: 'k' | to_base64 }}",
        json!("m"),
        json!("U2hhNTEyPms+bQ=="),
    );
    assert_evaluates("{{ data | hmac: 'sha-1', 'k' | size }}", json!("m"), json!(16));
    assert_evaluates(
        "{{ data | hmac: 'sha-1', 'k' | base64_url_safe_encode }}",
        json!("m"),
        json!("U2hhMT5rPm0="),
    );
    assert_evaluates(
        "{{ data | hmac: 'sha-1', 'k' | to_base64 }}",
        json!({"a": 1}),
        json!("U2hhMT5rPnsiYSI6MX0="),
    );
    assert_evaluates("{{ data | hmac: 'sha-1', 'k' }}", Value::Null, Value::Null);
    assert_evaluates("{{ data | to_base16 }}", json!("é"), json!("C3A9"));
    assert_evaluates("{{ data | to_base64 }}", json!("é"), json!("w6k="));
    assert_fails(
        "{{ data | hmac: 'md5', 'k' }}",
        json!("m"),
        "hmac supports sha-1, sha-256 and sha-512",
    );
    assert_fails("{{ data | hmac: 'sha-1', '' }}", json!("m"), "hmac takes a key");
}
