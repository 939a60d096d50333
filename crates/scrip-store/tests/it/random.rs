//! Random operations, done on the model and on the embedded engine: every step ends the same.

use std::time::Duration;

use proptest::{collection::vec, prelude::*, test_runner::TestRunner};
use scrip_core::{
    permission::Permission,
    store::{
        Claimed, CvcChange, Deduplicate, InsertToken, Render, StoredToken, TokenRecord, UpdateToken,
    },
    token_type::TokenType,
};
use scrip_seal::{Fingerprint, IndexDigest, Sealed};

use crate::{
    desk::{Desk, code, record},
    listing_desk::lists,
    world::{Engine, containers},
};

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
    deduplicate: bool,
    answer: Option<u8>,
    cvc: u8,
    body: u8,
}

#[derive(Debug, Clone)]
enum Step {
    Insert(Drawn),
    /// How far from the current revision the writer thinks it is: mostly not at all.
    Update(Drawn, i64),
    Delete(usize, i64),
    Find(usize),
    List,
    Claim(u8),
    Advance(u32),
    Forget(u32),
    /// Everything whose time was over so many minutes ago.
    Sweep(u32),
    /// The other tenant goes on.
    Turn,
}

fn drawn() -> impl Strategy<Value = Drawn> {
    let identity = (0..IDS.len(), any::<bool>(), proptest::option::weighted(0.8, 0..3_u8));
    let rest = (0..CONTAINERS.len(), proptest::option::weighted(0.4, 1..10_u32), any::<bool>());
    let beside = (proptest::option::of(0..6_u8), 0..3_u8, any::<u8>());
    (identity, rest, beside).prop_map(|(identity, rest, beside)| Drawn {
        id: identity.0,
        card: identity.1,
        fingerprint: identity.2,
        containers: rest.0,
        lasts_minutes: rest.1,
        deduplicate: rest.2,
        answer: beside.0,
        cvc: beside.1,
        body: beside.2,
    })
}

fn step() -> impl Strategy<Value = Step> {
    let off = || prop_oneof![8 => Just(0_i64), 1 => Just(1), 1 => Just(-1)];
    prop_oneof![
        6 => drawn().prop_map(Step::Insert),
        4 => (drawn(), off()).prop_map(|(it, off)| Step::Update(it, off)),
        2 => (0..IDS.len(), off()).prop_map(|(id, off)| Step::Delete(id, off)),
        2 => (0..IDS.len()).prop_map(Step::Find),
        2 => Just(Step::List),
        3 => (0..6_u8).prop_map(Step::Claim),
        2 => (1..6_u32).prop_map(Step::Advance),
        1 => (20 * 60..25 * 60_u32).prop_map(Step::Advance),
        1 => (0..48 * 60_u32).prop_map(Step::Forget),
        2 => (0..3_u32).prop_map(Step::Sweep),
        1 => Just(Step::Turn),
    ]
}

fn minutes(count: u32) -> Duration {
    Duration::from_secs(u64::from(count) * 60)
}

/// A desk of one engine, and what it has been told so far.
struct Side {
    desk: Desk,
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

    fn render<T>(&self, it: &Drawn) -> Option<Render<T>> {
        let mut answer = self.desk.answer(self.digest(it.answer?));
        answer.head = Sealed::from_stored(vec![it.body]);
        answer.data = answer.data.filter(|_| it.card);
        Some(Box::new(move |_| Some(answer)))
    }

    async fn insert(&self, it: &Drawn) -> String {
        let cvc = (it.cvc > 0).then(|| code(&it.cvc.to_string()));
        let token = StoredToken { record: self.record(it), cvc };
        let insert =
            InsertToken { render: self.render(it), ..self.desk.insertion(token, deduplicate(it)) };
        let permit = self.desk.permit(Permission::TokenCreate);
        format!("{:?}", self.desk.store().insert_token(permit, insert).await)
    }

    async fn update(&self, it: &Drawn, off: i64) -> String {
        let Some(before) = self.desk.find(IDS[it.id]).await else { return "nothing".to_owned() };
        let token = TokenRecord {
            token_type: before.record.token_type,
            revision: before.record.revision + 1 + off,
            created_at: before.record.created_at,
            ..self.record(it)
        };
        let cvc = match it.cvc {
            0 => CvcChange::Keep,
            1 => CvcChange::Remove,
            _ => CvcChange::Replace(code(&it.body.to_string())),
        };
        let update = UpdateToken {
            cvc,
            render: self.render(it),
            ..self.desk.change(token, deduplicate(it))
        };
        let permit = self.desk.permit(Permission::TokenUpdate);
        format!("{:?}", self.desk.store().update_token(permit, update).await)
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

    async fn all(&self) -> String {
        let mut all = String::new();
        for id in IDS {
            all += &format!("{:?}\n", self.desk.find(id).await);
        }
        for number in 0..6 {
            all += &self.claim(number).await;
        }
        all + &lists(&self.desk).await
    }

    async fn take(mut self, step: &Step) -> (Self, String) {
        let outcome = match step {
            Step::Insert(it) => self.insert(it).await,
            Step::Update(it, off) => self.update(it, *off).await,
            Step::Delete(id, off) => self.delete(IDS[*id], *off).await,
            Step::List => lists(&self.desk).await,
            Step::Find(id) => format!("{:?}", self.desk.find(IDS[*id]).await),
            Step::Claim(number) => self.claim(*number).await,
            Step::Advance(by) => {
                self.desk.advance(minutes(*by));
                self.all().await
            }
            Step::Forget(age) => {
                let before = self.desk.now().before(minutes(*age).max(crate::desk::DAY));
                format!("{:?}", self.desk.store().forget_answers(before).await)
            }
            Step::Sweep(age) => {
                let ended = self.desk.now().before(minutes(*age));
                let swept = (self.desk.sweep(ended).await, self.desk.sweep_cvcs(ended).await);
                format!("{swept:?} {:?}", self.desk.counts().await)
            }
            Step::Turn => {
                self = Self { desk: self.desk.turned(), turned: !self.turned };
                self.all().await
            }
        };
        (self, outcome)
    }
}

fn deduplicate(it: &Drawn) -> Deduplicate {
    if it.deduplicate { Deduplicate::Yes } else { Deduplicate::No }
}

async fn compare(steps: Vec<Step>) {
    let side = async |engine| Side { desk: Desk::open(engine).await, turned: false };
    let (mut model, mut sqlite) = (side(Engine::Memory).await, side(Engine::Sqlite).await);
    for (at, step) in steps.iter().enumerate() {
        let (expected, actual);
        (model, expected) = model.take(step).await;
        (sqlite, actual) = sqlite.take(step).await;
        assert_eq!(actual, expected, "step {at}: {step:?}");
    }
    assert_eq!(sqlite.all().await, model.all().await, "at the end");
    assert_eq!(model.desk.find("absent").await, None);
}

/// A long run is for the nightly check; a short one is for every change.
#[expect(clippy::disallowed_methods, reason = "how long a test runs is no setting of the program")]
fn cases() -> u32 {
    if std::env::var("SCRIP_TEST_LONG").is_ok() { 640 } else { 64 }
}

#[test]
fn the_engine_agrees_with_the_model() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let config = ProptestConfig { cases: cases(), failure_persistence: None, ..Default::default() };
    let outcome = TestRunner::new(config).run(&vec(step(), 40), |steps| {
        runtime.block_on(compare(steps));
        Ok(())
    });
    outcome.unwrap();
}
