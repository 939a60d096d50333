//! The cost test: no evaluation does more inner-loop steps than its charged work allows.
//!
//! Each row is an expression over fields of the data. Each field in turn gets n and 4n characters
//! or items of several shapes, while the others have a fixed size. A product of two sizes then
//! becomes visible.

#![expect(
    clippy::arithmetic_side_effects,
    reason = "a test says what it expects by failing, and clippy.toml exempts no helpers"
)]

#[path = "../../tests/language/fake.rs"]
mod fake;
#[path = "../../tests/language/generator.rs"]
mod generator;

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use self::fake::FakeHost;
use crate::{
    Detokenization, Expression, Scope, SpentWork, Template, filter::FILTERS, take_inner_steps,
};

/// Allowed steps per byte of charged work. One filter may read, search, copy and compare a text; a
/// step of the budget counts as 64 bytes.
const STEPS_PER_WORK: usize = 4;
/// Uncharged steps that every evaluation may do.
const FREE_STEPS: usize = 1024;

const BASE: usize = 300;
const SIZES: [usize; 2] = [400, 1600];

/// The content of a field.
#[derive(Clone, Copy)]
enum DataField {
    Text,
    /// Items are strings, numbers or objects with the property `p`.
    List,
    /// A whole number of this size.
    Count,
    Fixed(&'static str),
}

use DataField::{Count, Fixed, List, Text};

struct CostRow {
    filter: &'static str,
    source: &'static str,
    fields: &'static [(&'static str, DataField)],
}

const fn cost_row(
    filter: &'static str,
    source: &'static str,
    fields: &'static [(&'static str, DataField)],
) -> CostRow {
    CostRow { filter, source, fields }
}

const T: (&str, DataField) = ("t", Text);
const L: (&str, DataField) = ("l", List);
const P: (&str, DataField) = ("p", Text);

