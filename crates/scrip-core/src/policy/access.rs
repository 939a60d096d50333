//! Access policies of applications and access sessions: permissions, and rules that limit them to
//! containers.

use serde::{Deserialize, Serialize};

use crate::{
    FieldError,
    types::{
        ApplicationKind, Container, ContainerRange, Containers, Permission, Permissions, Transform,
        id::TokenId,
    },
};

/// Plain permissions, access rules, or both.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct AccessPolicy {
    pub permissions: Permissions,
    pub rules: Vec<AccessRule>,
}

/// Permissions within a scope, and how much of a token they show.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessRule {
    pub description: String,
    pub priority: i64,
    #[serde(flatten)]
    pub scope: AccessScope,
    pub transform: Transform,
    pub permissions: Permissions,
}

/// The tokens that a rule applies to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AccessScope {
    /// Tokens in this container and below.
    Container(Container),
    /// Tokens that match all conditions; for access sessions only.
    Conditions(Vec<AccessCondition>),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "StoredAccessCondition", try_from = "StoredAccessCondition")]
pub enum AccessCondition {
    IdIs(String),
    IdStartsWith(String),
    ContainerIs(Container),
    /// Compares whole path segments.
    ContainerStartsWith(Container),
}

/// The target of a decision: a token, or a token that does not exist yet and has no id.
#[derive(Debug, Clone, Copy)]
pub struct AccessTarget<'a> {
    pub containers: &'a Containers,
    pub id: Option<&'a TokenId>,
}

impl<'a> From<&'a Containers> for AccessTarget<'a> {
    fn from(containers: &'a Containers) -> Self {
        Self { containers, id: None }
    }
}

/// The allowed lengths of an id in a condition: those of a token id.
const VALUE_BYTES: std::ops::RangeInclusive<usize> = 1..=1600;
pub const RULES_MAX: usize = 64;
/// The maximum size of all rules and permissions of one application or access session, as text.
const POLICY_BYTES_MAX: usize = 32 * 1024;
const DESCRIPTION_CHARS_MAX: usize = 500;

impl AccessScope {
    /// Whether the scope covers a token with this id in this container.
    pub fn covers(&self, container: &Container, id: Option<&TokenId>) -> bool {
        match self {
            Self::Container(container_scope) => container_scope.covers(container),
            Self::Conditions(conditions) => conditions.iter().all(|it| it.matches(container, id)),
        }
    }

    /// Whether the scope can cover a token in this container. Conditions on the id are ignored.
    pub(crate) fn may_cover(&self, container: &Container) -> bool {
        let may_match =
            |it: &AccessCondition| it.container().is_none() || it.matches(container, None);
        match self {
            Self::Container(container_scope) => container_scope.covers(container),
            Self::Conditions(conditions) => conditions.iter().all(may_match),
        }
    }

    /// The containers in which the scope covers every token.
    pub(crate) fn container_range(&self) -> Option<ContainerRange> {
        match self {
            Self::Container(container) => Some(ContainerRange::subtree(container)),
            Self::Conditions(conditions) => {
                let root = Some(ContainerRange::subtree(&Container::root()));
                conditions.iter().fold(root, |range, it| range?.intersect(&it.container_range()?))
            }
        }
    }

    /// Whether the scope names the container itself, or the token.
    pub(crate) fn names(&self, container: &Container, id: Option<&TokenId>) -> bool {
        let is_id = |it: &AccessCondition| match it {
            AccessCondition::IdIs(named) => id.is_some_and(|it| it.as_str() == named),
            AccessCondition::IdStartsWith(_)
            | AccessCondition::ContainerIs(_)
            | AccessCondition::ContainerStartsWith(_) => false,
        };
        let is_token = matches!(self, Self::Conditions(conditions) if conditions.iter().any(is_id));
        is_token || self.containers().contains(&container)
    }

    /// The containers that the scope names.
    pub(crate) fn containers(&self) -> Vec<&Container> {
        match self {
            Self::Container(container) => vec![container],
            Self::Conditions(conditions) => {
                conditions.iter().filter_map(AccessCondition::container).collect()
            }
        }
    }
}

impl AccessCondition {
    /// Parses a condition.
    /// Errors: the name of the invalid part (`attribute`, `operator` or `value`), and the violated
    /// rule.
    pub fn parse(
        attribute: &str,
        operator: &str,
        value: &str,
    ) -> Result<Self, (&'static str, &'static str)> {
        let parse_container = || Container::parse(value).map_err(|rule| ("value", rule));
        match (attribute, operator) {
            ("id", "equals" | "starts_with") if !VALUE_BYTES.contains(&value.len()) => {
                Err(("value", "must be a text of 1 to 1600 bytes"))
            }
            ("id", "equals") => Ok(Self::IdIs(value.to_owned())),
            ("id", "starts_with") => Ok(Self::IdStartsWith(value.to_owned())),
            ("container", "equals") => Ok(Self::ContainerIs(parse_container()?)),
            ("container", "starts_with") => Ok(Self::ContainerStartsWith(parse_container()?)),
            ("id" | "container", _) => Err(("operator", "must be equals or starts_with")),
            (_, _) => Err(("attribute", "must be id or container")),
        }
    }

