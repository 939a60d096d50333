//! Whoever writes to the rows of sessions and events without our keys changes nothing unnoticed.

use rusqlite::Connection;
use scrip_core::{
    error::Error,
    id::ThreeDsSessionId,
    operations::threeds_sessions::{
        get_threeds_session::get_threeds_session, notify_method::notify_method,
    },
    threeds::ThreeDsSessionView,
};
use scrip_testing::vault_harness::{Engine, test_origin};
use scrip_threeds::{encoding::MethodData, format::TransId, session::ThreeDsPhase};

use crate::sessions::{
    model::ModelDevice,
    random_steps::{SessionStep, WriteFate},
    simulation::{SessionSimulation, session_permissions},
};

/// Two sessions, and a file that somebody has open.
async fn open_with_attacker() -> (SessionSimulation, Connection, [ThreeDsSessionId; 2]) {
    let (simulation, ids) = create_two_sessions(Engine::Sqlite).await;
    let attacker = Connection::open(simulation.vault_harness.file()).unwrap();
    (simulation, attacker, ids)
}

pub(crate) async fn create_two_sessions(
    engine: Engine,
) -> (SessionSimulation, [ThreeDsSessionId; 2]) {
    let mut simulation = SessionSimulation::open(engine).await;
    simulation
        .run_steps(&[
            SessionStep::Create(ModelDevice::BrowserWithMethod, WriteFate::Commit),
            SessionStep::Create(ModelDevice::BrowserWithMethod, WriteFate::Commit),
        ])
        .await;
    let ids = [0, 1].map(|at| simulation.model.sessions[at].id);
    (simulation, ids)
}

pub(crate) async fn get(
    simulation: &SessionSimulation,
    id: ThreeDsSessionId,
) -> Result<ThreeDsSessionView, Error> {
    get_threeds_session(&simulation.vault, &simulation.caller, id).await
}

/// Whoever has no key finds it by the same row.
pub(crate) async fn notify(
    simulation: &SessionSimulation,
    id: ThreeDsSessionId,
) -> Result<(), Error> {
    let server_trans_id = TransId::parse(&id.to_string()).unwrap();
    let data = MethodData { server_trans_id, notification_url: None }.encode();
    notify_method(&simulation.vault_harness.vault, &simulation.directory, &test_origin(), id, &data)
        .await
}

#[track_caller]
pub(crate) fn assert_detected<T: std::fmt::Debug>(outcome: &Result<T, Error>, context: &str) {
    assert!(matches!(outcome, Err(Error::Internal(_) | Error::NotFound)), "{context}: {outcome:?}");
}

#[tokio::test]
async fn altered_threeds_session_column_is_detected() {
    let (simulation, attacker, [id, other]) = open_with_attacker().await;
    let row = |it: ThreeDsSessionId| format!("x'{}'", it.0.simple());
    let sql = "SELECT name FROM pragma_table_info('sessions')";
    let mut columns = attacker.prepare(sql).unwrap();
    let columns: Vec<String> =
        columns.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    let altered = [
        ("tenant", "zeroblob(16)"),
        ("tenant", "x''"),
        ("id", "zeroblob(16)"),
        ("created_by", "zeroblob(16)"),
        ("created_by", "x'00'"),
        ("created_at", "created_at + 1"),
        ("ends_at", "ends_at + 1"),
        ("ends_at", "ends_at - 1"),
        ("ends_at", "NULL"),
        ("revision", "revision + 1"),
        ("revision", "0"),
        ("token", "'another'"),
        ("intent", "zeroblob(16)"),
        ("intent", "x''"),
        ("converted_containers", "'/a/'"),
        ("converted_number_version", "zeroblob(16)"),
        ("converted_mac", "zeroblob(32)"),
        ("body", "zeroblob(length(body))"),
        ("body", "substr(body, 1, length(body) - 1)"),
        ("body", "x''"),
        ("body", "(SELECT body FROM sessions AS it WHERE it.seq <> sessions.seq)"),
    ];
    for column in &columns {
        let tried = altered.iter().any(|it| it.0 == column);
        assert!(tried || column == "seq", "{column} is forgotten here");
    }
    for (column, value) in altered {
        attacker.execute_batch("CREATE TEMP TABLE kept AS SELECT * FROM sessions").unwrap();
        let sql = format!("UPDATE sessions SET {column} = {value} WHERE id = {}", row(id));
        assert_eq!(attacker.execute(&sql, []).unwrap(), 1);
        assert_detected(&get(&simulation, id).await, &sql);
        assert_detected(&notify(&simulation, id).await, &sql);
        get(&simulation, other).await.unwrap();
        let back = "DELETE FROM sessions; INSERT INTO sessions SELECT * FROM kept; DROP TABLE kept";
        attacker.execute_batch(back).unwrap();
        get(&simulation, id).await.unwrap();
    }
}

