//! Access policies of applications in tests.

use scrip_core::{
    policy::{
        AccessPolicy, AccessRule, AccessScope, ApplicationKind, Permission, Permissions, Transform,
    },
    token::Container,
};

/// Everything that can be done to tokens.
pub const TOKENS: &[Permission] = &[
    Permission::TokenCreate,
    Permission::TokenRead,
    Permission::TokenUpdate,
    Permission::TokenDelete,
];

/// Rights without a rule.
#[must_use]
pub fn access_without_rules(permissions: &[Permission]) -> AccessPolicy {
    AccessPolicy { parse_permissions: Permissions::from_list(permissions), rules: vec![] }
}

/// Rights by rules, the first of which goes first.
#[must_use]
pub fn access_with_rules(rules: impl IntoIterator<Item = AccessRule>) -> AccessPolicy {
    let rules = (0..).zip(rules).map(|(priority, rule)| AccessRule { priority, ..rule });
    AccessPolicy { parse_permissions: Permissions::default(), rules: rules.collect() }
}

/// A rule of the first priority.
#[must_use]
pub fn access_rule(
    container: &str,
    transform: Transform,
    permissions: &[Permission],
) -> AccessRule {
    AccessRule {
        description: String::new(),
        priority: 1,
        scope: AccessScope::Container(Container::parse(container).unwrap()),
        transform,
        parse_permissions: Permissions::from_list(permissions),
    }
}

/// Every permission that an application of this kind can have.
#[must_use]
pub fn permissions_for_kind(kind: ApplicationKind) -> Vec<Permission> {
    Permission::ALL.iter().copied().filter(|it| it.kinds().contains(&kind)).collect()
}