    /// The inverse of [`AccessCondition::parse`]: attribute, operator, value.
    pub fn parts(&self) -> (&'static str, &'static str, &str) {
        match self {
            Self::IdIs(value) => ("id", "equals", value),
            Self::IdStartsWith(value) => ("id", "starts_with", value),
            Self::ContainerIs(value) => ("container", "equals", value.as_str()),
            Self::ContainerStartsWith(value) => ("container", "starts_with", value.as_str()),
        }
    }

    fn container(&self) -> Option<&Container> {
        match self {
            Self::ContainerIs(container) | Self::ContainerStartsWith(container) => Some(container),
            Self::IdIs(_) | Self::IdStartsWith(_) => None,
        }
    }

    fn container_range(&self) -> Option<ContainerRange> {
        match self {
            Self::ContainerIs(container) => Some(ContainerRange::single(container)),
            Self::ContainerStartsWith(container) => Some(ContainerRange::subtree(container)),
            Self::IdIs(_) | Self::IdStartsWith(_) => None,
        }
    }

    /// A token without an id matches no condition on the id.
    fn matches(&self, container: &Container, id: Option<&TokenId>) -> bool {
        match self {
            Self::IdIs(value) => id.is_some_and(|it| it.as_str() == value),
            Self::IdStartsWith(value) => id.is_some_and(|it| it.as_str().starts_with(value)),
            Self::ContainerIs(value) => value == container,
            Self::ContainerStartsWith(value) => value.covers(container),
        }
    }
}

/// Returns an error that names the permissions which an application of this kind cannot have.
fn check_kind(
    field: String,
    permissions: Permissions,
    kind: ApplicationKind,
) -> Option<FieldError> {
    let unavailable = permissions.iter().filter(|it| !it.kinds().contains(&kind));
    let names: Vec<_> = unavailable.map(Permission::as_str).collect();
    if names.is_empty() {
        return None;
    }
    let (names, kind) = (names.join(" and "), kind.as_str());
    let problem = format!("has {names}, which a {kind} application cannot have");
    Some(FieldError { field: field.into(), problem: problem.into() })
}

impl AccessPolicy {
    /// Checks whether an application of this kind may have this policy.
    /// Errors: the policy is empty, too large, or has a permission that this kind cannot have.
    pub fn check(&self, kind: ApplicationKind) -> Result<(), Vec<FieldError>> {
        let mut errors = self.check_size();
        errors.extend(check_kind("permissions".to_owned(), self.permissions, kind));
        for (index, it) in self.rules.iter().enumerate() {
            let field = format!("rules[{index}].permissions");
            errors.extend(check_kind(field, it.permissions, kind));
        }
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }

    /// Whether the policy grants the permission in at least one container.
    pub fn grants(&self, permission: Permission) -> bool {
        self.permissions.has(permission)
            || self.rules.iter().any(|it| it.permissions.has(permission))
    }

    fn check_size(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if self.permissions.is_empty() && self.rules.is_empty() {
            let rule = "must not be empty when there are no rules";
            errors.push(FieldError::new("permissions", rule));
        }
        if self.rules.len() > RULES_MAX {
            errors.push(FieldError::new("rules", "must have at most 64 entries"));
        } else if self.to_text().len() > POLICY_BYTES_MAX {
            errors.push(FieldError::new("rules", "must have at most 32 KiB together"));
        }
        for (index, it) in self.rules.iter().enumerate() {
            if it.permissions.is_empty() {
                let field = format!("rules[{index}].permissions");
                errors.push(FieldError::new(field, "must not be empty"));
            }
            if it.description.chars().count() > DESCRIPTION_CHARS_MAX {
                let field = format!("rules[{index}].description");
                errors.push(FieldError::new(field, "must have at most 500 characters"));
            }
        }
        errors
    }

    /// The text form; the same in both engines.
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// `None` when the text is not the output of [`AccessPolicy::to_text`].
    pub fn from_text(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok().filter(|it: &Self| it.to_text() == text)
    }
}

#[derive(Serialize, Deserialize)]
struct StoredAccessCondition {
    attribute: String,
    operator: String,
    value: String,
}

impl From<AccessCondition> for StoredAccessCondition {
    fn from(condition: AccessCondition) -> Self {
        let (attribute, operator, value) = condition.parts();
        let [attribute, operator, value] = [attribute, operator, value].map(str::to_owned);
        Self { attribute, operator, value }
    }
}

impl TryFrom<StoredAccessCondition> for AccessCondition {
    type Error = &'static str;

