//! Random session steps in any order, with crashes at any point: the stored state is that of the
//! state machine, the directory server is called at most once, and the events match the changes.

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

/// The outcome of a write, and the steps before it.
#[derive(Debug, Clone)]
pub(crate) enum WriteFate {
    Commit,
    Fail,
    CommitAndFail,
    /// The process crashes before the write.
    Die,
    /// Other steps run first.
    Wait(Vec<SessionStep>),
}

/// The response of the directory server.
#[derive(Debug, Clone)]
pub(crate) enum ServerReply {
    Status(&'static str),
    /// A response for another session.
    OtherSession,
    ErrorMessage,
    Garbage,
    Unanswered(DirectoryServerError),
    /// The process crashes while it waits.
    ProcessDies,
}

/// The part of a result that belongs to another session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ForgedPart {
    Nothing,
    Secret,
    /// The whole message of the other session, with the secret of this one.
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
    pub(crate) concurrent_steps: Vec<SessionStep>,
    pub(crate) reply: ServerReply,
    pub(crate) second_write: WriteFate,
}

impl WriteFate {
    pub(crate) fn commits(&self) -> bool {
        matches!(self, Self::Commit | Self::CommitAndFail | Self::Wait(_))
    }
}

fn write_fate_strategy(depth: u32) -> BoxedStrategy<WriteFate> {
    let without_other_steps = prop_oneof![
        12 => Just(WriteFate::Commit),
        1 => Just(WriteFate::Fail),
        1 => Just(WriteFate::CommitAndFail),
        1 => Just(WriteFate::Die),
    ];
    if depth == 0 {
        return without_other_steps.boxed();
    }
    let other_steps = vec(session_step_strategy(depth - 1), 1..4);
    prop_oneof![5 => without_other_steps, 1 => other_steps.prop_map(WriteFate::Wait)].boxed()
}

