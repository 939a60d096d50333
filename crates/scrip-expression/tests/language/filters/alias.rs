//! Aliases: random, of the same shape, and never equal to the original.

use std::{
    cell::Cell,
    collections::{BTreeMap, HashSet},
};

use scrip_expression::{Expression, HmacAlgorithm, HostFunctions, Scope, Template};
use serde_json::{Value, json};

use crate::{FakeHost, assert_evaluates, assert_fails};

/// A few hundred aliases of the value.
fn aliases(source: &str, value: &str) -> Vec<String> {
    let (data, host) = (json!(value), FakeHost::new(7));
    let expression = Expression::parse(source).unwrap();
    let alias = |_| {
        let scope = Scope::new(&data, None).with_host_functions(&host);
        expression.evaluate(&scope).unwrap().as_str().unwrap().to_owned()
    };
    let all: Vec<String> = (0..300).map(alias).collect();
    assert!(all.iter().all(|it| it != value), "{source}");
    assert!(all.iter().collect::<HashSet<_>>().len() > 1, "{source}");
    all
}

fn is_luhn_valid(number: &str) -> bool {
    let digits = number.chars().rev().filter_map(|it| it.to_digit(10)).enumerate();
    let sum: u32 =
        digits.map(|(at, it)| if at % 2 == 1 { it * 2 / 10 + it * 2 % 10 } else { it }).sum();
    sum.is_multiple_of(10)
}

#[test]
fn alias_preserve_format_keeps_character_classes() {
    for alias in aliases("{{ data | alias_preserve_format }}", "Ab-12 é") {
        let chars: Vec<char> = alias.chars().collect();
        assert!(chars[0].is_ascii_uppercase() && chars[1].is_ascii_lowercase(), "{alias}");
        assert!(chars[3].is_ascii_digit() && chars[4].is_ascii_digit(), "{alias}");
        assert!(chars[2] == '-' && chars[5] == ' ' && chars[6].is_ascii_lowercase(), "{alias}");
    }
    for alias in aliases("{{ data | alias_preserve_format: 2, 4 }}", "123-45-6789") {
        assert!(alias.starts_with("12") && alias.ends_with("6789"), "{alias}");
        assert_eq!((alias.find('-'), alias.rfind('-'), alias.len()), (Some(3), Some(6), 11));
    }
    // If everything would be kept, nothing is kept.
    assert!(
        aliases("{{ data | alias_preserve_format: 6 }}", "12345")
            .iter()
            .any(|it| !it.starts_with('1'))
    );
    assert_eq!(aliases("{{ data | alias_preserve_format }}", "7").len(), 300);
}

#[test]
fn alias_preserve_length_keeps_the_length() {
    for alias in aliases("{{ data | alias_preserve_length: first: 1 }}", "1-?é ") {
        assert_eq!(alias.chars().count(), 5);
        assert!(alias.starts_with('1') && alias.chars().all(|it| it.is_ascii_alphanumeric()));
    }
    let email =
        "{{ data | split: '@' | first | alias_preserve_length }}@{{ data | split: '@' | last }}";
    for alias in aliases(email, "johndoe@example.com") {
        assert!(alias.len() == 19 && alias.ends_with("@example.com"), "{alias}");
    }
}

#[test]
fn alias_card_keeps_length_and_luhn_validity() {
    for alias in aliases("{{ data | alias_card }}", "4242424242424242") {
        assert!(alias.len() == 16 && is_luhn_valid(&alias), "{alias}");
    }
    for alias in aliases("{{ data | alias_card: 'true', 'true' }}", "4242424242424242") {
        assert!(
            alias.starts_with("42424242") && alias.ends_with("4242") && is_luhn_valid(&alias),
            "{alias}"
        );
    }
    for alias in aliases("{{ data | alias_card: bin: 'true' }}", "3782 822463 10005") {
        assert!(alias.starts_with("3782 82") && is_luhn_valid(&alias), "{alias}");
        assert_eq!((alias.find(' '), alias.rfind(' ')), (Some(4), Some(11)));
    }
    // Without a valid check digit in the number, the alias needs none.
    assert!(
        aliases("{{ data | alias_card }}", "4242424242424241").iter().any(|it| !is_luhn_valid(it))
    );
    // Too short for a card number: nothing is kept.
    assert!(
        aliases("{{ data | alias_card: 'true', 'true' }}", "12345678")
            .iter()
            .any(|it| !it.ends_with("78"))
    );
}

