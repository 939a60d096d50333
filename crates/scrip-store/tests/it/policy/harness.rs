//! Three tenants with a complete policy each, and an attacker who writes to the database file: one
//! tenant is attacked, one tenant supplies rows for the attack, and one tenant must not be
//! affected.

use std::sync::Arc;

use rusqlite::{
    Connection,
    types::{Value, ValueRef},
};
use scrip_core::{
    Error,
    operations::{
        applications::{
            create_application::{CreateKey, NewApplication, create_application},
            update_application::{ApplicationUpdate, update_application},
        },
        client_keys::create_client_key::create_client_key,
        proxies::update_proxy::{ProxyPatch, patch_proxy},
        tenants::update_tenant::{set_tenant_quotas, update_tenant},
        webhooks::{create_webhook::create_webhook, update_webhook::update_webhook},
    },
    policy::{
        AccessPolicy, ApiKeyLookup, Caller, CallerRequirement, Directory, DisplayName,
        PolicyPermit, ProxyLookup, Tenant, TenantSettings,
        application::origins::ApplicationOrigins,
    },
    types::{
        ApplicationKind, Permission, Transform,
        id::{ClientKeyId, ProxyId, WebhookId},
    },
};
use scrip_testing::{
    policy::{TOKENS, access_rule, access_with_rules, access_without_rules, permissions_for_kind},
    vault::{CreatedKey, create_key, create_proxy_with_host, proxy_draft, webhook_draft},
    vault_harness::{Engine, VaultHarness, test_origin},
};
use uuid::Uuid;

/// Tables with policy. Every column is in one of the lists of `column_alterations.rs`.
pub(crate) const TABLES: &[&str] = &[
    "tenants",
    "tenant_keys",
    "permanent_keys",
    "applications",
    "api_keys",
    "proxies",
    "webhooks",
    "client_keys",
    "access_sessions",
    "system_keys",
    "directory_state",
];

pub(crate) struct PolicyHarness {
    /// Dropped before the harness, which owns the directory of the file.
    pub(crate) attacker: Connection,
    /// The directory that a server had loaded before the attack.
    pub(crate) loaded_directory: Directory,
    pub(crate) victim: PolicyActor,
    pub(crate) other: PolicyActor,
    pub(crate) witness: PolicyActor,
    pub(crate) vault_harness: VaultHarness,
}

