//! Random access decisions compared with a reference implementation of the documented rules.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "clippy.toml exempts #[test] functions but not the helpers of a test crate"
)]

use std::sync::Arc;

use scrip_core::{
    Timestamp,
    policy::{
        AccessCondition, AccessPolicy, AccessRule, AccessScope, AccessSessionId, AccessTarget,
        Caller, ChangeStamp, DisplayName, PolicyRecords, Principal, Quotas, RequestOrigin, Tenant,
        TenantRecord, TenantSettings, principal::DelegatedRights,
    },
    types::{
        ApplicationKind::Private,
        Container, Containers,
        Permission::{self, ThreeDsSessionCreate, TokenCreate, TokenRead, TokenUpdate, TokenUse},
        TenantKind,
        Transform::{self, Mask, Redact, Reveal},
        id::{ApiKeyId, ApplicationId, TenantId, TokenId},
    },
};
use scrip_seal::{AuditKey, RootKey, TenantKeys};
use uuid::Uuid;

/// A container in the reference: its segments.
type ContainerPath = &'static [&'static str];

#[derive(Debug, Clone)]
enum RuleMatch {
    Container(ContainerPath),
    Conditions(Vec<Clause>),
}

#[derive(Debug, Clone, Copy)]
enum Clause {
    IdEquals(&'static str),
    IdStartsWith(&'static str),
    ContainerEquals(ContainerPath),
    ContainerStartsWith(ContainerPath),
}

#[derive(Debug, Clone)]
struct ReferenceRule {
    priority: i64,
    matches: RuleMatch,
    transform: Transform,
    permissions: Vec<Permission>,
}

/// The permissions and rules of an application or session.
#[derive(Debug, Clone)]
struct ReferenceGrants {
    permissions: Vec<Permission>,
    rules: Vec<ReferenceRule>,
}

/// A caller. For a session, `authorizer` has the grants of its authorizer.
#[derive(Debug)]
struct ReferenceCaller {
    grants: ReferenceGrants,
    authorizer: Option<ReferenceGrants>,
}

/// The decision for one container. The first rule by priority number, then by position, decides, if
/// it matches by its container or all of its conditions and grants the permission. Plain
/// permissions apply everywhere.
fn decide(
    grants: &ReferenceGrants,
    permission: Permission,
    container: ContainerPath,
    id: Option<&str>,
) -> Option<Transform> {
    let applies = |it: &&ReferenceRule| {
        it.permissions.contains(&permission) && is_match(&it.matches, container, id)
    };
    let first_rule = grants.rules.iter().filter(applies).min_by_key(|it| it.priority);
    if let Some(rule) = first_rule {
        return Some(rule.transform);
    }
    let implied_transform = if permission == TokenUse { Reveal } else { Mask };
    // 3-D Secure permissions apply only in the containers of the rules, unless there are no rules.
    if permission == ThreeDsSessionCreate && !grants.rules.is_empty() {
        let is_covered = grants.rules.iter().any(|it| is_match(&it.matches, container, id));
        return (grants.permissions.contains(&permission) && is_covered)
            .then_some(implied_transform);
    }
    grants.permissions.contains(&permission).then_some(implied_transform)
}

/// Compares whole segments. A token without an id matches no condition on the id.
fn is_match(matches: &RuleMatch, container: ContainerPath, id: Option<&str>) -> bool {
    let is_true = |clause: &Clause| match clause {
        Clause::IdEquals(value) => id == Some(value),
        Clause::IdStartsWith(value) => id.is_some_and(|it| it.starts_with(value)),
        Clause::ContainerEquals(path) => container == *path,
        Clause::ContainerStartsWith(path) => container.starts_with(path),
    };
    match matches {
        RuleMatch::Container(path) => container.starts_with(path),
        RuleMatch::Conditions(clauses) => clauses.iter().all(is_true),
    }
}

/// The decision for several containers. The permission is required in every container, and the
/// weakest transform applies. A session never has more rights than its authorizer.
fn reference(
    reference_caller: &ReferenceCaller,
    permission: Permission,
    containers: &[ContainerPath],
    id: Option<&str>,
) -> Option<Transform> {
    let mut weakest = Reveal;
    for container in containers {
        weakest = weakest.min(decide(&reference_caller.grants, permission, container, id)?);
        if let Some(authorizer_grants) = &reference_caller.authorizer {
            weakest = weakest.min(decide(authorizer_grants, permission, container, id)?);
        }
    }
    Some(weakest)
}

// Names with a common prefix, where the text prefix is not a parent.
const PATHS: &[ContainerPath] = &[
    &[],
    &["a"],
    &["ab"],
    &["a", "a"],
    &["a", "ab"],
    &["ab", "a"],
    &["a", "a", "b"],
    &["a", "ab", "b"],
    &["a-b"],
    &["a-b", "a"],
];
const IDS: &[&str] = &["card-1", "card-12", "bank-1"];
const ID_VALUES: &[&str] = &["card-1", "card-", "bank-1", "c"];
const PERMISSIONS: &[Permission] =
    &[TokenRead, TokenCreate, TokenUpdate, TokenUse, ThreeDsSessionCreate];
const TRANSFORMS: &[Transform] = &[Redact, Mask, Reveal];

/// A small repeatable generator (xorshift64*).
struct Xorshift(u64);

impl Xorshift {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let number = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33;
        usize::try_from(number).unwrap() % end
    }

    fn pick<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())]
    }

    fn pick_several<T: Copy>(&mut self, values: &[T], count_max: usize) -> Vec<T> {
        (0..self.below(count_max + 1)).map(|_| self.pick(values)).collect()
    }

    /// Prefers shorter paths: they cover more.
    fn path(&mut self) -> ContainerPath {
        PATHS[self.below(PATHS.len()).min(self.below(PATHS.len()))]
    }

    fn grants(&mut self, is_session: bool) -> ReferenceGrants {
        let permissions =
            if self.below(3) == 0 { self.pick_several(PERMISSIONS, 2) } else { Vec::new() };
        let rules = (0..self.below(8)).map(|_| self.rule(is_session)).collect();
        ReferenceGrants { permissions, rules }
    }

    fn rule(&mut self, is_session: bool) -> ReferenceRule {
        let matches = if is_session && self.below(3) == 0 {
            RuleMatch::Conditions((0..=self.below(2)).map(|_| self.clause()).collect())
        } else {
            RuleMatch::Container(self.path())
        };
        let mut permissions = self.pick_several(PERMISSIONS, 2);
        permissions.push(self.pick(PERMISSIONS));
        // Few values, so that there are many ties.
        let priority = self.pick(&[0, 1, 2]);
        ReferenceRule { priority, matches, transform: self.pick(TRANSFORMS), permissions }
    }

    fn clause(&mut self) -> Clause {
        let (id, path) = (self.pick(ID_VALUES), self.path());
        let clauses = [
            Clause::IdEquals(id),
            Clause::IdStartsWith(id),
            Clause::ContainerEquals(path),
            Clause::ContainerStartsWith(path),
        ];
        self.pick(&clauses)
    }
}

