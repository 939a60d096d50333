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
        AccessPolicy, AccessRule, AccessSessionId,
        ApplicationKind::Private,
        Caller, Condition, Name, Origin,
        Permission::{self, SessionCreate, TokenCreate, TokenRead, TokenUpdate, TokenUse},
        PolicyRecords, Principal, Quotas, Reach, Settings, Stamp, Subject, Tenant, TenantKind,
        TenantRecord,
        Transform::{self, Mask, Redact, Reveal},
        principal::Lent,
    },
    time::Timestamp,
    token::{Container, Containers},
};
use scrip_seal::{AuditKey, RootKey, TenantKeys};
use uuid::Uuid;

/// A container as the reference knows it: its segments.
type Path = &'static [&'static str];

#[derive(Debug, Clone)]
enum Matches {
    Container(Path),
    Conditions(Vec<Clause>),
}

#[derive(Debug, Clone, Copy)]
enum Clause {
    IdEquals(&'static str),
    IdStartsWith(&'static str),
    ContainerEquals(Path),
    ContainerStartsWith(Path),
}

#[derive(Debug, Clone)]
struct Rule {
    priority: i64,
    matches: Matches,
    transform: Transform,
    permissions: Vec<Permission>,
}

/// What somebody was granted.
#[derive(Debug, Clone)]
struct Held {
    permissions: Vec<Permission>,
    rules: Vec<Rule>,
}

/// A session: its own grant, and its authorizer's.
#[derive(Debug)]
struct Asker {
    own: Held,
    bound: Option<Held>,
}

/// The lowest priority number first, and among equals the first that was written; whose container
/// or all conditions match, and that grants the permission. Plain permissions reach everywhere.
fn decide(held: &Held, permission: Permission, at: Path, id: Option<&str>) -> Option<Transform> {
    let grants = |it: &&Rule| it.permissions.contains(&permission) && reaches(&it.matches, at, id);
    let first = held.rules.iter().filter(grants).min_by_key(|it| it.priority);
    if let Some(rule) = first {
        return Some(rule.transform);
    }
    let implied = if permission == TokenUse { Reveal } else { Mask };
    // Of 3-D Secure: only the containers of the rules, unless there are none.
    if permission == SessionCreate && !held.rules.is_empty() {
        let reached = held.rules.iter().any(|it| reaches(&it.matches, at, id));
        return (held.permissions.contains(&permission) && reached).then_some(implied);
    }
    held.permissions.contains(&permission).then_some(implied)
}

/// By whole segments; and a token that has no id yet meets no condition about it.
fn reaches(matches: &Matches, at: Path, id: Option<&str>) -> bool {
    let holds = |clause: &Clause| match clause {
        Clause::IdEquals(value) => id == Some(value),
        Clause::IdStartsWith(value) => id.is_some_and(|it| it.starts_with(value)),
        Clause::ContainerEquals(path) => at == *path,
        Clause::ContainerStartsWith(path) => at.starts_with(path),
    };
    match matches {
        Matches::Container(path) => at.starts_with(path),
        Matches::Conditions(clauses) => clauses.iter().all(holds),
    }
}

/// The permission is needed in every container, and the weakest transform applies; a session never
/// has more than who authorized it.
fn reference(
    asker: &Asker,
    permission: Permission,
    at: &[Path],
    id: Option<&str>,
) -> Option<Transform> {
    let mut weakest = Reveal;
    for at in at {
        weakest = weakest.min(decide(&asker.own, permission, at, id)?);
        if let Some(bound) = &asker.bound {
            weakest = weakest.min(decide(bound, permission, at, id)?);
        }
    }
    Some(weakest)
}

// Names that begin alike, so that a prefix of the text is not a parent.
const PATHS: &[Path] = &[
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
const PERMISSIONS: &[Permission] = &[TokenRead, TokenCreate, TokenUpdate, TokenUse, SessionCreate];
const TRANSFORMS: &[Transform] = &[Redact, Mask, Reveal];

/// Small and repeatable (xorshift64*).
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let drawn = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33;
        usize::try_from(drawn).unwrap() % end
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    fn some<T: Copy>(&mut self, all: &[T], most: usize) -> Vec<T> {
        (0..self.below(most + 1)).map(|_| self.of(all)).collect()
    }

    /// The shorter ones more often: they reach more.
    fn path(&mut self) -> Path {
        PATHS[self.below(PATHS.len()).min(self.below(PATHS.len()))]
    }

    fn held(&mut self, session: bool) -> Held {
        let permissions = if self.below(3) == 0 { self.some(PERMISSIONS, 2) } else { Vec::new() };
        let rules = (0..self.below(8)).map(|_| self.rule(session)).collect();
        Held { permissions, rules }
    }

    fn rule(&mut self, session: bool) -> Rule {
        let matches = if session && self.below(3) == 0 {
            Matches::Conditions((0..=self.below(2)).map(|_| self.clause()).collect())
        } else {
            Matches::Container(self.path())
        };
        let mut permissions = self.some(PERMISSIONS, 2);
        permissions.push(self.of(PERMISSIONS));
        // Few numbers, so that there are many ties.
        let priority = self.of(&[0, 1, 2]);
        Rule { priority, matches, transform: self.of(TRANSFORMS), permissions }
    }

    fn clause(&mut self) -> Clause {
        let (id, path) = (self.of(ID_VALUES), self.path());
        let all = [
            Clause::IdEquals(id),
            Clause::IdStartsWith(id),
            Clause::ContainerEquals(path),
            Clause::ContainerStartsWith(path),
        ];
        self.of(&all)
    }
}

fn text(path: Path) -> String {
    path.iter().fold("/".to_owned(), |text, segment| format!("{text}{segment}/"))
}

fn policy(held: &Held) -> AccessPolicy {
    let container = |path| Container::parse(&text(path)).unwrap();
    let condition = |clause: &Clause| match clause {
        Clause::IdEquals(value) => Condition::IdIs((*value).to_owned()),
        Clause::IdStartsWith(value) => Condition::IdStartsWith((*value).to_owned()),
        Clause::ContainerEquals(path) => Condition::ContainerIs(container(path)),
        Clause::ContainerStartsWith(path) => Condition::ContainerStartsWith(container(path)),
    };
    let rule = |rule: &Rule| AccessRule {
        description: String::new(),
        priority: rule.priority,
        reach: match &rule.matches {
            Matches::Container(path) => Reach::Container(container(path)),
            Matches::Conditions(all) => Reach::Conditions(all.iter().map(condition).collect()),
        },
        transform: rule.transform,
        permissions: rule.permissions.iter().copied().collect(),
    };
    AccessPolicy {
        permissions: held.permissions.iter().copied().collect(),
        rules: held.rules.iter().map(rule).collect(),
    }
}

fn tenant() -> Arc<Tenant> {
    let root = RootKey::from_text("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=").unwrap();
    let wrapped = TenantKeys::create(&root, "acme").unwrap();
    let keys = TenantKeys::unwrap(&root, "acme", &wrapped).unwrap();
    let record = TenantRecord {
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
    let records = PolicyRecords::new(&keys, record);
    let (audit_key, _) = AuditKey::create(&root).unwrap();
    Arc::new(Tenant::new(Arc::new(keys), Arc::new(audit_key), records))
}

fn principal(tenant: &Arc<Tenant>, held: &Held) -> Arc<Principal> {
    let (tenant, application) = (Arc::clone(tenant), ApplicationId(Uuid::nil()));
    Arc::new(Principal::new(tenant, application, Private, policy(held)))
}

fn caller(tenant: &Arc<Tenant>, asker: &Asker) -> Caller {
    let origin = Origin { trace: "test".into(), address: [127, 0, 0, 1].into() };
    let principal = match &asker.bound {
        None => principal(tenant, &asker.own),
        Some(bound) => {
            let authorizer = principal(tenant, bound);
            let lent = Some(Lent {
                authorizer: Arc::clone(&authorizer),
                api_key: ApiKeyId(Uuid::nil()),
                access: policy(&asker.own),
            });
            Arc::new(Principal::session(AccessSessionId([1; 32]), &authorizer, lent))
        }
    };
    Caller::new(principal, origin)
}

/// Every path alone, then in twos and threes; made once, for making them takes time.
fn questions() -> Vec<(Vec<Path>, Containers)> {
    let mut all: Vec<Vec<Path>> = PATHS.iter().map(|it| vec![*it]).collect();
    for (at, one) in PATHS.iter().enumerate() {
        for (further, two) in PATHS.iter().enumerate().skip(at + 1) {
            all.push(vec![one, two]);
            all.extend(PATHS.iter().skip(further + 1).step_by(3).map(|it| vec![*two, *it, *one]));
        }
    }
    let containers = |paths: &[Path]| {
        let texts: Vec<_> = paths.iter().map(|it| text(it)).collect();
        Containers::parse(texts.iter().map(String::as_str)).unwrap()
    };
    all.into_iter().map(|it| (it.clone(), containers(&it))).collect()
}

const SEED: u64 = 0x5C21_9000_0000_0001;
const QUESTIONS_EACH: usize = 100;

#[test]
fn every_decision_is_the_one_that_the_rules_say() {
    let long = std::env::var_os("SCRIP_TEST_LONG").is_some();
    let decisions = if long { 10_000_000 } else { 200_000 };
    let (tenant, questions) = (tenant(), questions());
    let ids: Vec<_> = IDS.iter().map(|it| (*it, TokenId::parse(it).unwrap())).collect();
    let mut seen = std::collections::BTreeMap::<_, usize>::new();
    for round in 0..decisions / QUESTIONS_EACH {
        let seed = SEED + u64::try_from(round).unwrap();
        let mut chance = Chance(seed);
        let session = chance.below(2) == 0;
        let asker = Asker { own: chance.held(session), bound: session.then(|| chance.held(false)) };
        let caller = caller(&tenant, &asker);
        for _ in 0..QUESTIONS_EACH {
            let permission = chance.of(PERMISSIONS);
            let range = chance.of(&[PATHS.len(), questions.len()]);
            let (paths, containers) = &questions[chance.below(range)];
            let known = ids.get(chance.below(IDS.len() + 1));
            let expected = reference(&asker, permission, paths, known.map(|it| it.0));
            let subject = Subject { containers, id: known.map(|it| &it.1) };
            let actual = caller.transform(permission, subject);
            assert_eq!(
                actual, expected,
                "seed {seed:#x}: {permission:?} in {paths:?} of {known:?} by {asker:?}"
            );
            *seen.entry((session, actual)).or_default() += 1;
        }
    }
    // Every outcome was among them, and often.
    assert_eq!(seen.len(), 8, "{seen:?}");
    assert!(seen.values().all(|it| *it > decisions / 200), "{seen:?}");
}

/// Without conditions about ids: where such tokens are cannot be told before one is used.
fn lendable(chance: &mut Chance) -> Held {
    let mut held = chance.held(true);
    for rule in &mut held.rules {
        if let Matches::Conditions(clauses) = &mut rule.matches {
            clauses.retain(|it| !matches!(it, Clause::IdEquals(_) | Clause::IdStartsWith(_)));
            if clauses.is_empty() {
                rule.matches = Matches::Container(&[]);
            }
        }
    }
    held
}

/// Whether some grant, taken by itself, is more somewhere than this holder has there; or is
/// nowhere, which nobody has to lend.
fn is_more(lent: &Held, own: &Held) -> bool {
    let plain = |it: &Permission| Rule {
        priority: 0,
        matches: Matches::Container(&[]),
        transform: if *it == TokenUse { Reveal } else { Mask },
        permissions: vec![*it],
    };
    let plain: Vec<_> = lent.permissions.iter().map(plain).collect();
    lent.rules.iter().chain(&plain).any(|rule| {
        let mut within = PATHS.iter().filter(|it| reaches(&rule.matches, it, None)).peekable();
        let nowhere = within.peek().is_none();
        let more = |at: &Path| {
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
fn what_may_be_lent_is_had_and_what_is_refused_is_more() {
    let (tenant, questions) = (tenant(), questions());
    let (mut lent, mut refused) = (0, 0);
    for round in 0..20_000 {
        let mut chance = Chance(SEED + round);
        let asker = Asker { own: lendable(&mut chance), bound: Some(chance.held(false)) };
        let bound = asker.bound.as_ref().unwrap();
        if principal(&tenant, bound).exceeds(&policy(&asker.own)).is_some() {
            assert!(is_more(&asker.own, bound), "{round}: {asker:?}");
            refused += 1;
            continue;
        }
        lent += 1;
        let caller = caller(&tenant, &asker);
        for permission in PERMISSIONS {
            for (paths, containers) in questions.iter().take(PATHS.len()) {
                let own = decide(&asker.own, *permission, paths[0], None);
                let had = caller.transform(*permission, containers);
                assert_eq!(had.is_some(), own.is_some(), "{round}: {asker:?}");
                if permission.shows_data() {
                    assert_eq!(had, own, "{round}: {asker:?}");
                }
            }
        }
    }
    assert!(lent > 1_000 && refused > 1_000, "{lent} lent, {refused} refused");
}
