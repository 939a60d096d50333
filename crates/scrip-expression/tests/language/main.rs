//! The language, as tables.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "clippy.toml exempts #[test] functions but not the helpers of a test crate"
)]

mod alias;
mod bounds;
mod cache;
mod cards;
mod date;
mod detokenize;
mod fuzz;
mod oracle;
mod properties;
mod speed;
mod standard;
mod syntax;
mod tags;
mod values;

use std::cell::Cell;

use scrip_expression::{Expression, HmacAlgorithm, Outside, Scope};
use serde_json::{Value, json};

/// Chance that can be repeated, and a hash that shows what it was given.
struct Fake {
    state: Cell<u64>,
}

impl Fake {
    fn new(seed: u64) -> Self {
        Self { state: Cell::new(seed) }
    }

    /// `SplitMix64`.
    fn next(&self) -> u64 {
        let state = self.state.get().wrapping_add(0x9E37_79B9_7F4A_7C15);
        self.state.set(state);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&self, count: usize) -> usize {
        usize::try_from(self.next()).unwrap() % count
    }

    fn pick<'t, T: ?Sized>(&self, choices: &[&'t T]) -> &'t T {
        choices[self.below(choices.len())]
    }
}

impl Outside for Fake {
    fn hmac(&self, algorithm: HmacAlgorithm, key: &[u8], message: &[u8]) -> Vec<u8> {
        [format!("{algorithm:?}").as_bytes(), key, message].join(&b'>')
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        bytes.fill_with(|| self.next().to_le_bytes()[0]);
    }
}

fn evaluate(source: &str, data: &Value) -> Result<Value, String> {
    let metadata = json!({ "city": "Paris" });
    let expression = Expression::parse(source).map_err(|error| error.to_string())?;
    let scope = Scope::new(data, Some(&metadata));
    let outside = Fake::new(1);
    expression.evaluate(&scope.with_outside(&outside)).map_err(|error| error.to_string())
}

fn short(value: &Value) -> String {
    value.to_string().chars().take(200).collect()
}

#[track_caller]
fn check(source: &str, data: Value, expected: Value) {
    assert_eq!(evaluate(source, &data), Ok(expected), "{source} of {}", short(&data));
}

/// By the rule alone.
#[track_caller]
fn fails(source: &str, data: Value, expected: &str) {
    let error = evaluate(source, &data).map(|it| short(&it)).expect_err(source);
    let expected = format!("{expected} (at ");
    assert!(error.starts_with(&expected), "{source} of {}: {error}", short(&data));
}

/// By the rule and its place.
#[track_caller]
fn refuse(source: &str, expected: &str) {
    assert_eq!(evaluate(source, &json!("data")), Err(expected.to_owned()), "{source}");
}