fn path_text(path: ContainerPath) -> String {
    path.iter().fold("/".to_owned(), |text, segment| format!("{text}{segment}/"))
}

fn policy(grants: &ReferenceGrants) -> AccessPolicy {
    let to_container = |path| Container::parse(&path_text(path)).unwrap();
    let to_condition = |clause: &Clause| match clause {
        Clause::IdEquals(value) => AccessCondition::IdIs((*value).to_owned()),
        Clause::IdStartsWith(value) => AccessCondition::IdStartsWith((*value).to_owned()),
        Clause::ContainerEquals(path) => AccessCondition::ContainerIs(to_container(path)),
        Clause::ContainerStartsWith(path) => {
            AccessCondition::ContainerStartsWith(to_container(path))
        }
    };
    let to_rule = |rule: &ReferenceRule| AccessRule {
        description: String::new(),
        priority: rule.priority,
        scope: match &rule.matches {
            RuleMatch::Container(path) => AccessScope::Container(to_container(path)),
            RuleMatch::Conditions(clauses) => {
                AccessScope::Conditions(clauses.iter().map(to_condition).collect())
            }
        },
        transform: rule.transform,
        permissions: rule.permissions.iter().copied().collect(),
    };
    AccessPolicy {
        permissions: grants.permissions.iter().copied().collect(),
        rules: grants.rules.iter().map(to_rule).collect(),
    }
}

