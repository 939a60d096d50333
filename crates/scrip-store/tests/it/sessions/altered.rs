//! Whoever writes to the rows of sessions and events without our keys changes nothing unnoticed.

use rusqlite::Connection;
use scrip_core::{
    error::Error,
    id::SessionId,
    operations::sessions::{get_session::get_session, notify_method::notify_method},
    threeds::SessionView,
};
use scrip_testing::vault_harness::{Engine, origin};
use scrip_threeds::{encoding::MethodData, format::TransId, session::Phase};

use crate::sessions::{
    model::Kind,
    random::{Step, Trip},
    simulation::{SessionSimulation, rights},
};

/// Two sessions, and a file that somebody has open.
async fn opened() -> (SessionSimulation, Connection, [SessionId; 2]) {
    let (play, ids) = played(Engine::Sqlite).await;
    let outside = Connection::open(play.world.file()).unwrap();
    (play, outside, ids)
}

pub(crate) async fn played(engine: Engine) -> (SessionSimulation, [SessionId; 2]) {
    let mut play = SessionSimulation::open(engine).await;
    play.play_all(&[Step::Create(Kind::Page, Trip::Go), Step::Create(Kind::Page, Trip::Go)]).await;
    let ids = [0, 1].map(|at| play.model.sessions[at].id);
    (play, ids)
}

pub(crate) async fn get(play: &SessionSimulation, id: SessionId) -> Result<SessionView, Error> {
    get_session(&play.vault, &play.caller, id).await
}

/// Whoever has no key finds it by the same row.
pub(crate) async fn notify(play: &SessionSimulation, id: SessionId) -> Result<(), Error> {
    let server_trans_id = TransId::parse(&id.to_string()).unwrap();
    let data = MethodData { server_trans_id, notification_url: None }.write();
    notify_method(&play.world.vault, &play.directory, &origin(), id, &data).await
}

#[track_caller]
pub(crate) fn noticed<T: std::fmt::Debug>(outcome: &Result<T, Error>, what: &str) {
    assert!(matches!(outcome, Err(Error::Internal(_) | Error::NotFound)), "{what}: {outcome:?}");
}

#[tokio::test]
async fn every_column_of_a_session_is_bound_to_its_body() {
    let (play, outside, [id, other]) = opened().await;
    let row = |it: SessionId| format!("x'{}'", it.0.simple());
    let sql = "SELECT name FROM pragma_table_info('sessions')";
    let mut columns = outside.prepare(sql).unwrap();
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
        outside.execute_batch("CREATE TEMP TABLE kept AS SELECT * FROM sessions").unwrap();
        let sql = format!("UPDATE sessions SET {column} = {value} WHERE id = {}", row(id));
        assert_eq!(outside.execute(&sql, []).unwrap(), 1);
        noticed(&get(&play, id).await, &sql);
        noticed(&notify(&play, id).await, &sql);
        get(&play, other).await.unwrap();
        let back = "DELETE FROM sessions; INSERT INTO sessions SELECT * FROM kept; DROP TABLE kept";
        outside.execute_batch(back).unwrap();
        get(&play, id).await.unwrap();
    }
}

#[tokio::test]
async fn bodies_cannot_be_exchanged_nor_rows_given_to_another_tenant() {
    let (play, outside, ids) = opened().await;
    let theirs = play.world.tenant(scrip_core::policy::Settings::default()).await;
    let stranger = play.world.caller(&theirs, rights()).await;
    for id in ids {
        let seen = get_session(&play.vault, &stranger, id).await;
        assert!(matches!(seen, Err(Error::NotFound)), "{seen:?}");
    }
    let swap = "CREATE TEMP TABLE kept AS SELECT * FROM sessions;
        UPDATE sessions SET body = (SELECT body FROM kept WHERE kept.seq <> sessions.seq);
        DROP TABLE kept";
    outside.execute_batch(swap).unwrap();
    for id in ids {
        noticed(&get(&play, id).await, "exchanged");
    }
    outside.execute_batch(swap).unwrap();
    outside.execute("UPDATE sessions SET tenant = ?", [theirs.id.0.as_bytes()]).unwrap();
    for id in ids {
        let seen = get_session(&play.vault, &stranger, id).await;
        assert!(matches!(seen, Err(Error::Internal(_))), "{seen:?}");
    }
}

/// A body of before belongs to the revision of before. The whole row of before opens: that is the
/// limit of what a row can tell of itself, and what the audit trail is for.
#[tokio::test]
async fn an_old_body_is_noticed_and_an_old_row_is_not() {
    let (mut play, outside, [id, _]) = opened().await;
    outside.execute_batch("CREATE TEMP TABLE kept AS SELECT * FROM sessions").unwrap();
    play.play_all(&[Step::Method { of: 1, about: 1, trip: Trip::Go }]).await;
    assert_eq!(get(&play, id).await.unwrap().body.state.phase, Phase::MethodCompleted);
    let of = format!("WHERE id = x'{}'", id.0.simple());
    let old = format!("(SELECT body FROM kept {of})");
    outside.execute_batch("CREATE TEMP TABLE now AS SELECT * FROM sessions").unwrap();
    outside.execute(&format!("UPDATE sessions SET body = {old} {of}"), []).unwrap();
    noticed(&get(&play, id).await, "an old body");
    let old = "DELETE FROM sessions; INSERT INTO sessions SELECT * FROM kept";
    outside.execute_batch(old).unwrap();
    assert_eq!(get(&play, id).await.unwrap().body.state.phase, Phase::MethodPending);
}

#[tokio::test]
async fn every_column_of_an_event_is_bound_to_its_body() {
    let (play, outside, _) = opened().await;
    let tenant = play.caller.tenant();
    let open = async || {
        let events = play.vault.store.list_events(0, 9).await?;
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
        outside.execute_batch("CREATE TEMP TABLE kept AS SELECT * FROM session_events").unwrap();
        let sql = format!("UPDATE session_events SET {column} = {value} WHERE seq = 1");
        assert_eq!(outside.execute(&sql, []).unwrap(), 1);
        assert!(open().await.is_err(), "{sql}");
        let back = "DELETE FROM session_events;
            INSERT INTO session_events SELECT * FROM kept; DROP TABLE kept";
        outside.execute_batch(back).unwrap();
        assert_eq!(open().await.unwrap().len(), 2);
    }
}
