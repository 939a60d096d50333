//! An altered access session has no rights and cannot get any.

use std::{sync::Arc, time::Duration};

use scrip_core::{
    Error,
    operations::access_sessions::{
        authorize_access_session::{AccessSessionAuthorization, authorize_access_session},
        create_access_session::{CreatedAccessSession, create_access_session},
        resume_access_session::resume_access_session,
    },
    policy::{
        Caller, CallerRequirement, PolicyPermit, access_session::ACCESS_SESSION, entity::Column,
    },
    types::{
        ApplicationKind::{self, Private, Public},
        Permission, Transform,
    },
};
use scrip_testing::{
    policy::{access_rule, access_with_rules},
    vault_harness::{Engine, test_origin},
};

use crate::policy::{
    entity_alterations::entity_alterations,
    harness::{self, PolicyActor, PolicyHarness},
};

/// Lists the tested columns. `column_alterations` compares them with the schema. The last one is the
/// number of the row in the order of creation: expired sessions are at the start of the table.
pub(crate) fn list_columns() -> impl Iterator<Item = &'static str> {
    ACCESS_SESSION.columns.iter().map(|it| it.name).chain(["seq"])
}

/// Alterations of an authorized session, besides those of every column of an entity. `NULL` and
/// values of a wrong length are among the latter.
pub(crate) const SPECIAL_ALTERATIONS: &[(&str, &[&str])] = &[
    ("tenant", &["{other}"]),
    ("application", &["{manager}", "{private}", "{other private}"]),
    ("expires_at", &["expires_at + 86400000", "9223372036854775807"]),
    ("authorized_by", &["{manager}", "{public}", "{other private}"]),
    (
        "access",
        &[
            "replace(access, '/a/', '/')",
            "replace(access, 'mask', 'reveal')",
            "replace(access, 'token:read', 'token:delete')",
            "(SELECT access FROM applications WHERE id = {manager})",
            "'{}'",
        ],
    ),
    ("mac", &["digest"]),
];

/// An alteration with a function that only SQLite has.
const JSON_ALTERATION: (&str, &[&str]) =
    ("access", &["json_remove(access, '$.rules[0].container')"]);

fn alterations() -> Vec<(&'static str, Vec<String>)> {
    let special = [SPECIAL_ALTERATIONS, &[JSON_ALTERATION]].concat();
    entity_alterations(Engine::Sqlite, &ACCESS_SESSION, &special)
}

/// Alterations of several columns or rows. The session with `seq = 1` is authorized, the session
/// with `seq = 2` is not.
const MULTI_ROW_ALTERATIONS: &[&str] = &[
    "UPDATE access_sessions SET authorized_by = NULL, authorized_key = NULL, authorized_at = NULL,
        access = NULL",
    "UPDATE access_sessions SET (authorized_by, authorized_key, authorized_at, access) = (SELECT
        authorized_by, authorized_key, authorized_at, access FROM access_sessions WHERE seq = 1)",
    "UPDATE access_sessions SET (authorized_by, authorized_key, authorized_at, access, mac) = (SELECT
        authorized_by, authorized_key, authorized_at, access, mac FROM access_sessions
        WHERE seq = 1)",
    "CREATE TEMP TABLE saved AS SELECT seq, digest FROM access_sessions;
        UPDATE access_sessions SET digest = CAST(seq AS BLOB);
        UPDATE access_sessions SET digest = (SELECT digest FROM saved
            WHERE saved.seq + access_sessions.seq = 3);
        DROP TABLE saved",
    "CREATE TEMP TABLE saved AS SELECT seq, nonce FROM access_sessions;
        UPDATE access_sessions SET nonce = CAST(seq AS BLOB);
        UPDATE access_sessions SET nonce = (SELECT nonce FROM saved
            WHERE saved.seq + access_sessions.seq = 3);
        DROP TABLE saved",
    "DELETE FROM access_sessions",
];

fn policy_permit(caller: &Caller, kind: ApplicationKind) -> PolicyPermit {
    caller.permit_policy(CallerRequirement::Kind(kind)).unwrap()
}

struct AccessSessionHarness {
    policy: PolicyHarness,
    /// Authorized to read masked data in `/a/`.
    first: CreatedAccessSession,
    /// Not authorized.
    second: CreatedAccessSession,
}

