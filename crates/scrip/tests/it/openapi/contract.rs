//! Whether a response is as the document says: asked of every response that any test here is given.

use std::sync::LazyLock;

use scrip_api::openapi::document;
use scrip_testing::contract::{Contract, Exchange, SchemaRules};
use serde_json::Value;

pub(crate) use scrip_testing::contract::matches_pattern;

use crate::harness::server::TestResponse;

static CONTRACT: LazyLock<Contract> = LazyLock::new(|| Contract::new(document(), &[]));

/// Panics when the document does not foretell this answer.
#[track_caller]
pub(crate) fn check_response(method: &str, path: &str, reply: &TestResponse) {
    let exchange = Exchange {
        method: method.to_owned(),
        path: path.to_owned(),
        status: reply.status,
        headers: reply.headers.clone(),
        body: reply.text.clone(),
    };
    assert_eq!(CONTRACT.check(&exchange), Ok(()));
}

pub(crate) fn resolve(value: &'static Value) -> &'static Value {
    CONTRACT.resolve(value)
}

/// What is wrong with a value, if something is.
pub(crate) fn check_schema(schema: &'static Value, value: &Value) -> Result<(), String> {
    SchemaRules::new(document()).check(schema, value)
}
