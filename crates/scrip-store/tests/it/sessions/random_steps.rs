//! Whatever happens to sessions, in whatever order, and wherever a process dies: what is stored is
//! what the machine says, nobody is asked twice, and what is told is what happened.

use std::{cell::RefCell, collections::BTreeSet};

use proptest::{
    collection::vec,
    prelude::*,
    sample::select,
    test_runner::{RngAlgorithm, TestRng, TestRunner},
};
use scrip_core::threeds::DirectoryServerError;
use scrip_testing::vault_harness::Engine;

use crate::sessions::{
    model::{DAY_SECONDS, ModelDevice},
    simulation::SessionSimulation,
};

/// What becomes of a write.
#[derive(Debug, Clone)]
pub(crate) enum WriteFate {
    Commit,
    Fail,
    CommitAndFail,
    /// The process dies before it.
    Die,
    /// Others come first.
    Wait(Vec<SessionStep>),
}

/// What the directory server says.
#[derive(Debug, Clone)]
pub(crate) enum ServerReply {
    Status(&'static str),
    /// About another session.
    OtherSession,
    ErrorMessage,
    Garbage,
    Unanswered(DirectoryServerError),
    /// The process dies while it waits.
    ProcessDies,
}

/// What of a result is not this session's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ForgedPart {
    Nothing,
    Secret,
    /// The other session's whole message, with this one's secret.
    Message,
    Acs,
    Ds,
}

#[derive(Debug, Clone)]
pub(crate) enum SessionStep {
    Create(ModelDevice, WriteFate),
    Method {
        session: usize,
        about_session: usize,
        fate: WriteFate,
    },
    Device {
        session: usize,
        fate: WriteFate,
    },
    Authenticate(Box<AuthenticateStep>),
    Result {
        session: usize,
        forged: ForgedPart,
        other: usize,
        status: &'static str,
        fate: WriteFate,
    },
    ChallengeNotification {
        session: usize,
        about_session: usize,
        status: Option<&'static str>,
        fate: WriteFate,
    },
    GetChallengeResult {
        session: usize,
        fate: WriteFate,
    },
    Advance(i64),
    Sweep,
}

#[derive(Debug, Clone)]
pub(crate) struct AuthenticateStep {
    pub(crate) session: usize,
    pub(crate) decoupled: bool,
    pub(crate) first_write: WriteFate,
    pub(crate) meanwhile: Vec<SessionStep>,
    pub(crate) reply: ServerReply,
    pub(crate) second_write: WriteFate,
}

impl WriteFate {
    pub(crate) fn commits(&self) -> bool {
        matches!(self, Self::Commit | Self::CommitAndFail | Self::Wait(_))
    }
}

fn write_fate(depth: u32) -> BoxedStrategy<WriteFate> {
    let plain = prop_oneof![
        12 => Just(WriteFate::Commit),
        1 => Just(WriteFate::Fail),
        1 => Just(WriteFate::CommitAndFail),
        1 => Just(WriteFate::Die),
    ];
    if depth == 0 {
        return plain.boxed();
    }
    prop_oneof![5 => plain, 1 => vec(session_step(depth - 1), 1..4).prop_map(WriteFate::Wait)]
        .boxed()
}

fn server_reply() -> impl Strategy<Value = ServerReply> {
    prop_oneof![
        12 => select(vec!["C", "C", "C", "D", "D", "Y", "N", "A", "U", "R", "I"])
            .prop_map(ServerReply::Status),
        1 => Just(ServerReply::OtherSession),
        1 => Just(ServerReply::ErrorMessage),
        1 => Just(ServerReply::Garbage),
        1 => Just(ServerReply::Unanswered(DirectoryServerError::TimedOut)),
        1 => Just(ServerReply::Unanswered(DirectoryServerError::Broken)),
        3 => Just(ServerReply::Unanswered(DirectoryServerError::NotSent)),
        1 => Just(ServerReply::ProcessDies),
    ]
}

