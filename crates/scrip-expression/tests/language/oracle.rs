//! Comparison with the results of liquidjs, which `tests/expressions/record.mjs` recorded.

use serde_json::Value;

use crate::{evaluate, shorten};

/// Intended differences: the beginning of the source, the beginning of the data, our result, the
/// reason.
#[rustfmt::skip]
const DIFFERENCES: &[(&str, &str, &str, &str)] = &[
    ("{{ data | truncatewords", "\"\"", "", FEW_WORDS),
    ("{{ data | truncatewords", "\"a-b-c\"", "a-b-c", FEW_WORDS),
    ("{{ data | truncatewords", "\"123-45-6789\"", "123-45-6789", FEW_WORDS),
    ("{{ data | escape ", "\"<p class", "&lt;p class=&quot;x&quot;&gt;a &amp;amp; b&lt;/p&gt;",
     QUOTE_ENTITY),
    ("{{ data | escape_once", "\"<p class", "&lt;p class=&quot;x&quot;&gt;a &amp; b&lt;/p&gt;",
     QUOTE_ENTITY),
    ("{{ data | minus: 3", "\"4.2\"", "1.2", EXACT_DECIMALS),
    ("{{ data | times: 3", "\"4.2\"", "12.6", EXACT_DECIMALS),
    ("{{ data | times: 1.5", "\"4.2\"", "6.3", EXACT_DECIMALS),
    ("{{ data | modulo: 3", "\"4.2\"", "1.2", EXACT_DECIMALS),
    ("{{ data | divided_by: 2.5", "\"4.2\"", "1.68", EXACT_DECIMALS),
    ("{{ data | compact | join", "[[1,2],[3]]", "[1,2],[3]", LISTS_AS_JSON),
    ("{{ data | slice: 1, 2 | join", "[[1,2],[3]]", "[3]", LISTS_AS_JSON),
    ("{{ data | reverse | join", "[[1,2],[3]]", "[3],[1,2]", LISTS_AS_JSON),
    ("{{ data | append", "[]", "[]x", LISTS_AS_JSON),
    ("{{ data | date: \"%Z", "\"2024-02-29T13:05:09Z", "UTC", RUBY_CODES),
    ("{{ data | date: \"%D", "", "02/29/24", RUBY_CODES),
    ("{{ data | date: \"%F", "", "2024-02-29", RUBY_CODES),
    ("{{ data | date: \"%T", "", "13:05:09", RUBY_CODES),
    ("{{ data | date: \"%R", "", "13:05", RUBY_CODES),
    ("{{ data | date: \"%r", "", "01:05:09 PM", RUBY_CODES),
    ("{{ data | date: \"%G", "", "2024-W09", RUBY_CODES),
    ("{{ data | date: \"%q", "", "unknown code in the date format (at character 11)",
     TYPING_MISTAKE),
    ("{{ data | date: \"50%", "", "unknown code in the date format (at character 11)",
     TYPING_MISTAKE),
    ("{{ data | date: \"\"", "", "date takes a format (at character 11)", TYPING_MISTAKE),
    ("{{ data | date: ", "\"2024-02-30\"", NO_DATE, GUESSED_DATE),
    ("{{ data | date: ", "\"20291231\"", NO_DATE, GUESSED_DATE),
    ("{{ data | date: ", "\"soon\"", NO_DATE, GUESSED_DATE),
    ("{{ data | date: ", "\"\"", NO_DATE, GUESSED_DATE),
    ("{{ data | date: ", "1.5", NO_DATE, GUESSED_DATE),
    ("{{ data | date: ", "true", NO_DATE, GUESSED_DATE),
    ("{{ data | date: ", "\"2024-02-29T13:05:09.1234", "2024-02-29 123456789", SECOND_DIGITS),
];

const NO_DATE: &str = "this is not a date (at character 1)";

const RUBY_CODES: &str = "the codes of the Ruby reference, of which liquidjs supports some";
const TYPING_MISTAKE: &str =
    "an unknown code or a missing format is a typing mistake; %q exists only in liquidjs";
const GUESSED_DATE: &str = "liquidjs returns invalid dates unchanged or guesses a date";
const SECOND_DIGITS: &str = "JavaScript has no precision below a millisecond";
const FEW_WORDS: &str = "text with few words stays unchanged, as in the Ruby reference";
const QUOTE_ENTITY: &str = "&quot; as in the Ruby reference; liquidjs writes &#34;";
const EXACT_DECIMALS: &str = "decimals are exact, not binary";
const LISTS_AS_JSON: &str = "in text a list is JSON, to distinguish it from its items";

/// A decimal keeps its point, as in the Ruby reference: 4.0, not 4 as in JavaScript.
fn differs_only_by_point(ours: &str, theirs: &str) -> bool {
    ours.strip_suffix(".0") == Some(theirs)
}

#[test]
fn results_match_liquidjs_except_listed_differences() {
    let vectors = include_str!("../../../../tests/expressions/vectors.json");
    let vectors: Vec<Value> = serde_json::from_str(vectors).unwrap();
    let mut wrong = Vec::new();
    let mut is_used = vec![false; DIFFERENCES.len()];
    for vector in &vectors {
        let (source, data) = (vector["source"].as_str().unwrap(), &vector["data"]);
        let theirs = vector["expected"].as_str().unwrap();
        let ours = match evaluate(source, data) {
            Ok(Value::Null) => String::new(),
            Ok(Value::String(text)) => text,
            Ok(other) => other.to_string(),
            Err(error) => error,
        };
        let difference = DIFFERENCES.iter().position(|(start, data_start, expected, _)| {
            source.starts_with(start)
                && data.to_string().starts_with(data_start)
                && ours == *expected
        });
        if ours == theirs || differs_only_by_point(&ours, theirs) {
            continue;
        }
        match difference {
            Some(at) => is_used[at] = true,
            None => wrong.push(format!("{source} of {}: {ours:?}, not {theirs:?}", shorten(data))),
        }
    }
    assert!(vectors.len() > 600);
    assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), wrong.join("\n"));
    for ((source, data, ..), is_met) in DIFFERENCES.iter().zip(is_used) {
        assert!(is_met, "the difference no longer exists: {source} of {data}");
    }
}
