//! Random operations, done on the model and on the embedded engine: every step ends the same.

use std::{sync::Arc, time::Duration};

use proptest::{collection::vec, prelude::*, test_runner::TestRunner};
use scrip_core::{
    audit::{Access, Log, Operation, Seen},
    idempotency::{AnswerPart, Claimed},
    operations::logs::prune_logs::prune_logs,
    policy::{Mandate, Permission, Transform},
    time::Month,
    token::{
        CvcChange, Deduplicate, InsertToken, Render, StoredToken, TokenBatch, TokenRecord,
        TokenType, TokenWrite, UpdateToken,
    },
};
use scrip_seal::{Fingerprint, IndexDigest, Sealed};
use scrip_testing::{
    store_harness::{StoreHarness, code, record},
    vault_harness::{Engine, containers, token_id},
};
use uuid::Uuid;

use crate::listing::complete_lists::lists;

/// Few of each, so that they meet.
const IDS: [&str; 4] = ["one", "two", "three", "four"];
const CONTAINERS: [&[&str]; 4] = [&["/a/"], &["/a/", "/b/"], &["/b/", "/a/"], &["/"]];

#[derive(Debug, Clone)]
struct Drawn {
    id: usize,
    card: bool,
    fingerprint: Option<u8>,
    containers: usize,
    lasts_minutes: Option<u32>,
    deduplicate: Deduplicate,
    answered: bool,
    cvc: u8,
    body: u8,
}

#[derive(Debug, Clone)]
enum Write {
    Insert(Drawn),
    /// How far from the current revision the writer thinks it is: mostly not at all.
    Update(Drawn, i64),
}

#[derive(Debug, Clone)]
enum Step {
    /// With an idempotency key, perhaps.
    Batch(Vec<Write>, Option<u8>),
    Delete(usize, i64),
    Find(usize),
    /// As Get Token does.
    Read(usize),
    List,
    Claim(u8),
    Advance(u32),
    Forget(u32),
    /// Everything whose time was over so many minutes ago.
    Sweep(u32),
    /// So many things are shown at once.
    See(u8),
    /// Records that no quota keeps any longer.
    Prune,
    /// The other tenant goes on.
    Turn,
}

fn drawn() -> impl Strategy<Value = Drawn> {
    let identity = (0..IDS.len(), any::<bool>(), proptest::option::weighted(0.8, 0..3_u8));
    let deduplicate = prop_oneof![
        3 => Just(Deduplicate::No),
        3 => Just(Deduplicate::Yes),
        1 => Just(Deduplicate::Tell),
    ];
    let rest = (0..CONTAINERS.len(), proptest::option::weighted(0.4, 1..10_u32), deduplicate);
    let beside = (any::<bool>(), 0..3_u8, any::<u8>());
    (identity, rest, beside).prop_map(|(identity, rest, beside)| Drawn {
        id: identity.0,
        card: identity.1,
        fingerprint: identity.2,
        containers: rest.0,
        lasts_minutes: rest.1,
        deduplicate: rest.2,
        answered: beside.0,
        cvc: beside.1,
        body: beside.2,
    })
}

fn off() -> impl Strategy<Value = i64> {
    prop_oneof![8 => Just(0_i64), 1 => Just(1), 1 => Just(-1)]
}