#[test]
fn alias_of_null_is_null_and_of_empty_text_fails() {
    assert_evaluates("{{ data | alias_card }}", Value::Null, Value::Null);
    assert_evaluates("{{ data | alias_preserve_length }}", Value::Null, Value::Null);
    assert_fails(
        "{{ data | alias_preserve_format }}",
        json!("---"),
        "the value has no character to replace",
    );
    assert_fails(
        "{{ data | alias_preserve_length }}",
        json!(""),
        "the value has no character to replace",
    );
    assert_fails(
        "{{ data | alias_card: 'x' }}",
        json!("1"),
        "this argument must be 'true' or 'false'",
    );
    assert_fails(
        "{{ data | alias_preserve_format: 'x' }}",
        json!("1"),
        "an alias takes the numbers of characters to keep",
    );
}

/// Returns every byte value in turn, so a uniform choice gives equal counts.
struct CountingHost(Cell<u8>);

impl HostFunctions for CountingHost {
    fn hmac(&self, _: HmacAlgorithm, _: &[u8], _: &[u8]) -> Vec<u8> {
        Vec::new()
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        bytes.fill_with(|| {
            self.0.set(self.0.get().wrapping_add(1));
            self.0.get()
        });
    }
}

#[test]
fn alias_characters_are_uniformly_distributed() {
    let host = CountingHost(Cell::new(255));
    for (filter, choices, each) in
        [("alias_preserve_format", 10, 25), ("alias_preserve_length", 62, 4)]
    {
        // Ten times all byte values, except the skipped ones.
        let data = json!("5".repeat(choices * each * 10));
        let expression = Expression::parse(&format!("{{{{ data | {filter} }}}}")).unwrap();
        host.0.set(255);
        let alias =
            expression.evaluate(&Scope::new(&data, None).with_host_functions(&host)).unwrap();
        let mut counts = BTreeMap::new();
        for c in alias.as_str().unwrap().chars() {
            *counts.entry(c).or_insert(0) += 1;
        }
        assert_eq!(counts.len(), choices);
        assert!(counts.values().all(|it| *it == each * 10), "{filter}: {counts:?}");
    }
}

#[test]
fn alias_and_hmac_fail_without_host_functions() {
    for (source, expected) in [
        ("{{ data | alias_card }}", "aliases are not available here"),
        ("{{ data | alias_preserve_format }}", "aliases are not available here"),
        ("{{ data | alias_preserve_length }}", "aliases are not available here"),
        ("{{ data | hmac: 'sha-1', 'k' }}", "hmac is not available here"),
    ] {
        let data = json!("4242424242424242");
        let error = Expression::parse(source).unwrap().evaluate(&Scope::new(&data, None));
        assert_eq!(error.unwrap_err().problem, expected);
    }
}

#[test]
fn is_random_reports_alias_filters() {
    for (source, expected) in [
        ("{{ data | alias_card }}", true),
        ("{{ data | upcase | alias_preserve_length }}x", true),
        ("{% if data %}{% assign x = data | alias_preserve_format %}{% endif %}", true),
        ("{{ data | hmac: 'sha-1', 'k' }}", false),
        ("{{ data | reveal_last: 4 }}", false),
        ("alias_card", false),
    ] {
        assert_eq!(Expression::parse(source).unwrap().is_random(), expected, "{source}");
        let template = Template::parse(&json!({"a": [1, source]})).unwrap();
        assert_eq!(template.is_random(), expected, "{source}");
    }
}
