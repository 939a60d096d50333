//! The cost test: no evaluation does more inner-loop steps than its charged work allows.
//!
//! Each row is an expression over fields of the data. Each field in turn is given n and 4n characters
//! or items of several shapes, the others a fixed size, so that a product of two sizes shows.

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

use self::fake::Fake;
use crate::{
    Detokenization, Expression, Scope, Spent, Template, filter::FILTERS, take_inner_steps,
};

/// Steps for each byte of charged work. A text may be read, searched, copied and compared in one
/// filter; a step of the budget counts as 64 bytes.
const STEPS_PER_WORK: usize = 4;
/// What every evaluation may do without being charged.
const FREE_STEPS: usize = 1024;

const BASE: usize = 300;
const SIZES: [usize; 2] = [400, 1600];

/// What a field holds.
#[derive(Clone, Copy)]
enum Field {
    Text,
    /// Items are texts, numbers or objects with the property `p`.
    List,
    /// A whole number of this size.
    Count,
    Fixed(&'static str),
}

use Field::{Count, Fixed, List, Text};

struct Row {
    filter: &'static str,
    source: &'static str,
    fields: &'static [(&'static str, Field)],
}

const fn row(
    filter: &'static str,
    source: &'static str,
    fields: &'static [(&'static str, Field)],
) -> Row {
    Row { filter, source, fields }
}

const T: (&str, Field) = ("t", Text);
const L: (&str, Field) = ("l", List);
const P: (&str, Field) = ("p", Text);

