//! An altered access session has no rights, and cannot be given any.

use std::{sync::Arc, time::Duration};

use scrip_core::{
    error::Error,
    operations::access_sessions::{
        authorize_access_session::{Authorization, authorize_access_session},
        create_access_session::{CreatedAccessSession, create_access_session},
        resume_access_session::resume_access_session,
    },
    policy::{
        ApplicationKind::{self, Private, Public},
        Caller, Mandate, Needs, Permission, Transform,
    },
};
use scrip_testing::{
    policy::{rule, ruled},
    vault_harness::origin,
};

use crate::policy::harness::{self, Party, PolicyHarness};

/// Which `policy_altered` compares with the schema.
pub(crate) fn columns() -> impl Iterator<Item = &'static str> {
    ALTERED.iter().map(|(column, _)| *column).chain([HARMLESS])
}

/// The order in which they were made: what ended is looked for at the front.
const HARMLESS: &str = "seq";

/// Of a session that was authorized.
const ALTERED: &[(&str, &[&str])] = &[
    ("digest", &["zeroblob(32)", "substr(digest, 1, 31)", "x''"]),
    ("nonce", &["zeroblob(32)", "substr(nonce, 1, 31)", "x''"]),
    ("tenant", &["{other}", "{fresh}", "x''"]),
    ("application", &["{manager}", "{private}", "{other private}", "{fresh}", "x''"]),
    ("created_at", &["created_at + 1", "0"]),
    ("expires_at", &["expires_at + 1", "expires_at + 86400000", "9223372036854775807", "0"]),
    ("authorized_by", &["{manager}", "{public}", "{other private}", "x''", "NULL"]),
    ("authorized_key", &["{fresh}", "x''", "NULL"]),
    ("authorized_at", &["authorized_at + 1", "0", "NULL"]),
    (
        "access",
        &[
            "replace(access, '/a/', '/')",
            "replace(access, 'mask', 'reveal')",
            "replace(access, 'token:read', 'token:delete')",
            "json_remove(access, '$.rules[0].container')",
            "(SELECT access FROM applications WHERE id = {manager})",
            "'{}'",
            "''",
            "NULL",
        ],
    ),
    ("mac", &["zeroblob(32)", "substr(mac, 1, 31)", "x''", "digest"]),
];

/// Of more than one column, or more than one row. `1` is authorized, `2` is not.
const MOVED: &[&str] = &[
    "UPDATE access_sessions SET authorized_by = NULL, authorized_key = NULL, authorized_at = NULL,
        access = NULL",
    "UPDATE access_sessions SET (authorized_by, authorized_key, authorized_at, access) = (SELECT
        authorized_by, authorized_key, authorized_at, access FROM access_sessions WHERE seq = 1)",
    "UPDATE access_sessions SET (authorized_by, authorized_key, authorized_at, access, mac) = (SELECT
        authorized_by, authorized_key, authorized_at, access, mac FROM access_sessions
        WHERE seq = 1)",
    "CREATE TEMP TABLE held AS SELECT seq, digest FROM access_sessions;
        UPDATE access_sessions SET digest = CAST(seq AS BLOB);
        UPDATE access_sessions SET digest = (SELECT digest FROM held
            WHERE held.seq + access_sessions.seq = 3);
        DROP TABLE held",
    "CREATE TEMP TABLE held AS SELECT seq, nonce FROM access_sessions;
        UPDATE access_sessions SET nonce = CAST(seq AS BLOB);
        UPDATE access_sessions SET nonce = (SELECT nonce FROM held
            WHERE held.seq + access_sessions.seq = 3);
        DROP TABLE held",
    "DELETE FROM access_sessions",
];

fn mandate(caller: &Caller, kind: ApplicationKind) -> Mandate {
    caller.mandate(Needs::Kind(kind)).unwrap()
}

struct Sessions {
    scene: PolicyHarness,
    /// Authorized to see masks in `/a/`.
    first: CreatedAccessSession,
    /// Not authorized.
    second: CreatedAccessSession,
}

impl Sessions {
    async fn open() -> Self {
        let scene = PolicyHarness::open().await;
        let public = caller(&scene, &scene.victim.public.key);
        let pepper = scene.before.pepper();
        let begin = || create_access_session(&scene.world.vault, mandate(&public, Public), pepper);
        let (first, second) = (begin().await.unwrap(), begin().await.unwrap());
        let sessions = Self { scene, first, second };
        sessions.authorize(&sessions.first.nonce).await.unwrap();
        sessions
    }

    async fn authorize(&self, nonce: &str) -> Result<(), Error> {
        self.authorize_by(&self.scene.victim, nonce).await
    }

    async fn authorize_by(&self, party: &Party, nonce: &str) -> Result<(), Error> {
        let private = caller(&self.scene, &party.private.key);
        let access = ruled([rule("/a/", Transform::Mask, &[Permission::TokenRead])]);
        let asked = Authorization { nonce: nonce.to_owned(), access, expires_at: None };
        let (vault, pepper) = (&self.scene.world.vault, self.scene.before.pepper());
        authorize_access_session(vault, mandate(&private, Private), pepper, asked, None).await
    }

    /// Nothing when it is not known; an error when it was altered.
    async fn resume(&self, session: &CreatedAccessSession) -> Result<Option<Caller>, Error> {
        let (vault, key) = (&self.scene.world.vault, session.key.expose());
        let found = resume_access_session(vault, &self.scene.before, key).await?;
        Ok(found.map(|it| Caller::new(Arc::new(it), origin())))
    }

