//! Compares the examples of the OpenAPI document with rendered responses.

use scrip_core::{
    policy::AccessCondition,
    types::{Container, Permission, Transform},
};
use serde_json::{Value, json};

use crate::{
    openapi::tests::assert_examples,
    wire::policy::access::{ConditionBody, RuleBody},
};

#[test]
fn documented_access_rule_examples_match_rendered_rules() {
    assert_examples("AccessRule", examples());
}

fn examples() -> Vec<Value> {
    let container = Container::root();
    let rule = RuleBody {
        description: "Everything, in clear",
        priority: 1,
        container: Some(container.as_str()),
        conditions: None,
        transform: Transform::Reveal.as_str(),
        permissions: vec![Permission::TokenRead.as_str()],
    };
    let condition = AccessCondition::IdStartsWith("card-".to_owned());
    let (attribute, operator, value) = condition.parts();
    let session_rule = RuleBody {
        description: "One customer's cards",
        container: None,
        conditions: Some(vec![ConditionBody { attribute, operator, value }]),
        transform: Transform::Mask.as_str(),
        permissions: vec![Permission::TokenRead.as_str()],
        ..rule
    };
    vec![json!(rule), json!(session_rule)]
}