fn tenant() -> Arc<Tenant> {
    let root = RootKey::from_text("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=").unwrap();
    let wrapped = TenantKeys::create(&root, "acme").unwrap();
    let keys = TenantKeys::unwrap(&root, "acme", &wrapped).unwrap();
    let record = TenantRecord {
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
    let records = PolicyRecords::new(&keys, record);
    let (audit_key, _) = AuditKey::create(&root).unwrap();
    Arc::new(Tenant::new(Arc::new(keys), Arc::new(audit_key), records))
}

fn principal(tenant: &Arc<Tenant>, grants: &ReferenceGrants) -> Arc<Principal> {
    let (tenant, application) = (Arc::clone(tenant), ApplicationId(Uuid::nil()));
    Arc::new(Principal::new(tenant, application, Private, policy(grants)))
}

fn caller(tenant: &Arc<Tenant>, reference_caller: &ReferenceCaller) -> Caller {
    let origin = RequestOrigin { trace: "test".into(), address: [127, 0, 0, 1].into() };
    let principal = match &reference_caller.authorizer {
        None => principal(tenant, &reference_caller.grants),
        Some(grants) => {
            let authorizer = principal(tenant, grants);
            let delegated = Some(DelegatedRights {
                authorizer: Arc::clone(&authorizer),
                api_key: ApiKeyId(Uuid::nil()),
                at: Timestamp { unix_ms: 0 },
                access: policy(&reference_caller.grants),
            });
            Arc::new(Principal::for_access_session(
                AccessSessionId([1; 32]),
                &authorizer,
                delegated,
            ))
        }
    };
    Caller::new(principal, origin)
}

/// The targets of decisions: every path alone, then in pairs and triples. Built once, because
/// building takes time.
fn access_targets() -> Vec<(Vec<ContainerPath>, Containers)> {
    let mut path_sets: Vec<Vec<ContainerPath>> = PATHS.iter().map(|it| vec![*it]).collect();
    for (first_index, first) in PATHS.iter().enumerate() {
        for (second_index, second) in PATHS.iter().enumerate().skip(first_index + 1) {
            path_sets.push(vec![first, second]);
            path_sets.extend(
                PATHS.iter().skip(second_index + 1).step_by(3).map(|it| vec![*second, *it, *first]),
            );
        }
    }
    let to_containers = |paths: &[ContainerPath]| {
        let texts: Vec<_> = paths.iter().map(|it| path_text(it)).collect();
        Containers::parse(texts.iter().map(String::as_str)).unwrap()
    };
    path_sets.into_iter().map(|it| (it.clone(), to_containers(&it))).collect()
}

const SEED: u64 = 0x5C21_9000_0000_0001;
const TARGETS_PER_CALLER: usize = 100;

#[test]
fn access_decisions_agree_with_reference_rules() {
    let is_long_run = std::env::var_os("SCRIP_TEST_LONG").is_some();
    let decision_count = if is_long_run { 10_000_000 } else { 200_000 };
    let (tenant, targets) = (tenant(), access_targets());
    let ids: Vec<_> = IDS.iter().map(|it| (*it, TokenId::parse(it).unwrap())).collect();
    let mut outcomes = std::collections::BTreeMap::<_, usize>::new();
    for round in 0..decision_count / TARGETS_PER_CALLER {
        let seed = SEED + u64::try_from(round).unwrap();
        let mut random = Xorshift(seed);
        let is_session = random.below(2) == 0;
        let reference_caller = ReferenceCaller {
            grants: random.grants(is_session),
            authorizer: is_session.then(|| random.grants(false)),
        };
        let caller = caller(&tenant, &reference_caller);
        for _ in 0..TARGETS_PER_CALLER {
            let permission = random.pick(PERMISSIONS);
            let target_count = random.pick(&[PATHS.len(), targets.len()]);
            let (paths, containers) = &targets[random.below(target_count)];
            let id = ids.get(random.below(IDS.len() + 1));
            let expected = reference(&reference_caller, permission, paths, id.map(|it| it.0));
            let target = AccessTarget { containers, id: id.map(|it| &it.1) };
            let actual = caller.transform(permission, target);
            assert_eq!(
                actual, expected,
                "seed {seed:#x}: {permission:?} in {paths:?} of {id:?} by {reference_caller:?}"
            );
            *outcomes.entry((is_session, actual)).or_default() += 1;
        }
    }
    // Every outcome occurred, and often.
    assert_eq!(outcomes.len(), 8, "outcomes {outcomes:?}");
    assert!(outcomes.values().all(|it| *it > decision_count / 200), "outcomes {outcomes:?}");
}

/// Random grants without conditions on ids: the containers of such tokens are unknown before they
/// are used.
fn delegable_grants(random: &mut Xorshift) -> ReferenceGrants {
    let mut grants = random.grants(true);
    for rule in &mut grants.rules {
        if let RuleMatch::Conditions(clauses) = &mut rule.matches {
            clauses.retain(|it| !matches!(it, Clause::IdEquals(_) | Clause::IdStartsWith(_)));
            if clauses.is_empty() {
                rule.matches = RuleMatch::Container(&[]);
            }
        }
    }
    grants
}

/// Whether one grant alone exceeds the rights of the authorizer in at least one container, or
/// covers no container at all.
fn exceeds(delegated: &ReferenceGrants, authorizer: &ReferenceGrants) -> bool {
    let to_plain_rule = |it: &Permission| ReferenceRule {
        priority: 0,
        matches: RuleMatch::Container(&[]),
        transform: if *it == TokenUse { Reveal } else { Mask },
        permissions: vec![*it],
    };
    let plain_rules: Vec<_> = delegated.permissions.iter().map(to_plain_rule).collect();
    delegated.rules.iter().chain(&plain_rules).any(|rule| {
        let mut covered_paths =
            PATHS.iter().filter(|it| is_match(&rule.matches, it, None)).peekable();
        let covers_nothing = covered_paths.peek().is_none();
        let exceeds_in = |path: &ContainerPath| {
            // The transform has no meaning for a permission that shows no data.
            let exceeds_permission = |it: &Permission| match decide(authorizer, *it, path, None) {
                None => true,
                Some(transform) => it.shows_data() && transform < rule.transform,
            };
            rule.permissions.iter().any(exceeds_permission)
        };
        covers_nothing || covered_paths.any(exceeds_in)
    })
}

/// An accepted delegation is never reduced by the limit at use. A rejected delegation would exceed
/// the authorizer's rights in at least one container.
#[test]
fn delegation_is_rejected_only_for_rights_the_authorizer_lacks() {
    let (tenant, targets) = (tenant(), access_targets());
    let (mut accepted_count, mut rejected_count) = (0, 0);
    for round in 0..20_000 {
        let mut random = Xorshift(SEED + round);
        let reference_caller = ReferenceCaller {
            grants: delegable_grants(&mut random),
            authorizer: Some(random.grants(false)),
        };
        let authorizer_grants = reference_caller.authorizer.as_ref().unwrap();
        if principal(&tenant, authorizer_grants)
            .find_exceeding_permission(&policy(&reference_caller.grants))
            .is_some()
        {
            assert!(
                exceeds(&reference_caller.grants, authorizer_grants),
                "round {round}: {reference_caller:?}"
            );
            rejected_count += 1;
            continue;
        }
        accepted_count += 1;
        let caller = caller(&tenant, &reference_caller);
        for permission in PERMISSIONS {
            for (paths, containers) in targets.iter().take(PATHS.len()) {
                let expected = decide(&reference_caller.grants, *permission, paths[0], None);
                let transform = caller.transform(*permission, containers);
                assert_eq!(
                    transform.is_some(),
                    expected.is_some(),
                    "round {round}: {reference_caller:?}"
                );
                if permission.shows_data() {
                    assert_eq!(transform, expected, "round {round}: {reference_caller:?}");
                }
            }
        }
    }
    assert!(
        accepted_count > 1_000 && rejected_count > 1_000,
        "{accepted_count} accepted, {rejected_count} rejected"
    );
}
