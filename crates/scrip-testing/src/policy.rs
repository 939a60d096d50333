//! Access policies of applications in tests.

use std::sync::Arc;

use scrip_core::{
    policy::{AccessPolicy, AccessRule, AccessScope, PolicyPermit, Tenant},
    types::{ApplicationKind, Container, Permission, Permissions, Transform},
};

/// All token permissions.
pub const TOKENS: &[Permission] = &[
    Permission::TokenCreate,
    Permission::TokenRead,
    Permission::TokenUpdate,
    Permission::TokenDelete,
];

/// An access policy with permissions and without rules.
pub fn access_without_rules(permissions: &[Permission]) -> AccessPolicy {
    AccessPolicy { permissions: Permissions::from_list(permissions), rules: vec![] }
}

/// An access policy with rules in order of priority.
pub fn access_with_rules(rules: impl IntoIterator<Item = AccessRule>) -> AccessPolicy {
    let rules = (0..).zip(rules).map(|(priority, rule)| AccessRule { priority, ..rule });
    AccessPolicy { permissions: Permissions::default(), rules: rules.collect() }
}

/// A rule with priority 1.
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
        permissions: Permissions::from_list(permissions),
    }
}

/// Every permission that an application of this kind can have.
pub fn permissions_for_kind(kind: ApplicationKind) -> Vec<Permission> {
    Permission::ALL.iter().copied().filter(|it| it.kinds().contains(&kind)).collect()
}

/// The permit of the operator for a tenant.
pub fn operator(tenant: &Arc<Tenant>) -> PolicyPermit {
    PolicyPermit::for_operator(Arc::clone(tenant))
}