/// The rows of each table.
pub(crate) type TableRows = Vec<(&'static str, Vec<Vec<Value>>)>;

/// A tenant with its applications and keys.
pub(crate) struct PolicyActor {
    pub(crate) tenant: Arc<Tenant>,
    pub(crate) manager: CreatedKey,
    pub(crate) private: CreatedKey,
    pub(crate) public: CreatedKey,
    pub(crate) proxy: ProxyId,
    proxy_key: String,
    pub(crate) webhook: WebhookId,
    pub(crate) client_key: ClientKeyId,
}

impl PolicyActor {
    pub(crate) fn keys(&self) -> [&str; 3] {
        [&self.manager, &self.private, &self.public].map(|it| it.key.as_str())
    }

    /// Whether the proxy is found by its key and by its host.
    pub(crate) fn has_proxy(&self, directory: &Directory) -> bool {
        let host = format!("{}.shop.example", self.tenant.name.as_str());
        let lookups =
            [directory.find_proxy_by_key(&self.proxy_key), directory.find_proxy_by_host(&host)];
        let is_found = |lookup: Option<&ProxyLookup>| matches!(lookup, Some(ProxyLookup::Found(it)) if it.record().id == self.proxy);
        let found = lookups.map(is_found);
        assert_eq!(found[0], found[1], "the lookups by key and by host differ");
        found[0]
    }

    pub(crate) fn has_client_key(&self, directory: &Directory) -> bool {
        let tenant = directory.tenant(self.tenant.id);
        tenant.is_some_and(|it| it.client_keys.contains_key(&self.client_key))
    }

    pub(crate) fn has_webhook(&self, directory: &Directory) -> bool {
        let tenant = directory.tenant(self.tenant.id);
        tenant.is_some_and(|it| it.webhooks.contains_key(&self.webhook))
    }

    pub(crate) fn operator(&self) -> PolicyPermit {
        PolicyPermit::for_operator(Arc::clone(&self.tenant))
    }
}

/// Replaces the placeholders with the ids of the tenants and of their rows.
pub(crate) fn fill_ids(
    sql: &str,
    victim: &PolicyActor,
    other: &PolicyActor,
    quote: impl Fn(Uuid) -> String,
) -> String {
    let ids = [
        ("{victim}", victim.tenant.id.0),
        ("{other}", other.tenant.id.0),
        ("{manager}", victim.manager.application.0),
        ("{private}", victim.private.application.0),
        ("{public}", victim.public.application.0),
        ("{other private}", other.private.application.0),
        ("{proxy}", victim.proxy.0),
        ("{other proxy}", other.proxy.0),
        ("{client key}", victim.client_key.0),
        ("{other client key}", other.client_key.0),
        ("{webhook}", victim.webhook.0),
        ("{other webhook}", other.webhook.0),
        ("{fresh}", Uuid::from_bytes([0x5c; 16])),
    ];
    ids.into_iter().fold(sql.to_owned(), |sql, (name, id)| sql.replace(name, &quote(id)))
}

/// Checks that keys of the victim are rejected, keys of the witness work, and the alteration is
/// reported, after a restart and in a server that had loaded the policy. Returns the directory of
/// that server.
pub(crate) async fn check_victim_rejected(
    harness: &VaultHarness,
    loaded_directory: &Directory,
    [victim, witness]: [&PolicyActor; 2],
    context: &str,
) -> Directory {
    let id = victim.tenant.id;
    let mut altered_directory = None;
    for previous in [None, Some(loaded_directory)] {
        let directory = harness.reload(previous).await.unwrap();
        for key in victim.keys() {
            let lookup = directory.authenticate(key);
            let is_rejected = matches!(lookup, None | Some(ApiKeyLookup::PolicyAltered));
            assert!(is_rejected, "{context}: {lookup:?}");
        }
        assert!(directory.tenant(id).is_none(), "{context}");
        for member in [&victim.manager, &victim.private, &victim.public] {
            assert!(directory.principal(member.application).is_none(), "{context}");
        }
        assert!(!victim.has_proxy(&directory), "{context}");
        assert!(witness.has_proxy(&directory), "{context}");
        for key in witness.keys() {
            expect_principal(directory.authenticate(key));
        }
        let names_victim = |it: Option<_>| it.is_none_or(|it| it == id);
        assert!(directory.alterations().iter().any(|it| names_victim(it.tenant)), "{context}");
        altered_directory = Some(directory);
    }
    altered_directory.unwrap()
}

/// Checks that all keys work after a restart and in a server that had loaded the altered policy.
pub(crate) async fn check_actors_unaltered(
    harness: &VaultHarness,
    altered_directory: Option<&Directory>,
    actors: [&PolicyActor; 3],
    context: &str,
) {
    for previous in [None, altered_directory] {
        let directory = harness.reload(previous).await.unwrap();
        assert_eq!(directory.alterations(), [], "{context}");
        for actor in actors {
            assert!(actor.has_proxy(&directory) && actor.has_webhook(&directory), "{context}");
            assert!(actor.has_client_key(&directory), "{context}");
            for key in actor.keys() {
                expect_principal(directory.authenticate(key));
            }
        }
    }
}

fn management_access() -> AccessPolicy {
    access_without_rules(&permissions_for_kind(ApplicationKind::Management))
}

async fn create_member(
    harness: &VaultHarness,
    permit: PolicyPermit,
    kind: ApplicationKind,
    access: AccessPolicy,
) -> CreatedKey {
    create_key(&harness.vault, harness.directory().await.pepper(), permit, kind, access).await
}

/// Creates a tenant with every optional value set. The values differ between tenants.
pub(crate) async fn create_actor(harness: &VaultHarness, name: &str) -> PolicyActor {
    let settings = TenantSettings { deduplicate_tokens: true, ..TenantSettings::default() };
    let tenant = harness.tenant(settings).await;
    let operator = PolicyPermit::for_operator(Arc::clone(&tenant));
    let manager =
        create_member(harness, operator.clone(), ApplicationKind::Management, management_access())
            .await;
    let caller = harness.authenticate(&manager.key).await;
    let manager_permit =
        |permission| caller.permit_policy(CallerRequirement::Permission(permission)).unwrap();
    let create_permit = manager_permit(Permission::ApplicationCreate);
    let private_access = access_with_rules([access_rule("/", Transform::Mask, TOKENS)]);
    let private = create_member(
        harness,
        create_permit.clone(),
        ApplicationKind::Private,
        private_access.clone(),
    )
    .await;
    let public_access = access_without_rules(&[Permission::TokenCreate]);
    let public =
        create_member(harness, create_permit, ApplicationKind::Public, public_access.clone()).await;

    let member_access =
        [(&manager, management_access()), (&private, private_access), (&public, public_access)];
    for (member, access) in member_access {
        let permit = manager_permit(Permission::ApplicationUpdate);
        let (name, access) = (DisplayName::parse(&format!("{name}'s")).unwrap(), access);
        let is_public = member.application == public.application;
        let origins = is_public.then(|| parse_origins(&["https://shop.example"]));
        let update = ApplicationUpdate { name, access, origins };
        let update = update_application(&harness.vault, permit, member.application, update, None);
        update.await.unwrap();
    }
    let pepper_directory = harness.directory().await;
    let proxy = create_proxy_with_host(
        &harness.vault,
        pepper_directory.pepper(),
        manager_permit(Permission::ProxyCreate),
        operator.clone(),
        proxy_draft(name, Some(private.application)),
    )
    .await;
    let permit = manager_permit(Permission::ProxyUpdate);
    let edit = Box::new(|it: &scrip_core::policy::proxy::ProxyDetails| Ok(it.draft()));
    let patch = ProxyPatch { names_hidden_attributes: false, edit };
    patch_proxy(&harness.vault, permit, proxy.record.id, patch, None).await.unwrap();
    let (create, draft) = (manager_permit(Permission::WebhookCreate), webhook_draft(name));
    let webhook = create_webhook(&harness.vault, create, draft, None).await.unwrap().record.id;
    let (update, draft) = (manager_permit(Permission::WebhookUpdate), webhook_draft(name));
    update_webhook(&harness.vault, update, webhook, draft, None).await.unwrap();
    let create = manager_permit(Permission::KeysCreate);
    let client_key = create_client_key(&harness.vault, create, None, None).await.unwrap().id;
    let mut quotas = tenant.quotas;
    quotas.set("tokenize_limit", "9").unwrap();
    set_tenant_quotas(&harness.vault, operator, Box::new(move |_| quotas)).await.unwrap();
    let keep_settings = Box::new(|settings| settings);
    let name = DisplayName::parse(name).unwrap();
    let permit = manager_permit(Permission::TenantUpdate);
    update_tenant(&harness.vault, permit, name, keep_settings, None).await.unwrap();
    let tenant = Arc::clone(harness.directory().await.tenant(tenant.id).unwrap());
    let proxy_key = proxy.secrets.key.expose().to_owned();
    let proxy = proxy.record.id;
    PolicyActor { tenant, manager, private, public, proxy, proxy_key, webhook, client_key }
}

impl PolicyHarness {
    pub(crate) async fn open() -> Self {
        let harness = VaultHarness::open(Engine::Sqlite).await;
        let victim = create_actor(&harness, "victim").await;
        let other = create_actor(&harness, "other").await;
        let witness = create_actor(&harness, "witness").await;
        let attacker = Connection::open(harness.file()).unwrap();
        // An attacker can disable constraints.
        attacker.execute_batch("PRAGMA foreign_keys = OFF").unwrap();
        let loaded_directory = harness.directory().await;
        Self { attacker, loaded_directory, victim, other, witness, vault_harness: harness }
    }

    /// Removes all checks from the schema, as an attacker with write access can.
    pub(crate) fn drop_schema_checks(&self) {
        let sql = "
            PRAGMA writable_schema = ON;
            UPDATE sqlite_schema SET sql = replace(replace(replace(replace(replace(sql,
                'STRICT, ', ''), ') STRICT', ')'), 'NOT NULL', ''), 'CHECK (singleton = 1)', ''),
                'CHECK (padding = zeroblob(1024))', '')
            WHERE type = 'table';
            PRAGMA writable_schema = RESET;";
        self.attacker.execute_batch(sql).unwrap();
        let next_version = "SELECT schema_version + 1 FROM pragma_schema_version";
        let next_version: i64 =
            self.attacker.query_row(next_version, [], |row| row.get(0)).unwrap();
        self.attacker.pragma_update(None, "schema_version", next_version).unwrap();
    }

    /// Runs a statement with the placeholders filled in. Returns whether it succeeded.
    pub(crate) fn try_write(&self, sql: &str) -> bool {
        let sql = fill_ids(sql, &self.victim, &self.other, |id| format!("x'{}'", id.simple()));
        assert!(!sql.contains('{') || sql.contains("{}") || sql.contains("{\""), "{sql}");
        let outcome = self.attacker.execute_batch(&format!("BEGIN; {sql}; COMMIT"));
        if outcome.is_err() {
            self.attacker.execute_batch("ROLLBACK").unwrap();
        }
        outcome.is_ok()
    }

    /// All rows of all policy tables.
    pub(crate) fn read_rows(&self) -> TableRows {
        let read_table = |table: &&'static str| {
            let sql = format!("SELECT * FROM {table}");
            let mut statement = self.attacker.prepare(&sql).unwrap();
            let columns = 0..statement.column_count();
            let row_values = |row: &rusqlite::Row<'_>| {
                columns.clone().map(|it| row.get_ref(it).map(owned_value)).collect()
            };
            let rows = statement.query_map([], row_values).unwrap();
            (*table, rows.collect::<Result<_, _>>().unwrap())
        };
        TABLES.iter().map(read_table).collect()
    }

    /// Replaces the rows of all policy tables with these rows.
    pub(crate) fn restore(&self, rows: &TableRows) {
        self.attacker.execute_batch("BEGIN").unwrap();
        for (table, rows) in rows {
            self.attacker.execute(&format!("DELETE FROM {table}"), []).unwrap();
            for row in rows {
                let placeholders = vec!["?"; row.len()].join(", ");
                let sql = format!("INSERT INTO {table} VALUES ({placeholders})");
                self.attacker.execute(&sql, rusqlite::params_from_iter(row)).unwrap();
            }
        }
        self.attacker.execute_batch("COMMIT").unwrap();
    }

    /// Tries to change the attacked tenant as the operator and as its manager, who were
    /// authenticated before the attack.
    pub(crate) async fn try_policy_changes(&self) -> [Result<(), Error>; 2] {
        let vault = &self.vault_harness.vault;
        let quotas = self.victim.tenant.quotas;
        let operator_outcome =
            set_tenant_quotas(vault, self.victim.operator(), Box::new(move |_| quotas)).await;
        let manager = expect_caller(self.loaded_directory.authenticate(&self.victim.manager.key));
        let permit = manager
            .permit_policy(CallerRequirement::Permission(Permission::ApplicationCreate))
            .unwrap();
        let new_application = NewApplication {
            name: DisplayName::parse("new").unwrap(),
            kind: ApplicationKind::Private,
            access: access_without_rules(TOKENS),
            origins: ApplicationOrigins::default(),
            create_key: CreateKey::Yes,
        };
        let pepper = self.loaded_directory.pepper();
        let manager_outcome =
            create_application(vault, permit, pepper, new_application, None).await;
        [operator_outcome.map(drop), manager_outcome.map(drop)]
    }
}

