//! Alterations of 3DS sessions and events without the keys of the vault are detected.

use rusqlite::Connection;
use scrip_core::{
    Error,
    operations::threeds_sessions::{
        get_threeds_session::get_threeds_session, notify_method::notify_method,
    },
    threeds::ThreeDsSessionView,
    types::id::ThreeDsSessionId,
};
use scrip_testing::vault_harness::{Engine, test_origin};
use scrip_threeds::{encoding::MethodData, format::TransId, session::ThreeDsPhase};

use crate::sessions::{
    model::ModelDevice,
    random_steps::{SessionStep, WriteFate},
    simulation::{SessionSimulation, session_permissions},
};

/// Creates two sessions, and opens a connection of an attacker to the file.
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
    let ids = [0, 1].map(|index| simulation.model.sessions[index].id);
    (simulation, ids)
}

pub(crate) async fn get(
    simulation: &SessionSimulation,
    id: ThreeDsSessionId,
) -> Result<ThreeDsSessionView, Error> {
    get_threeds_session(&simulation.vault, &simulation.caller, id).await
}

/// Sends an unauthenticated notification, which finds the session by the same row.
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
    let (simulation, attacker, [id, other_id]) = open_with_attacker().await;
    let id_literal = |it: ThreeDsSessionId| format!("x'{}'", it.0.simple());
    let sql = "SELECT name FROM pragma_table_info('threeds_sessions')";
    let mut columns = attacker.prepare(sql).unwrap();
    let columns: Vec<String> =
        columns.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    let alterations = [
        ("tenant", "zeroblob(16)"),
        ("tenant", "x''"),
        ("id", "zeroblob(16)"),
        ("created_by", "zeroblob(16)"),
        ("created_by", "x'00'"),
        ("created_at", "created_at + 1"),
        ("deletes_at", "deletes_at + 1"),
        ("deletes_at", "deletes_at - 1"),
        ("deletes_at", "NULL"),
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
        ("body", "(SELECT body FROM threeds_sessions AS it WHERE it.seq <> threeds_sessions.seq)"),
    ];
    for column in &columns {
        let is_tested = alterations.iter().any(|it| it.0 == column);
        assert!(is_tested || column == "seq", "{column} is missing in the list");
    }
    for (column, value) in alterations {
        attacker
            .execute_batch("CREATE TEMP TABLE saved AS SELECT * FROM threeds_sessions")
            .unwrap();
        let sql =
            format!("UPDATE threeds_sessions SET {column} = {value} WHERE id = {}", id_literal(id));
        assert_eq!(attacker.execute(&sql, []).unwrap(), 1);
        assert_detected(&get(&simulation, id).await, &sql);
        assert_detected(&notify(&simulation, id).await, &sql);
        get(&simulation, other_id).await.unwrap();
        let restore_rows = "DELETE FROM threeds_sessions;
            INSERT INTO threeds_sessions SELECT * FROM saved; DROP TABLE saved";
        attacker.execute_batch(restore_rows).unwrap();
        get(&simulation, id).await.unwrap();
    }
}

#[tokio::test]
async fn swapped_session_bodies_and_reassigned_rows_are_detected() {
    let (simulation, attacker, ids) = open_with_attacker().await;
    let other_tenant =
        simulation.vault_harness.tenant(scrip_core::policy::TenantSettings::default()).await;
    let stranger = simulation.vault_harness.caller(&other_tenant, session_permissions()).await;
    for id in ids {
        let outcome = get_threeds_session(&simulation.vault, &stranger, id).await;
        assert!(matches!(outcome, Err(Error::NotFound)), "{outcome:?}");
    }
    let swap_bodies = "CREATE TEMP TABLE saved AS SELECT * FROM threeds_sessions;
        UPDATE threeds_sessions SET body = (SELECT body FROM saved WHERE saved.seq <> threeds_sessions.seq);
        DROP TABLE saved";
    attacker.execute_batch(swap_bodies).unwrap();
    for id in ids {
        assert_detected(&get(&simulation, id).await, "swapped bodies");
    }
    attacker.execute_batch(swap_bodies).unwrap();
    attacker
        .execute("UPDATE threeds_sessions SET tenant = ?", [other_tenant.id.0.as_bytes()])
        .unwrap();
    for id in ids {
        let outcome = get_threeds_session(&simulation.vault, &stranger, id).await;
        assert!(matches!(outcome, Err(Error::Internal(_))), "{outcome:?}");
    }
}

/// A restored body is detected, because it belongs to an older revision. A whole restored row is
/// accepted: a row alone cannot prove that it is current. The audit log covers that.
#[tokio::test]
async fn restored_old_session_body_is_detected_but_not_a_whole_old_row() {
    let (mut simulation, attacker, [id, _]) = open_with_attacker().await;
    attacker.execute_batch("CREATE TEMP TABLE saved AS SELECT * FROM threeds_sessions").unwrap();
    simulation
        .run_steps(&[SessionStep::Method { session: 1, about_session: 1, fate: WriteFate::Commit }])
        .await;
    assert_eq!(get(&simulation, id).await.unwrap().body.state.phase, ThreeDsPhase::MethodCompleted);
    let condition = format!("WHERE id = x'{}'", id.0.simple());
    let old_body = format!("(SELECT body FROM saved {condition})");
    attacker.execute_batch("CREATE TEMP TABLE newer AS SELECT * FROM threeds_sessions").unwrap();
    attacker
        .execute(&format!("UPDATE threeds_sessions SET body = {old_body} {condition}"), [])
        .unwrap();
    assert_detected(&get(&simulation, id).await, "an old body");
    let restore_rows =
        "DELETE FROM threeds_sessions; INSERT INTO threeds_sessions SELECT * FROM saved";
    attacker.execute_batch(restore_rows).unwrap();
    assert_eq!(get(&simulation, id).await.unwrap().body.state.phase, ThreeDsPhase::MethodPending);
}
