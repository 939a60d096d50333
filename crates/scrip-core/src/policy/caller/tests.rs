//! Tables of access decisions, and a comparison with a simple reference implementation.

use proptest::prelude::*;
use scrip_seal::{AuditKey, RootKey, TenantKeys};
use uuid::Uuid;

use super::*;
use crate::{
    Timestamp,
    policy::{
        AccessCondition, AccessPolicy, AccessRule, AccessScope, ChangeStamp, DisplayName,
        PolicyRecords, Quotas, TenantRecord, TenantSettings, principal::DelegatedRights,
    },
    types::{
        Permission::{TokenCreate, TokenRead, TokenUse},
        Permissions, TenantKind,
        Transform::{Mask, Redact, Reveal},
        id::TenantId,
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
        permissions: Permissions::from_list(&[permission]),
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
    let access = AccessPolicy { permissions: Permissions::from_list(permissions), rules };
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
    assert_eq!(
        caller.transform(permission, &containers),
        expected,
        "{permission:?} in {containers:?}"
    );
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
    let creator = principal(&[], vec![]);
    let id = AccessSessionId([1; 32]);
    let (authorizer, api_key) = (Arc::clone(authorizer), ApiKeyId(Uuid::nil()));
    let at = Timestamp { unix_ms: 0 };
    let delegated = DelegatedRights { authorizer, api_key, at, access: delegated };
    caller_for(Arc::new(Principal::for_access_session(id, &creator, Some(delegated))))
}

fn policy_of_rules(rules: Vec<AccessRule>) -> AccessPolicy {
    AccessPolicy { permissions: Permissions::default(), rules }
}

#[test]
fn access_session_has_no_rights_until_authorized() {
    let creator = principal(&[TokenRead], vec![]);
    let caller = caller_for(Arc::new(Principal::for_access_session(
        AccessSessionId([1; 32]),
        &creator,
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
    let mut id_rule = rule(1, "/", Reveal, TokenRead);
    id_rule.scope = AccessScope::Conditions(vec![AccessCondition::IdIs("card-7".to_owned())]);
    let caller = session_caller(policy_of_rules(vec![id_rule]), &authorizer);
    check(&caller, TokenRead, &["/a/"], None);
    let containers = Containers::parse(["/a/"]).unwrap();
    let (matching_id, other_id) =
        (TokenId::parse("card-7").unwrap(), TokenId::parse("card-8").unwrap());
    let target = |id| AccessTarget { containers: &containers, id: Some(id) };
    assert_eq!(caller.transform(TokenRead, target(&matching_id)), Some(Reveal));
    assert_eq!(caller.transform(TokenRead, target(&other_id)), None);
    let rechecked = caller.permit(TokenRead, target(&matching_id)).unwrap().recheck();
    assert_eq!(rechecked.unwrap().transform(), Reveal);
}

#[test]
fn delegated_rights_beyond_the_authorizers_own_are_detected() {
    let authorizer = principal(
        &[Permission::TokenIntentCreate],
        vec![
            rule(1, "/a/b/", Mask, TokenRead),
            rule(2, "/a/", Reveal, TokenRead),
            rule(3, "/c/", Reveal, TokenRead),
        ],
    );
    let rule_with = |condition| {
        let mut it = rule(1, "/", Reveal, TokenRead);
        it.scope = AccessScope::Conditions(vec![condition]);
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
        (rule_with(AccessCondition::IdIs("card-7".to_owned())), false),
        (rule_with(AccessCondition::ContainerStartsWith(container("/a/"))), true),
        (rule_with(AccessCondition::ContainerIs(container("/c/"))), false),
    ];
    for (delegated_rule, expected) in table {
        let exceeding =
            authorizer.find_exceeding_permission(&policy_of_rules(vec![delegated_rule.clone()]));
        assert_eq!(exceeding.is_some(), expected, "whether {delegated_rule:?} exceeds");
    }
}

#[test]
fn principal_reveals_everywhere_only_with_reveal_right_wherever_it_sees_or_creates() {
    use Permission::{TokenIntentCreate, TokenIntentRead, TokenSearch, TokenUpdate};
    let own_rules =
        || vec![rule(2, "/own/", Reveal, TokenRead), rule(2, "/own/", Reveal, TokenCreate)];
    let own_rules_and = |it: AccessRule| own_rules().into_iter().chain([it]).collect::<Vec<_>>();
    let table: Vec<(&[Permission], Vec<AccessRule>, bool)> = vec![
        (&[TokenRead], vec![], false),
        (&[TokenCreate], vec![], false),
        (&[], own_rules(), true),
        (&[TokenCreate], own_rules(), false),
        (&[TokenIntentCreate], own_rules(), false),
        (&[TokenUse], own_rules(), true),
        (&[TokenCreate, TokenSearch], vec![rule(1, "/", Reveal, TokenRead)], true),
        (&[TokenCreate], vec![rule(1, "/", Reveal, TokenUpdate)], true),
        (&[], own_rules_and(rule(1, "/pci/", Mask, TokenRead)), false),
        (&[], own_rules_and(rule(1, "/pci/", Redact, TokenSearch)), false),
        (&[], own_rules_and(rule(1, "/pci/", Mask, TokenCreate)), false),
        (&[], own_rules_and(rule(1, "/pci/", Mask, TokenIntentRead)), false),
        (&[], own_rules_and(rule(1, "/pci/", Reveal, TokenSearch)), true),
        (&[], own_rules_and(rule(1, "/own/a/", Mask, TokenRead)), false),
        (&[], own_rules_and(rule(3, "/own/a/", Mask, TokenRead)), true),
        (&[], own_rules_and(rule(1, "/own/a/", Mask, TokenSearch)), true),
    ];
    for (permissions, rules, expected) in table {
        let reveals = principal(permissions, rules.clone()).reveals_everywhere();
        assert_eq!(reveals, expected, "permissions {permissions:?}, rules {rules:?}");
    }
}

#[test]
fn principal_reveals_the_whole_tenant_only_with_a_reveal_right_on_the_root() {
    let reveals = |rules| principal(&[TokenCreate], rules).reveals_whole_tenant();
    let root_rule = || rule(1, "/", Reveal, TokenRead);
    assert!(reveals(vec![root_rule()]));
    assert!(!reveals(vec![rule(0, "/own/", Mask, TokenRead), root_rule()]));
    let own_rules =
        vec![rule(1, "/own/", Reveal, TokenRead), rule(1, "/own/", Reveal, TokenCreate)];
    assert!(!principal(&[], own_rules).reveals_whole_tenant());
}

#[test]
fn access_session_reveals_everywhere_only_if_its_and_its_authorizers_rules_all_reveal() {
    let search_policy = || policy_of_rules(vec![rule(1, "/", Reveal, Permission::TokenSearch)]);
    let read_rule = || rule(1, "/", Reveal, TokenRead);
    let revealing_principal =
        principal(&[], vec![read_rule(), rule(1, "/", Reveal, Permission::TokenSearch)]);
    assert!(session_caller(search_policy(), &revealing_principal).principal().reveals_everywhere());
    let masked_policy = policy_of_rules(vec![rule(1, "/a/", Mask, TokenRead)]);
    assert!(!session_caller(masked_policy, &revealing_principal).principal().reveals_everywhere());
    // The authorizer reads in clear, but the session only searches, and searches return masked
    // data.
    let reading_principal = principal(&[Permission::TokenSearch], vec![read_rule()]);
    assert!(!session_caller(search_policy(), &reading_principal).principal().reveals_everywhere());
}

/// The definition of access rules, without optimizations.
fn reference(rules: &[AccessRule], permission: Permission, container: &str) -> Option<Transform> {
    let mut first_rule: Option<&AccessRule> = None;
    for rule in rules {
        let AccessScope::Container(scope) = &rule.scope else { continue };
        let path: Vec<_> = scope.as_str().split('/').filter(|it| !it.is_empty()).collect();
        let requested: Vec<_> = container.split('/').filter(|it| !it.is_empty()).collect();
        if !requested.starts_with(&path) || !rule.permissions.has(permission) {
            continue;
        }
        if first_rule.is_none_or(|it| rule.priority < it.priority) {
            first_rule = Some(rule);
        }
    }
    first_rule.map(|it| it.transform)
}

proptest! {
    #[test]
    fn access_decisions_agree_with_reference(
        generated_rules in proptest::collection::vec(
            (0_i64..5, "/([ab]{1,2}/){0,3}", 0_usize..3, 0_usize..3),
            0..6,
        ),
        container in "/([ab]{1,2}/){0,3}",
    ) {
        let transforms = [Redact, Mask, Reveal];
        let permissions = [TokenRead, TokenCreate, TokenUse];
        let rules: Vec<_> = generated_rules
            .iter()
            .map(|(priority, path, transform, permission)| {
                rule(*priority, path, transforms[*transform], permissions[*permission])
            })
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
        generated_rules in proptest::collection::vec(
            (0_i64..5, "/([ab]{1,2}/){0,3}", 0_usize..6, 0_usize..3),
            0..4,
        ),
        container in "/([ab]{1,2}/){0,3}",
    ) {
        let transforms = [Mask, Reveal, Reveal, Reveal, Reveal, Reveal];
        let permissions = [TokenRead, Permission::TokenUpdate, TokenCreate];
        let rules: Vec<_> = generated_rules
            .iter()
            .map(|(priority, path, transform, permission)| {
                rule(*priority, path, transforms[*transform], permissions[*permission])
            })
            .collect();
        let principal = principal(&[], rules.clone());
        let transforms_found = permissions.map(|it| reference(&rules, it, &container));
        let is_revealed = transforms_found[0].max(transforms_found[1]) == Some(Reveal);
        if principal.reveals_everywhere() {
            prop_assert!(
                transforms_found == [None; 3] || is_revealed,
                "rules {rules:?}, container {container}"
            );
        }
        if principal.reveals_whole_tenant() {
            prop_assert!(is_revealed, "rules {rules:?}, container {container}");
        }
    }
}
