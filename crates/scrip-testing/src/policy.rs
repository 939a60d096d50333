//! Access policies of applications in tests.

use scrip_core::{
    policy::{
        AccessPolicy, AccessRule, ApplicationKind, Permission, Permissions, Reach, Transform,
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
pub fn plain(permissions: &[Permission]) -> AccessPolicy {
    AccessPolicy { permissions: Permissions::of(permissions), rules: vec![] }
}

/// Rights by rules, the first of which goes first.
#[must_use]
pub fn ruled(rules: impl IntoIterator<Item = AccessRule>) -> AccessPolicy {
    let rules = (0..).zip(rules).map(|(priority, rule)| AccessRule { priority, ..rule });
    AccessPolicy { permissions: Permissions::default(), rules: rules.collect() }
}

/// A rule of the first priority.
#[must_use]
pub fn rule(container: &str, transform: Transform, permissions: &[Permission]) -> AccessRule {
    AccessRule {
        description: String::new(),
        priority: 1,
        reach: Reach::Container(Container::parse(container).unwrap()),
        transform,
        permissions: Permissions::of(permissions),
    }
}

/// Every permission that an application of this kind can have.
#[must_use]
pub fn permissions_of(kind: ApplicationKind) -> Vec<Permission> {
    Permission::ALL.iter().copied().filter(|it| it.kinds().contains(&kind)).collect()
}