/// Every filter. The expressions with tags are below.
const FILTER_ROWS: &[CostRow] = &[
    cost_row("abs", "{{ data.t | abs }}", &[T]),
    cost_row("alias_card", "{{ data.t | alias_card: 'true', 'true' }}", &[T]),
    cost_row("alias_card", "{{ data.t | alias_card: data.p, data.q }}", &[T, P, ("q", Text)]),
    cost_row(
        "alias_preserve_format",
        "{{ data.t | alias_preserve_format: data.n, data.m }}",
        &[T, ("n", Count), ("m", Count)],
    ),
    cost_row(
        "alias_preserve_length",
        "{{ data.t | alias_preserve_length: data.n, data.m }}",
        &[T, ("n", Count), ("m", Count)],
    ),
    cost_row("append", "{{ data.t | append: data.p }}", &[T, P]),
    cost_row("at_least", "{{ data.t | at_least: data.p }}", &[T, P]),
    cost_row("at_most", "{{ data.t | at_most: data.p }}", &[T, P]),
    cost_row("base64_decode", "{{ data.t | base64_decode }}", &[T]),
    cost_row("base64_encode", "{{ data.t | base64_encode }}", &[T]),
    cost_row("base64_url_safe_decode", "{{ data.t | base64_url_safe_decode }}", &[T]),
    cost_row("base64_url_safe_encode", "{{ data.t | base64_url_safe_encode }}", &[T]),
    cost_row("capitalize", "{{ data.t | capitalize }}", &[T]),
    cost_row("card_bin", "{{ data.t | card_bin: data.p }}", &[T, P]),
    cost_row("card_exp", "{{ data.c | card_exp: data.p }}", &[("c", List), P]),
    cost_row("card_exp", "{{ data | card_exp: 'MM/YYYY' }}", &[("expiration_month", Text)]),
    cost_row("card_mask", "{{ data.t | card_mask: 'true', 'true', 'X', data.p }}", &[T, P]),
    cost_row("card_mask", "{{ data.t | card_mask: data.p, data.q, data.t }}", &[T, P, ("q", Text)]),
    cost_row("ceil", "{{ data.t | ceil }}", &[T]),
    cost_row("compact", "{{ data.l | compact }}", &[L]),
    cost_row("compact", "{{ data.l | compact: data.p }}", &[L, P]),
    cost_row("concat", "{{ data.l | concat: data.k }}", &[L, ("k", List)]),
    cost_row("date", "{{ data.t | date: data.p }}", &[T, P]),
    cost_row("date", "{{ data.d | date: data.p }}", &[("d", Fixed("2029-12-31")), P]),
    cost_row("default", "{{ data.none | default: data.p }}", &[P]),
    cost_row("default", "{{ data.t | default: data.p, data.q }}", &[T, P, ("q", Text)]),
    cost_row("divided_by", "{{ data.t | divided_by: data.p }}", &[T, P]),
    cost_row("downcase", "{{ data.t | downcase }}", &[T]),
    cost_row("escape", "{{ data.t | escape }}", &[T]),
    cost_row("escape_once", "{{ data.t | escape_once }}", &[T]),
    cost_row("first", "{{ data.l | first }}", &[L]),
    cost_row("first", "{{ data.t | first }}", &[T]),
    cost_row("floor", "{{ data.t | floor }}", &[T]),
    cost_row("hmac", "{{ data.t | hmac: 'sha-256', data.p }}", &[T, P]),
    cost_row("join", "{{ data.l | join: data.p }}", &[L, P]),
    cost_row("json", "{{ data | json: '$..p' }}", &[L]),
    cost_row("json", "{{ data | json: '$.l[?@.p == 1]' }}", &[L]),
    cost_row("json", "{{ data.l | json: '$[*,*]' }}", &[L]),
    cost_row("json_stringify", "{{ data | json_stringify }}", &[T, L]),
    cost_row("last", "{{ data.l | last }}", &[L]),
    cost_row("last4", "{{ data.t | last4 }}", &[T]),
    cost_row("lstrip", "{{ data.t | lstrip }}", &[T]),
    cost_row("map", "{{ data.l | map: data.p }}", &[L, P]),
    cost_row("map", "{{ data.l | map: 'p' }}", &[L]),
    cost_row("minus", "{{ data.t | minus: data.p }}", &[T, P]),
    cost_row("modulo", "{{ data.t | modulo: data.p }}", &[T, P]),
    cost_row("newline_to_br", "{{ data.t | newline_to_br }}", &[T]),
    cost_row("pad_left", "{{ data.t | pad_left: data.n, 'x' }}", &[T, ("n", Count)]),
    cost_row("pad_right", "{{ data.t | pad_right: data.n, 'é' }}", &[T, ("n", Count)]),
    cost_row("plus", "{{ data.t | plus: data.p }}", &[T, P]),
    cost_row("prepend", "{{ data.t | prepend: data.p }}", &[T, P]),
    cost_row("remove", "{{ data.t | remove: data.p }}", &[T, P]),
    cost_row("remove_first", "{{ data.t | remove_first: data.p }}", &[T, P]),
    cost_row("remove_last", "{{ data.t | remove_last: data.p }}", &[T, P]),
    cost_row("replace", "{{ data.t | replace: data.p, data.q }}", &[T, P, ("q", Text)]),
    cost_row("replace", "{{ data.t | replace: '', data.q }}", &[T, ("q", Text)]),
    cost_row("replace_first", "{{ data.t | replace_first: data.p, data.q }}", &[T, P, ("q", Text)]),
    cost_row("replace_last", "{{ data.t | replace_last: data.p, data.q }}", &[T, P, ("q", Text)]),
    cost_row(
        "reveal",
        "{{ data.t | reveal: data.n, data.m, 'X', data.p }}",
        &[T, ("n", Count), ("m", Count), P],
    ),
    cost_row("reveal", "{{ data.t | reveal: 0, 0, data.p }}", &[T, P]),
    cost_row("reveal_last", "{{ data.t | reveal_last: data.n, '*' }}", &[T, ("n", Count)]),
    cost_row("reveal_last", "{{ data.t | reveal_last: data.p, data.p }}", &[T, P]),
    cost_row("reverse", "{{ data.l | reverse }}", &[L]),
    cost_row("round", "{{ data.t | round: data.n }}", &[T, ("n", Count)]),
    cost_row("rstrip", "{{ data.t | rstrip }}", &[T]),
    cost_row("size", "{{ data.t | size }}{{ data.l | size }}", &[T, L]),
    cost_row("slice", "{{ data.t | slice: data.n, data.m }}", &[T, ("n", Count), ("m", Count)]),
    cost_row("slice", "{{ data.l | slice: -300, data.m }}", &[L, ("m", Count)]),
    cost_row("sort", "{{ data.l | sort }}", &[L]),
    cost_row("sort", "{{ data.l | sort: data.p }}", &[L, P]),
    cost_row("sort", "{{ data.l | sort: 'p' }}", &[L]),
    cost_row("sort_natural", "{{ data.l | sort_natural }}", &[L]),
    cost_row("sort_natural", "{{ data.l | sort_natural: 'p' }}", &[L]),
    cost_row("split", "{{ data.t | split: data.p }}", &[T, P]),
    cost_row("split", "{{ data.t | split: '' }}", &[T]),
    cost_row("stringify", "{{ data | stringify }}", &[T, L]),
    cost_row("strip", "{{ data.t | strip }}", &[T]),
    cost_row("strip_html", "{{ data.t | strip_html }}", &[T]),
    cost_row("strip_newlines", "{{ data.t | strip_newlines }}", &[T]),
    cost_row("sum", "{{ data.l | sum }}", &[L]),
    cost_row("sum", "{{ data.l | sum: data.p }}", &[L, P]),
    cost_row("times", "{{ data.t | times: data.p }}", &[T, P]),
    cost_row("to_base16", "{{ data.t | to_base16 }}", &[T]),
    cost_row("to_base64", "{{ data.t | to_base64 }}", &[T]),
    cost_row("to_boolean", "{{ data.t | to_boolean }}", &[T]),
    cost_row("to_number", "{{ data.t | to_number }}", &[T]),
    cost_row("to_string", "{{ data | to_string }}", &[T, L]),
    cost_row("truncate", "{{ data.t | truncate: data.n, data.p }}", &[T, ("n", Count), P]),
    cost_row(
        "truncatewords",
        "{{ data.t | truncatewords: data.n, data.p }}",
        &[T, ("n", Count), P],
    ),
    cost_row("uniq", "{{ data.l | uniq }}", &[L]),
    cost_row("uniq", "{{ data.l | uniq: data.p }}", &[L, P]),
    cost_row("upcase", "{{ data.t | upcase }}", &[T]),
    cost_row("url_decode", "{{ data.t | url_decode }}", &[T]),
    cost_row("url_encode", "{{ data.t | url_encode }}", &[T]),
    cost_row("where", "{{ data.l | where: data.p }}", &[L, P]),
    cost_row("where", "{{ data.l | where: 'p', data.q }}", &[L, ("q", Text)]),
    cost_row("where", "{{ data.l | where: 'p', data.l }}", &[L]),
];

