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
        AccessCondition, AccessPolicy, AccessRule, AccessScope, DisplayName, Permissions,
        PolicyRecords, Quotas, TenantKind, TenantRecord, TenantSettings,
        principal::DelegatedRights,
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
        scope: AccessScope::Container(Container::parse(container).unwrap()),
        transform,
        parse_permissions: Permissions::from_list(&[permission]),
    }
}

pub(crate) fn tenant() -> Arc<Tenant> {
    let root = RootKey::from_text("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=").unwrap();
    let wrapped = TenantKeys::create(&root, "acme").unwrap();
    let keys = TenantKeys::unwrap(&root, "acme", &wrapped).unwrap();
    let tenant = TenantRecord {
        id: TenantId(Uuid::nil()),
        name: DisplayName::parse("acme").unwrap(),
        kind: TenantKind::Test,
        settings: TenantSettings::default(),
        quotas: Quotas::default_for(TenantKind::Test),
        keys: wrapped,
        created: ChangeStamp { by: None, at: Timestamp { unix_ms: 0 } },
        modified: None,
        deletes_at: None,
    };
    let records = PolicyRecords::new(&keys, tenant);
    let (audit_key, _) = AuditKey::create(&root).unwrap();
    Arc::new(Tenant::new(Arc::new(keys), Arc::new(audit_key), records))
}

fn principal(permissions: &[Permission], rules: Vec<AccessRule>) -> Arc<Principal> {
    let access = AccessPolicy { parse_permissions: Permissions::from_list(permissions), rules };
    let application = ApplicationId(Uuid::nil());
    Arc::new(Principal::new(tenant(), application, ApplicationKind::Private, access))
}

fn caller_for(principal: Arc<Principal>) -> Caller {
    let origin = RequestOrigin { trace: "test".into(), address: [127, 0, 0, 1].into() };
    Caller::new(principal, origin)
}

fn caller(permissions: &[Permission], rules: Vec<AccessRule>) -> Caller {
    caller_for(principal(permissions, rules))
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
fn plain_permissions_apply_in_every_container() {
    let caller = caller(&[TokenRead, TokenUse], vec![]);
    check(&caller, TokenRead, &["/pci/high/"], Some(Mask));
    check(&caller, TokenUse, &["/pci/high/", "/x/"], Some(Reveal));
    check(&caller, TokenCreate, &["/pci/high/"], None);
}

#[test]
fn first_access_rule_by_priority_that_covers_and_grants_decides() {
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
fn token_in_several_containers_gets_the_weakest_transform_and_needs_all() {
    let rules = vec![rule(1, "/a/", Reveal, TokenRead), rule(2, "/b/", Mask, TokenRead)];
    let caller = caller(&[], rules);
    check(&caller, TokenRead, &["/a/", "/b/"], Some(Mask));
    check(&caller, TokenRead, &["/a/", "/c/"], None);
}

#[test]
fn access_rule_takes_precedence_over_plain_permission() {
    let caller = caller(&[TokenRead], vec![rule(1, "/a/", Redact, TokenRead)]);
    check(&caller, TokenRead, &["/a/"], Some(Redact));
    check(&caller, TokenRead, &["/b/"], Some(Mask));
}

fn session_caller(delegated: AccessPolicy, authorizer: &Arc<Principal>) -> Caller {
    let begun_by = principal(&[], vec![]);
    let id = AccessSessionId([1; 32]);
    let (authorizer, api_key) = (Arc::clone(authorizer), ApiKeyId(Uuid::nil()));
    let delegated = DelegatedRights { authorizer, api_key, access: delegated };
    caller_for(Arc::new(Principal::for_access_session(id, &begun_by, Some(delegated))))
}

fn policy_of_rules(rules: Vec<AccessRule>) -> AccessPolicy {
    AccessPolicy { parse_permissions: Permissions::default(), rules }
}

#[test]
fn access_session_has_no_rights_until_authorized() {
    let begun_by = principal(&[TokenRead], vec![]);
    let caller = caller_for(Arc::new(Principal::for_access_session(
        AccessSessionId([1; 32]),
        &begun_by,
        None,
    )));
    check(&caller, TokenRead, &["/a/"], None);
    assert!(caller.permit_lookup(TokenRead).is_err());
    assert!(caller.check_requirement(CallerRequirement::AnyKey).is_ok());
    assert!(caller.check_requirement(CallerRequirement::Kind(ApplicationKind::Private)).is_err());
}

#[test]
fn access_session_never_has_more_than_its_authorizer() {
    let authorizer =
        principal(&[], vec![rule(1, "/a/", Mask, TokenRead), rule(1, "/b/", Reveal, TokenRead)]);
    let caller =
        session_caller(policy_of_rules(vec![rule(1, "/", Reveal, TokenRead)]), &authorizer);
    check(&caller, TokenRead, &["/a/"], Some(Mask));
    check(&caller, TokenRead, &["/b/"], Some(Reveal));
    check(&caller, TokenRead, &["/c/"], None);
    let caller =
        session_caller(policy_of_rules(vec![rule(1, "/b/", Redact, TokenRead)]), &authorizer);
    check(&caller, TokenRead, &["/b/"], Some(Redact));
    check(&caller, TokenRead, &["/a/"], None);
}

#[test]
fn id_condition_does_not_match_without_an_id() {
    let authorizer = principal(&[], vec![rule(1, "/", Reveal, TokenRead)]);
    let mut by_id = rule(1, "/", Reveal, TokenRead);
    by_id.scope = AccessScope::Conditions(vec![AccessCondition::IdIs("card-7".to_owned())]);
    let caller = session_caller(policy_of_rules(vec![by_id]), &authorizer);
    check(&caller, TokenRead, &["/a/"], None);
    let containers = Containers::parse(["/a/"]).unwrap();
    let (seven, eight) = (TokenId::parse("card-7").unwrap(), TokenId::parse("card-8").unwrap());
    let of = |id| AccessTarget { containers: &containers, id: Some(id) };
    assert_eq!(caller.transform(TokenRead, of(&seven)), Some(Reveal));
    assert_eq!(caller.transform(TokenRead, of(&eight)), None);
    let again = caller.permit(TokenRead, of(&seven)).unwrap().recheck();
    assert_eq!(again.unwrap().transform(), Reveal);
}

#[test]
fn delegated_rights_beyond_the_authorizers_own_are_detected() {
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
        it.scope = AccessScope::Conditions(vec![reach]);
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
        (by(AccessCondition::IdIs("card-7".to_owned())), false),
        (by(AccessCondition::ContainerStartsWith(container("/a/"))), true),
        (by(AccessCondition::ContainerIs(container("/c/"))), false),
    ];
    for (asked, expected) in table {
        let exceeds = own.find_exceeding_permission(&policy_of_rules(vec![asked.clone()]));
        assert_eq!(exceeds.is_some(), expected, "{asked:?}");
    }
}

#[test]
fn principal_reveals_everywhere_only_with_reveal_right_wherever_it_sees_or_creates() {
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
        let seen = principal(permissions, rules.clone()).reveals_everywhere();
        assert_eq!(seen, expected, "{permissions:?} {rules:?}");
    }
}

