//! Decisions as tables, and against a reference that is slower and plainer.

use proptest::prelude::*;
use scrip_seal::{RootKey, TenantKeys};
use uuid::Uuid;

use super::*;
use crate::{
    id::TenantId,
    tenant::{Settings, TenantKind},
};

fn rule(
    priority: i64,
    container: &str,
    transform: Transform,
    permission: Permission,
) -> AccessRule {
    AccessRule {
        description: String::new(),
        priority,
        container: Container::parse(container).unwrap(),
        transform,
        permissions: Permissions::of(&[permission]),
    }
}

fn caller(permissions: &[Permission], rules: Vec<AccessRule>) -> Caller {
    let root = RootKey::from_text("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=").unwrap();
    let keys = TenantKeys::create(&root, "acme").unwrap();
    let tenant = Tenant {
        id: TenantId(Uuid::nil()),
        kind: TenantKind::Test,
        settings: Settings::default(),
        keys: TenantKeys::unwrap(&root, "acme", &keys).unwrap(),
    };
    let access = AccessPolicy { permissions: Permissions::of(permissions), rules };
    let application = ApplicationId(Uuid::nil());
    let kind = ApplicationKind::Private;
    let principal = Principal::new(Arc::new(tenant), application, kind, access);
    let origin = Origin { trace: "test".into(), address: [127, 0, 0, 1].into() };
    Caller::new(Arc::new(principal), origin)
}

use Permission::{TokenCreate, TokenRead, TokenUse};
use Transform::{Mask, Redact, Reveal};

#[track_caller]
fn check(
    caller: &Caller,
    permission: Permission,
    containers: &[&str],
    expected: Option<Transform>,
) {
    let containers = Containers::parse(containers.iter().copied()).unwrap();
    assert_eq!(caller.transform(permission, &containers), expected, "{containers:?}");
    assert_eq!(caller.permit(permission, &containers).is_ok(), expected.is_some());
}

#[test]
fn plain_permissions_reach_everywhere() {
    let caller = caller(&[TokenRead, TokenUse], vec![]);
    check(&caller, TokenRead, &["/pci/high/"], Some(Mask));
    check(&caller, TokenUse, &["/pci/high/", "/x/"], Some(Reveal));
    check(&caller, TokenCreate, &["/pci/high/"], None);
}

#[test]
fn the_first_rule_that_covers_and_grants_decides() {
    let rules = vec![
        rule(9, "/", Reveal, TokenRead),
        rule(1, "/pci/", Redact, TokenRead),
        rule(0, "/pci/high/", Reveal, TokenCreate),
    ];
    let caller = caller(&[], rules);
    check(&caller, TokenRead, &["/pci/high/"], Some(Redact));
    check(&caller, TokenRead, &["/pci-other/"], Some(Reveal));
    check(&caller, TokenCreate, &["/pci/"], None);
}

#[test]
fn several_containers_take_the_weakest_and_need_all() {
    let rules = vec![rule(1, "/a/", Reveal, TokenRead), rule(2, "/b/", Mask, TokenRead)];
    let caller = caller(&[], rules);
    check(&caller, TokenRead, &["/a/", "/b/"], Some(Mask));
    check(&caller, TokenRead, &["/a/", "/c/"], None);
}

#[test]
fn a_rule_goes_before_a_plain_permission() {
    let caller = caller(&[TokenRead], vec![rule(1, "/a/", Redact, TokenRead)]);
    check(&caller, TokenRead, &["/a/"], Some(Redact));
    check(&caller, TokenRead, &["/b/"], Some(Mask));
}

/// What the access rules say, word by word.
fn reference(rules: &[AccessRule], permission: Permission, container: &str) -> Option<Transform> {
    let mut best: Option<&AccessRule> = None;
    for rule in rules {
        let path: Vec<_> = rule.container.as_str().split('/').filter(|it| !it.is_empty()).collect();
        let asked: Vec<_> = container.split('/').filter(|it| !it.is_empty()).collect();
        if !asked.starts_with(&path) || !rule.permissions.has(permission) {
            continue;
        }
        if best.is_none_or(|it| rule.priority < it.priority) {
            best = Some(rule);
        }
    }
    best.map(|it| it.transform)
}

proptest! {
    #[test]
    fn decisions_agree_with_the_reference(
        drawn in proptest::collection::vec(
            (0_i64..5, "/([ab]{1,2}/){0,3}", 0_usize..3, 0_usize..3),
            0..6,
        ),
        container in "/([ab]{1,2}/){0,3}",
    ) {
        let transforms = [Redact, Mask, Reveal];
        let permissions = [TokenRead, TokenCreate, TokenUse];
        let rules: Vec<_> = drawn
            .iter()
            .map(|(priority, path, t, p)| rule(*priority, path, transforms[*t], permissions[*p]))
            .collect();
        let caller = caller(&[], rules.clone());
        let containers = Containers::parse([container.as_str()]).unwrap();
        for permission in permissions {
            let expected = reference(&rules, permission, &container);
            prop_assert_eq!(caller.transform(permission, &containers), expected);
        }
    }
}