/// Every tag, and paths, ranges and comparisons in loops.
const TAG_ROWS: &[CostRow] = &[
    cost_row("for", "{% for i in data.l %}{{ i }}{% endfor %}", &[L]),
    cost_row(
        "for",
        "{% for i in data.l reversed offset: data.n limit: data.m %}x{% endfor %}",
        &[L, ("n", Count), ("m", Count)],
    ),
    cost_row("for", "{% for i in (1..data.n) %}{{ forloop.rindex }}{% endfor %}", &[("n", Count)]),
    cost_row("for", "{% for i in data %}{{ i }}{% endfor %}", &[T, L]),
    cost_row("for", "{% for i in (1..9) %}{% for j in data.l %}{% endfor %}{% endfor %}", &[L]),
    cost_row("for", "{% for i in (1..99) %}{{ data.t.size }}{% endfor %}", &[T]),
    cost_row("for", "{% for i in (1..99) %}{{ data[data.p] }}{% endfor %}", &[P]),
    cost_row("for", "{% for i in (1..99) %}{{ data[data.l] }}{% endfor %}", &[L]),
    cost_row(
        "case",
        "{% for i in (1..9) %}{% case data.t %}{% when data.p, data.q %}x{% endcase %}{% endfor %}",
        &[T, P, ("q", Text)],
    ),
    cost_row(
        "if",
        "{% for i in (1..9) %}{% if data.t contains data.p %}x{% endif %}{% endfor %}",
        &[T, P],
    ),
    cost_row("if", "{% if data.l contains data.p %}x{% endif %}", &[L, P]),
    cost_row("if", "{% if data.l contains data.k %}x{% endif %}", &[L, ("k", List)]),
    cost_row("if", "{% if data contains data.p or data.t == blank %}x{% endif %}", &[T, P, L]),
    cost_row("if", "{% if data.t == data.p or data.t < data.p %}x{% endif %}", &[T, P]),
    cost_row("if", "{% if data.l == data.k %}x{% endif %}", &[L, ("k", List)]),
    cost_row("unless", "{% unless data.t == data.p %}x{% endunless %}", &[T, P]),
    cost_row(
        "assign",
        "{% for i in (1..9) %}{% assign x = data.l | reverse %}{{ x.first }}{% endfor %}",
        &[L],
    ),
    cost_row(
        "assign",
        "{% assign x = data.t %}{% for i in (1..4) %}{% assign x = x | append: x %}{% endfor %}",
        &[T],
    ),
    cost_row(
        "capture",
        "{% for i in (1..9) %}{% capture x %}{{ data.t }}{% endcapture %}{% endfor %}",
        &[T],
    ),
    cost_row("echo", "{% echo data.t %}", &[T]),
    cost_row("raw", "{% raw %}{{{% endraw %}{% comment %}x{% endcomment %}{{ data.t }}", &[T]),
];

