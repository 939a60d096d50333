//! Whatever happens to sessions, in whatever order, and wherever a process dies: what is stored is
//! what the machine says, nobody is asked twice, and what is told is what happened.

use std::{cell::RefCell, collections::BTreeSet};

use proptest::{
    collection::vec,
    prelude::*,
    sample::select,
    test_runner::{RngAlgorithm, TestRng, TestRunner},
};
use scrip_core::threeds::Unanswered;
use scrip_testing::vault_harness::Engine;

use crate::sessions::{
    model::{DAY_SECONDS, Kind},
    simulation::SessionSimulation,
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
        _ => prop_oneof![
            10 => Just(vec![]),
            5 => vec(step(depth - 1), 1..4),
            1 => Just(vec![Step::Advance(DAY_SECONDS + 60 * 60), Step::Sweep]),
        ]
        .boxed(),
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
        4 => Just(Forged::Nothing),
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
        10 => result(depth),
        4 => (pair(), told, trip(depth))
            .prop_map(|((of, about), status, trip)| Step::Told { of, about, status, trip }),
        3 => (0..SESSIONS, trip(depth)).prop_map(|(of, trip)| Step::AskResult { of, trip }),
        3 => short.prop_map(Step::Advance),
        1 => long.prop_map(Step::Advance),
        1 => Just(Step::Sweep),
    ]
    .boxed()
}

/// A new session that is challenged at once: chance alone seldom comes so far.
fn challenged() -> impl Strategy<Value = Vec<Step>> {
    let kind = select(vec![Kind::Page, Kind::Browser, Kind::App]);
    let meanwhile = prop_oneof![2 => Just(vec![]), 1 => vec(step(1), 1..3)];
    (kind, select(vec!["C", "D"]), meanwhile).prop_map(|(kind, reply, meanwhile)| {
        let device = Step::Device { of: 0, trip: Trip::Go };
        vec![Step::Create(kind, Trip::Go), device, authenticated(0, reply, meanwhile)]
    })
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let some = prop_oneof![8 => step(2).prop_map(|it| vec![it]), 1 => challenged()];
    vec(some, 30).prop_map(|it| it.concat())
}

/// A long run is for the nightly check; a short one is for every change.
#[expect(clippy::disallowed_methods, reason = "how long a test runs is no setting of the program")]
fn cases(each: u32) -> u32 {
    if std::env::var("SCRIP_TEST_LONG").is_ok() { 10 * each } else { each }
}

fn play_on(engine: Engine, each: u32, needed: &[&str]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let config = ProptestConfig {
        cases: cases(each),
        failure_persistence: None,
        max_shrink_iters: 200,
        ..Default::default()
    };
    let chance = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let met = RefCell::new(BTreeSet::new());
    let outcome = TestRunner::new_with_rng(config, chance).run(&steps(), |steps| {
        runtime.block_on(async {
            let mut play = SessionSimulation::open(engine).await;
            play.play_all(&steps).await;
            met.borrow_mut().extend(play.met);
        });
        Ok(())
    });
    outcome.unwrap();
    let met = met.into_inner();
    for needed in needed {
        assert!(met.contains(*needed), "{needed:?} never happened: {met:?}");
    }
}

/// What has to happen at least once, or the play shows nothing.
const NEEDED: &[&str] = &[
    "a session that asked was gone",
    "authenticate_session asked",
    "authenticate_session attempted",
    "authenticate_session challenge",
    "authenticate_session decoupled_challenge",
    "authenticate_session failed",
    "authenticate_session informational",
    "authenticate_session rejected",
    "authenticate_session successful",
    "authenticate_session unavailable",
    "expire_session expired",
    "forged Acs 301",
    "forged Ds 301",
    "forged Message 301",
    "forged Secret 301",
    "get_challenge_result read",
    "notify_challenge done",
    "notify_method done",
    "receive_result done",
    "result 402",
    "somebody was faster",
    "update_session updated",
];

#[test]
fn the_model_keeps_sessions_as_the_machine_says() {
    play_on(Engine::Memory, 200, NEEDED);
}

#[test]
fn the_engine_keeps_sessions_as_the_machine_says() {
    // The first of the same steps.
    let needed = ["a session that asked was gone", "receive_result done", "somebody was faster"];
    play_on(Engine::Sqlite, 40, &needed);
}

fn authenticated(of: usize, reply: &'static str, meanwhile: Vec<Step>) -> Step {
    let (first, reply, second) = (Trip::Go, Reply::Status(reply), Trip::Go);
    let decoupled = true;
    Step::Authenticate(Box::new(Authenticate { of, decoupled, first, meanwhile, reply, second }))
}

fn posted(of: usize, forged: Forged) -> Step {
    Step::Result { of, forged, with: 1 - of, status: "Y", trip: Trip::Go }
}

/// What chance finds too, said once in order.
#[tokio::test]
async fn what_is_not_the_sessions_own_changes_nothing() {
    let mut steps = vec![Step::Create(Kind::Page, Trip::Go), Step::Create(Kind::Browser, Trip::Go)];
    let forged = [Forged::Secret, Forged::Message, Forged::Acs, Forged::Ds];
    for of in [0, 1] {
        steps.push(authenticated(of, "C", forged.map(|it| posted(1 - of, it)).to_vec()));
    }
    for of in [0, 1] {
        steps.extend(forged.map(|it| posted(of, it)));
        steps.push(Step::AskResult { of, trip: Trip::Go });
        steps.push(posted(of, Forged::Nothing));
        steps.push(posted(of, Forged::Nothing));
        steps.push(Step::Told { of, about: of, status: Some("N"), trip: Trip::Go });
        steps.push(Step::AskResult { of, trip: Trip::Go });
    }
    steps.push(Step::Create(Kind::App, Trip::Go));
    steps.push(Step::Device { of: 0, trip: Trip::Go });
    let gone = vec![Step::Advance(DAY_SECONDS + 60 * 60), Step::Sweep];
    steps.push(authenticated(0, "Y", gone));
    for engine in [Engine::Memory, Engine::Sqlite, Engine::Postgres] {
        let mut play = SessionSimulation::open(engine).await;
        play.play_all(&steps).await;
        for met in ["receive_result done", "forged Ds 301", "a session that asked was gone"] {
            assert!(play.met.contains(met), "{met}: {:?}", play.met);
        }
    }
}

#[test]
fn postgres_keeps_sessions_as_the_machine_says() {
    // As many as for the other engine, whose commits are as slow.
    let needed = ["receive_result done", "somebody was faster"];
    play_on(Engine::Postgres, 40, &needed);
}
