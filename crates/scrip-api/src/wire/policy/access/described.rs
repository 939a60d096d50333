//! Permissions and rules, described.

use scrip_core::{
    access::{Condition, RULES_MAX},
    container::Container,
    permission::{ApplicationKind, Permission, Transform},
};
use serde_json::{Value, json};

use crate::wire::{
    policy::access::{ConditionBody, Holder, RuleBody},
    schema::{
        Attribute, Schema, always, answer, either, list, nothing, one_of, request, sometimes, text,
        whole,
    },
};

pub(crate) fn components() -> Vec<(&'static str, Schema)> {
    let rule = answer([
        always("description", text()),
        always("priority", whole().about("The lowest number is asked first.")),
        sometimes("container", container()),
        sometimes("conditions", list(condition())),
        always("transform", transform()),
        always("permissions", list(permission())),
    ]);
    vec![("AccessRule", rule.examples(examples()))]
}

pub(crate) fn container() -> Schema {
    text()
        .pattern("^/([A-Za-z0-9_-]+/)*$")
        .with("maxLength", 256)
        .about("A path of named segments between slashes. Letters become lower case.")
}

pub(crate) fn permission() -> Schema {
    one_of(Permission::ALL.iter().map(|it| it.as_str()))
}

pub(crate) fn application_kind() -> Schema {
    one_of(ApplicationKind::ALL.map(ApplicationKind::as_str))
}

fn transform() -> Schema {
    one_of(Transform::ALL.map(Transform::as_str)).about(
        "How much of a token is shown: nothing of its data, what its mask leaves, or all of it.",
    )
}

/// `permissions` and `rules` of a request. Some kinds of application hold only some permissions.
pub(crate) fn attributes(holder: Holder, kind: Option<ApplicationKind>) -> [Attribute; 2] {
    let held =
        Permission::ALL.iter().filter(|it| kind.is_none_or(|kind| it.kinds().contains(&kind)));
    let names: Vec<_> = held.map(|it| it.as_str()).collect();
    let permissions = || list(one_of(names.clone())).with("maxItems", Permission::ALL.len());
    let rule = |reach: Vec<Attribute>| {
        let others = vec![
            sometimes("description", text().with("maxLength", 500)),
            sometimes("priority", whole().between(0, i64::MAX.unsigned_abs()).with("default", 1)),
            always("transform", transform()),
            always("permissions", permissions().with("minItems", 1)),
        ];
        request(reach.into_iter().chain(others))
    };
    let none = || list(condition()).with("maxItems", 0);
    let by_container =
        rule(vec![always("container", container()), sometimes("conditions", none())]);
    let rule = match holder {
        Holder::Application => by_container,
        Holder::Session => {
            let conditions = list(condition()).sized(1, 16);
            let by_conditions =
                rule(vec![sometimes("container", nothing()), always("conditions", conditions)]);
            either([by_container, by_conditions])
        }
    };
    [
        sometimes("permissions", permissions().about("Apply to every container.")),
        sometimes("rules", list(rule).with("maxItems", RULES_MAX)),
    ]
}

/// Either of the two has to have something in it.
pub(crate) fn not_empty(schema: Schema) -> Schema {
    let some = |name: &str| json!({"required": [name], "properties": {name: {"type": "array", "minItems": 1}}});
    schema.with("anyOf", vec![some("permissions"), some("rules")])
}

fn condition() -> Schema {
    let about = |attribute: &'static str, value: Schema| {
        request([
            always("attribute", one_of([attribute])),
            always("operator", one_of(operators())),
            always("value", value),
        ])
    };
    either([about("id", text().sized(1, 400)), about("container", container())])
}

/// As the conditions themselves call them.
fn operators() -> [&'static str; 2] {
    let [is, starts_with] = [Condition::IdIs, Condition::IdStartsWith].map(|it| it(String::new()));
    [is.parts().1, starts_with.parts().1]
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
    let condition = Condition::IdStartsWith("card-".to_owned());
    let (attribute, operator, value) = condition.parts();
    let of_session = RuleBody {
        description: "One customer's cards",
        container: None,
        conditions: Some(vec![ConditionBody { attribute, operator, value }]),
        transform: Transform::Mask.as_str(),
        permissions: vec![Permission::TokenRead.as_str()],
        ..rule
    };
    vec![json!(rule), json!(of_session)]
}
