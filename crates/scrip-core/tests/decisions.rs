//! Random decisions against a reference: the access rules of the wire, word by word.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "clippy.toml exempts #[test] functions but not the helpers of a test crate"
)]

use std::sync::Arc;

use scrip_core::{
    id::{ApiKeyId, ApplicationId, TenantId, TokenId},
    policy::{
        AccessCondition, AccessPolicy, AccessRule, AccessScope, AccessSessionId, AccessTarget,
        ApplicationKind::Private,
        Caller, ChangeStamp, DisplayName,
        Permission::{self, ThreeDsSessionCreate, TokenCreate, TokenRead, TokenUpdate, TokenUse},
        PolicyRecords, Principal, Quotas, RequestOrigin, Tenant, TenantKind, TenantRecord,
        TenantSettings,
        Transform::{self, Mask, Redact, Reveal},
        principal::DelegatedRights,
    },
    time::Timestamp,
    token::{Container, Containers},
};
use scrip_seal::{AuditKey, RootKey, TenantKeys};
use uuid::Uuid;

/// A container as the reference knows it: its segments.
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

/// What somebody was granted.
#[derive(Debug, Clone)]
struct ReferenceGrants {
    permissions: Vec<Permission>,
    rules: Vec<ReferenceRule>,
}

/// A session: its own grant, and its authorizer's.
#[derive(Debug)]
struct ReferenceCaller {
    own: ReferenceGrants,
    bound: Option<ReferenceGrants>,
}

/// The lowest priority number first, and among equals the first that was written; whose container
/// or all conditions match, and that grants the permission. Plain permissions reach everywhere.
fn decide(
    granted: &ReferenceGrants,
    permission: Permission,
    at: ContainerPath,
    id: Option<&str>,
) -> Option<Transform> {
    let grants =
        |it: &&ReferenceRule| it.permissions.contains(&permission) && is_match(&it.matches, at, id);
    let first = granted.rules.iter().filter(grants).min_by_key(|it| it.priority);
    if let Some(rule) = first {
        return Some(rule.transform);
    }
    let implied = if permission == TokenUse { Reveal } else { Mask };
    // Of 3-D Secure: only the containers of the rules, unless there are none.
    if permission == ThreeDsSessionCreate && !granted.rules.is_empty() {
        let reached = granted.rules.iter().any(|it| is_match(&it.matches, at, id));
        return (granted.permissions.contains(&permission) && reached).then_some(implied);
    }
    granted.permissions.contains(&permission).then_some(implied)
}

/// By whole segments; and a token that has no id yet meets no condition about it.
fn is_match(matches: &RuleMatch, at: ContainerPath, id: Option<&str>) -> bool {
    let holds = |clause: &Clause| match clause {
        Clause::IdEquals(value) => id == Some(value),
        Clause::IdStartsWith(value) => id.is_some_and(|it| it.starts_with(value)),
        Clause::ContainerEquals(path) => at == *path,
        Clause::ContainerStartsWith(path) => at.starts_with(path),
    };
    match matches {
        RuleMatch::Container(path) => at.starts_with(path),
        RuleMatch::Conditions(clauses) => clauses.iter().all(holds),
    }
}

/// The permission is needed in every container, and the weakest transform applies; a session never
/// has more than who authorized it.
fn reference(
    reference_caller: &ReferenceCaller,
    permission: Permission,
    at: &[ContainerPath],
    id: Option<&str>,
) -> Option<Transform> {
    let mut weakest = Reveal;
    for at in at {
        weakest = weakest.min(decide(&reference_caller.own, permission, at, id)?);
        if let Some(bound) = &reference_caller.bound {
            weakest = weakest.min(decide(bound, permission, at, id)?);
        }
    }
    Some(weakest)
}

// Names that begin alike, so that a prefix of the text is not a parent.
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

/// Small and repeatable (xorshift64*).
struct Xorshift(u64);

