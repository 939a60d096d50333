//! Policy is stored unencrypted on PostgreSQL too. An attacker who alters a column gains nothing:
//! the tenant is rejected until the column is restored, and other tenants are not affected.

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
    policy::{CallerRequirement, Directory, PolicyPermit, access_session::ACCESS_SESSION},
    types::{ApplicationKind, Permission, Transform},
};
use scrip_testing::{
    policy::{access_rule, access_with_rules},
    vault_harness::{Engine, VaultHarness},
};

use crate::{
    policy::{
        access_sessions::SPECIAL_ALTERATIONS,
        entity_alterations::entity_alterations,
        harness::{
            self, PolicyActor, check_actors_unaltered, check_victim_rejected, create_actor,
            fill_ids,
        },
    },
    postgres::column_alterations::{Attacker, PostgresAlteration},
};

struct PostgresPolicyHarness {
    attacker: Attacker,
    loaded_directory: Directory,
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
        let loaded_directory = harness.directory().await;
        Self { attacker, loaded_directory, victim, other, witness, vault_harness: harness }
    }

    /// Replaces the placeholders with the ids of the tenants and applications.
    fn fill_ids(&self, sql: &str) -> String {
        fill_ids(sql, &self.victim, &self.other, |id| format!("'{id}'"))
    }

    /// Checks that a statement on this table is detected, and restores the table.
    async fn check_alteration(&self, table: &str, sql: &str) {
        let sql = self.fill_ids(sql);
        self.attacker.save_table(table).await;
        assert!(self.attacker.execute(&sql).await, "{sql}");
        let altered_directory = self.check_rejected(&sql).await;
        self.attacker.restore_table(table).await;
        self.check_unaltered(&altered_directory, &sql).await;
    }

    /// Checks that keys of this tenant are rejected, keys of other tenants work, the alteration is
    /// reported, and no policy change signs the altered rows.
    async fn check_rejected(&self, context: &str) -> Directory {
        let actors = [&self.victim, &self.witness];
        let altered_directory =
            check_victim_rejected(&self.vault_harness, &self.loaded_directory, actors, context)
                .await;
        let quotas = self.victim.tenant.quotas;
        let keep_quotas = Box::new(move |_| quotas);
        let policy_change =
            set_tenant_quotas(&self.vault_harness.vault, self.victim.operator(), keep_quotas).await;
        assert!(policy_change.is_err(), "{context}");
        altered_directory
    }

    async fn check_unaltered(&self, altered_directory: &Directory, context: &str) {
        let (vault, actors) = (&self.vault_harness, [&self.victim, &self.other, &self.witness]);
        check_actors_unaltered(vault, Some(altered_directory), actors, context).await;
    }
}

const ZEROS: &str = "decode(repeat('00', 32), 'hex')";

const TENANT_ALTERATIONS: &[PostgresAlteration] = &[
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
    ("sealing_version", &["0", "1", "2", "-1"]),
    ("mac", &[ZEROS, "policy_mac", "(SELECT mac FROM tenants WHERE id = {other})", "''"]),
    (
        "policy_counter",
        &["policy_counter + 1", "policy_counter - 1", "0", "-1", "9223372036854775807"],
    ),
    ("policy_mac", &[ZEROS, "mac", "(SELECT policy_mac FROM tenants WHERE id = {other})", "''"]),
];

const TENANT_KEY_ALTERATIONS: &[PostgresAlteration] = &[
    ("tenant", &["{fresh}"]),
    ("version", &["0", "2", "-1", "4294967297"]),
    (
        "wrapped",
        &[
            "(SELECT wrapped FROM tenant_keys WHERE tenant = {other})",
            "(SELECT wrapped FROM permanent_keys WHERE tenant = {victim})",
            "substr(wrapped, 1, length(wrapped) - 1)",
            "''",
        ],
    ),
];

