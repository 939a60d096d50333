//! Decisions as tables, and against a reference that is slower and plainer.

use Permission::{TokenCreate, TokenRead, TokenUse};
use Transform::{Mask, Redact, Reveal};
use proptest::prelude::*;
use scrip_seal::{AuditKey, RootKey, TenantKeys};
use uuid::Uuid;

use super::*;
use crate::{
    id::TenantId,
    policy::{
        AccessPolicy, AccessRule, Condition, Name, Permissions, PolicyRecords, Quotas, Reach,
        Settings, TenantKind, TenantRecord, principal::Lent,
    },
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
        reach: Reach::Container(Container::parse(container).unwrap()),
        transform,
        permissions: Permissions::of(&[permission]),
    }
}

pub(crate) fn tenant() -> Arc<Tenant> {
    let root = RootKey::from_text("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=").unwrap();
    let wrapped = TenantKeys::create(&root, "acme").unwrap();
    let keys = TenantKeys::unwrap(&root, "acme", &wrapped).unwrap();
    let tenant = TenantRecord {
        id: TenantId(Uuid::nil()),
        name: Name::parse("acme").unwrap(),
        kind: TenantKind::Test,
        settings: Settings::default(),
        quotas: Quotas::default_for(TenantKind::Test),
        keys: wrapped,
        created: Stamp { by: None, at: Timestamp { unix_ms: 0 } },
        modified: None,
        deletes_at: None,
    };
    let records = PolicyRecords::new(&keys, tenant);
    let (audit_key, _) = AuditKey::create(&root).unwrap();
    Arc::new(Tenant::new(Arc::new(keys), Arc::new(audit_key), records))
}

fn principal(permissions: &[Permission], rules: Vec<AccessRule>) -> Arc<Principal> {
    let access = AccessPolicy { permissions: Permissions::of(permissions), rules };
    let application = ApplicationId(Uuid::nil());
    Arc::new(Principal::new(tenant(), application, ApplicationKind::Private, access))
}

fn asks(principal: Arc<Principal>) -> Caller {
    let origin = Origin { trace: "test".into(), address: [127, 0, 0, 1].into() };
    Caller::new(principal, origin)
}

fn caller(permissions: &[Permission], rules: Vec<AccessRule>) -> Caller {
    asks(principal(permissions, rules))
}

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

fn session(lent: AccessPolicy, authorizer: &Arc<Principal>) -> Caller {
    let begun_by = principal(&[], vec![]);
    let id = AccessSessionId([1; 32]);
    let (authorizer, api_key) = (Arc::clone(authorizer), ApiKeyId(Uuid::nil()));
    let lent = Lent { authorizer, api_key, access: lent };
    asks(Arc::new(Principal::session(id, &begun_by, Some(lent))))
}

fn ruled(rules: Vec<AccessRule>) -> AccessPolicy {
    AccessPolicy { permissions: Permissions::default(), rules }
}

#[test]
fn a_session_has_no_rights_until_it_is_authorized() {
    let begun_by = principal(&[TokenRead], vec![]);
    let caller = asks(Arc::new(Principal::session(AccessSessionId([1; 32]), &begun_by, None)));
    check(&caller, TokenRead, &["/a/"], None);
    assert!(caller.inquire(TokenRead).is_err());
    assert!(caller.meets(Needs::Key).is_ok());
    assert!(caller.meets(Needs::Kind(ApplicationKind::Private)).is_err());
}

#[test]
fn a_session_never_has_more_than_its_authorizer() {
    let authorizer =
        principal(&[], vec![rule(1, "/a/", Mask, TokenRead), rule(1, "/b/", Reveal, TokenRead)]);
    let caller = session(ruled(vec![rule(1, "/", Reveal, TokenRead)]), &authorizer);
    check(&caller, TokenRead, &["/a/"], Some(Mask));
    check(&caller, TokenRead, &["/b/"], Some(Reveal));
    check(&caller, TokenRead, &["/c/"], None);
    let caller = session(ruled(vec![rule(1, "/b/", Redact, TokenRead)]), &authorizer);
    check(&caller, TokenRead, &["/b/"], Some(Redact));
    check(&caller, TokenRead, &["/a/"], None);
}

#[test]
fn a_condition_about_the_id_needs_the_id() {
    let authorizer = principal(&[], vec![rule(1, "/", Reveal, TokenRead)]);
    let mut by_id = rule(1, "/", Reveal, TokenRead);
    by_id.reach = Reach::Conditions(vec![Condition::IdIs("card-7".to_owned())]);
    let caller = session(ruled(vec![by_id]), &authorizer);
    check(&caller, TokenRead, &["/a/"], None);
    let containers = Containers::parse(["/a/"]).unwrap();
    let (seven, eight) = (TokenId::parse("card-7").unwrap(), TokenId::parse("card-8").unwrap());
    let of = |id| Subject { containers: &containers, id: Some(id) };
    assert_eq!(caller.transform(TokenRead, of(&seven)), Some(Reveal));
    assert_eq!(caller.transform(TokenRead, of(&eight)), None);
    let again = caller.permit(TokenRead, of(&seven)).unwrap().again();
    assert_eq!(again.unwrap().transform(), Reveal);
}