/// Every filter, by its name. The expressions of tags are below.
const FILTER_ROWS: &[Row] = &[
    row("abs", "{{ data.t | abs }}", &[T]),
    row("alias_card", "{{ data.t | alias_card: 'true', 'true' }}", &[T]),
    row("alias_card", "{{ data.t | alias_card: data.p, data.q }}", &[T, P, ("q", Text)]),
    row(
        "alias_preserve_format",
        "{{ data.t | alias_preserve_format: data.n, data.m }}",
        &[T, ("n", Count), ("m", Count)],
    ),
    row(
        "alias_preserve_length",
        "{{ data.t | alias_preserve_length: data.n, data.m }}",
        &[T, ("n", Count), ("m", Count)],
    ),
    row("append", "{{ data.t | append: data.p }}", &[T, P]),
    row("at_least", "{{ data.t | at_least: data.p }}", &[T, P]),
    row("at_most", "{{ data.t | at_most: data.p }}", &[T, P]),
    row("base64_decode", "{{ data.t | base64_decode }}", &[T]),
    row("base64_encode", "{{ data.t | base64_encode }}", &[T]),
    row("base64_url_safe_decode", "{{ data.t | base64_url_safe_decode }}", &[T]),
    row("base64_url_safe_encode", "{{ data.t | base64_url_safe_encode }}", &[T]),
    row("capitalize", "{{ data.t | capitalize }}", &[T]),
    row("card_bin", "{{ data.t | card_bin: data.p }}", &[T, P]),
    row("card_exp", "{{ data.c | card_exp: data.p }}", &[("c", List), P]),
    row("card_exp", "{{ data | card_exp: 'MM/YYYY' }}", &[("expiration_month", Text)]),
    row("card_mask", "{{ data.t | card_mask: 'true', 'true', 'X', data.p }}", &[T, P]),
    row("card_mask", "{{ data.t | card_mask: data.p, data.q, data.t }}", &[T, P, ("q", Text)]),
    row("ceil", "{{ data.t | ceil }}", &[T]),
    row("compact", "{{ data.l | compact }}", &[L]),
    row("compact", "{{ data.l | compact: data.p }}", &[L, P]),
    row("concat", "{{ data.l | concat: data.k }}", &[L, ("k", List)]),
    row("date", "{{ data.t | date: data.p }}", &[T, P]),
    row("date", "{{ data.d | date: data.p }}", &[("d", Fixed("2029-12-31")), P]),
    row("default", "{{ data.none | default: data.p }}", &[P]),
    row("default", "{{ data.t | default: data.p, data.q }}", &[T, P, ("q", Text)]),
    row("divided_by", "{{ data.t | divided_by: data.p }}", &[T, P]),
    row("downcase", "{{ data.t | downcase }}", &[T]),
    row("escape", "{{ data.t | escape }}", &[T]),
    row("escape_once", "{{ data.t | escape_once }}", &[T]),
    row("first", "{{ data.l | first }}", &[L]),
    row("first", "{{ data.t | first }}", &[T]),
    row("floor", "{{ data.t | floor }}", &[T]),
    row("hmac", "{{ data.t | hmac: 'sha-256', data.p }}", &[T, P]),
    row("join", "{{ data.l | join: data.p }}", &[L, P]),
    row("json", "{{ data | json: '$..p' }}", &[L]),
    row("json", "{{ data | json: '$.l[?@.p == 1]' }}", &[L]),
    row("json", "{{ data.l | json: '$[*,*]' }}", &[L]),
    row("json_stringify", "{{ data | json_stringify }}", &[T, L]),
    row("last", "{{ data.l | last }}", &[L]),
    row("last4", "{{ data.t | last4 }}", &[T]),
    row("lstrip", "{{ data.t | lstrip }}", &[T]),
    row("map", "{{ data.l | map: data.p }}", &[L, P]),
    row("map", "{{ data.l | map: 'p' }}", &[L]),
    row("minus", "{{ data.t | minus: data.p }}", &[T, P]),
    row("modulo", "{{ data.t | modulo: data.p }}", &[T, P]),
    row("newline_to_br", "{{ data.t | newline_to_br }}", &[T]),
    row("pad_left", "{{ data.t | pad_left: data.n, 'x' }}", &[T, ("n", Count)]),
    row("pad_right", "{{ data.t | pad_right: data.n, 'é' }}", &[T, ("n", Count)]),
    row("plus", "{{ data.t | plus: data.p }}", &[T, P]),
    row("prepend", "{{ data.t | prepend: data.p }}", &[T, P]),
    row("remove", "{{ data.t | remove: data.p }}", &[T, P]),
    row("remove_first", "{{ data.t | remove_first: data.p }}", &[T, P]),
    row("remove_last", "{{ data.t | remove_last: data.p }}", &[T, P]),
    row("replace", "{{ data.t | replace: data.p, data.q }}", &[T, P, ("q", Text)]),
    row("replace", "{{ data.t | replace: '', data.q }}", &[T, ("q", Text)]),
    row("replace_first", "{{ data.t | replace_first: data.p, data.q }}", &[T, P, ("q", Text)]),
    row("replace_last", "{{ data.t | replace_last: data.p, data.q }}", &[T, P, ("q", Text)]),
    row(
        "reveal",
        "{{ data.t | reveal: data.n, data.m, 'X', data.p }}",
        &[T, ("n", Count), ("m", Count), P],
    ),
    row("reveal", "{{ data.t | reveal: 0, 0, data.p }}", &[T, P]),
    row("reveal_last", "{{ data.t | reveal_last: data.n, '*' }}", &[T, ("n", Count)]),
    row("reveal_last", "{{ data.t | reveal_last: data.p, data.p }}", &[T, P]),
    row("reverse", "{{ data.l | reverse }}", &[L]),
    row("round", "{{ data.t | round: data.n }}", &[T, ("n", Count)]),
    row("rstrip", "{{ data.t | rstrip }}", &[T]),
    row("size", "{{ data.t | size }}{{ data.l | size }}", &[T, L]),
    row("slice", "{{ data.t | slice: data.n, data.m }}", &[T, ("n", Count), ("m", Count)]),
    row("slice", "{{ data.l | slice: -300, data.m }}", &[L, ("m", Count)]),
    row("sort", "{{ data.l | sort }}", &[L]),
    row("sort", "{{ data.l | sort: data.p }}", &[L, P]),
    row("sort", "{{ data.l | sort: 'p' }}", &[L]),
    row("sort_natural", "{{ data.l | sort_natural }}", &[L]),
    row("sort_natural", "{{ data.l | sort_natural: 'p' }}", &[L]),
    row("split", "{{ data.t | split: data.p }}", &[T, P]),
    row("split", "{{ data.t | split: '' }}", &[T]),
    row("stringify", "{{ data | stringify }}", &[T, L]),
    row("strip", "{{ data.t | strip }}", &[T]),
    row("strip_html", "{{ data.t | strip_html }}", &[T]),
    row("strip_newlines", "{{ data.t | strip_newlines }}", &[T]),
    row("sum", "{{ data.l | sum }}", &[L]),
    row("sum", "{{ data.l | sum: data.p }}", &[L, P]),
    row("times", "{{ data.t | times: data.p }}", &[T, P]),
    row("to_base16", "{{ data.t | to_base16 }}", &[T]),
    row("to_base64", "{{ data.t | to_base64 }}", &[T]),
    row("to_boolean", "{{ data.t | to_boolean }}", &[T]),
    row("to_number", "{{ data.t | to_number }}", &[T]),
    row("to_string", "{{ data | to_string }}", &[T, L]),
    row("truncate", "{{ data.t | truncate: data.n, data.p }}", &[T, ("n", Count), P]),
    row("truncatewords", "{{ data.t | truncatewords: data.n, data.p }}", &[T, ("n", Count), P]),
    row("uniq", "{{ data.l | uniq }}", &[L]),
    row("uniq", "{{ data.l | uniq: data.p }}", &[L, P]),
    row("upcase", "{{ data.t | upcase }}", &[T]),
    row("url_decode", "{{ data.t | url_decode }}", &[T]),
    row("url_encode", "{{ data.t | url_encode }}", &[T]),
    row("where", "{{ data.l | where: data.p }}", &[L, P]),
    row("where", "{{ data.l | where: 'p', data.q }}", &[L, ("q", Text)]),
    row("where", "{{ data.l | where: 'p', data.l }}", &[L]),
];