impl AccessSessionHarness {
    async fn open() -> Self {
        let harness = PolicyHarness::open().await;
        let public = authenticate(&harness, &harness.victim.public.key);
        let pepper = harness.loaded_directory.pepper();
        let create_session = || {
            create_access_session(
                &harness.vault_harness.vault,
                policy_permit(&public, Public),
                pepper,
            )
        };
        let (first, second) = (create_session().await.unwrap(), create_session().await.unwrap());
        let sessions = Self { policy: harness, first, second };
        sessions.authorize(&sessions.first.nonce).await.unwrap();
        sessions
    }

    async fn authorize(&self, nonce: &str) -> Result<(), Error> {
        self.authorize_by(&self.policy.victim, nonce).await
    }

    async fn authorize_by(&self, actor: &PolicyActor, nonce: &str) -> Result<(), Error> {
        let private = authenticate(&self.policy, &actor.private.key);
        let access =
            access_with_rules([access_rule("/a/", Transform::Mask, &[Permission::TokenRead])]);
        let authorization =
            AccessSessionAuthorization { nonce: nonce.to_owned(), access, expires_at: None };
        let (vault, pepper) =
            (&self.policy.vault_harness.vault, self.policy.loaded_directory.pepper());
        authorize_access_session(
            vault,
            policy_permit(&private, Private),
            pepper,
            authorization,
            None,
        )
        .await
    }

    /// `None` if the session is unknown; an error if it was altered.
    async fn resume(&self, session: &CreatedAccessSession) -> Result<Option<Caller>, Error> {
        let (vault, key) = (&self.policy.vault_harness.vault, session.key.expose());
        let principal = resume_access_session(vault, &self.policy.loaded_directory, key).await?;
        Ok(principal.map(|it| Caller::new(Arc::new(it), test_origin())))
    }

    async fn has_rights(&self, session: &CreatedAccessSession) -> bool {
        let has_any_permission = |it: Caller| {
            Permission::ALL.iter().any(|permission| {
                it.check_requirement(CallerRequirement::Permission(*permission)).is_ok()
            })
        };
        self.resume(session).await.is_ok_and(|it| it.is_some_and(has_any_permission))
    }

    async fn check_restored(&self, context: &str) {
        assert!(self.has_rights(&self.first).await, "{context}");
        assert!(self.resume(&self.second).await.unwrap().is_some(), "{context}");
    }
}

fn authenticate(harness: &PolicyHarness, key: &str) -> Caller {
    harness::expect_caller(harness.loaded_directory.authenticate(key))
}

#[tokio::test]
async fn altered_access_session_is_rejected() {
    let it = AccessSessionHarness::open().await;
    it.check_restored("initially").await;
    let rows = it.policy.read_rows();
    for (column, values) in alterations() {
        let mut rejected = 0;
        for value in values {
            let sql = format!("UPDATE access_sessions SET {column} = {value} WHERE seq = 1");
            // The row may have this value already.
            assert!(it.policy.try_write(&sql), "{sql}");
            if it.policy.read_rows() == rows {
                continue;
            }
            let resumed = it.resume(&it.first).await;
            assert!(matches!(resumed, Err(_) | Ok(None)), "{sql}: {resumed:?}");
            it.policy.restore(&rows);
            it.check_restored(&sql).await;
            rejected += 1;
        }
        assert!(rejected > 1, "too few values alter {column}");
    }
}

/// Alters a session without authorization. An authorization must not grant rights to another
/// session than the intended one.
#[tokio::test]
async fn altered_access_session_cannot_be_authorized() {
    let it = AccessSessionHarness::open().await;
    let rows = it.policy.read_rows();
    for (column, values) in alterations() {
        for value in values {
            let sql = format!("UPDATE access_sessions SET {column} = {value} WHERE seq = 2");
            if !it.policy.try_write(&sql) || it.policy.read_rows() == rows || column == "access" {
                it.policy.restore(&rows);
                continue;
            }
            let altered_rows = it.policy.read_rows();
            assert!(it.authorize(&it.second.nonce).await.is_err(), "{sql}");
            assert!(it.authorize_by(&it.policy.other, &it.second.nonce).await.is_err(), "{sql}");
            assert!(!it.has_rights(&it.second).await, "{sql}");
            assert_eq!(it.policy.read_rows(), altered_rows, "{sql}");
            it.policy.restore(&rows);
        }
    }
    it.authorize(&it.second.nonce).await.unwrap();
    assert!(it.has_rights(&it.second).await);
}

