//! Examples of the OpenAPI document, made by the code that writes responses.

use scrip_core::{
    time::Timestamp,
    token::{TokenType, TypeUsage, Usage},
};
use serde_json::json;

use crate::{openapi::tests::assert_examples, wire::policy::usage::body};

#[test]
fn example_of_usage_is_what_the_code_writes() {
    let last_created_at = Timestamp { unix_ms: 1_793_525_400_000 };
    let card = TypeUsage { token_type: TokenType::Card, count: 12, last_created_at };
    let usage = Usage { types: vec![card], created: 3, active: 4 };
    assert_examples("TenantUsage", [json!(body(&usage))]);
}
