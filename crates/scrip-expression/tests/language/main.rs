//! Tests of the language, mostly as tables.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "clippy.toml exempts #[test] functions but not the helpers of a test crate"
)]

mod bounds;
mod cache;
mod detokenize;
mod fake;
mod filters;
mod generated;
mod generator;
mod message;
mod oracle;
mod syntax;
mod tags;
mod values;

use scrip_expression::{Expression, Scope};
use serde_json::{Value, json};

use self::fake::FakeHost;

fn evaluate(source: &str, data: &Value) -> Result<Value, String> {
    let metadata = json!({ "city": "Paris" });
    let expression = Expression::parse(source).map_err(|error| error.to_string())?;
    let scope = Scope::new(data, Some(&metadata));
    let host = FakeHost::new(1);
    expression.evaluate(&scope.with_host_functions(&host)).map_err(|error| error.to_string())
}

fn shorten(value: &Value) -> String {
    value.to_string().chars().take(200).collect()
}

#[track_caller]
fn assert_evaluates(source: &str, data: Value, expected: Value) {
    assert_eq!(evaluate(source, &data), Ok(expected), "{source} of {}", shorten(&data));
}

/// Checks the problem only.
#[track_caller]
fn assert_fails(source: &str, data: Value, expected: &str) {
    let error = evaluate(source, &data).map(|it| shorten(&it)).expect_err(source);
    let expected = format!("{expected} (at ");
    assert!(error.starts_with(&expected), "{source} of {}: {error}", shorten(&data));
}

/// Checks the problem and its position.
#[track_caller]
fn assert_error(source: &str, expected: &str) {
    assert_eq!(evaluate(source, &json!("data")), Err(expected.to_owned()), "{source}");
}