#[tokio::test]
async fn rights_cannot_be_copied_between_access_sessions() {
    let it = AccessSessionHarness::open().await;
    let rows = it.policy.read_rows();
    for sql in MULTI_ROW_ALTERATIONS {
        assert!(it.policy.try_write(sql) && it.policy.read_rows() != rows, "{sql}");
        assert!(!it.has_rights(&it.second).await, "{sql}");
        it.policy.restore(&rows);
        it.check_restored(sql).await;
    }
}

#[tokio::test]
async fn access_session_with_other_column_types_is_rejected() {
    let it = AccessSessionHarness::open().await;
    it.policy.drop_schema_checks();
    let rows = it.policy.read_rows();
    for Column { name: column, .. } in ACCESS_SESSION.columns {
        for value in ["NULL", "1.5", "'text'", "x'c328'", "CAST(x'c328' AS TEXT)"] {
            let sql = format!("UPDATE access_sessions SET {column} = {value} WHERE seq = 1");
            assert!(it.policy.try_write(&sql) && it.policy.read_rows() != rows, "{sql}");
            let resumed = it.resume(&it.first).await;
            assert!(matches!(resumed, Err(_) | Ok(None)), "{sql}: {resumed:?}");
            it.policy.restore(&rows);
        }
    }
    it.check_restored("all rows").await;
}

/// Columns without a MAC: the order of rows, and rights without an authorizer.
#[tokio::test]
async fn unauthenticated_access_session_columns_grant_no_rights() {
    let it = AccessSessionHarness::open().await;
    assert!(it.policy.try_write("UPDATE access_sessions SET seq = seq + 100"));
    it.check_restored("seq").await;
    let copy_access = "UPDATE access_sessions SET access = (SELECT access FROM access_sessions
        WHERE seq = 101) WHERE seq = 102";
    assert!(it.policy.try_write(copy_access));
    assert!(it.resume(&it.second).await.unwrap().is_some());
    assert!(!it.has_rights(&it.second).await);
}

/// An older row, from before the authorization, is authentic and has fewer rights than the current
/// one. An expired session stays expired, because the MAC covers its expiry.
#[tokio::test]
async fn restored_old_access_session_row_grants_no_new_rights() {
    let it = AccessSessionHarness::open().await;
    let old_rows = it.policy.read_rows();
    it.authorize(&it.second.nonce).await.unwrap();
    let current_rows = it.policy.read_rows();
    assert!(it.has_rights(&it.second).await);
    it.policy.restore(&old_rows);
    assert!(!it.has_rights(&it.second).await);
    it.policy.restore(&current_rows);

    it.policy.vault_harness.clock.advance(Duration::from_secs(3 * 60));
    assert!(it.resume(&it.first).await.unwrap().is_none());
    let store = &it.policy.vault_harness.vault.store;
    let now = it.policy.vault_harness.vault.clock.now();
    assert_eq!(store.delete_expired_access_sessions(now).await.unwrap(), 2);
    it.policy.restore(&current_rows);
    assert!(it.resume(&it.first).await.unwrap().is_none());
    assert!(it.authorize(&it.second.nonce).await.is_err());
}

/// An access session has no rights while its tenant is altered.
#[tokio::test]
async fn access_sessions_of_an_altered_tenant_are_rejected() {
    let mut it = AccessSessionHarness::open().await;
    let rows = it.policy.read_rows();
    assert!(it.policy.try_write("UPDATE applications SET name = 'another' WHERE id = {manager}"));
    let altered_directory =
        it.policy.vault_harness.reload(Some(&it.policy.loaded_directory)).await.unwrap();
    let unaltered_directory = std::mem::replace(&mut it.policy.loaded_directory, altered_directory);
    assert!(it.resume(&it.first).await.unwrap().is_none());
    it.policy.restore(&rows);
    it.policy.loaded_directory = unaltered_directory;
    it.check_restored("an application").await;
}