/// Every tag, and what a path, a range and a comparison can do in a loop.
const TAG_ROWS: &[Row] = &[
    row("for", "{% for i in data.l %}{{ i }}{% endfor %}", &[L]),
    row(
        "for",
        "{% for i in data.l reversed offset: data.n limit: data.m %}x{% endfor %}",
        &[L, ("n", Count), ("m", Count)],
    ),
    row("for", "{% for i in (1..data.n) %}{{ forloop.rindex }}{% endfor %}", &[("n", Count)]),
    row("for", "{% for i in data %}{{ i }}{% endfor %}", &[T, L]),
    row("for", "{% for i in (1..9) %}{% for j in data.l %}{% endfor %}{% endfor %}", &[L]),
    row("for", "{% for i in (1..99) %}{{ data.t.size }}{% endfor %}", &[T]),
    row("for", "{% for i in (1..99) %}{{ data[data.p] }}{% endfor %}", &[P]),
    row("for", "{% for i in (1..99) %}{{ data[data.l] }}{% endfor %}", &[L]),
    row(
        "case",
        "{% for i in (1..9) %}{% case data.t %}{% when data.p, data.q %}x{% endcase %}{% endfor %}",
        &[T, P, ("q", Text)],
    ),
    row(
        "if",
        "{% for i in (1..9) %}{% if data.t contains data.p %}x{% endif %}{% endfor %}",
        &[T, P],
    ),
    row("if", "{% if data.l contains data.p %}x{% endif %}", &[L, P]),
    row("if", "{% if data.l contains data.k %}x{% endif %}", &[L, ("k", List)]),
    row("if", "{% if data contains data.p or data.t == blank %}x{% endif %}", &[T, P, L]),
    row("if", "{% if data.t == data.p or data.t < data.p %}x{% endif %}", &[T, P]),
    row("if", "{% if data.l == data.k %}x{% endif %}", &[L, ("k", List)]),
    row("unless", "{% unless data.t == data.p %}x{% endunless %}", &[T, P]),
    row(
        "assign",
        "{% for i in (1..9) %}{% assign x = data.l | reverse %}{{ x.first }}{% endfor %}",
        &[L],
    ),
    row(
        "assign",
        "{% assign x = data.t %}{% for i in (1..4) %}{% assign x = x | append: x %}{% endfor %}",
        &[T],
    ),
    row(
        "capture",
        "{% for i in (1..9) %}{% capture x %}{{ data.t }}{% endcapture %}{% endfor %}",
        &[T],
    ),
    row("echo", "{% echo data.t %}", &[T]),
    row("raw", "{% raw %}{{{% endraw %}{% comment %}x{% endcomment %}{{ data.t }}", &[T]),
];

/// Texts that are hard for one filter or another.
const TEXT_SHAPES: &[&str] =
    &["a", "ab", "4", "0", " ", "<", "<a", "&", "&a", "é", "\n", "%41", "-é"];

fn text(shape: &str, size: usize) -> Value {
    Value::String(shape.chars().cycle().take(size).collect())
}

