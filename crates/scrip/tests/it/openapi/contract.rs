//! Checks every response in these tests against the OpenAPI document.

use std::sync::LazyLock;

use scrip_api::openapi::document;
use scrip_testing::contract::{Contract, Exchange, SchemaRules};
use serde_json::Value;

pub(crate) use scrip_testing::contract::matches_pattern;

use crate::harness::server::TestResponse;

static CONTRACT: LazyLock<Contract> = LazyLock::new(|| Contract::new(document(), &[]));

/// Panics if the OpenAPI document does not describe this response.
#[track_caller]
pub(crate) fn check_response(method: &str, path: &str, response: &TestResponse) {
    let exchange = Exchange {
        method: method.to_owned(),
        path: path.to_owned(),
        status: response.status,
        headers: response.headers.clone(),
        body: response.text.clone(),
    };
    assert_eq!(CONTRACT.check(&exchange), Ok(()));
}

pub(crate) fn resolve(value: &'static Value) -> &'static Value {
    CONTRACT.resolve(value)
}

/// Checks a value against a schema. The error is the violation.
pub(crate) fn check_schema(schema: &'static Value, value: &Value) -> Result<(), String> {
    SchemaRules::new(document()).check(schema, value)
}