/// Texts that are expensive for some filter.
const TEXT_SHAPES: &[&str] =
    &["a", "ab", "4", "0", " ", "<", "<a", "&", "&a", "é", "\n", "%41", "-é"];

fn repeated_text(shape: &str, size: usize) -> Value {
    Value::String(shape.chars().cycle().take(size).collect())
}

fn repeated_list(shape: &str, size: usize) -> Value {
    let item = |at: usize| match shape {
        // Long strings that differ only at the end; numbers; objects.
        "ab" => json!(format!("{}{at}", "a".repeat(20))),
        "4" => json!(at),
        "<a" => json!({"p": at, "a long name of a property": null}),
        "&a" => json!({"p": "x".repeat(20)}),
        "é" => json!([at]),
        _ => json!(shape),
    };
    (0..size).map(item).collect()
}

fn field_value(kind: DataField, shape: &str, size: usize) -> Value {
    match kind {
        Text => repeated_text(shape, size),
        List => repeated_list(shape, size),
        Count => json!(size),
        Fixed(text) => json!(text),
    }
}

fn measure(source: &str, data: &Value) -> (usize, SpentWork) {
    let host = FakeHost::new(7);
    let expression = Expression::parse(source).expect(source);
    take_inner_steps();
    let scope = Scope::new(data, Some(data)).with_host_functions(&host);
    drop(expression.evaluate(&scope));
    (take_inner_steps(), scope.spent_work())
}

#[track_caller]
fn check_bound(label: &str, steps: usize, spent: SpentWork) {
    let steps_max = spent.work * STEPS_PER_WORK + FREE_STEPS;
    assert!(steps <= steps_max, "{label}: {steps} steps for {} of charged work", spent.work);
}

fn check_row(row: &CostRow) {
    for (varied, _) in row.fields {
        for (shape, other) in TEXT_SHAPES.iter().flat_map(|it| [(it, "a"), (it, *it)]) {
            let data = |size: usize| -> Value {
                let value = |(name, kind): &(&str, DataField)| {
                    let is_varied = name == varied;
                    let shape = if is_varied { shape } else { other };
                    let size = if is_varied { size } else { BASE };
                    ((*name).to_owned(), field_value(*kind, shape, size))
                };
                Value::Object(row.fields.iter().map(value).collect::<Map<_, _>>())
            };
            let measured = SIZES.map(|size| measure(row.source, &data(size)));
            let label = format!("{} with {varied} of {shape:?} and {other:?}", row.source);
            for (steps, spent) in measured {
                check_bound(&label, steps, spent);
            }
            let [(steps, spent), (steps_more, spent_more)] = measured;
            // An evaluation that reached its limit did not grow.
            if spent_more.work > crate::WORK_BYTES_MAX / 2 {
                continue;
            }
            let grown = spent_more.work.saturating_sub(spent.work);
            assert!(
                steps_more <= steps + grown * STEPS_PER_WORK + FREE_STEPS,
                "{label}: from {steps} to {steps_more} steps, work from {} to {}",
                spent.work,
                spent_more.work
            );
        }
    }
}