fn list(shape: &str, size: usize) -> Value {
    let item = |at: usize| match shape {
        // One long text in each, alike up to the end; numbers; objects.
        "ab" => json!(format!("{}{at}", "a".repeat(20))),
        "4" => json!(at),
        "<a" => json!({"p": at, "a long name of a property": null}),
        "&a" => json!({"p": "x".repeat(20)}),
        "é" => json!([at]),
        _ => json!(shape),
    };
    (0..size).map(item).collect()
}

fn field(kind: Field, shape: &str, size: usize) -> Value {
    match kind {
        Text => text(shape, size),
        List => list(shape, size),
        Count => json!(size),
        Fixed(text) => json!(text),
    }
}

fn measure(source: &str, data: &Value) -> (usize, Spent) {
    let outside = Fake::new(7);
    let expression = Expression::parse(source).expect(source);
    take_inner_steps();
    let scope = Scope::new(data, Some(data)).with_outside(&outside);
    drop(expression.evaluate(&scope));
    (take_inner_steps(), scope.spent())
}

#[track_caller]
fn check_bound(what: &str, steps: usize, spent: Spent) {
    let most = spent.work * STEPS_PER_WORK + FREE_STEPS;
    assert!(steps <= most, "{what}: {steps} steps for {} of charged work", spent.work);
}

fn check_row(row: &Row) {
    for (varied, _) in row.fields {
        for (shape, other) in TEXT_SHAPES.iter().flat_map(|it| [(it, "a"), (it, *it)]) {
            let data = |size: usize| -> Value {
                let value = |(name, kind): &(&str, Field)| {
                    let is_varied = name == varied;
                    let shape = if is_varied { shape } else { other };
                    let size = if is_varied { size } else { BASE };
                    ((*name).to_owned(), field(*kind, shape, size))
                };
                Value::Object(row.fields.iter().map(value).collect::<Map<_, _>>())
            };
            let measured = SIZES.map(|size| measure(row.source, &data(size)));
            let what = format!("{} with {varied} of {shape:?} and {other:?}", row.source);
            for (steps, spent) in measured {
                check_bound(&what, steps, spent);
            }
            let [(steps, spent), (steps_more, spent_more)] = measured;
            // One that ended at its bound did not grow.
            if spent_more.work > crate::WORK_BYTES_MAX / 2 {
                continue;
            }
            let grown = spent_more.work.saturating_sub(spent.work);
            assert!(
                steps_more <= steps + grown * STEPS_PER_WORK + FREE_STEPS,
                "{what}: from {steps} to {steps_more} steps, work from {} to {}",
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

/// Each parameter must be an argument in some row, or its size is never varied.
#[test]
fn every_parameter_of_every_filter_is_in_a_cost_row() {
    for filter in FILTERS {
        let rows = FILTER_ROWS.iter().filter(|it| it.filter == filter.name);
        let most = rows.map(|it| arguments(it.source, filter.name)).max();
        assert!(most >= Some(filter.parameters.len()), "{}: {most:?}", filter.name);
    }
}

/// Counts the arguments of the filter in a source whose texts have no commas.
fn arguments(source: &str, filter: &str) -> usize {
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
        check_bound("a template", take_inner_steps(), scope.spent());
        assert!(scope.spent().work > 3 * size);
        let detokenization = Detokenization::parse(&source).unwrap();
        let scope = Scope::new(&Value::Null, None);
        take_inner_steps();
        drop(detokenization.evaluate(&|_| Some(&data), &scope));
        check_bound("a detokenization", take_inner_steps(), scope.spent());
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

/// The same for random expressions over random data.
#[test]
fn steps_of_random_expressions_stay_within_their_charged_work() {
    let chance = Fake::new(u64::from(std::process::id()) << 20);
    let mut evaluated = 0;
    for _ in 0..5_000 {
        let (source, data) = (generator::source(&chance, 0), generator::value(&chance, 0));
        let Ok(expression) = Expression::parse(&source) else { continue };
        let outside = Fake::new(chance.next());
        let scope = Scope::new(&data, Some(&data)).with_outside(&outside);
        take_inner_steps();
        evaluated += usize::from(expression.evaluate(&scope).is_ok());
        check_bound(&source, take_inner_steps(), scope.spent());
    }
    assert!(evaluated > 100, "the generator makes too little that works");
}
