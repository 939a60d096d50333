//! Permissions and rules on the wire.

#[cfg(test)]
mod tests;

use scrip_core::{
    error::FieldError,
    policy::{
        AccessCondition, AccessPolicy, AccessRule, AccessScope, Permission, Permissions, Transform,
        access::RULES_MAX,
    },
    token::Container,
};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::wire::fields::JsonFields;

/// Whose rules these are: only a session's may have conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleHolder {
    Application,
    Session,
}

/// What is wrong with it joins the complaints of the request.
pub fn parse(fields: &mut JsonFields, holder: RuleHolder) -> AccessPolicy {
    let permissions = fields.texts("permissions").into_option().unwrap_or_default();
    let permissions = parse_permissions("permissions", &permissions, &mut fields.errors);
    let rules = match fields.take_any("rules") {
        None | Some(Value::Null) => Vec::new(),
        // Before they are read: each of them could be wrong in several ways.
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
    let mut parsed = Vec::new();
    for (at, rule) in rules.into_iter().enumerate() {
        let Value::Object(rule) = rule else {
            fields.errors.push(FieldError::new(format!("rules[{at}]"), "must be an object"));
            continue;
        };
        let mut rule = RuleReader { index: at, rule, errors: &mut fields.errors };
        parsed.extend(rule.parse(holder));
    }
    AccessPolicy { parse_permissions: permissions, rules: parsed }
}

fn parse_permissions(field: &str, names: &[String], errors: &mut Vec<FieldError>) -> Permissions {
    if names.len() > Permission::ALL.len() {
        errors
            .push(FieldError::new(field.to_owned(), "has more entries than there are permissions"));
        return Permissions::default();
    }
    let known = |(at, name): (usize, &String)| {
        let known = Permission::parse(name);
        if known.is_none() {
            errors.push(FieldError::new(format!("{field}[{at}]"), "is not a permission"));
        }
        known
    };
    names.iter().enumerate().filter_map(known).collect()
}

/// One rule while it is read.
struct RuleReader<'a> {
    index: usize,
    rule: Map<String, Value>,
    errors: &'a mut Vec<FieldError>,
}

impl RuleReader<'_> {
    /// Nothing when something is wrong with it.
    fn parse(&mut self, holder: RuleHolder) -> Option<AccessRule> {
        let before = self.errors.len();
        let description = self.text("description").unwrap_or_default();
        let priority = self.priority();
        let reach = self.reach(holder);
        let transform = match self.text("transform") {
            None => self.reject("transform", "is required"),
            Some(text) => match Transform::parse(&text) {
                None => self.reject("transform", "must be redact, mask or reveal"),
                known => known,
            },
        };
        let permissions = self.permissions();
        if self.errors.len() > before {
            return None;
        }
        let (reach, transform, permissions) = (reach?, transform?, permissions?);
        Some(AccessRule {
            description,
            priority,
            scope: reach,
            transform,
            parse_permissions: permissions,
        })
    }

    fn reject<T>(&mut self, name: &str, rule: &'static str) -> Option<T> {
        let field = format!("rules[{}].{name}", self.index);
        // A text that is no text has been complained about.
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

    /// Rules of the same number keep their order.
    fn priority(&mut self) -> i64 {
        let Some(value) = self.take_any("priority") else { return 1 };
        let priority = value.as_i64().filter(|it| *it >= 0);
        priority.or_else(|| self.reject("priority", "must be a whole number from 0")).unwrap_or(1)
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

    fn reach(&mut self, holder: RuleHolder) -> Option<AccessScope> {
        let container = self.text("container");
        let conditions = self.take_any("conditions").filter(|it| *it != Value::Array(Vec::new()));
        match (container, conditions, holder) {
            (_, Some(_), RuleHolder::Application) => {
                self.reject("conditions", "are for sessions only; use container")
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
                self.reject("container", "or conditions are required")
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
        let mut parsed = Vec::new();
        for (at, condition) in conditions.iter().enumerate() {
            let part = |name| condition.get(name).and_then(Value::as_str).unwrap_or_default();
            match AccessCondition::parse(part("attribute"), part("operator"), part("value")) {
                Ok(condition) => parsed.push(condition),
                Err((name, rule)) => {
                    let _: Option<()> = self.reject(&format!("conditions[{at}].{name}"), rule);
                }
            }
        }
        Some(AccessScope::Conditions(parsed))
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
        permissions: permission_names(rule.parse_permissions),
    }
}

fn condition_body(condition: &AccessCondition) -> ConditionBody<'_> {
    let (attribute, operator, value) = condition.parts();
    ConditionBody { attribute, operator, value }
}