#[test]
fn steps_of_every_filter_grow_no_faster_than_its_charged_work() {
    let known: BTreeSet<_> = FILTERS.iter().map(|it| it.name).collect();
    let rows: BTreeSet<_> = FILTER_ROWS.iter().map(|it| it.filter).collect();
    assert_eq!(known, rows, "every filter has a row here");
    FILTER_ROWS.iter().for_each(check_row);
}

/// Each parameter must be an argument in some row; otherwise its size is never varied.
#[test]
fn every_parameter_of_every_filter_is_in_a_cost_row() {
    for filter in FILTERS {
        let rows = FILTER_ROWS.iter().filter(|it| it.filter == filter.name);
        let most = rows.map(|it| count_arguments(it.source, filter.name)).max();
        assert!(most >= Some(filter.parameters.len()), "{}: {most:?}", filter.name);
    }
}

/// Counts the arguments of the filter in a source without commas in its strings.
fn count_arguments(source: &str, filter: &str) -> usize {
    let Some((_, after)) = source.split_once(&format!("| {filter}: ")) else { return 0 };
    after.split(" }}").next().map_or(0, |it| it.split(", ").count())
}

#[test]
fn steps_of_every_tag_grow_no_faster_than_their_charged_work() {
    TAG_ROWS.iter().for_each(check_row);
}

#[test]
fn literals_and_names_of_templates_are_charged() {
    let data = json!({"t": "x"});
    for size in SIZES {
        let long = "n".repeat(size);
        let source = json!({long.clone(): [long, vec![0; size], "{{ data.t }}"]});
        let template = Template::parse(&source).unwrap();
        let scope = Scope::new(&data, None);
        take_inner_steps();
        template.evaluate(&scope).unwrap();
        check_bound("a template", take_inner_steps(), scope.spent_work());
        assert!(scope.spent_work().work > 3 * size);
        let detokenization = Detokenization::parse(&source).unwrap();
        let scope = Scope::new(&Value::Null, None);
        take_inner_steps();
        drop(detokenization.evaluate(&|_| Some(&data), &scope));
        check_bound("a detokenization", take_inner_steps(), scope.spent_work());
    }
}

#[test]
fn keep_of_any_length_does_not_multiply_with_the_text() {
    for filter in ["reveal: 0, 0, 'X', data.k", "card_mask: 'true', 'true', 'X', data.k"] {
        let source = format!("{{{{ data.t | {filter} }}}}");
        let long = json!({"t": "x".repeat(125_000), "k": "y".repeat(125_000)});
        let (steps, _) = measure(&source, &long);
        assert!(steps < 1_000_000, "{steps}");
        let (steps, spent) =
            measure(&source, &json!({"t": "é".repeat(60_000), "k": "ü".repeat(256)}));
        check_bound(&source, steps, spent);
    }
}

/// Checks random expressions over random data.
#[test]
fn steps_of_random_expressions_stay_within_their_charged_work() {
    let random = FakeHost::new(u64::from(std::process::id()) << 20);
    let mut evaluated = 0;
    for _ in 0..5_000 {
        let (source, data) = (generator::source(&random, 0), generator::value(&random, 0));
        let Ok(expression) = Expression::parse(&source) else { continue };
        let host = FakeHost::new(random.next());
        let scope = Scope::new(&data, Some(&data)).with_host_functions(&host);
        take_inner_steps();
        evaluated += usize::from(expression.evaluate(&scope).is_ok());
        check_bound(&source, take_inner_steps(), scope.spent_work());
    }
    assert!(evaluated > 100, "the generator creates too few valid expressions");
}