#[test]
fn what_would_be_more_than_ones_own() {
    let own = principal(
        &[Permission::TokenIntentCreate],
        vec![
            rule(1, "/a/b/", Mask, TokenRead),
            rule(2, "/a/", Reveal, TokenRead),
            rule(3, "/c/", Reveal, TokenRead),
        ],
    );
    let by = |reach| {
        let mut it = rule(1, "/", Reveal, TokenRead);
        it.reach = Reach::Conditions(vec![reach]);
        it
    };
    let container = |text| Container::parse(text).unwrap();
    let table = [
        (rule(1, "/c/", Reveal, TokenRead), false),
        (rule(1, "/c/d/", Reveal, TokenRead), false),
        (rule(1, "/a/", Reveal, TokenRead), true),
        (rule(1, "/a/", Mask, TokenRead), false),
        (rule(1, "/a/b/", Reveal, TokenRead), true),
        (rule(1, "/a/x/", Reveal, TokenRead), false),
        (rule(1, "/", Redact, TokenRead), true),
        (rule(1, "/c/", Redact, TokenCreate), true),
        (rule(1, "/", Reveal, Permission::TokenIntentCreate), false),
        (rule(1, "/", Redact, Permission::TokenIntentDelete), true),
        (by(Condition::IdIs("card-7".to_owned())), false),
        (by(Condition::ContainerStartsWith(container("/a/"))), true),
        (by(Condition::ContainerIs(container("/c/"))), false),
    ];
    for (asked, expected) in table {
        let exceeds = own.exceeds(&ruled(vec![asked.clone()]));
        assert_eq!(exceeds.is_some(), expected, "{asked:?}");
    }
}

#[test]
fn sees_all_in_clear_needs_a_reveal_right_wherever_something_is_seen_or_created() {
    use Permission::{TokenIntentCreate, TokenIntentRead, TokenSearch, TokenUpdate};
    let own = || vec![rule(2, "/own/", Reveal, TokenRead), rule(2, "/own/", Reveal, TokenCreate)];
    let with = |it: AccessRule| own().into_iter().chain([it]).collect::<Vec<_>>();
    let table: Vec<(&[Permission], Vec<AccessRule>, bool)> = vec![
        (&[TokenRead], vec![], false),
        (&[TokenCreate], vec![], false),
        (&[], own(), true),
        (&[TokenCreate], own(), false),
        (&[TokenIntentCreate], own(), false),
        (&[TokenUse], own(), true),
        (&[TokenCreate, TokenSearch], vec![rule(1, "/", Reveal, TokenRead)], true),
        (&[TokenCreate], vec![rule(1, "/", Reveal, TokenUpdate)], true),
        (&[], with(rule(1, "/pci/", Mask, TokenRead)), false),
        (&[], with(rule(1, "/pci/", Redact, TokenSearch)), false),
        (&[], with(rule(1, "/pci/", Mask, TokenCreate)), false),
        (&[], with(rule(1, "/pci/", Mask, TokenIntentRead)), false),
        (&[], with(rule(1, "/pci/", Reveal, TokenSearch)), true),
        (&[], with(rule(1, "/own/a/", Mask, TokenRead)), false),
        (&[], with(rule(3, "/own/a/", Mask, TokenRead)), true),
        (&[], with(rule(1, "/own/a/", Mask, TokenSearch)), true),
    ];
    for (permissions, rules, expected) in table {
        let seen = principal(permissions, rules.clone()).sees_all_in_clear();
        assert_eq!(seen, expected, "{permissions:?} {rules:?}");
    }
}

#[test]
fn session_sees_all_in_clear_only_if_every_rule_of_it_and_its_authorizer_reveals() {
    let search = || ruled(vec![rule(1, "/", Reveal, Permission::TokenSearch)]);
    let backend = || rule(1, "/", Reveal, TokenRead);
    let revealing = principal(&[], vec![backend(), rule(1, "/", Reveal, Permission::TokenSearch)]);
    assert!(session(search(), &revealing).principal().sees_all_in_clear());
    let masked = ruled(vec![rule(1, "/a/", Mask, TokenRead)]);
    assert!(!session(masked, &revealing).principal().sees_all_in_clear());
    // The authorizer reads in clear, but the session only searches, and searches show masks.
    let reading = principal(&[Permission::TokenSearch], vec![backend()]);
    assert!(!session(search(), &reading).principal().sees_all_in_clear());
}

/// What the access rules say, word by word.
fn reference(rules: &[AccessRule], permission: Permission, container: &str) -> Option<Transform> {
    let mut best: Option<&AccessRule> = None;
    for rule in rules {
        let Reach::Container(reach) = &rule.reach else { continue };
        let path: Vec<_> = reach.as_str().split('/').filter(|it| !it.is_empty()).collect();
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
    #[test]
    fn caller_that_sees_all_in_clear_has_a_reveal_right_in_every_container_it_reaches(
        drawn in proptest::collection::vec(
            (0_i64..5, "/([ab]{1,2}/){0,3}", 0_usize..6, 0_usize..3),
            0..4,
        ),
        container in "/([ab]{1,2}/){0,3}",
    ) {
        let transforms = [Mask, Reveal, Reveal, Reveal, Reveal, Reveal];
        let permissions = [TokenRead, Permission::TokenUpdate, TokenCreate];
        let rules: Vec<_> = drawn
            .iter()
            .map(|(priority, path, t, p)| rule(*priority, path, transforms[*t], permissions[*p]))
            .collect();
        if principal(&[], rules.clone()).sees_all_in_clear() {
            let decided = permissions.map(|it| reference(&rules, it, &container));
            let seen = decided[0].max(decided[1]);
            prop_assert!(decided == [None; 3] || seen == Some(Reveal), "{rules:?} {container}");
        }
    }
}