#[test]
fn access_session_reveals_everywhere_only_if_its_and_its_authorizers_rules_all_reveal() {
    let search = || policy_of_rules(vec![rule(1, "/", Reveal, Permission::TokenSearch)]);
    let backend = || rule(1, "/", Reveal, TokenRead);
    let revealing = principal(&[], vec![backend(), rule(1, "/", Reveal, Permission::TokenSearch)]);
    assert!(session_caller(search(), &revealing).principal().reveals_everywhere());
    let masked = policy_of_rules(vec![rule(1, "/a/", Mask, TokenRead)]);
    assert!(!session_caller(masked, &revealing).principal().reveals_everywhere());
    // The authorizer reads in clear, but the session only searches, and searches show masks.
    let reading = principal(&[Permission::TokenSearch], vec![backend()]);
    assert!(!session_caller(search(), &reading).principal().reveals_everywhere());
}

/// What the access rules say, word by word.
fn reference(rules: &[AccessRule], permission: Permission, container: &str) -> Option<Transform> {
    let mut best: Option<&AccessRule> = None;
    for rule in rules {
        let AccessScope::Container(reach) = &rule.scope else { continue };
        let path: Vec<_> = reach.as_str().split('/').filter(|it| !it.is_empty()).collect();
        let requested: Vec<_> = container.split('/').filter(|it| !it.is_empty()).collect();
        if !requested.starts_with(&path) || !rule.parse_permissions.has(permission) {
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
    fn access_decisions_agree_with_reference(
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
    fn caller_that_reveals_everywhere_has_reveal_right_in_every_container_it_reaches(
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
        if principal(&[], rules.clone()).reveals_everywhere() {
            let decided = permissions.map(|it| reference(&rules, it, &container));
            let seen = decided[0].max(decided[1]);
            prop_assert!(decided == [None; 3] || seen == Some(Reveal), "{rules:?} {container}");
        }
    }
}
