//! Compares the examples of the OpenAPI document with rendered responses.

use serde_json::json;

use super::*;
use crate::openapi::tests::assert_examples;

fn body() -> ClientKeyBody<'static> {
    ClientKeyBody {
        key_id: "5b493235-6917-4307-906a-2cd6f1a90b13".to_owned(),
        public_key_pem: None,
        expires_at: "2027-11-01T09:30:00+00:00".to_owned(),
    }
}

#[test]
fn documented_client_key_examples_match_rendered_bodies() {
    let pem = "-----BEGIN PUBLIC KEY-----\nB6N8vBQgk8i3VdwbEOhstCY3StFqqFPtC9/AsrhtHHw=\n\
               -----END PUBLIC KEY-----";
    assert_examples("ClientKey", [json!(body())]);
    assert_examples(
        "CreatedClientKey",
        [json!(ClientKeyBody { public_key_pem: Some(pem), ..body() })],
    );
}