fn authenticate_step(depth: u32) -> BoxedStrategy<SessionStep> {
    let meanwhile = match depth {
        0 => Just(vec![]).boxed(),
        _ => prop_oneof![
            10 => Just(vec![]),
            5 => vec(session_step(depth - 1), 1..4),
            1 => Just(vec![SessionStep::Advance(DAY_SECONDS + 60 * 60), SessionStep::Sweep]),
        ]
        .boxed(),
    };
    (0..SESSIONS, any::<bool>(), write_fate(depth), meanwhile, server_reply(), write_fate(depth))
        .prop_map(|(of, decoupled, first, meanwhile, reply, second)| {
            let step = AuthenticateStep {
                session: of,
                decoupled,
                first_write: first,
                meanwhile,
                reply,
                second_write: second,
            };
            SessionStep::Authenticate(Box::new(step))
        })
        .boxed()
}

/// So few that they meet.
const SESSIONS: usize = 3;

/// A session, and mostly the same once more.
fn session_pair() -> impl Strategy<Value = (usize, usize)> {
    prop_oneof![
        4 => (0..SESSIONS).prop_map(|it| (it, it)),
        1 => (0..SESSIONS, 0..SESSIONS),
    ]
}

fn result_step(depth: u32) -> impl Strategy<Value = SessionStep> {
    let forged = prop_oneof![
        4 => Just(ForgedPart::Nothing),
        1 => Just(ForgedPart::Secret),
        1 => Just(ForgedPart::Message),
        1 => Just(ForgedPart::Acs),
        1 => Just(ForgedPart::Ds),
    ];
    let status = select(vec!["Y", "Y", "A", "N", "U", "R", "C"]);
    (0..SESSIONS, forged, 0..SESSIONS, status, write_fate(depth)).prop_map(
        |(session, forged, other, status, fate)| SessionStep::Result {
            session,
            forged,
            other,
            status,
            fate,
        },
    )
}

fn session_step(depth: u32) -> BoxedStrategy<SessionStep> {
    let kind = select(vec![
        ModelDevice::BrowserWithMethod,
        ModelDevice::BrowserWithMethod,
        ModelDevice::Browser,
        ModelDevice::App,
        ModelDevice::Merchant,
    ]);
    let told = select(vec![None, Some("Y"), Some("N")]);
    let short = prop_oneof![3 => 1..20_i64, 1 => Just(61), 2 => Just(6 * 60)];
    let long = select(vec![60 * 60, DAY_SECONDS, DAY_SECONDS + 60 * 60]);
    prop_oneof![
        3 => (kind, write_fate(depth)).prop_map(|(kind, trip)| SessionStep::Create(kind, trip)),
        4 => (session_pair(), write_fate(depth))
            .prop_map(|((session, about_session), fate)| SessionStep::Method { session, about_session, fate }),
        2 => (0..SESSIONS, write_fate(depth)).prop_map(|(session, fate)| SessionStep::Device { session, fate }),
        8 => authenticate_step(depth),
        10 => result_step(depth),
        4 => (session_pair(), told, write_fate(depth))
            .prop_map(|((session, about_session), status, fate)| SessionStep::ChallengeNotification { session, about_session, status, fate }),
        3 => (0..SESSIONS, write_fate(depth)).prop_map(|(session, fate)| SessionStep::GetChallengeResult { session, fate }),
        3 => short.prop_map(SessionStep::Advance),
        1 => long.prop_map(SessionStep::Advance),
        1 => Just(SessionStep::Sweep),
    ]
    .boxed()
}

/// A new session that is challenged at once: chance alone seldom comes so far.
fn challenged_session_steps() -> impl Strategy<Value = Vec<SessionStep>> {
    let kind = select(vec![ModelDevice::BrowserWithMethod, ModelDevice::Browser, ModelDevice::App]);
    let meanwhile = prop_oneof![2 => Just(vec![]), 1 => vec(session_step(1), 1..3)];
    (kind, select(vec!["C", "D"]), meanwhile).prop_map(|(kind, reply, meanwhile)| {
        let device = SessionStep::Device { session: 0, fate: WriteFate::Commit };
        vec![
            SessionStep::Create(kind, WriteFate::Commit),
            device,
            authenticate_with_reply(0, reply, meanwhile),
        ]
    })
}

fn session_steps() -> impl Strategy<Value = Vec<SessionStep>> {
    let some =
        prop_oneof![8 => session_step(2).prop_map(|it| vec![it]), 1 => challenged_session_steps()];
    vec(some, 30).prop_map(|it| it.concat())
}