    fn try_from(stored: StoredAccessCondition) -> Result<Self, Self::Error> {
        let StoredAccessCondition { attribute, operator, value } = stored;
        Self::parse(&attribute, &operator, &value).map_err(|(_, rule)| rule)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(scope: AccessScope) -> AccessRule {
        AccessRule {
            description: "cards".to_owned(),
            priority: 3,
            scope,
            transform: Transform::Reveal,
            permissions: Permissions::from_list(&[Permission::TokenRead, Permission::TokenUse]),
        }
    }

    #[test]
    fn access_policy_round_trips_through_text() {
        let container = Container::parse("/pci/").unwrap();
        let conditions = vec![
            AccessCondition::IdStartsWith("card-".to_owned()),
            AccessCondition::ContainerIs(container.clone()),
        ];
        let policy = AccessPolicy {
            permissions: Permissions::from_list(&[Permission::TokenCreate]),
            rules: vec![
                rule(AccessScope::Container(container)),
                rule(AccessScope::Conditions(conditions)),
            ],
        };
        let stored = r#"{"permissions":["token:create"],"rules":[{"description":"cards","priority":3,"container":"/pci/","transform":"reveal","permissions":["token:read","token:use"]},{"description":"cards","priority":3,"conditions":[{"attribute":"id","operator":"starts_with","value":"card-"},{"attribute":"container","operator":"equals","value":"/pci/"}],"transform":"reveal","permissions":["token:read","token:use"]}]}"#;
        assert_eq!(policy.to_text(), stored);
        assert_eq!(AccessPolicy::from_text(stored), Some(policy));
        assert_eq!(AccessPolicy::from_text("{}"), None);
        for (text, replacement) in [
            ("token:create", "token:make"),
            ("\"token:create\"", "\"token:create\",\"token:create\""),
            ("reveal", "Reveal"),
            ("/pci/", "/PCI/"),
            ("equals", "contains"),
            ("\"container\":\"/pci/\",", ""),
            ("\"container\":\"/pci/\"", "\"container\":\"/pci/\",\"conditions\":[]"),
            ("\"priority\":3", "\"priority\":3,\"more\":1"),
        ] {
            let altered = stored.replacen(text, replacement, 1);
            assert_ne!(altered, stored);
            assert_eq!(AccessPolicy::from_text(&altered), None, "parsed {altered}");
        }
    }

    #[track_caller]
    fn check(parts: [&str; 3], container: &str, id: Option<&str>, expected: bool) {
        let [attribute, operator, value] = parts;
        let condition = AccessCondition::parse(attribute, operator, value).unwrap();
        let id = id.map(|it| TokenId::parse(it).unwrap());
        let scope = AccessScope::Conditions(vec![condition]);
        let container = Container::parse(container).unwrap();
        assert_eq!(scope.covers(&container, id.as_ref()), expected, "condition {parts:?}");
    }

    #[test]
    fn access_conditions_match_ids_and_containers() {
        check(["id", "equals", "card-7"], "/", Some("card-7"), true);
        check(["id", "equals", "card-7"], "/", Some("card-77"), false);
        check(["id", "equals", "card-7"], "/", None, false);
        check(["id", "starts_with", "card-"], "/", Some("card-77"), true);
        check(["id", "starts_with", "card-"], "/", None, false);
        check(["container", "equals", "/pci/"], "/pci/", None, true);
        check(["container", "equals", "/pci/"], "/pci/high/", None, false);
        check(["container", "starts_with", "/pci/"], "/pci/high/", None, true);
        check(["container", "starts_with", "/pci/"], "/pci-other/", None, false);
    }

    #[test]
    fn invalid_access_conditions_are_rejected() {
        let invalid_conditions = [
            (("type", "equals", "card"), "attribute"),
            (("id", "contains", "x"), "operator"),
            (("id", "starts_with", ""), "value"),
            (("container", "starts_with", "/pci"), "value"),
        ];
        for ((attribute, operator, value), invalid_part) in invalid_conditions {
            let error = AccessCondition::parse(attribute, operator, value).unwrap_err();
            assert_eq!(error.0, invalid_part, "{attribute} {operator} {value}");
        }
    }

    #[test]
    fn application_kind_is_granted_only_its_own_permissions() {
        let policy_with = |permission| AccessPolicy {
            permissions: Permissions::from_list(&[permission]),
            rules: Vec::new(),
        };
        for permission in Permission::ALL {
            for kind in ApplicationKind::ALL {
                let expected = permission.kinds().contains(&kind);
                assert_eq!(policy_with(*permission).check(kind).is_ok(), expected);
            }
        }
        assert!(AccessPolicy::default().check(ApplicationKind::Private).is_err());
        let rule_policy = AccessPolicy {
            permissions: Permissions::default(),
            rules: vec![rule(AccessScope::Container(Container::root()))],
        };
        assert!(rule_policy.check(ApplicationKind::Private).is_ok());
        let errors = rule_policy.check(ApplicationKind::Public).unwrap_err();
        assert_eq!(errors[0].field, "rules[0].permissions");
    }
}
