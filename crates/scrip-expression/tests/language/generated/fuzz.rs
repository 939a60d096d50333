//! Random and mutated sources and data, for as long as the clock says.
//!
//! Nothing may panic, run past its bounds or give more than a mebibyte. The seed is printed; a
//! failure is found again with `SCRIP_FUZZ_SEED`.

use std::time::{Duration, Instant};

use scrip_expression::{
    Detokenization, Expression, OUTPUT_BYTES_MAX, Scope, Template, VALUE_BYTES_MAX, WORK_BYTES_MAX,
};
use serde_json::{Value, json};

use crate::{
    fake::Fake,
    generator::{chain, source, value},
    short,
};

#[expect(clippy::disallowed_methods, reason = "real time bounds the loop, nothing else")]
fn now() -> Instant {
    Instant::now()
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
        let scope = Scope::new(&Value::Null, None).with_outside(&outside);
        let found = found.and_then(|it| it.evaluate(&|_| Some(data), &scope));
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