impl Xorshift {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let drawn = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33;
        usize::try_from(drawn).unwrap() % end
    }

    fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    fn pick_some<T: Copy>(&mut self, all: &[T], most: usize) -> Vec<T> {
        (0..self.below(most + 1)).map(|_| self.pick(all)).collect()
    }

    /// The shorter ones more often: they reach more.
    fn path(&mut self) -> ContainerPath {
        PATHS[self.below(PATHS.len()).min(self.below(PATHS.len()))]
    }

    fn grants(&mut self, session: bool) -> ReferenceGrants {
        let permissions =
            if self.below(3) == 0 { self.pick_some(PERMISSIONS, 2) } else { Vec::new() };
        let rules = (0..self.below(8)).map(|_| self.rule(session)).collect();
        ReferenceGrants { permissions, rules }
    }

    fn rule(&mut self, session: bool) -> ReferenceRule {
        let matches = if session && self.below(3) == 0 {
            RuleMatch::Conditions((0..=self.below(2)).map(|_| self.clause()).collect())
        } else {
            RuleMatch::Container(self.path())
        };
        let mut permissions = self.pick_some(PERMISSIONS, 2);
        permissions.push(self.pick(PERMISSIONS));
        // Few numbers, so that there are many ties.
        let priority = self.pick(&[0, 1, 2]);
        ReferenceRule { priority, matches, transform: self.pick(TRANSFORMS), permissions }
    }

    fn clause(&mut self) -> Clause {
        let (id, path) = (self.pick(ID_VALUES), self.path());
        let all = [
            Clause::IdEquals(id),
            Clause::IdStartsWith(id),
            Clause::ContainerEquals(path),
            Clause::ContainerStartsWith(path),
        ];
        self.pick(&all)
    }
}

fn text(path: ContainerPath) -> String {
    path.iter().fold("/".to_owned(), |text, segment| format!("{text}{segment}/"))
}