#[tokio::test]
async fn swapped_session_bodies_and_reassigned_rows_are_detected() {
    let (simulation, attacker, ids) = open_with_attacker().await;
    let theirs =
        simulation.vault_harness.tenant(scrip_core::policy::TenantSettings::default()).await;
    let stranger = simulation.vault_harness.caller(&theirs, session_permissions()).await;
    for id in ids {
        let seen = get_threeds_session(&simulation.vault, &stranger, id).await;
        assert!(matches!(seen, Err(Error::NotFound)), "{seen:?}");
    }
    let swap = "CREATE TEMP TABLE kept AS SELECT * FROM sessions;
        UPDATE sessions SET body = (SELECT body FROM kept WHERE kept.seq <> sessions.seq);
        DROP TABLE kept";
    attacker.execute_batch(swap).unwrap();
    for id in ids {
        assert_detected(&get(&simulation, id).await, "exchanged");
    }
    attacker.execute_batch(swap).unwrap();
    attacker.execute("UPDATE sessions SET tenant = ?", [theirs.id.0.as_bytes()]).unwrap();
    for id in ids {
        let seen = get_threeds_session(&simulation.vault, &stranger, id).await;
        assert!(matches!(seen, Err(Error::Internal(_))), "{seen:?}");
    }
}

/// A body of before belongs to the revision of before. The whole row of before opens: that is the
/// limit of what a row can tell of itself, and what the audit trail is for.
#[tokio::test]
async fn restored_old_session_body_is_detected_but_not_a_whole_old_row() {
    let (mut simulation, attacker, [id, _]) = open_with_attacker().await;
    attacker.execute_batch("CREATE TEMP TABLE kept AS SELECT * FROM sessions").unwrap();
    simulation
        .run_steps(&[SessionStep::Method { session: 1, about_session: 1, fate: WriteFate::Commit }])
        .await;
    assert_eq!(get(&simulation, id).await.unwrap().body.state.phase, ThreeDsPhase::MethodCompleted);
    let condition = format!("WHERE id = x'{}'", id.0.simple());
    let old = format!("(SELECT body FROM kept {condition})");
    attacker.execute_batch("CREATE TEMP TABLE now AS SELECT * FROM sessions").unwrap();
    attacker.execute(&format!("UPDATE sessions SET body = {old} {condition}"), []).unwrap();
    assert_detected(&get(&simulation, id).await, "an old body");
    let old = "DELETE FROM sessions; INSERT INTO sessions SELECT * FROM kept";
    attacker.execute_batch(old).unwrap();
    assert_eq!(get(&simulation, id).await.unwrap().body.state.phase, ThreeDsPhase::MethodPending);
}

#[tokio::test]
async fn altered_threeds_event_column_is_detected() {
    let (simulation, attacker, _) = open_with_attacker().await;
    let tenant = simulation.caller.tenant();
    let open = async || {
        let events = simulation.vault.store.list_threeds_events(0, 9).await?;
        let opened = events.iter().map(|(_, it)| it.open(tenant));
        opened.collect::<Result<Vec<_>, _>>()
    };
    assert_eq!(open().await.unwrap().len(), 2);
    for (column, value) in [
        ("tenant", "zeroblob(16)"),
        ("tenant", "x'00'"),
        ("id", "zeroblob(16)"),
        ("id", "x'00'"),
        ("at", "at + 1"),
        ("body", "zeroblob(length(body))"),
        ("body", "x''"),
        ("body", "(SELECT body FROM session_events AS it WHERE it.seq <> session_events.seq)"),
    ] {
        attacker.execute_batch("CREATE TEMP TABLE kept AS SELECT * FROM session_events").unwrap();
        let sql = format!("UPDATE session_events SET {column} = {value} WHERE seq = 1");
        assert_eq!(attacker.execute(&sql, []).unwrap(), 1);
        assert!(open().await.is_err(), "{sql}");
        let back = "DELETE FROM session_events;
            INSERT INTO session_events SELECT * FROM kept; DROP TABLE kept";
        attacker.execute_batch(back).unwrap();
        assert_eq!(open().await.unwrap().len(), 2);
    }
}
