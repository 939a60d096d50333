//! JSON of permissions and access rules.

#[cfg(test)]
mod tests;

use scrip_core::{
    FieldError,
    policy::{AccessCondition, AccessPolicy, AccessRule, AccessScope, access::RULES_MAX},
    types::{Container, MissingFeature, Permission, Permissions, Transform},
};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::wire::json::JsonFields;

/// The owner of the rules: only rules of an access session can have conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleHolder {
    Application,
    Session,
}

/// Parses permissions and rules. Errors are added to the errors of the request.
pub fn parse(fields: &mut JsonFields, holder: RuleHolder) -> AccessPolicy {
    let permissions = fields.texts("permissions").into_option().unwrap_or_default();
    let permissions = parse_permissions("permissions", &permissions, &mut fields.errors);
    let rules = match fields.take_any("rules") {
        None | Some(Value::Null) => Vec::new(),
        // Checked before the rules are parsed, because each rule can cause several errors.
        Some(Value::Array(rules)) if rules.len() > RULES_MAX => {
            fields.errors.push(FieldError::new("rules", "must have at most 64 entries"));
            Vec::new()
        }
        Some(Value::Array(rules)) => rules,
        Some(_) => {
            fields.errors.push(FieldError::new("rules", "must be an array of rules"));
            Vec::new()
        }
    };
    let mut parsed_rules = Vec::new();
    for (index, rule) in rules.into_iter().enumerate() {
        let Value::Object(rule) = rule else {
            fields.errors.push(FieldError::new(format!("rules[{index}]"), "must be an object"));
            continue;
        };
        let mut rule = RuleReader { index, rule, errors: &mut fields.errors };
        parsed_rules.extend(rule.parse(holder));
    }
    AccessPolicy { permissions, rules: parsed_rules }
}

fn parse_permissions(field: &str, names: &[String], errors: &mut Vec<FieldError>) -> Permissions {
    if names.len() > Permission::ALL.len() {
        errors
            .push(FieldError::new(field.to_owned(), "has more entries than there are permissions"));
        return Permissions::default();
    }
    let parse_permission = |(index, name): (usize, &String)| {
        let permission = Permission::parse(name);
        if permission.is_none() {
            errors.push(unknown_permission_error(format!("{field}[{index}]"), name));
        }
        permission
    };
    names.iter().enumerate().filter_map(parse_permission).collect()
}

fn unknown_permission_error(field: String, name: &str) -> FieldError {
    let Some(feature) = MissingFeature::find_by_permission(name) else {
        return FieldError::new(field, "is not a permission; GET /permissions lists them");
    };
    let problem = format!(
        "is a permission of a feature that this server does not have: {}",
        feature.as_str()
    );
    FieldError { field: field.into(), problem: problem.into() }
}

/// Parses one rule.
struct RuleReader<'a> {
    index: usize,
    rule: Map<String, Value>,
    errors: &'a mut Vec<FieldError>,
}

