//! Whether a response is as the document says: asked of every response that any test here is given.

use std::sync::LazyLock;

use scrip_api::openapi::document;
use scrip_testing::contract::{Contract, Exchange, SchemaRules};
use serde_json::Value;

pub(crate) use scrip_testing::contract::matches;

use crate::harness::server::Reply;

static CONTRACT: LazyLock<Contract> = LazyLock::new(|| Contract::new(document(), &[]));

/// Panics when the document does not foretell this answer.
#[track_caller]
pub(crate) fn check(method: &str, path: &str, reply: &Reply) {
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
pub(crate) fn meets(schema: &'static Value, value: &Value) -> Result<(), String> {
    SchemaRules::of(document()).check(schema, value)
}
