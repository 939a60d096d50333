//! Policy stands in clear on PostgreSQL, too. Whoever alters any column of it gains nothing: the
//! tenant is refused until it is put back, and nobody else notices.

use std::sync::Arc;

use scrip_core::{
    operations::{
        access_sessions::{
            authorize_access_session::{AccessSessionAuthorization, authorize_access_session},
            create_access_session::create_access_session,
            resume_access_session::resume_access_session,
        },
        tenants::update_tenant::set_tenant_quotas,
    },
    policy::{
        ApiKeyLookup, ApplicationKind, CallerRequirement, Directory, Permission, PolicyPermit,
        Transform,
    },
};
use scrip_testing::{
    policy::{access_rule, access_with_rules},
    vault_harness::{Engine, VaultHarness},
};

use crate::{
    policy::harness::{self, PolicyActor, create_actor, principal},
    postgres::column_alterations::{Attacker, PostgresAlteration},
};

struct PostgresPolicyHarness {
    attacker: Attacker,
    loaded: Directory,
    victim: PolicyActor,
    other: PolicyActor,
    witness: PolicyActor,
    vault_harness: VaultHarness,
}

impl PostgresPolicyHarness {
    async fn open() -> Self {
        let harness = VaultHarness::open(Engine::Postgres).await;
        let victim = create_actor(&harness, "victim").await;
        let other = create_actor(&harness, "other").await;
        let witness = create_actor(&harness, "witness").await;
        let attacker = Attacker::connect(&harness).await;
        let before = harness.directory().await;
        Self { attacker, loaded: before, victim, other, witness, vault_harness: harness }
    }

    /// With the names of the parties filled in.
    fn fill_ids(&self, sql: &str) -> String {
        let quoted = |it: uuid::Uuid| format!("'{it}'");
        sql.replace("{victim}", &quoted(self.victim.tenant.id.0))
            .replace("{other}", &quoted(self.other.tenant.id.0))
            .replace("{manager}", &quoted(self.victim.manager.application.0))
            .replace("{private}", &quoted(self.victim.private.application.0))
            .replace("{public}", &quoted(self.victim.public.application.0))
            .replace("{other private}", &quoted(self.other.private.application.0))
            .replace("{fresh}", "'5c5c5c5c-5c5c-5c5c-5c5c-5c5c5c5c5c5c'")
    }

    /// Whoever held keys of this tenant is refused, others are not, somebody hears of it, and no
    /// change puts a seal of ours under it.
    async fn check_rejected(&self, context: &str) -> Directory {
        let victim = self.victim.tenant.id;
        let mut loaded = None;
        for before in [None, Some(&self.loaded)] {
            let directory = self.vault_harness.reload(before).await.unwrap();
            for key in self.victim.keys() {
                let known = directory.authenticate(key);
                assert!(
                    matches!(known, None | Some(ApiKeyLookup::PolicyAltered)),
                    "{context}: {known:?}"
                );
            }
            assert!(directory.tenant(victim).is_none(), "{context}");
            for key in self.witness.keys() {
                principal(directory.authenticate(key));
            }
            let named = |it: Option<_>| it.is_none_or(|it| it == victim);
            assert!(directory.alterations().iter().any(|it| named(it.tenant)), "{context}");
            loaded = Some(directory);
        }
        let quotas = self.victim.tenant.quotas;
        let edit = Box::new(move |_| quotas);
        let changed =
            set_tenant_quotas(&self.vault_harness.vault, self.victim.operator(), edit).await;
        assert!(changed.is_err(), "{context}");
        loaded.unwrap()
    }

    async fn check_unaltered(&self, before: &Directory, context: &str) {
        for before in [None, Some(before)] {
            let directory = self.vault_harness.reload(before).await.unwrap();
            assert_eq!(directory.alterations(), [], "{context}");
            for party in [&self.victim, &self.other, &self.witness] {
                for key in party.keys() {
                    principal(directory.authenticate(key));
                }
            }
        }
    }
}

const ZEROS: &str = "decode(repeat('00', 32), 'hex')";

const TENANT: &[PostgresAlteration] = &[
    ("id", &["{fresh}"]),
    ("name", &["'another'", "''", "' ' || name || ' '", "'other'", "chr(10)"]),
    ("kind", &["'production'", "'unheard of'", "''"]),
    (
        "settings",
        &[
            "' ' || settings",
            "replace(settings, 'true', 'false')",
            "jsonb_set(settings::jsonb, '{unknown}', '1')::text",
            "'{}'",
            "'null'",
            "''",
        ],
    ),
    (
        "quotas",
        &[
            "' ' || quotas",
            "jsonb_set(quotas::jsonb, '{tokenize_limit}', '1000')::text",
            "(quotas::jsonb - 'tokenize_limit')::text",
            "'{}'",
            "''",
        ],
    ),
    ("created_by", &["{manager}"]),
    ("created_at", &["created_at + 1", "0", "-1"]),
    ("modified_by", &["{private}", "{other}", "NULL"]),
    ("modified_at", &["modified_at + 1", "0", "NULL"]),
    ("deletes_at", &["0", "1", "4102444800000"]),
    ("mac", &[ZEROS, "policy_mac", "(SELECT mac FROM tenants WHERE id = {other})", "''"]),
    (
        "policy_counter",
        &["policy_counter + 1", "policy_counter - 1", "0", "-1", "9223372036854775807"],
    ),
    ("policy_mac", &[ZEROS, "mac", "(SELECT policy_mac FROM tenants WHERE id = {other})", "''"]),
];

