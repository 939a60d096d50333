//! Policy stands in clear on PostgreSQL, too. Whoever alters any column of it gains nothing: the
//! tenant is refused until it is put back, and nobody else notices.

use std::sync::Arc;

use scrip_core::{
    operations::{
        access_sessions::{
            authorize_access_session::{Authorization, authorize_access_session},
            create_access_session::create_access_session,
            resume_access_session::resume_access_session,
        },
        tenants::update_tenant::set_tenant_quotas,
    },
    policy::{ApplicationKind, Directory, Known, Mandate, Needs, Permission, Transform},
};
use scrip_testing::{
    policy::{rule, ruled},
    vault_harness::{Engine, VaultHarness},
};

use crate::{
    policy::harness::{self, Party, party, principal},
    postgres::altered::{Altered, Outside},
};

struct PostgresPolicyHarness {
    outside: Outside,
    before: Directory,
    victim: Party,
    other: Party,
    witness: Party,
    world: VaultHarness,
}

impl PostgresPolicyHarness {
    async fn open() -> Self {
        let world = VaultHarness::open(Engine::Postgres).await;
        let victim = party(&world, "victim").await;
        let other = party(&world, "other").await;
        let witness = party(&world, "witness").await;
        let outside = Outside::of(&world).await;
        let before = world.directory().await;
        Self { outside, before, victim, other, witness, world }
    }

