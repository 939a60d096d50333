//! Random and mutated sources and data, for as long as the clock says.
//!
//! Nothing may panic, run past its bounds or give more than a mebibyte. The seed is printed; a
//! failure is found again with `SCRIP_FUZZ_SEED`.

use std::{
    fmt::Write,
    time::{Duration, Instant},
};

use scrip_expression::{
    Detokenization, Expression, OUTPUT_BYTES_MAX, Scope, Template, VALUE_BYTES_MAX, WORK_BYTES_MAX,
};
use serde_json::{Value, json};

use crate::{Fake, short};

#[expect(clippy::disallowed_methods, reason = "real time bounds the loop, nothing else")]
fn now() -> Instant {
    Instant::now()
}

fn operand(chance: &Fake, depth: usize) -> String {
    match chance.below(if depth > 2 { 8 } else { 12 }) {
        0..=3 => {
            chance.pick(&["data", "data.a", "data.number", "data.list", "metadata.city"]).into()
        }
        4 => chance.pick(&["x", "y", "item", "forloop.index", "forloop"]).into(),
        5 => chance
            .pick(&[
                "1",
                "0",
                "-3",
                "2.5",
                "99999999999999999999",
                "1e5",
                "007",
                "'0e-2147483647'",
                "'1e-70000'",
                "'1e2147483647'",
            ])
            .into(),
        6 => chance
            .pick(&[
                "'a'",
                "\"b\"",
                "''",
                "'-'",
                "'é'",
                "'true'",
                "'sha-256'",
                "'x",
                "'%-d %^a %s'",
                "'%'",
            ])
            .into(),
        7 => chance.pick(&["true", "false", "nil", "empty", "blank"]).into(),
        8 => format!("({}..{})", operand(chance, depth + 1), operand(chance, depth + 1)),
        9 => format!("{}[{}]", operand(chance, depth + 1), operand(chance, depth + 1)),
        _ => format!(
            "{}.{}",
            operand(chance, depth + 1),
            chance.pick(&["size", "first", "last", "a", "0"])
        ),
    }
}

const FILTERS: &[&str] = &[
    "abs",
    "alias_card",
    "alias_preserve_format",
    "alias_preserve_length",
    "append",
    "at_least",
    "at_most",
    "base64_decode",
    "base64_encode",
    "base64_url_safe_decode",
    "base64_url_safe_encode",
    "capitalize",
    "card_bin",
    "card_exp: 'MM/YY'",
    "card_mask",
    "ceil",
    "compact",
    "concat",
    "date",
    "date: '%c %j %U %:z'",
    "date: '%Y%m%d'",
    "default",
    "divided_by",
    "downcase",
    "escape",
    "escape_once",
    "first",
    "floor",
    "hmac: 'sha-256', 'k'",
    "join",
    "json: '$.a'",
    "json: '$..*'",
    "json: '$[?@.a > 1]'",
    "json_stringify",
    "last",
    "last4",
    "lstrip",
    "map",
    "minus",
    "modulo",
    "newline_to_br",
    "pad_left",
    "pad_right",
    "plus",
    "prepend",
    "remove",
    "remove_first",
    "remove_last",
    "replace",
    "replace_first",
    "replace_last",
    "reveal",
    "reveal_last",
    "reverse",
    "round",
    "rstrip",
    "size",
    "slice",
    "sort",
    "sort_natural",
    "split",
    "stringify",
    "strip",
    "strip_html",
    "strip_newlines",
    "sum",
    "times",
    "to_base16",
    "to_base64",
    "to_boolean",
    "to_number",
    "to_string",
    "truncate",
    "truncatewords",
    "uniq",
    "upcase",
    "url_decode",
    "url_encode",
    "where",
    "none",
];