const TENANT_KEY: &[PostgresAlteration] = &[
    ("tenant", &["{fresh}"]),
    ("version", &["0", "2", "-1", "4294967297"]),
    (
        "wrapped",
        &[
            "(SELECT wrapped FROM tenant_keys WHERE tenant = {other})",
            "(SELECT wrapped FROM lasting_keys WHERE tenant = {victim})",
            "substr(wrapped, 1, length(wrapped) - 1)",
            "''",
        ],
    ),
];

const PERMANENT_KEY: &[PostgresAlteration] = &[
    ("tenant", &["{fresh}"]),
    (
        "wrapped",
        &[
            "(SELECT wrapped FROM lasting_keys WHERE tenant = {other})",
            "(SELECT wrapped FROM tenant_keys WHERE tenant = {victim})",
            "substr(wrapped, 1, length(wrapped) - 1)",
            "''",
        ],
    ),
];

const APPLICATION: &[PostgresAlteration] = &[
    ("tenant", &["{other}", "{fresh}"]),
    ("id", &["{fresh}"]),
    ("name", &["'another'", "''", "name || ' '", "chr(10)"]),
    ("kind", &["'management'", "'public'", "'unheard of'", "''"]),
    (
        "access",
        &[
            "' ' || access",
            "(SELECT access FROM applications WHERE id = {manager})",
            "(SELECT access FROM applications WHERE id = {public})",
            "replace(access, 'mask', 'reveal')",
            "replace(access, '\"/\"', '\"/a/\"')",
            "'{\"permissions\":[\"all\"],\"rules\":[]}'",
            "'{}'",
            "''",
        ],
    ),
    ("created_by", &["{private}", "{other}", "NULL"]),
    ("created_at", &["created_at + 1", "0", "-1"]),
    ("modified_by", &["{private}", "{other}", "NULL"]),
    ("modified_at", &["modified_at + 1", "0", "NULL"]),
    (
        "mac",
        &[
            "(SELECT mac FROM applications WHERE id = {manager})",
            "(SELECT mac FROM applications WHERE id = {other private})",
            "(SELECT mac FROM tenants WHERE id = {victim})",
            ZEROS,
            "''",
        ],
    ),
];

const API_KEY: &[PostgresAlteration] = &[
    ("tenant", &["{other}", "{fresh}"]),
    ("application", &["{manager}", "{public}", "{other private}", "{fresh}"]),
    ("id", &["{fresh}"]),
    ("digest", &[ZEROS, "substr(digest, 1, 31)", "''"]),
    ("created_by", &["{private}", "{other}", "NULL"]),
    ("created_at", &["created_at + 1", "0", "-1"]),
    (
        "mac",
        &[
            "(SELECT mac FROM api_keys WHERE application = {manager})",
            "(SELECT mac FROM api_keys WHERE application = {other private})",
            "(SELECT mac FROM applications WHERE id = {private})",
            ZEROS,
            "''",
        ],
    ),
];

/// A table, which of its rows, and what becomes of each of its columns.
const ALTERATIONS: &[(&str, &str, &[PostgresAlteration])] = &[
    ("tenants", "id = {victim}", TENANT),
    ("tenant_keys", "tenant = {victim}", TENANT_KEY),
    ("lasting_keys", "tenant = {victim}", PERMANENT_KEY),
    ("applications", "id = {private}", APPLICATION),
    ("api_keys", "application = {private}", API_KEY),
];

#[tokio::test]
async fn altered_policy_column_is_detected_on_postgres() {
    let harness = PostgresPolicyHarness::open().await;
    for (table, row, altered) in ALTERATIONS {
        harness.attacker.check_columns(table, altered, &[]).await;
        for (column, values) in *altered {
            for value in *values {
                let sql = format!("UPDATE {table} SET {column} = {value} WHERE {row}");
                let sql = harness.fill_ids(&sql);
                harness.attacker.save_table(table).await;
                assert!(harness.attacker.execute(&sql).await, "{sql}");
                let rejected = harness.check_rejected(&sql).await;
                harness.attacker.restore_table(table).await;
                harness.check_unaltered(&rejected, &sql).await;
            }
        }
    }
    let quotas = harness.victim.tenant.quotas;
    let edit = Box::new(move |_| quotas);
    set_tenant_quotas(&harness.vault_harness.vault, harness.victim.operator(), edit).await.unwrap();
}