impl RuleReader<'_> {
    /// Returns `None` if the rule has errors.
    fn parse(&mut self, holder: RuleHolder) -> Option<AccessRule> {
        let earlier_errors = self.errors.len();
        let description = self.text("description").unwrap_or_default();
        let priority = self.priority();
        let scope = self.scope(holder);
        let transform = match self.text("transform") {
            None => self.reject("transform", "is required"),
            Some(text) => match Transform::parse(&text) {
                None => self.reject("transform", "must be redact, mask or reveal"),
                transform => transform,
            },
        };
        let permissions = self.permissions();
        if self.errors.len() > earlier_errors {
            return None;
        }
        let (scope, transform, permissions) = (scope?, transform?, permissions?);
        Some(AccessRule { description, priority, scope, transform, permissions })
    }

    fn reject<T>(&mut self, name: &str, rule: &'static str) -> Option<T> {
        let field = format!("rules[{}].{name}", self.index);
        // A value of the wrong type has already been reported.
        if !self.errors.iter().any(|it| it.field == field) {
            self.errors.push(FieldError::new(field, rule));
        }
        None
    }

    fn take_any(&mut self, name: &str) -> Option<Value> {
        self.rule.remove(name).filter(|it| !it.is_null())
    }

    fn text(&mut self, name: &str) -> Option<String> {
        let Value::String(text) = self.take_any(name)? else {
            return self.reject(name, "must be text");
        };
        Some(text)
    }

    /// Rules of equal priority keep their order.
    fn priority(&mut self) -> i64 {
        let Some(value) = self.take_any("priority") else { return 1 };
        let priority = value.as_i64().filter(|it| *it >= 0);
        priority
            .or_else(|| self.reject("priority", "must be a whole number, 0 or more"))
            .unwrap_or(1)
    }

    fn permissions(&mut self) -> Option<Permissions> {
        let field = format!("rules[{}].permissions", self.index);
        let Some(value) = self.take_any("permissions") else {
            return self.reject("permissions", "is required");
        };
        let Ok(names) = serde_json::from_value::<Vec<String>>(value) else {
            return self.reject("permissions", "must be an array of texts");
        };
        Some(parse_permissions(&field, &names, self.errors))
    }

    fn scope(&mut self, holder: RuleHolder) -> Option<AccessScope> {
        let container = self.text("container");
        let conditions = self.take_any("conditions").filter(|it| *it != Value::Array(Vec::new()));
        match (container, conditions, holder) {
            (_, Some(_), RuleHolder::Application) => {
                self.reject("conditions", "are allowed for access sessions only; use container")
            }
            (Some(_), Some(_), RuleHolder::Session) => {
                self.reject("conditions", "cannot be given together with container")
            }
            (Some(text), None, _) => match Container::parse(&text) {
                Ok(container) => Some(AccessScope::Container(container)),
                Err(rule) => self.reject("container", rule),
            },
            (None, Some(conditions), RuleHolder::Session) => self.conditions(conditions),
            (None, None, RuleHolder::Application) => self.reject("container", "is required"),
            (None, None, RuleHolder::Session) => {
                self.reject("container", "is required unless conditions are given")
            }
        }
    }

    fn conditions(&mut self, conditions: Value) -> Option<AccessScope> {
        const CONDITIONS_MAX: usize = 16;
        let Value::Array(conditions) = conditions else {
            return self.reject("conditions", "must be an array of conditions");
        };
        if conditions.len() > CONDITIONS_MAX {
            return self.reject("conditions", "must have at most 16 entries");
        }
        let mut parsed_conditions = Vec::new();
        for (index, condition) in conditions.iter().enumerate() {
            let text_of = |name| condition.get(name).and_then(Value::as_str).unwrap_or_default();
            match AccessCondition::parse(
                text_of("attribute"),
                text_of("operator"),
                text_of("value"),
            ) {
                Ok(condition) => parsed_conditions.push(condition),
                Err((name, rule)) => {
                    let _: Option<()> = self.reject(&format!("conditions[{index}].{name}"), rule);
                }
            }
        }
        Some(AccessScope::Conditions(parsed_conditions))
    }
}

#[derive(Serialize)]
pub(crate) struct RuleBody<'a> {
    description: &'a str,
    priority: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    container: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    conditions: Option<Vec<ConditionBody<'a>>>,
    transform: &'static str,
    permissions: Vec<&'static str>,
}

#[derive(Serialize)]
struct ConditionBody<'a> {
    attribute: &'static str,
    operator: &'static str,
    value: &'a str,
}

pub(crate) fn permission_names(permissions: Permissions) -> Vec<&'static str> {
    permissions.iter().map(Permission::as_str).collect()
}

pub(crate) fn rule_bodies(access: &AccessPolicy) -> Vec<RuleBody<'_>> {
    access.rules.iter().map(rule_body).collect()
}

fn rule_body(rule: &AccessRule) -> RuleBody<'_> {
    let (container, conditions) = match &rule.scope {
        AccessScope::Container(container) => (Some(container.as_str()), None),
        AccessScope::Conditions(conditions) => {
            (None, Some(conditions.iter().map(condition_body).collect()))
        }
    };
    RuleBody {
        description: &rule.description,
        priority: rule.priority,
        container,
        conditions,
        transform: rule.transform.as_str(),
        permissions: permission_names(rule.permissions),
    }
}

fn condition_body(condition: &AccessCondition) -> ConditionBody<'_> {
    let (attribute, operator, value) = condition.parts();
    ConditionBody { attribute, operator, value }
}