fn server_reply_strategy() -> impl Strategy<Value = ServerReply> {
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

fn authenticate_step_strategy(depth: u32) -> BoxedStrategy<SessionStep> {
    let concurrent_steps = match depth {
        0 => Just(vec![]).boxed(),
        _ => prop_oneof![
            10 => Just(vec![]),
            5 => vec(session_step_strategy(depth - 1), 1..4),
            1 => Just(vec![SessionStep::Advance(DAY_SECONDS + 60 * 60), SessionStep::Sweep]),
        ]
        .boxed(),
    };
    (
        0..SESSION_COUNT,
        any::<bool>(),
        write_fate_strategy(depth),
        concurrent_steps,
        server_reply_strategy(),
        write_fate_strategy(depth),
    )
        .prop_map(|(session, decoupled, first, concurrent_steps, reply, second)| {
            let step = AuthenticateStep {
                session,
                decoupled,
                first_write: first,
                concurrent_steps,
                reply,
                second_write: second,
            };
            SessionStep::Authenticate(Box::new(step))
        })
        .boxed()
}

/// Few sessions, so that several steps concern the same session.
const SESSION_COUNT: usize = 3;

/// Two session numbers, which are usually the same.
fn session_pair_strategy() -> impl Strategy<Value = (usize, usize)> {
    prop_oneof![
        4 => (0..SESSION_COUNT).prop_map(|it| (it, it)),
        1 => (0..SESSION_COUNT, 0..SESSION_COUNT),
    ]
}

fn result_step_strategy(depth: u32) -> impl Strategy<Value = SessionStep> {
    let forged = prop_oneof![
        4 => Just(ForgedPart::Nothing),
        1 => Just(ForgedPart::Secret),
        1 => Just(ForgedPart::Message),
        1 => Just(ForgedPart::Acs),
        1 => Just(ForgedPart::Ds),
    ];
    let status = select(vec!["Y", "Y", "A", "N", "U", "R", "C"]);
    (0..SESSION_COUNT, forged, 0..SESSION_COUNT, status, write_fate_strategy(depth)).prop_map(
        |(session, forged, other, status, fate)| SessionStep::Result {
            session,
            forged,
            other,
            status,
            fate,
        },
    )
}

fn session_step_strategy(depth: u32) -> BoxedStrategy<SessionStep> {
    let kind = select(vec![
        ModelDevice::BrowserWithMethod,
        ModelDevice::BrowserWithMethod,
        ModelDevice::Browser,
        ModelDevice::App,
        ModelDevice::Merchant,
    ]);
    let status = select(vec![None, Some("Y"), Some("N")]);
    let short_pause = prop_oneof![3 => 1..20_i64, 1 => Just(61), 2 => Just(6 * 60)];
    let long_pause = select(vec![60 * 60, DAY_SECONDS, DAY_SECONDS + 60 * 60]);
    prop_oneof![
        3 => (kind, write_fate_strategy(depth))
            .prop_map(|(kind, fate)| SessionStep::Create(kind, fate)),
        4 => (session_pair_strategy(), write_fate_strategy(depth))
            .prop_map(|((session, about_session), fate)| SessionStep::Method { session, about_session, fate }),
        2 => (0..SESSION_COUNT, write_fate_strategy(depth))
            .prop_map(|(session, fate)| SessionStep::Device { session, fate }),
        8 => authenticate_step_strategy(depth),
        10 => result_step_strategy(depth),
        4 => (session_pair_strategy(), status, write_fate_strategy(depth))
            .prop_map(|((session, about_session), status, fate)| SessionStep::ChallengeNotification { session, about_session, status, fate }),
        3 => (0..SESSION_COUNT, write_fate_strategy(depth))
            .prop_map(|(session, fate)| SessionStep::GetChallengeResult { session, fate }),
        3 => short_pause.prop_map(SessionStep::Advance),
        1 => long_pause.prop_map(SessionStep::Advance),
        1 => Just(SessionStep::Sweep),
    ]
    .boxed()
}

/// A new session with an immediate challenge, because random steps seldom reach one.
fn challenged_session_strategy() -> impl Strategy<Value = Vec<SessionStep>> {
    let kind = select(vec![ModelDevice::BrowserWithMethod, ModelDevice::Browser, ModelDevice::App]);
    let concurrent_steps = prop_oneof![2 => Just(vec![]), 1 => vec(session_step_strategy(1), 1..3)];
    (kind, select(vec!["C", "D"]), concurrent_steps).prop_map(|(kind, reply, concurrent_steps)| {
        let device = SessionStep::Device { session: 0, fate: WriteFate::Commit };
        vec![
            SessionStep::Create(kind, WriteFate::Commit),
            device,
            authenticate_with_reply(0, reply, concurrent_steps),
        ]
    })
}

fn session_steps_strategy() -> impl Strategy<Value = Vec<SessionStep>> {
    let one_step = session_step_strategy(2).prop_map(|it| vec![it]);
    let steps = prop_oneof![8 => one_step, 1 => challenged_session_strategy()];
    vec(steps, 30).prop_map(|it| it.concat())
}

/// The number of cases: few by default, many in the nightly run.
#[expect(clippy::disallowed_methods, reason = "a test's length is not a setting of the program")]
fn case_count(short_cases: u32) -> u32 {
    if std::env::var("SCRIP_TEST_LONG").is_ok() { 10 * short_cases } else { short_cases }
}

fn run_random_steps(engine: Engine, short_cases: u32, needed_outcomes: &[&str]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let config = ProptestConfig {
        cases: case_count(short_cases),
        failure_persistence: None,
        max_shrink_iters: 200,
        ..Default::default()
    };
    let random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let reached_outcomes = RefCell::new(BTreeSet::new());
    let outcome =
        TestRunner::new_with_rng(config, random).run(&session_steps_strategy(), |steps| {
            runtime.block_on(async {
                let mut simulation = SessionSimulation::open(engine).await;
                simulation.run_steps(&steps).await;
                reached_outcomes.borrow_mut().extend(simulation.outcomes);
            });
            Ok(())
        });
    outcome.unwrap();
    let reached_outcomes = reached_outcomes.into_inner();
    for outcome in needed_outcomes {
        assert!(
            reached_outcomes.contains(*outcome),
            "{outcome:?} never happened: {reached_outcomes:?}"
        );
    }
}

/// Outcomes that must occur at least once, otherwise the test proves too little.
const NEEDED_OUTCOMES: &[&str] = &[
    "session missing after call",
    "authenticate_threeds_session authentication_requested",
    "authenticate_threeds_session attempted",
    "authenticate_threeds_session challenge",
    "authenticate_threeds_session decoupled_challenge",
    "authenticate_threeds_session failed",
    "authenticate_threeds_session informational",
    "authenticate_threeds_session rejected",
    "authenticate_threeds_session successful",
    "authenticate_threeds_session unavailable",
    "expire_threeds_session expired",
    "forged Acs 301",
    "forged Ds 301",
    "forged Message 301",
    "forged Secret 301",
    "get_challenge_result read",
    "notify_challenge done",
    "notify_method done",
    "receive_result done",
    "result 402",
    "stale write",
    "update_threeds_session updated",
];

#[test]
fn random_sessions_on_the_memory_store_match_the_state_machine() {
    run_random_steps(Engine::Memory, 200, NEEDED_OUTCOMES);
}

#[test]
fn random_sessions_on_sqlite_match_the_state_machine() {
    // These are the first 40 cases of the test of the memory store.
    let needed_outcomes = ["session missing after call", "receive_result done", "stale write"];
    run_random_steps(Engine::Sqlite, 40, &needed_outcomes);
}

fn authenticate_with_reply(
    session: usize,
    reply: &'static str,
    concurrent_steps: Vec<SessionStep>,
) -> SessionStep {
    let (first_write, reply, second_write) =
        (WriteFate::Commit, ServerReply::Status(reply), WriteFate::Commit);
    let decoupled = true;
    SessionStep::Authenticate(Box::new(AuthenticateStep {
        session,
        decoupled,
        first_write,
        concurrent_steps,
        reply,
        second_write,
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

/// Runs cases in a fixed order. Random steps also reach them.
#[tokio::test]
async fn forged_results_change_no_session() {
    let mut steps = vec![
        SessionStep::Create(ModelDevice::BrowserWithMethod, WriteFate::Commit),
        SessionStep::Create(ModelDevice::Browser, WriteFate::Commit),
    ];
    let forged_parts = [ForgedPart::Secret, ForgedPart::Message, ForgedPart::Acs, ForgedPart::Ds];
    for session in [0, 1] {
        steps.push(authenticate_with_reply(
            session,
            "C",
            forged_parts.map(|it| post_result(1 - session, it)).to_vec(),
        ));
    }
    for session in [0, 1] {
        steps.extend(forged_parts.map(|it| post_result(session, it)));
        steps.push(SessionStep::GetChallengeResult { session, fate: WriteFate::Commit });
        steps.push(post_result(session, ForgedPart::Nothing));
        steps.push(post_result(session, ForgedPart::Nothing));
        steps.push(SessionStep::ChallengeNotification {
            session,
            about_session: session,
            status: Some("N"),
            fate: WriteFate::Commit,
        });
        steps.push(SessionStep::GetChallengeResult { session, fate: WriteFate::Commit });
    }
    steps.push(SessionStep::Create(ModelDevice::App, WriteFate::Commit));
    steps.push(SessionStep::Device { session: 0, fate: WriteFate::Commit });
    let delete_session = vec![SessionStep::Advance(DAY_SECONDS + 60 * 60), SessionStep::Sweep];
    steps.push(authenticate_with_reply(0, "Y", delete_session));
    for engine in [Engine::Memory, Engine::Sqlite, Engine::Postgres] {
        let mut simulation = SessionSimulation::open(engine).await;
        simulation.run_steps(&steps).await;
        for needed in ["receive_result done", "forged Ds 301", "session missing after call"] {
            assert!(
                simulation.outcomes.contains(needed),
                "{needed} never happened: {:?}",
                simulation.outcomes
            );
        }
    }
}

#[test]
fn random_sessions_on_postgres_match_the_state_machine() {
    // As many cases as for SQLite, because commits take as long.
    let needed_outcomes = ["receive_result done", "stale write"];
    run_random_steps(Engine::Postgres, 40, &needed_outcomes);
}