/// A long run is for the nightly check; a short one is for every change.
#[expect(clippy::disallowed_methods, reason = "how long a test runs is no setting of the program")]
fn cases(short_cases: u32) -> u32 {
    if std::env::var("SCRIP_TEST_LONG").is_ok() { 10 * short_cases } else { short_cases }
}

fn run_random_steps(engine: Engine, short_cases: u32, needed: &[&str]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let config = ProptestConfig {
        cases: cases(short_cases),
        failure_persistence: None,
        max_shrink_iters: 200,
        ..Default::default()
    };
    let random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let met = RefCell::new(BTreeSet::new());
    let outcome = TestRunner::new_with_rng(config, random).run(&session_steps(), |steps| {
        runtime.block_on(async {
            let mut simulation = SessionSimulation::open(engine).await;
            simulation.run_steps(&steps).await;
            met.borrow_mut().extend(simulation.outcomes);
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
const NEEDED_OUTCOMES: &[&str] = &[
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
fn random_sessions_on_the_memory_store_match_the_state_machine() {
    run_random_steps(Engine::Memory, 200, NEEDED_OUTCOMES);
}

#[test]
fn random_sessions_on_sqlite_match_the_state_machine() {
    // The first of the same steps.
    let needed = ["a session that asked was gone", "receive_result done", "somebody was faster"];
    run_random_steps(Engine::Sqlite, 40, &needed);
}

fn authenticate_with_reply(
    session: usize,
    reply: &'static str,
    meanwhile: Vec<SessionStep>,
) -> SessionStep {
    let (first, reply, second) = (WriteFate::Commit, ServerReply::Status(reply), WriteFate::Commit);
    let decoupled = true;
    SessionStep::Authenticate(Box::new(AuthenticateStep {
        session,
        decoupled,
        first_write: first,
        meanwhile,
        reply,
        second_write: second,
    }))
}

fn post_result(session: usize, forged: ForgedPart) -> SessionStep {
    SessionStep::Result {
        session,
        forged,
        other: 1 - session,
        status: "Y",
        fate: WriteFate::Commit,
    }
}

/// What chance finds too, said once in order.
#[tokio::test]
async fn forged_results_change_no_session() {
    let mut steps = vec![
        SessionStep::Create(ModelDevice::BrowserWithMethod, WriteFate::Commit),
        SessionStep::Create(ModelDevice::Browser, WriteFate::Commit),
    ];
    let forged = [ForgedPart::Secret, ForgedPart::Message, ForgedPart::Acs, ForgedPart::Ds];
    for of in [0, 1] {
        steps.push(authenticate_with_reply(
            of,
            "C",
            forged.map(|it| post_result(1 - of, it)).to_vec(),
        ));
    }
    for of in [0, 1] {
        steps.extend(forged.map(|it| post_result(of, it)));
        steps.push(SessionStep::GetChallengeResult { session: of, fate: WriteFate::Commit });
        steps.push(post_result(of, ForgedPart::Nothing));
        steps.push(post_result(of, ForgedPart::Nothing));
        steps.push(SessionStep::ChallengeNotification {
            session: of,
            about_session: of,
            status: Some("N"),
            fate: WriteFate::Commit,
        });
        steps.push(SessionStep::GetChallengeResult { session: of, fate: WriteFate::Commit });
    }
    steps.push(SessionStep::Create(ModelDevice::App, WriteFate::Commit));
    steps.push(SessionStep::Device { session: 0, fate: WriteFate::Commit });
    let gone = vec![SessionStep::Advance(DAY_SECONDS + 60 * 60), SessionStep::Sweep];
    steps.push(authenticate_with_reply(0, "Y", gone));
    for engine in [Engine::Memory, Engine::Sqlite, Engine::Postgres] {
        let mut simulation = SessionSimulation::open(engine).await;
        simulation.run_steps(&steps).await;
        for met in ["receive_result done", "forged Ds 301", "a session that asked was gone"] {
            assert!(simulation.outcomes.contains(met), "{met}: {:?}", simulation.outcomes);
        }
    }
}

#[test]
fn random_sessions_on_postgres_match_the_state_machine() {
    // As many as for the other engine, whose commits are as slow.
    let needed = ["receive_result done", "somebody was faster"];
    run_random_steps(Engine::Postgres, 40, &needed);
}