#[tokio::test]
async fn removed_or_added_policy_row_is_detected_on_postgres() {
    let harness = PostgresPolicyHarness::open().await;
    for (table, row, _) in ALTERATIONS {
        let sql = harness.fill_ids(&format!("DELETE FROM {table} WHERE {row}"));
        harness.attacker.save_table(table).await;
        assert!(harness.attacker.execute(&sql).await, "{sql}");
        let rejected = harness.check_rejected(&sql).await;
        harness.attacker.restore_table(table).await;
        harness.check_unaltered(&rejected, &sql).await;
    }
    for (table, sql) in [
        (
            "applications",
            "INSERT INTO applications SELECT tenant, {fresh}, name, kind, access, created_by,
             created_at, modified_by, modified_at, mac FROM applications WHERE id = {manager}",
        ),
        (
            "api_keys",
            "INSERT INTO api_keys SELECT tenant, {manager}, {fresh}, digest, created_by,
             created_at, mac FROM api_keys WHERE application = {private}",
        ),
    ] {
        let sql = harness.fill_ids(sql);
        harness.attacker.save_table(table).await;
        assert!(harness.attacker.execute(&sql).await, "{sql}");
        let rejected = harness.check_rejected(&sql).await;
        harness.attacker.restore_table(table).await;
        harness.check_unaltered(&rejected, &sql).await;
    }
}

#[tokio::test]
async fn directory_does_not_load_with_altered_system_keys_on_postgres() {
    let harness = PostgresPolicyHarness::open().await;
    for sql in [
        "UPDATE system_keys SET name = 'other' WHERE name = 'pepper'",
        "UPDATE system_keys SET name = 'other' WHERE name = 'audit'",
        "UPDATE system_keys SET wrapped = '' WHERE name = 'pepper'",
        "UPDATE system_keys SET wrapped = '' WHERE name = 'audit'",
        "UPDATE system_keys SET wrapped = (SELECT wrapped FROM system_keys AS it
             WHERE it.name <> system_keys.name)",
        "DELETE FROM system_keys",
    ] {
        harness.attacker.save_table("system_keys").await;
        assert!(harness.attacker.execute(sql).await, "{sql}");
        for before in [None, Some(&harness.loaded)] {
            assert!(harness.vault_harness.reload(before).await.is_err(), "{sql}");
        }
        harness.attacker.restore_table("system_keys").await;
        harness.check_unaltered(&harness.loaded, sql).await;
    }
}

const ACCESS_SESSION: &[PostgresAlteration] = &[
    ("tenant", &["{other}", "{fresh}"]),
    ("digest", &[ZEROS, "substr(digest, 1, 31)", "''"]),
    ("nonce", &[ZEROS, "substr(nonce, 1, 31)", "''"]),
    ("application", &["{manager}", "{private}", "{other private}", "{fresh}"]),
    ("created_at", &["created_at + 1", "0"]),
    ("expires_at", &["expires_at + 1", "9223372036854775807", "0"]),
    ("authorized_by", &["{manager}", "{public}", "{other private}", "NULL"]),
    ("authorized_key", &["{fresh}", "NULL"]),
    ("authorized_at", &["authorized_at + 1", "0", "NULL"]),
    (
        "access",
        &[
            "replace(access, '/a/', '/')",
            "replace(access, 'mask', 'reveal')",
            "(SELECT access FROM applications WHERE id = {manager})",
            "'{}'",
            "''",
            "NULL",
        ],
    ),
    ("mac", &[ZEROS, "substr(mac, 1, 31)", "''", "digest"]),
];

#[tokio::test]
async fn altered_access_session_has_no_rights_on_postgres() {
    let harness = PostgresPolicyHarness::open().await;
    let (vault, pepper) = (&harness.vault_harness.vault, harness.loaded.pepper());
    let permit = |key: &str, kind: ApplicationKind| -> PolicyPermit {
        harness::caller(harness.loaded.authenticate(key))
            .permit_policy(CallerRequirement::Kind(kind))
            .unwrap()
    };
    let public = permit(&harness.victim.public.key, ApplicationKind::Public);
    let session = create_access_session(vault, public, pepper).await.unwrap();
    let private = permit(&harness.victim.private.key, ApplicationKind::Private);
    let access = access_with_rules([access_rule("/a/", Transform::Mask, &[Permission::TokenRead])]);
    let authorization =
        AccessSessionAuthorization { nonce: session.nonce.clone(), access, expires_at: None };
    authorize_access_session(vault, private, pepper, authorization, None).await.unwrap();
    let resume = async || {
        let found = resume_access_session(vault, &harness.loaded, session.key.expose()).await;
        found.map(|it| it.map(Arc::new))
    };
    assert!(resume().await.unwrap().is_some());
    harness.attacker.check_columns("access_sessions", ACCESS_SESSION, &[]).await;
    for (column, values) in ACCESS_SESSION {
        for value in *values {
            let sql = harness.fill_ids(&format!("UPDATE access_sessions SET {column} = {value}"));
            harness.attacker.save_table("access_sessions").await;
            assert!(harness.attacker.execute(&sql).await, "{sql}");
            let known = resume().await;
            assert!(matches!(known, Err(_) | Ok(None)), "{sql}: {known:?}");
            harness.attacker.restore_table("access_sessions").await;
            assert!(resume().await.unwrap().is_some(), "{sql}");
        }
    }
}