const PERMANENT_KEY_ALTERATIONS: &[PostgresAlteration] = &[
    ("tenant", &["{fresh}"]),
    (
        "wrapped",
        &[
            "(SELECT wrapped FROM permanent_keys WHERE tenant = {other})",
            "(SELECT wrapped FROM tenant_keys WHERE tenant = {victim})",
            "substr(wrapped, 1, length(wrapped) - 1)",
            "''",
        ],
    ),
];

const APPLICATION_ALTERATIONS: &[PostgresAlteration] = &[
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
    ("origins", &["'https://attacker.example'", "'*'", "''"]),
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

const API_KEY_ALTERATIONS: &[PostgresAlteration] = &[
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

const PROXY_ALTERATIONS: &[PostgresAlteration] = &[
    ("tenant", &["{other}"]),
    ("id", &["{fresh}"]),
    ("digest", &[ZEROS, "substr(digest, 1, 31)", "''"]),
    ("name", &["'another'", "''", "name || ' '"]),
    ("application", &["{manager}", "{public}", "{other private}", "NULL"]),
    ("require_auth", &["0", "2"]),
    ("disable_detokenization", &["1", "2"]),
    ("host", &["'a.example'", "upper(host)", "'localhost'", "NULL"]),
    ("settings", &["(SELECT settings FROM proxies WHERE id = {other proxy})", "secrets", "''"]),
    ("secrets", &["(SELECT secrets FROM proxies WHERE id = {other proxy})", "settings", "''"]),
    ("created_by", &["{private}", "{other}", "NULL"]),
    ("created_at", &["created_at + 1", "0", "-1"]),
    ("modified_by", &["{private}", "{other}", "NULL"]),
    ("modified_at", &["modified_at + 1", "0", "NULL"]),
    ("mac", &["(SELECT mac FROM proxies WHERE id = {other proxy})", ZEROS, "''"]),
];

const CLIENT_KEY_ALTERATIONS: &[PostgresAlteration] = &[
    ("tenant", &["{other}"]),
    ("id", &["{fresh}"]),
    ("expires_at", &["expires_at + 1", "0", "-1"]),
    ("private_key", &["mac", "''"]),
    ("created_by", &["{private}", "{other}", "NULL"]),
    ("created_at", &["created_at + 1", "0", "-1"]),
    ("mac", &["(SELECT mac FROM client_keys WHERE id = {other client key})", ZEROS, "''"]),
];

const WEBHOOK_ALTERATIONS: &[PostgresAlteration] = &[
    ("tenant", &["{other}"]),
    ("id", &["{fresh}"]),
    ("name", &["'another'", "''", "name || ' '"]),
    ("status", &["'disabled'", "''"]),
    ("events", &["'token.read'", "'token.deleted,token.created'", "''"]),
    ("settings", &["secrets", "''"]),
    ("secrets", &["settings", "''"]),
    ("created_by", &["{private}", "{other}", "NULL"]),
    ("created_at", &["created_at + 1", "0", "-1"]),
    ("modified_by", &["{private}", "{other}", "NULL"]),
    ("modified_at", &["modified_at + 1", "0", "NULL"]),
    ("mac", &["(SELECT mac FROM webhooks WHERE id = {other webhook})", ZEROS, "''"]),
];

/// A table, the condition that selects the row, and the alterations of each column.
const ALTERATIONS: &[(&str, &str, &[PostgresAlteration])] = &[
    ("tenants", "id = {victim}", TENANT_ALTERATIONS),
    ("tenant_keys", "tenant = {victim}", TENANT_KEY_ALTERATIONS),
    ("permanent_keys", "tenant = {victim}", PERMANENT_KEY_ALTERATIONS),
    ("applications", "id = {private}", APPLICATION_ALTERATIONS),
    ("api_keys", "application = {private}", API_KEY_ALTERATIONS),
    ("proxies", "id = {proxy}", PROXY_ALTERATIONS),
    ("webhooks", "id = {webhook}", WEBHOOK_ALTERATIONS),
    ("client_keys", "id = {client key}", CLIENT_KEY_ALTERATIONS),
];

#[tokio::test]
async fn altered_policy_column_is_detected_on_postgres() {
    let harness = PostgresPolicyHarness::open().await;
    for (table, condition, alterations) in ALTERATIONS {
        harness.attacker.check_columns(table, alterations, &[]).await;
        for (column, values) in *alterations {
            for value in *values {
                let sql = format!("UPDATE {table} SET {column} = {value} WHERE {condition}");
                harness.check_alteration(table, &sql).await;
            }
        }
    }
    let quotas = harness.victim.tenant.quotas;
    let keep_quotas = Box::new(move |_| quotas);
    set_tenant_quotas(&harness.vault_harness.vault, harness.victim.operator(), keep_quotas)
        .await
        .unwrap();
}

#[tokio::test]
async fn removed_or_added_policy_row_is_detected_on_postgres() {
    let harness = PostgresPolicyHarness::open().await;
    for (table, condition, _) in ALTERATIONS {
        harness.check_alteration(table, &format!("DELETE FROM {table} WHERE {condition}")).await;
    }
    for (table, sql) in [
        (
            "applications",
            "INSERT INTO applications SELECT tenant, {fresh}, name, kind, access, created_by,
             created_at, modified_by, modified_at, mac, origins FROM applications WHERE id = {manager}",
        ),
        (
            "api_keys",
            "INSERT INTO api_keys SELECT tenant, {manager}, {fresh}, digest, created_by,
             created_at, mac FROM api_keys WHERE application = {private}",
        ),
    ] {
        harness.check_alteration(table, sql).await;
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
        for previous in [None, Some(&harness.loaded_directory)] {
            assert!(harness.vault_harness.reload(previous).await.is_err(), "{sql}");
        }
        harness.attacker.restore_table("system_keys").await;
        harness.check_unaltered(&harness.loaded_directory, sql).await;
    }
}

#[tokio::test]
async fn altered_access_session_has_no_rights_on_postgres() {
    let harness = PostgresPolicyHarness::open().await;
    let (vault, pepper) = (&harness.vault_harness.vault, harness.loaded_directory.pepper());
    let create_permit = |key: &str, kind: ApplicationKind| -> PolicyPermit {
        harness::expect_caller(harness.loaded_directory.authenticate(key))
            .permit_policy(CallerRequirement::Kind(kind))
            .unwrap()
    };
    let public_permit = create_permit(&harness.victim.public.key, ApplicationKind::Public);
    let session = create_access_session(vault, public_permit, pepper).await.unwrap();
    let private_permit = create_permit(&harness.victim.private.key, ApplicationKind::Private);
    let access = access_with_rules([access_rule("/a/", Transform::Mask, &[Permission::TokenRead])]);
    let authorization =
        AccessSessionAuthorization { nonce: session.nonce.clone(), access, expires_at: None };
    authorize_access_session(vault, private_permit, pepper, authorization, None).await.unwrap();
    let resume = async || {
        let outcome =
            resume_access_session(vault, &harness.loaded_directory, session.key.expose()).await;
        outcome.map(|it| it.map(Arc::new))
    };
    assert!(resume().await.unwrap().is_some());
    let columns = ACCESS_SESSION.columns.iter().map(|it| it.name).collect::<Vec<_>>();
    harness.attacker.check_columns("access_sessions", &[], &columns).await;
    let alterations = entity_alterations(Engine::Postgres, &ACCESS_SESSION, SPECIAL_ALTERATIONS);
    for (column, values) in alterations {
        let mut rejected = 0;
        for value in values {
            // The row may have this value already.
            let sql = harness.fill_ids(&format!(
                "UPDATE access_sessions SET {column} = {value}
                 WHERE {column} IS DISTINCT FROM {value}"
            ));
            harness.attacker.save_table("access_sessions").await;
            if harness.attacker.execute(&sql).await {
                let resumed = resume().await;
                assert!(matches!(resumed, Err(_) | Ok(None)), "{sql}: {resumed:?}");
                rejected += 1;
            }
            harness.attacker.restore_table("access_sessions").await;
            assert!(resume().await.unwrap().is_some(), "{sql}");
        }
        assert!(rejected > 0, "no value alters {column}");
    }
}
