//! Random sources and data. The fuzz loop and the cost test share them.

use std::fmt::Write;

use serde_json::{Value, json};

use super::fake::FakeHost;

fn operand(random: &FakeHost, depth: usize) -> String {
    match random.number_below(if depth > 2 { 8 } else { 12 }) {
        0..=3 => {
            random.pick(&["data", "data.a", "data.number", "data.list", "metadata.city"]).into()
        }
        4 => random.pick(&["x", "y", "item", "forloop.index", "forloop"]).into(),
        5 => random
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
        6 => random
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
        7 => random.pick(&["true", "false", "nil", "empty", "blank"]).into(),
        8 => format!("({}..{})", operand(random, depth + 1), operand(random, depth + 1)),
        9 => format!("{}[{}]", operand(random, depth + 1), operand(random, depth + 1)),
        _ => format!(
            "{}.{}",
            operand(random, depth + 1),
            random.pick(&["size", "first", "last", "a", "0"])
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

pub(crate) fn filter_chain(random: &FakeHost) -> String {
    let mut chain = String::new();
    for _ in 0..random.number_below(5) {
        let filter = random.pick(FILTERS);
        write!(chain, "{} {filter}", random.pick(&[" |", " |", " |", ","])).unwrap();
        if filter.contains(':') {
            continue;
        }
        for at in 0..random.number_below(4) {
            let sign = if at == 0 { ":" } else { "," };
            write!(chain, "{sign} {}", operand(random, 1)).unwrap();
        }
    }
    chain
}

pub(crate) fn source(random: &FakeHost, depth: usize) -> String {
    let mut source = String::new();
    for _ in 0..=random.number_below(3) {
        let inner = || if depth > 3 { "x".to_owned() } else { inner_source(random, depth) };
        let value = operand(random, 0);
        let relation = random.pick(&["==", "<", "contains", "and", "or", "<>"]);
        match random.number_below(12) {
            0..=4 => write!(source, "{{{{ {value}{} }}}}", filter_chain(random)),
            5 => write!(source, "{}", random.pick(&["text", " ", "é{", "}}", "%}", "-"])),
            6 => write!(
                source,
                "{{% if {value} {relation} {} %}}{}{{% else %}}{}{{% endif %}}",
                operand(random, 0),
                inner(),
                inner()
            ),
            7 => write!(
                source,
                "{{%- for {} in {value} {} -%}}{}{{% endfor %}}",
                random.pick(&["x", "item"]),
                random.pick(&["", "reversed", "limit: 3", "offset: data.a"]),
                inner()
            ),
            8 => write!(source, "{{% assign x = {value}{} %}}", filter_chain(random)),
            9 => write!(source, "{{% capture y %}}{}{{% endcapture %}}", inner()),
            10 => write!(
                source,
                "{{% case {value} %}}{{% when {} %}}{}{{% else %}}y{{% endcase %}}",
                operand(random, 0),
                inner()
            ),
            _ => write!(
                source,
                "{}",
                random.pick(&[
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

fn inner_source(random: &FakeHost, depth: usize) -> String {
    source(random, depth + 1)
}

pub(crate) fn value(random: &FakeHost, depth: usize) -> Value {
    match random.number_below(if depth > 3 { 7 } else { 9 }) {
        0 => Value::Null,
        1 => json!(random.number_below(2) == 0),
        2 => json!(random.next()),
        3 => serde_json::from_str(random.pick(&[
            "-1.50",
            "1e400",
            "1e-70000",
            "0e-2147483647",
            "12345678901234567890123",
            "0",
        ]))
        .unwrap(),
        4 => json!(random.pick(&[
            "4242424242424242",
            "123-45-6789",
            "<b>é</b>&amp;",
            "",
            "2024-02-29T13:05:09.5+02:00",
            "2/29/2024",
            " a,b ",
            "\r\n"
        ])),
        5 => json!("aé<&%".repeat(random.number_below(200))),
        6 => json!("x ".repeat(if random.number_below(50) == 0 { 30_000 } else { 3 })),
        7 => {
            let count = if random.number_below(50) == 0 { 500 } else { random.number_below(6) };
            (0..count).map(|_| value(random, depth + 2)).collect()
        }
        _ => json!({
            "a": value(random, depth + 1), "number": value(random, depth + 2),
            "list": [value(random, depth + 2), value(random, depth + 2)],
            "expiration_month": 7, "expiration_year": "2031",
        }),
    }
}
