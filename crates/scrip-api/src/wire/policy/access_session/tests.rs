//! Compares the examples of the OpenAPI document with rendered responses.

use serde_json::{Value, json};

use crate::{openapi::tests::assert_examples, wire::policy::access_session::AccessSessionBody};

#[test]
fn documented_access_session_example_matches_rendered_body() {
    assert_examples("Session", [example()]);
}

fn example() -> Value {
    json!(AccessSessionBody {
        session_key: "key_test_us_ses_4QK7ZP2M9XW1B6TJ8HN3CR5VDY0AGSFE4QK7ZP2",
        nonce: "4QK7ZP2M9XW1B6TJ8HN3CR5VDY0AGSFE4QK7ZP2",
        expires_at: "2026-11-15T12:03:00+00:00".to_owned(),
    })
}
