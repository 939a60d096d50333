//! Examples of the OpenAPI document, made by the code that writes responses.

use serde_json::{Value, json};

use crate::{openapi::tests::assert_examples, wire::policy::session::SessionBody};

#[test]
fn example_of_an_access_session_is_what_the_code_writes() {
    assert_examples("Session", [example()]);
}

fn example() -> Value {
    json!(SessionBody {
        session_key: "key_test_us_ses_4QK7ZP2M9XW1B6TJ8HN3CR5VDY0AGSFE4QK7ZP2",
        nonce: "4QK7ZP2M9XW1B6TJ8HN3CR5VDY0AGSFE4QK7ZP2",
        expires_at: "2026-11-15T12:03:00+00:00".to_owned(),
    })
}