fn write() -> impl Strategy<Value = Write> {
    prop_oneof![
        6 => drawn().prop_map(Write::Insert),
        4 => (drawn(), off()).prop_map(|(it, off)| Write::Update(it, off)),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let key = || proptest::option::of(0..6_u8);
    prop_oneof![
        6 => (vec(write(), 1), key()).prop_map(|(writes, key)| Step::Batch(writes, key)),
        6 => (vec(write(), 0..5), key()).prop_map(|(writes, key)| Step::Batch(writes, key)),
        2 => (0..IDS.len(), off()).prop_map(|(id, off)| Step::Delete(id, off)),
        2 => (0..IDS.len()).prop_map(Step::Find),
        2 => (0..IDS.len()).prop_map(Step::Read),
        2 => Just(Step::List),
        3 => (0..6_u8).prop_map(Step::Claim),
        2 => (1..6_u32).prop_map(Step::Advance),
        1 => (20 * 60..25 * 60_u32).prop_map(Step::Advance),
        // Into another month, or another year, mostly.
        1 => (20 * DAY_MINUTES..80 * DAY_MINUTES).prop_map(Step::Advance),
        1 => (0..48 * 60_u32).prop_map(Step::Forget),
        2 => (0..3_u32).prop_map(Step::Sweep),
        2 => (0..4_u8).prop_map(Step::See),
        1 => Just(Step::Prune),
        1 => Just(Step::Turn),
    ]
}

const DAY_MINUTES: u32 = 24 * 60;

fn minutes(count: u32) -> Duration {
    Duration::from_secs(u64::from(count) * 60)
}

/// A desk of one engine, and what it has been told so far.
struct Side {
    desk: StoreHarness,
    turned: bool,
}

impl Side {
    fn digest(&self, number: u8) -> [u8; 32] {
        let mut digest = [number; 32];
        // Two tenants never share one: it is keyed.
        digest[0] = u8::from(self.turned);
        digest
    }

    fn record(&self, it: &Drawn) -> TokenRecord {
        TokenRecord {
            token_type: if it.card { TokenType::Card } else { TokenType::Token },
            fingerprint: it.fingerprint.map(|it| Fingerprint([it; 32])),
            containers: containers(CONTAINERS[it.containers]),
            created_at: self.desk.now(),
            indexes: vec![IndexDigest([it.body % 3; 16]), IndexDigest([8 + it.cvc; 16])],
            expires_at: it.lasts_minutes.map(|it| self.desk.now().after(minutes(it))),
            body: Sealed::from_stored(vec![it.body]),
            ..record(IDS[it.id])
        }
    }

    /// An answer with parts for some of the writes.
    fn render(&self, writes: &[Write], key: u8) -> Render {
        let mut answer = self.desk.answer(self.digest(key));
        let drawn = |it: &Write| match it {
            Write::Insert(it) | Write::Update(it, _) => (it.answered, it.body),
        };
        answer.head = Sealed::from_stored(writes.iter().map(|it| drawn(it).1).collect());
        let part = |(at, it): (usize, &Write)| {
            let (answered, body) = drawn(it);
            answered.then(|| AnswerPart { at, sealed: Sealed::from_stored(vec![body]) })
        };
        answer.parts = writes.iter().enumerate().filter_map(part).collect();
        Box::new(move |_| Some(answer))
    }

    fn insert(&self, it: &Drawn) -> TokenWrite {
        let cvc = (it.cvc > 0).then(|| code(&it.cvc.to_string()));
        TokenWrite::Insert(InsertToken {
            intent: None,
            permit: self.desk.permit(Permission::TokenCreate),
            token: StoredToken { record: self.record(it), cvc },
            deduplicate: it.deduplicate,
            audit: self.desk.audit(Operation::CreateToken),
        })
    }

    /// Of what is there before the batch; what an earlier write of it made or changed is not it.
    async fn update(&self, it: &Drawn, off: i64) -> TokenWrite {
        let before = self.desk.find(IDS[it.id]).await.map(|it| it.record);
        let nothing = || TokenRecord { revision: 1000, ..self.record(it) };
        let before = before.unwrap_or_else(nothing);
        let token = TokenRecord {
            token_type: before.token_type,
            revision: before.revision + 1 + off,
            created_at: before.created_at,
            ..self.record(it)
        };
        let cvc = match it.cvc {
            0 => CvcChange::Keep,
            1 => CvcChange::Remove,
            _ => CvcChange::Replace(code(&it.body.to_string())),
        };
        TokenWrite::Update(UpdateToken {
            intent: None,
            permit: self.desk.permit(Permission::TokenUpdate),
            token,
            cvc,
            deduplicate: it.deduplicate,
            unless_named: None,
            audit: self.desk.audit(Operation::UpdateToken),
        })
    }

    async fn batch(&self, drawn: &[Write], key: Option<u8>) -> String {
        let mut writes = Vec::new();
        for write in drawn {
            writes.push(match write {
                Write::Insert(it) => self.insert(it),
                Write::Update(it, off) => self.update(it, *off).await,
            });
        }
        let batch = TokenBatch { writes, render: key.map(|it| self.render(drawn, it)) };
        format!("{:?}", self.desk.store().write_tokens(self.desk.inquiry(), batch).await)
    }

    async fn find_all(&self) -> String {
        let inquiry = self.desk.caller.inquire(Permission::TokenRead).unwrap();
        let ids = ["four", "absent", "one", "two", "one"].map(token_id);
        let found = self.desk.store().find_tokens(inquiry, &ids, self.desk.now()).await;
        format!("{found:?}")
    }

    async fn delete(&self, id: &str, off: i64) -> String {
        let revision = self.desk.find(id).await.map_or(0, |it| it.record.revision);
        format!("{:?}", self.desk.delete(id, revision + off).await)
    }

    /// The claim is dropped at once: in this test nobody asks while another is at it.
    async fn claim(&self, number: u8) -> String {
        match self.desk.claim(self.digest(number)).await {
            Claimed::Claim(_) => "claimed".to_owned(),
            other @ (Claimed::Answered(_) | Claimed::InFlight) => format!("{other:?}"),
        }
    }

    async fn see(&self, count: u8) -> String {
        let seen = (0..count).map(|it| Seen::new(it.to_string(), "revealed")).collect();
        let vault = &self.desk.world.vault;
        vault.record_seen(&self.desk.caller, Operation::Detokenize, seen).await.unwrap();
        self.logs().await
    }

    async fn prune(&self) -> String {
        let (vault, directory) = (&self.desk.world.vault, self.desk.world.directory().await);
        for chain in prune_logs(vault, &directory).await.unwrap() {
            while vault.store.prune_chain(chain.clone()).await.unwrap() > 0 {}
        }
        self.logs().await
    }

    /// What was recorded of this tenant; without ids and links, which are every vault's own.
    async fn logs(&self) -> String {
        let mut all = String::new();
        for log in Log::ALL {
            let tenant = self.desk.caller.tenant().id;
            for it in self.desk.store().list_records(log, tenant, 0, 10_000).await.unwrap() {
                let entity = Uuid::try_parse(&it.entity).map_or(&*it.entity, |_| "an id");
                let words = [&*it.actor_kind, &it.operation, entity, &it.outcome, &it.trace];
                all += &format!("{log:?} {} {} {words:?}\n", it.n, it.at);
            }
            let chains = self.desk.store().list_chains(log).await.unwrap();
            let mut ends: Vec<_> = chains.iter().map(|it| (it.head.n, it.oldest)).collect();
            ends.sort();
            all += &format!("{ends:?}\n");
        }
        all
    }

    async fn all(&self) -> String {
        let mut all = String::new();
        for id in IDS {
            all += &format!("{:?}\n", self.desk.find(id).await);
        }
        all += &self.find_all().await;
        for number in 0..6 {
            all += &self.claim(number).await;
        }
        all += &self.usage().await;
        all + &lists(&self.desk).await + &self.logs().await
    }

    async fn read(&self, id: &str) -> String {
        let found = self.desk.find(id).await;
        let seen = found.iter().map(|it| Seen::token(&it.record, Transform::Mask));
        self.show(seen.collect()).await;
        self.usage().await
    }

    async fn show(&self, seen: Vec<Seen>) {
        let (tenant, audit) = (self.desk.caller.tenant().id, self.desk.audit(Operation::GetToken));
        self.desk.store().record_access(Access { tenant, audit, seen }).await.unwrap();
    }

    /// What is noted without being waited for is written by then.
    async fn usage(&self) -> String {
        self.show(vec![Seen::new("", "empty")]).await;
        let mandate = Mandate::of_operator(Arc::clone(self.desk.caller.principal().tenant()));
        let month = Month::of(self.desk.now());
        let usage = self.desk.store().find_usage(&mandate, month).await.unwrap();
        format!("{usage:?}")
    }

    async fn take(mut self, step: &Step) -> (Self, String) {
        let outcome = match step {
            Step::Batch(writes, key) => self.batch(writes, *key).await,
            Step::Delete(id, off) => self.delete(IDS[*id], *off).await,
            Step::List => lists(&self.desk).await,
            Step::Read(id) => self.read(IDS[*id]).await,
            Step::Find(id) => format!("{:?}", self.desk.find(IDS[*id]).await),
            Step::Claim(number) => self.claim(*number).await,
            Step::Advance(by) => {
                self.desk.advance(minutes(*by));
                self.all().await
            }
            Step::Forget(age) => {
                let before =
                    self.desk.now().before(minutes(*age).max(scrip_testing::store_harness::DAY));
                format!("{:?}", self.desk.store().forget_answers(before).await)
            }
            Step::Sweep(age) => {
                let ended = self.desk.now().before(minutes(*age));
                let swept = (self.desk.sweep(ended).await, self.desk.sweep_cvcs(ended).await);
                let month = Month::of(self.desk.now());
                let usage = (self.usage().await, self.desk.sweep_usage(month).await);
                format!("{swept:?} {usage:?} {:?} {}", self.desk.counts().await, self.usage().await)
            }
            Step::See(count) => self.see(*count).await,
            Step::Prune => self.prune().await,
            Step::Turn => {
                self = Self { desk: self.desk.turned(), turned: !self.turned };
                self.all().await
            }
        };
        (self, outcome)
    }
}

async fn compare(engine: Engine, steps: Vec<Step>) {
    let side = async |engine| Side { desk: StoreHarness::open(engine).await, turned: false };
    let (mut model, mut tried) = (side(Engine::Memory).await, side(engine).await);
    for (at, step) in steps.iter().enumerate() {
        let (expected, actual);
        (model, expected) = model.take(step).await;
        (tried, actual) = tried.take(step).await;
        assert_eq!(actual, expected, "step {at}: {step:?}");
    }
    assert_eq!(tried.all().await, model.all().await, "at the end");
    assert_eq!(model.desk.find("absent").await, None);
}

/// A long run is for the nightly check; a short one is for every change.
#[expect(clippy::disallowed_methods, reason = "how long a test runs is no setting of the program")]
fn cases() -> u32 {
    if std::env::var("SCRIP_TEST_LONG").is_ok() { 640 } else { 64 }
}

#[test]
fn the_engine_agrees_with_the_model() {
    agree(Engine::Sqlite);
}

#[test]
fn postgres_agrees_with_the_model() {
    agree(Engine::Postgres);
}

fn agree(engine: Engine) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    // A database for each, which takes longer than all that is done in it.
    let cases = if matches!(engine, Engine::Postgres) { cases() / 4 } else { cases() };
    let config = ProptestConfig { cases, failure_persistence: None, ..Default::default() };
    let outcome = TestRunner::new(config).run(&vec(step(), 40), |steps| {
        runtime.block_on(compare(engine, steps));
        Ok(())
    });
    outcome.unwrap();
}
