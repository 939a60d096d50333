//! Whatever happens to sessions, in whatever order, and wherever a process dies: what is stored is
//! what the machine says, nobody is asked twice, and what is told is what happened.

use proptest::{
    collection::vec,
    prelude::*,
    sample::select,
    test_runner::{RngAlgorithm, TestRng, TestRunner},
};
use scrip_core::threeds::Unanswered;

use crate::{
    sessions_model::{DAY_SECONDS, Kind},
    sessions_play::Play,
    world::Engine,
};

/// What becomes of a write.
#[derive(Debug, Clone)]
pub(crate) enum Trip {
    Go,
    Fail,
    GoAndFail,
    /// The process dies before it.
    Die,
    /// Others come first.
    Wait(Vec<Step>),
}

/// What the directory server says.
#[derive(Debug, Clone)]
pub(crate) enum Reply {
    Status(&'static str),
    /// About another session.
    Other,
    Erro,
    Garbage,
    Unanswered(Unanswered),
    /// The process dies while it waits.
    Dies,
}

/// What of a result is not this session's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Forged {
    Nothing,
    Secret,
    /// The other session's whole message, with this one's secret.
    Message,
    Acs,
    Ds,
}

#[derive(Debug, Clone)]
pub(crate) enum Step {
    Create(Kind, Trip),
    Method { of: usize, about: usize, trip: Trip },
    Device { of: usize, trip: Trip },
    Authenticate(Box<Authenticate>),
    Result { of: usize, forged: Forged, with: usize, status: &'static str, trip: Trip },
    Told { of: usize, about: usize, status: Option<&'static str>, trip: Trip },
    AskResult { of: usize, trip: Trip },
    Advance(i64),
    Sweep,
}

#[derive(Debug, Clone)]
pub(crate) struct Authenticate {
    pub(crate) of: usize,
    pub(crate) decoupled: bool,
    pub(crate) first: Trip,
    pub(crate) meanwhile: Vec<Step>,
    pub(crate) reply: Reply,
    pub(crate) second: Trip,
}

impl Trip {
    pub(crate) fn writes(&self) -> bool {
        matches!(self, Self::Go | Self::GoAndFail | Self::Wait(_))
    }
}

fn trip(depth: u32) -> BoxedStrategy<Trip> {
    let plain = prop_oneof![
        12 => Just(Trip::Go),
        1 => Just(Trip::Fail),
        1 => Just(Trip::GoAndFail),
        1 => Just(Trip::Die),
    ];
    if depth == 0 {
        return plain.boxed();
    }
    prop_oneof![5 => plain, 1 => vec(step(depth - 1), 1..4).prop_map(Trip::Wait)].boxed()
}

fn reply() -> impl Strategy<Value = Reply> {
    prop_oneof![
        12 => select(vec!["C", "C", "C", "D", "D", "Y", "N", "A", "U", "R", "I"])
            .prop_map(Reply::Status),
        1 => Just(Reply::Other),
        1 => Just(Reply::Erro),
        1 => Just(Reply::Garbage),
        1 => Just(Reply::Unanswered(Unanswered::TimedOut)),
        1 => Just(Reply::Unanswered(Unanswered::Broken)),
        3 => Just(Reply::Unanswered(Unanswered::NotSent)),
        1 => Just(Reply::Dies),
    ]
}

fn authenticate(depth: u32) -> BoxedStrategy<Step> {
    let meanwhile = match depth {
        0 => Just(vec![]).boxed(),
        _ => prop_oneof![2 => Just(vec![]), 1 => vec(step(depth - 1), 1..4)].boxed(),
    };
    (0..SESSIONS, any::<bool>(), trip(depth), meanwhile, reply(), trip(depth))
        .prop_map(|(of, decoupled, first, meanwhile, reply, second)| {
            let step = Authenticate { of, decoupled, first, meanwhile, reply, second };
            Step::Authenticate(Box::new(step))
        })
        .boxed()
}

/// So few that they meet.
const SESSIONS: usize = 3;

/// A session, and mostly the same once more.
fn pair() -> impl Strategy<Value = (usize, usize)> {
    prop_oneof![
        4 => (0..SESSIONS).prop_map(|it| (it, it)),
        1 => (0..SESSIONS, 0..SESSIONS),
    ]
}

fn result(depth: u32) -> impl Strategy<Value = Step> {
    let forged = prop_oneof![
        5 => Just(Forged::Nothing),
        1 => Just(Forged::Secret),
        1 => Just(Forged::Message),
        1 => Just(Forged::Acs),
        1 => Just(Forged::Ds),
    ];
    let status = select(vec!["Y", "Y", "A", "N", "U", "R", "C"]);
    (0..SESSIONS, forged, 0..SESSIONS, status, trip(depth)).prop_map(
        |(of, forged, with, status, trip)| Step::Result { of, forged, with, status, trip },
    )
}

fn step(depth: u32) -> BoxedStrategy<Step> {
    let kind = select(vec![Kind::Page, Kind::Page, Kind::Browser, Kind::App, Kind::Merchant]);
    let told = select(vec![None, Some("Y"), Some("N")]);
    let short = prop_oneof![3 => 1..20_i64, 1 => Just(61), 2 => Just(6 * 60)];
    let long = select(vec![60 * 60, DAY_SECONDS, DAY_SECONDS + 60 * 60]);
    prop_oneof![
        3 => (kind, trip(depth)).prop_map(|(kind, trip)| Step::Create(kind, trip)),
        4 => (pair(), trip(depth))
            .prop_map(|((of, about), trip)| Step::Method { of, about, trip }),
        2 => (0..SESSIONS, trip(depth)).prop_map(|(of, trip)| Step::Device { of, trip }),
        8 => authenticate(depth),
        6 => result(depth),
        4 => (pair(), told, trip(depth))
            .prop_map(|((of, about), status, trip)| Step::Told { of, about, status, trip }),
        3 => (0..SESSIONS, trip(depth)).prop_map(|(of, trip)| Step::AskResult { of, trip }),
        3 => short.prop_map(Step::Advance),
        1 => long.prop_map(Step::Advance),
        1 => Just(Step::Sweep),
    ]
    .boxed()
}

/// A long run is for the nightly check; a short one is for every change.
#[expect(clippy::disallowed_methods, reason = "how long a test runs is no setting of the program")]
fn cases() -> u32 {
    if std::env::var("SCRIP_TEST_LONG").is_ok() { 2_000 } else { 200 }
}

fn play_on(engine: Engine) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let config = ProptestConfig {
        cases: cases(),
        failure_persistence: None,
        max_shrink_iters: 200,
        ..Default::default()
    };
    let chance = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let outcome = TestRunner::new_with_rng(config, chance).run(&vec(step(2), 30), |steps| {
        runtime.block_on(async {
            let mut play = Play::open(engine).await;
            play.play_all(&steps).await;
        });
        Ok(())
    });
    outcome.unwrap();
}

#[test]
fn the_model_keeps_sessions_as_the_machine_says() {
    play_on(Engine::Memory);
}

#[test]
fn the_engine_keeps_sessions_as_the_machine_says() {
    play_on(Engine::Sqlite);
}

#[test]
fn postgres_keeps_sessions_as_the_machine_says() {
    play_on(Engine::Postgres);
}