    /// With the names of the parties filled in.
    fn fill(&self, sql: &str) -> String {
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
    async fn check_refused(&self, what: &str) -> Directory {
        let victim = self.victim.tenant.id;
        let mut loaded = None;
        for before in [None, Some(&self.before)] {
            let directory = self.world.reload(before).await.unwrap();
            for key in self.victim.keys() {
                let known = directory.authenticate(key);
                assert!(matches!(known, None | Some(Known::Refused)), "{what}: {known:?}");
            }
            assert!(directory.tenant(victim).is_none(), "{what}");
            for key in self.witness.keys() {
                principal(directory.authenticate(key));
            }
            let named = |it: Option<_>| it.is_none_or(|it| it == victim);
            assert!(directory.alterations().iter().any(|it| named(it.tenant)), "{what}");
            loaded = Some(directory);
        }
        let quotas = self.victim.tenant.quotas;
        let edit = Box::new(move |_| quotas);
        let changed = set_tenant_quotas(&self.world.vault, self.victim.operator(), edit).await;
        assert!(changed.is_err(), "{what}");
        loaded.unwrap()
    }

    async fn check_sound(&self, before: &Directory, what: &str) {
        for before in [None, Some(before)] {
            let directory = self.world.reload(before).await.unwrap();
            assert_eq!(directory.alterations(), [], "{what}");
            for party in [&self.victim, &self.other, &self.witness] {
                for key in party.keys() {
                    principal(directory.authenticate(key));
                }
            }
        }
    }
}

const ZEROS: &str = "decode(repeat('00', 32), 'hex')";

const TENANT: &[Altered] = &[
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

const TENANT_KEY: &[Altered] = &[
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

const LASTING_KEY: &[Altered] = &[
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

const APPLICATION: &[Altered] = &[
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

const API_KEY: &[Altered] = &[
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
const ALTERED: &[(&str, &str, &[Altered])] = &[
    ("tenants", "id = {victim}", TENANT),
    ("tenant_keys", "tenant = {victim}", TENANT_KEY),
    ("lasting_keys", "tenant = {victim}", LASTING_KEY),
    ("applications", "id = {private}", APPLICATION),
    ("api_keys", "application = {private}", API_KEY),
];

#[tokio::test]
async fn an_altered_column_of_policy_is_noticed() {
    let scene = PostgresPolicyHarness::open().await;
    for (table, row, altered) in ALTERED {
        scene.outside.check_columns(table, altered, &[]).await;
        for (column, values) in *altered {
            for value in *values {
                let sql = format!("UPDATE {table} SET {column} = {value} WHERE {row}");
                let sql = scene.fill(&sql);
                scene.outside.keep(table).await;
                assert!(scene.outside.write(&sql).await, "{sql}");
                let refused = scene.check_refused(&sql).await;
                scene.outside.put_back(table).await;
                scene.check_sound(&refused, &sql).await;
            }
        }
    }
    let quotas = scene.victim.tenant.quotas;
    let edit = Box::new(move |_| quotas);
    set_tenant_quotas(&scene.world.vault, scene.victim.operator(), edit).await.unwrap();
}

#[tokio::test]
async fn a_row_that_is_gone_or_too_many_is_noticed() {
    let scene = PostgresPolicyHarness::open().await;
    for (table, row, _) in ALTERED {
        let sql = scene.fill(&format!("DELETE FROM {table} WHERE {row}"));
        scene.outside.keep(table).await;
        assert!(scene.outside.write(&sql).await, "{sql}");
        let refused = scene.check_refused(&sql).await;
        scene.outside.put_back(table).await;
        scene.check_sound(&refused, &sql).await;
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
        let sql = scene.fill(sql);
        scene.outside.keep(table).await;
        assert!(scene.outside.write(&sql).await, "{sql}");
        let refused = scene.check_refused(&sql).await;
        scene.outside.put_back(table).await;
        scene.check_sound(&refused, &sql).await;
    }
}

#[tokio::test]
async fn without_the_vaults_own_keys_nothing_is_loaded() {
    let scene = PostgresPolicyHarness::open().await;
    for sql in [
        "UPDATE system_keys SET name = 'other' WHERE name = 'pepper'",
        "UPDATE system_keys SET name = 'other' WHERE name = 'audit'",
        "UPDATE system_keys SET wrapped = '' WHERE name = 'pepper'",
        "UPDATE system_keys SET wrapped = '' WHERE name = 'audit'",
        "UPDATE system_keys SET wrapped = (SELECT wrapped FROM system_keys AS it
             WHERE it.name <> system_keys.name)",
        "DELETE FROM system_keys",
    ] {
        scene.outside.keep("system_keys").await;
        assert!(scene.outside.write(sql).await, "{sql}");
        for before in [None, Some(&scene.before)] {
            assert!(scene.world.reload(before).await.is_err(), "{sql}");
        }
        scene.outside.put_back("system_keys").await;
        scene.check_sound(&scene.before, sql).await;
    }
}

const ACCESS_SESSION: &[Altered] = &[
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
async fn an_altered_access_session_has_no_rights() {
    let scene = PostgresPolicyHarness::open().await;
    let (vault, pepper) = (&scene.world.vault, scene.before.pepper());
    let mandate = |key: &str, kind: ApplicationKind| -> Mandate {
        harness::caller(scene.before.authenticate(key)).mandate(Needs::Kind(kind)).unwrap()
    };
    let public = mandate(&scene.victim.public.key, ApplicationKind::Public);
    let session = create_access_session(vault, public, pepper).await.unwrap();
    let private = mandate(&scene.victim.private.key, ApplicationKind::Private);
    let access = ruled([rule("/a/", Transform::Mask, &[Permission::TokenRead])]);
    let asked = Authorization { nonce: session.nonce.clone(), access, expires_at: None };
    authorize_access_session(vault, private, pepper, asked, None).await.unwrap();
    let resume = async || {
        let found = resume_access_session(vault, &scene.before, session.key.expose()).await;
        found.map(|it| it.map(Arc::new))
    };
    assert!(resume().await.unwrap().is_some());
    scene.outside.check_columns("access_sessions", ACCESS_SESSION, &[]).await;
    for (column, values) in ACCESS_SESSION {
        for value in *values {
            let sql = scene.fill(&format!("UPDATE access_sessions SET {column} = {value}"));
            scene.outside.keep("access_sessions").await;
            assert!(scene.outside.write(&sql).await, "{sql}");
            let known = resume().await;
            assert!(matches!(known, Err(_) | Ok(None)), "{sql}: {known:?}");
            scene.outside.put_back("access_sessions").await;
            assert!(resume().await.unwrap().is_some(), "{sql}");
        }
    }
}