/// Converts a value. An altered text column may contain invalid UTF-8.
fn owned_value(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(it) => Value::Integer(it),
        ValueRef::Real(it) => Value::Real(it),
        ValueRef::Text(it) => Value::Text(String::from_utf8_lossy(it).into_owned()),
        ValueRef::Blob(it) => Value::Blob(it.to_vec()),
    }
}

#[track_caller]
pub(crate) fn expect_principal(
    lookup: Option<&ApiKeyLookup>,
) -> Arc<scrip_core::policy::Principal> {
    match lookup {
        Some(ApiKeyLookup::Found { principal, .. }) => Arc::clone(principal),
        lookup => panic!("the key is not found: {lookup:?}"),
    }
}

#[track_caller]
pub(crate) fn expect_caller(lookup: Option<&ApiKeyLookup>) -> Caller {
    match lookup {
        Some(ApiKeyLookup::Found { principal, api_key }) => {
            Caller::new(Arc::clone(principal), test_origin()).with_api_key(Some(*api_key))
        }
        lookup => panic!("the key is not found: {lookup:?}"),
    }
}

fn parse_origins(texts: &[&str]) -> ApplicationOrigins {
    let texts: Vec<_> = texts.iter().map(|it| (*it).to_owned()).collect();
    ApplicationOrigins::parse(&texts).unwrap()
}
