//! Random and mutated sources and data, for a limited time.
//!
//! No evaluation may panic, exceed its limits or return more than 1 MiB. The test prints its seed;
//! set `SCRIP_FUZZ_SEED` to reproduce a failure.

use std::time::{Duration, Instant};

use scrip_expression::{
    Detokenization, Expression, OUTPUT_BYTES_MAX, Scope, Template, VALUE_BYTES_MAX, WORK_BYTES_MAX,
};
use serde_json::{Value, json};

use crate::{
    fake::FakeHost,
    generator::{filter_chain, source, value},
    shorten,
};

#[expect(clippy::disallowed_methods, reason = "only the duration of the loop uses real time")]
fn now() -> Instant {
    Instant::now()
}

/// Removes, duplicates or swaps a part.
fn mutate(random: &FakeHost, source: &str) -> String {
    let mut chars: Vec<char> = source.chars().collect();
    for _ in 0..=random.number_below(3) {
        let (from, length) = (random.number_below(chars.len() + 1), random.number_below(12));
        let to = (from + length).min(chars.len());
        match random.number_below(3) {
            0 => drop(chars.drain(from..to)),
            1 => {
                let piece: Vec<char> = chars[from..to].repeat(1 + random.number_below(40));
                chars.splice(from..from, piece);
            }
            _ => {
                let signs = ["{{", "}}", "{%", "%}", "|", ",", "'", "[", "(", "..", "é", "\u{0}"];
                chars.splice(from..from, random.pick(&signs).chars());
            }
        }
    }
    chars.into_iter().take(4500).collect()
}

/// The content of a value in memory, in bytes.
fn value_bytes(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) => 0,
        Value::Number(number) => number.as_str().len(),
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(value_bytes).sum(),
        Value::Object(object) => {
            object.iter().map(|(name, value)| name.len() + value_bytes(value)).sum()
        }
    }
}

/// Whether the source can be a single output, which keeps the type of its value. A comment and
/// white space in front of it do not count.
fn starts_with_output(source: &str) -> bool {
    let mut rest = source.trim_start();
    while let Some(body) = rest.strip_prefix("{%")
        && body.trim_start_matches('-').trim_start().starts_with("comment")
        && let Some(end) = body.find("endcomment").map(|at| &body[at..])
        && let Some(close) = end.find("%}")
    {
        rest = end[close + 2..].trim_start();
    }
    rest.starts_with("{{")
}

/// Returns whether any evaluation succeeded.
fn evaluate_everywhere(random: &FakeHost, source: &str, data: &Value) -> bool {
    let host = FakeHost::new(random.next());
    let scope = Scope::new(data, Some(data)).with_host_functions(&host);
    let evaluated = Expression::parse(source).and_then(|it| it.evaluate(&scope));
    if let Ok(value) = &evaluated {
        let most = if starts_with_output(source) { VALUE_BYTES_MAX } else { OUTPUT_BYTES_MAX };
        assert!(value_bytes(value) <= most.max(value_bytes(data)), "{source}");
    }
    if random.number_below(4) == 0 {
        let template = json!({"a": [source, {"b": source}], "c": data});
        let scope = Scope::new(data, None).with_host_functions(&host);
        if let Ok(value) = Template::parse(&template).and_then(|it| it.evaluate(&scope)) {
            assert!(value_bytes(&value) <= WORK_BYTES_MAX + value_bytes(&template), "{source}");
        }
        let tokens = format!("{{{{ abc{} }}}} {source}", filter_chain(random));
        let found = Detokenization::parse(&json!([tokens, source]));
        let scope = Scope::new(&Value::Null, None).with_host_functions(&host);
        let found = found.and_then(|it| it.evaluate(&|_| Some(data), &scope));
        if let Ok(value) = found {
            assert!(value_bytes(&value) <= WORK_BYTES_MAX + 2 * tokens.len(), "{source}");
        }
    }
    evaluated.is_ok()
}

#[test]
#[expect(clippy::print_stderr, reason = "reports the result and how to reproduce it")]
#[expect(clippy::disallowed_methods, reason = "the test duration is not a setting of the program")]
fn fuzzed_expressions_stay_within_bounds() {
    let long = std::env::var_os("SCRIP_TEST_LONG").is_some();
    let time = Duration::from_secs(if long { 60 } else { 6 });
    let given = std::env::var("SCRIP_FUZZ_SEED").ok().and_then(|it| it.parse().ok());
    let seed: u64 = given.unwrap_or_else(|| u64::from(std::process::id()) << 20);
    eprintln!("fuzz: seed {seed}");
    let random = FakeHost::new(seed);
    let start = now();
    let (mut executions, mut evaluated) = (0_u64, 0_u64);
    let (mut slowest, mut slowest_source) = (Duration::ZERO, String::new());
    let mut corpus: Vec<String> = vec!["{{ data.number | reveal_last: 4 }}".into()];
    while start.elapsed() < time {
        let source = match random.number_below(3) {
            0 => mutate(&random, &corpus[random.number_below(corpus.len())]),
            _ => source(&random, 0),
        };
        let data = value(&random, 0);
        let started = now();
        let has_result = evaluate_everywhere(&random, &source, &data);
        let elapsed = started.elapsed();
        executions += 1;
        evaluated += u64::from(has_result);
        if has_result && source.len() < 1000 {
            // Valid sources are good starting points for mutations.
            let index = random.number_below(500);
            if index < corpus.len() {
                corpus[index].clone_from(&source)
            } else {
                corpus.push(source.clone())
            }
        }
        if elapsed > slowest {
            // Measure again: the machine may have been busy.
            let started = now();
            evaluate_everywhere(&random, &source, &data);
            let elapsed = elapsed.min(started.elapsed());
            if elapsed > slowest {
                (slowest, slowest_source) = (elapsed, format!("{source} of {}", shorten(&data)));
            }
        }
    }
    eprintln!("fuzz: {executions} executions, {evaluated} with a result");
    eprintln!("fuzz: slowest {slowest:?}: {slowest_source}");
    assert!(evaluated > 100, "the generator creates too few valid expressions");
}