fn chain(chance: &Fake) -> String {
    let mut chain = String::new();
    for _ in 0..chance.below(5) {
        let filter = chance.pick(FILTERS);
        write!(chain, "{} {filter}", chance.pick(&[" |", " |", " |", ","])).unwrap();
        if filter.contains(':') {
            continue;
        }
        for at in 0..chance.below(4) {
            let sign = if at == 0 { ":" } else { "," };
            write!(chain, "{sign} {}", operand(chance, 1)).unwrap();
        }
    }
    chain
}

fn source(chance: &Fake, depth: usize) -> String {
    let mut source = String::new();
    for _ in 0..=chance.below(3) {
        let inner = || if depth > 3 { "x".to_owned() } else { source_of(chance, depth) };
        let value = operand(chance, 0);
        let relation = chance.pick(&["==", "<", "contains", "and", "or", "<>"]);
        match chance.below(12) {
            0..=4 => write!(source, "{{{{ {value}{} }}}}", chain(chance)),
            5 => write!(source, "{}", chance.pick(&["text", " ", "é{", "}}", "%}", "-"])),
            6 => write!(
                source,
                "{{% if {value} {relation} {} %}}{}{{% else %}}{}{{% endif %}}",
                operand(chance, 0),
                inner(),
                inner()
            ),
            7 => write!(
                source,
                "{{%- for {} in {value} {} -%}}{}{{% endfor %}}",
                chance.pick(&["x", "item"]),
                chance.pick(&["", "reversed", "limit: 3", "offset: data.a"]),
                inner()
            ),
            8 => write!(source, "{{% assign x = {value}{} %}}", chain(chance)),
            9 => write!(source, "{{% capture y %}}{}{{% endcapture %}}", inner()),
            10 => write!(
                source,
                "{{% case {value} %}}{{% when {} %}}{}{{% else %}}y{{% endcase %}}",
                operand(chance, 0),
                inner()
            ),
            _ => write!(
                source,
                "{}",
                chance.pick(&[
                    "{% break %}",
                    "{% raw %}{{{% endraw %}",
                    "{% comment %}x{% endcomment %}"
                ])
            ),
        }
        .unwrap();
    }
    source
}

fn source_of(chance: &Fake, depth: usize) -> String {
    source(chance, depth + 1)
}

/// Cuts, doubles or swaps a piece.
fn mutated(chance: &Fake, source: &str) -> String {
    let mut chars: Vec<char> = source.chars().collect();
    for _ in 0..=chance.below(3) {
        let (from, length) = (chance.below(chars.len() + 1), chance.below(12));
        let to = (from + length).min(chars.len());
        match chance.below(3) {
            0 => drop(chars.drain(from..to)),
            1 => {
                let piece: Vec<char> = chars[from..to].repeat(1 + chance.below(40));
                chars.splice(from..from, piece);
            }
            _ => {
                let signs = ["{{", "}}", "{%", "%}", "|", ",", "'", "[", "(", "..", "é", "\u{0}"];
                chars.splice(from..from, chance.pick(&signs).chars());
            }
        }
    }
    chars.into_iter().take(4500).collect()
}

fn value(chance: &Fake, depth: usize) -> Value {
    match chance.below(if depth > 3 { 7 } else { 9 }) {
        0 => Value::Null,
        1 => json!(chance.below(2) == 0),
        2 => json!(chance.next()),
        3 => serde_json::from_str(chance.pick(&[
            "-1.50",
            "1e400",
            "1e-70000",
            "0e-2147483647",
            "12345678901234567890123",
            "0",
        ]))
        .unwrap(),
        4 => json!(chance.pick(&[
            "4242424242424242",
            "123-45-6789",
            "<b>é</b>&amp;",
            "",
            "2024-02-29T13:05:09.5+02:00",
            "2/29/2024",
            " a,b ",
            "\r\n"
        ])),
        5 => json!("aé<&%".repeat(chance.below(200))),
        6 => json!("x ".repeat(if chance.below(50) == 0 { 30_000 } else { 3 })),
        7 => {
            let count = if chance.below(50) == 0 { 500 } else { chance.below(6) };
            (0..count).map(|_| value(chance, depth + 2)).collect()
        }
        _ => json!({
            "a": value(chance, depth + 1), "number": value(chance, depth + 2),
            "list": [value(chance, depth + 2), value(chance, depth + 2)],
            "expiration_month": 7, "expiration_year": "2031",
        }),
    }
}

