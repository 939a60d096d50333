//! Compares the examples of the OpenAPI document with rendered responses.

use scrip_core::{
    Timestamp,
    card::TokenType,
    token::{TenantUsage, TokenTypeUsage},
};
use serde_json::json;

use crate::{openapi::tests::assert_examples, wire::policy::usage::body};

#[test]
fn documented_usage_example_matches_rendered_body() {
    let last_created_at = Timestamp { unix_ms: 1_793_525_400_000 };
    let card = TokenTypeUsage { token_type: TokenType::Card, count: 12, last_created_at };
    let usage = TenantUsage { types: vec![card], created: 3, active: 4 };
    assert_examples("TenantUsage", [json!(body(&usage))]);
}