fn policy(grants: &ReferenceGrants) -> AccessPolicy {
    let container = |path| Container::parse(&text(path)).unwrap();
    let condition = |clause: &Clause| match clause {
        Clause::IdEquals(value) => AccessCondition::IdIs((*value).to_owned()),
        Clause::IdStartsWith(value) => AccessCondition::IdStartsWith((*value).to_owned()),
        Clause::ContainerEquals(path) => AccessCondition::ContainerIs(container(path)),
        Clause::ContainerStartsWith(path) => AccessCondition::ContainerStartsWith(container(path)),
    };
    let rule = |rule: &ReferenceRule| AccessRule {
        description: String::new(),
        priority: rule.priority,
        scope: match &rule.matches {
            RuleMatch::Container(path) => AccessScope::Container(container(path)),
            RuleMatch::Conditions(all) => {
                AccessScope::Conditions(all.iter().map(condition).collect())
            }
        },
        transform: rule.transform,
        parse_permissions: rule.permissions.iter().copied().collect(),
    };
    AccessPolicy {
        parse_permissions: grants.permissions.iter().copied().collect(),
        rules: grants.rules.iter().map(rule).collect(),
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
    let principal = match &reference_caller.bound {
        None => principal(tenant, &reference_caller.own),
        Some(bound) => {
            let authorizer = principal(tenant, bound);
            let delegated = Some(DelegatedRights {
                authorizer: Arc::clone(&authorizer),
                api_key: ApiKeyId(Uuid::nil()),
                access: policy(&reference_caller.own),
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

/// Every path alone, then in twos and threes; made once, for making them takes time.
fn access_questions() -> Vec<(Vec<ContainerPath>, Containers)> {
    let mut all: Vec<Vec<ContainerPath>> = PATHS.iter().map(|it| vec![*it]).collect();
    for (at, one) in PATHS.iter().enumerate() {
        for (further, two) in PATHS.iter().enumerate().skip(at + 1) {
            all.push(vec![one, two]);
            all.extend(PATHS.iter().skip(further + 1).step_by(3).map(|it| vec![*two, *it, *one]));
        }
    }
    let containers = |paths: &[ContainerPath]| {
        let texts: Vec<_> = paths.iter().map(|it| text(it)).collect();
        Containers::parse(texts.iter().map(String::as_str)).unwrap()
    };
    all.into_iter().map(|it| (it.clone(), containers(&it))).collect()
}

const SEED: u64 = 0x5C21_9000_0000_0001;
const QUESTIONS_EACH: usize = 100;

#[test]
fn access_decisions_agree_with_reference_rules() {
    let long = std::env::var_os("SCRIP_TEST_LONG").is_some();
    let decisions = if long { 10_000_000 } else { 200_000 };
    let (tenant, questions) = (tenant(), access_questions());
    let ids: Vec<_> = IDS.iter().map(|it| (*it, TokenId::parse(it).unwrap())).collect();
    let mut outcomes = std::collections::BTreeMap::<_, usize>::new();
    for round in 0..decisions / QUESTIONS_EACH {
        let seed = SEED + u64::try_from(round).unwrap();
        let mut random = Xorshift(seed);
        let session = random.below(2) == 0;
        let reference_caller = ReferenceCaller {
            own: random.grants(session),
            bound: session.then(|| random.grants(false)),
        };
        let caller = caller(&tenant, &reference_caller);
        for _ in 0..QUESTIONS_EACH {
            let permission = random.pick(PERMISSIONS);
            let range = random.pick(&[PATHS.len(), questions.len()]);
            let (paths, containers) = &questions[random.below(range)];
            let known = ids.get(random.below(IDS.len() + 1));
            let expected = reference(&reference_caller, permission, paths, known.map(|it| it.0));
            let subject = AccessTarget { containers, id: known.map(|it| &it.1) };
            let actual = caller.transform(permission, subject);
            assert_eq!(
                actual, expected,
                "seed {seed:#x}: {permission:?} in {paths:?} of {known:?} by {reference_caller:?}"
            );
            *outcomes.entry((session, actual)).or_default() += 1;
        }
    }
    // Every outcome was among them, and often.
    assert_eq!(outcomes.len(), 8, "{outcomes:?}");
    assert!(outcomes.values().all(|it| *it > decisions / 200), "{outcomes:?}");
}

/// Without conditions about ids: where such tokens are cannot be told before one is used.
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

/// Whether some grant, taken by itself, is more somewhere than this holder has there; or is
/// nowhere, which nobody has to lend.
fn exceeds(delegated: &ReferenceGrants, own: &ReferenceGrants) -> bool {
    let plain = |it: &Permission| ReferenceRule {
        priority: 0,
        matches: RuleMatch::Container(&[]),
        transform: if *it == TokenUse { Reveal } else { Mask },
        permissions: vec![*it],
    };
    let plain: Vec<_> = delegated.permissions.iter().map(plain).collect();
    delegated.rules.iter().chain(&plain).any(|rule| {
        let mut within = PATHS.iter().filter(|it| is_match(&rule.matches, it, None)).peekable();
        let nowhere = within.peek().is_none();
        let more = |at: &ContainerPath| {
            // A transform says nothing about a permission that shows no data.
            let exceeds = |it: &Permission| match decide(own, *it, at, None) {
                None => true,
                Some(had) => it.shows_data() && had < rule.transform,
            };
            rule.permissions.iter().any(exceeds)
        };
        nowhere || within.any(more)
    })
}

/// What is lent without being refused is had: the bound that is applied at every use takes nothing
/// away then. And what is refused would have been more somewhere.
#[test]
fn delegation_is_rejected_only_for_rights_the_authorizer_lacks() {
    let (tenant, questions) = (tenant(), access_questions());
    let (mut accepted, mut rejected) = (0, 0);
    for round in 0..20_000 {
        let mut random = Xorshift(SEED + round);
        let reference_caller = ReferenceCaller {
            own: delegable_grants(&mut random),
            bound: Some(random.grants(false)),
        };
        let bound = reference_caller.bound.as_ref().unwrap();
        if principal(&tenant, bound)
            .find_exceeding_permission(&policy(&reference_caller.own))
            .is_some()
        {
            assert!(exceeds(&reference_caller.own, bound), "{round}: {reference_caller:?}");
            rejected += 1;
            continue;
        }
        accepted += 1;
        let caller = caller(&tenant, &reference_caller);
        for permission in PERMISSIONS {
            for (paths, containers) in questions.iter().take(PATHS.len()) {
                let own = decide(&reference_caller.own, *permission, paths[0], None);
                let transform = caller.transform(*permission, containers);
                assert_eq!(transform.is_some(), own.is_some(), "{round}: {reference_caller:?}");
                if permission.shows_data() {
                    assert_eq!(transform, own, "{round}: {reference_caller:?}");
                }
            }
        }
    }
    assert!(accepted > 1_000 && rejected > 1_000, "{accepted} lent, {rejected} refused");
}