/// What a value holds, as it lies in memory.
fn bytes(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) => 0,
        Value::Number(number) => number.as_str().len(),
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(bytes).sum(),
        Value::Object(object) => object.iter().map(|(name, value)| name.len() + bytes(value)).sum(),
    }
}

/// Whether anything came out.
fn execute(chance: &Fake, source: &str, data: &Value) -> bool {
    let outside = Fake::new(chance.next());
    let scope = Scope::new(data, Some(data)).with_outside(&outside);
    let evaluated = Expression::parse(source).and_then(|it| it.evaluate(&scope));
    if let Ok(value) = &evaluated {
        let is_lone = source.starts_with("{{");
        let most = if is_lone { VALUE_BYTES_MAX } else { OUTPUT_BYTES_MAX };
        assert!(bytes(value) <= most.max(bytes(data)), "{source}");
    }
    if chance.below(4) == 0 {
        let template = json!({"a": [source, {"b": source}], "c": data});
        let scope = Scope::new(data, None).with_outside(&outside);
        if let Ok(value) = Template::parse(&template).and_then(|it| it.evaluate(&scope)) {
            assert!(bytes(&value) <= WORK_BYTES_MAX + bytes(&template), "{source}");
        }
        let tokens = format!("{{{{ abc{} }}}} {source}", chain(chance));
        let found = Detokenization::parse(&json!([tokens, source]));
        let found = found.and_then(|it| it.evaluate(&|_| Some(data), Some(&outside)));
        if let Ok(value) = found {
            assert!(bytes(&value) <= WORK_BYTES_MAX + 2 * tokens.len(), "{source}");
        }
    }
    evaluated.is_ok()
}

#[test]
#[expect(clippy::print_stderr, reason = "says what was done, and how to do it again")]
#[expect(clippy::disallowed_methods, reason = "how long a test runs is no setting of the program")]
fn nothing_breaks_it() {
    let long = std::env::var_os("SCRIP_TEST_LONG").is_some();
    let time = Duration::from_secs(if long { 60 } else { 6 });
    let given = std::env::var("SCRIP_FUZZ_SEED").ok().and_then(|it| it.parse().ok());
    let seed: u64 = given.unwrap_or_else(|| u64::from(std::process::id()) << 20);
    eprintln!("fuzz: seed {seed}");
    let chance = Fake::new(seed);
    let start = now();
    let (mut executions, mut evaluated) = (0_u64, 0_u64);
    let (mut slowest, mut slowest_source) = (Duration::ZERO, String::new());
    let mut kept: Vec<String> = vec!["{{ data.number | reveal_last: 4 }}".into()];
    while start.elapsed() < time {
        let source = match chance.below(3) {
            0 => mutated(&chance, &kept[chance.below(kept.len())]),
            _ => source(&chance, 0),
        };
        let data = value(&chance, 0);
        let begun = now();
        let came_out = execute(&chance, &source, &data);
        let took = begun.elapsed();
        executions += 1;
        evaluated += u64::from(came_out);
        if came_out && source.len() < 1000 {
            // What works is worth changing.
            let place = chance.below(500);
            if place < kept.len() {
                kept[place].clone_from(&source)
            } else {
                kept.push(source.clone())
            }
        }
        if took > slowest {
            // Once more: the machine may have been busy with something else.
            let begun = now();
            execute(&chance, &source, &data);
            let took = took.min(begun.elapsed());
            if took > slowest {
                (slowest, slowest_source) = (took, format!("{source} of {}", short(&data)));
            }
        }
    }
    eprintln!("fuzz: {executions} executions, {evaluated} with a result");
    eprintln!("fuzz: slowest {slowest:?}: {slowest_source}");
    assert!(evaluated > 100, "the generator makes too little that works");
}