    async fn has_rights(&self, session: &CreatedAccessSession) -> bool {
        let rights = |it: Caller| {
            Permission::ALL.iter().any(|one| it.meets(Needs::Permission(*one)).is_ok())
        };
        self.resume(session).await.is_ok_and(|it| it.is_some_and(rights))
    }

    async fn check_put_back(&self, what: &str) {
        assert!(self.has_rights(&self.first).await, "{what}");
        assert!(self.resume(&self.second).await.unwrap().is_some(), "{what}");
    }
}

fn caller(scene: &PolicyHarness, key: &str) -> Caller {
    harness::caller(scene.before.authenticate(key))
}

#[tokio::test]
async fn an_altered_session_is_refused() {
    let it = Sessions::open().await;
    it.check_put_back("to begin with").await;
    let rows = it.scene.rows();
    for (column, values) in ALTERED {
        for value in *values {
            let sql = format!("UPDATE access_sessions SET {column} = {value} WHERE seq = 1");
            assert!(it.scene.write(&sql) && it.scene.rows() != rows, "{sql}");
            let known = it.resume(&it.first).await;
            assert!(matches!(known, Err(_) | Ok(None)), "{sql}: {known:?}");
            it.scene.put_back(&rows);
            it.check_put_back(&sql).await;
        }
    }
}

/// Also one that waits to be authorized: nobody gives rights to a session they did not mean.
#[tokio::test]
async fn an_altered_session_is_not_authorized() {
    let it = Sessions::open().await;
    let rows = it.scene.rows();
    for (column, values) in ALTERED {
        for value in *values {
            let sql = format!("UPDATE access_sessions SET {column} = {value} WHERE seq = 2");
            if !it.scene.write(&sql) || it.scene.rows() == rows || *column == "access" {
                it.scene.put_back(&rows);
                continue;
            }
            let touched = it.scene.rows();
            assert!(it.authorize(&it.second.nonce).await.is_err(), "{sql}");
            assert!(it.authorize_by(&it.scene.other, &it.second.nonce).await.is_err(), "{sql}");
            assert!(!it.has_rights(&it.second).await, "{sql}");
            assert_eq!(it.scene.rows(), touched, "{sql}");
            it.scene.put_back(&rows);
        }
    }
    it.authorize(&it.second.nonce).await.unwrap();
    assert!(it.has_rights(&it.second).await);
}

#[tokio::test]
async fn rights_do_not_move_between_sessions() {
    let it = Sessions::open().await;
    let rows = it.scene.rows();
    for sql in MOVED {
        assert!(it.scene.write(sql) && it.scene.rows() != rows, "{sql}");
        assert!(!it.has_rights(&it.second).await, "{sql}");
        it.scene.put_back(&rows);
        it.check_put_back(sql).await;
    }
}

#[tokio::test]
async fn a_session_of_other_types_is_refused() {
    let it = Sessions::open().await;
    it.scene.loosen();
    let rows = it.scene.rows();
    for (column, _) in ALTERED {
        for value in ["NULL", "1.5", "'text'", "x'c328'", "CAST(x'c328' AS TEXT)"] {
            let sql = format!("UPDATE access_sessions SET {column} = {value} WHERE seq = 1");
            assert!(it.scene.write(&sql) && it.scene.rows() != rows, "{sql}");
            let known = it.resume(&it.first).await;
            assert!(matches!(known, Err(_) | Ok(None)), "{sql}: {known:?}");
            it.scene.put_back(&rows);
        }
    }
    it.check_put_back("all of it").await;
}

/// What is in no mac: the order of rows, and rights that nobody is said to have given.
#[tokio::test]
async fn some_columns_give_nothing() {
    let it = Sessions::open().await;
    assert!(it.scene.write("UPDATE access_sessions SET seq = seq + 100"));
    it.check_put_back("seq").await;
    let give = "UPDATE access_sessions SET access = (SELECT access FROM access_sessions
        WHERE seq = 101) WHERE seq = 102";
    assert!(it.scene.write(give));
    assert!(it.resume(&it.second).await.unwrap().is_some());
    assert!(!it.has_rights(&it.second).await);
}

/// A row from before it was authorized is one of ours, and has less than the later one. What ended
/// stays ended, for its end is in the mac.
#[tokio::test]
async fn an_old_session_has_no_more_than_it_had() {
    let it = Sessions::open().await;
    let before = it.scene.rows();
    it.authorize(&it.second.nonce).await.unwrap();
    let after = it.scene.rows();
    assert!(it.has_rights(&it.second).await);
    it.scene.put_back(&before);
    assert!(!it.has_rights(&it.second).await);
    it.scene.put_back(&after);

    it.scene.world.clock.advance(Duration::from_secs(3 * 60));
    assert!(it.resume(&it.first).await.unwrap().is_none());
    let store = &it.scene.world.vault.store;
    let now = it.scene.world.vault.clock.now();
    assert_eq!(store.forget_access_sessions(now).await.unwrap(), 2);
    it.scene.put_back(&after);
    assert!(it.resume(&it.first).await.unwrap().is_none());
    assert!(it.authorize(&it.second.nonce).await.is_err());
}

/// What its application or its authorizer may no longer do, it may no longer do either.
#[tokio::test]
async fn sessions_of_an_altered_tenant_are_nobody() {
    let mut it = Sessions::open().await;
    let rows = it.scene.rows();
    assert!(it.scene.write("UPDATE applications SET name = 'another' WHERE id = {manager}"));
    let refused = it.scene.world.reload(Some(&it.scene.before)).await.unwrap();
    let before = std::mem::replace(&mut it.scene.before, refused);
    assert!(it.resume(&it.first).await.unwrap().is_none());
    it.scene.put_back(&rows);
    it.scene.before = before;
    it.check_put_back("an application").await;
}
