//! Three tenants with a whole policy each, and somebody who writes to the database file: one whose
//! rows are touched, one whose rows are used for it, and one who must never notice.

use std::sync::Arc;

use rusqlite::{
    Connection,
    types::{Value, ValueRef},
};
use scrip_core::{
    error::Error,
    operations::{
        applications::{
            create_application::{CreateKey, NewApplication, create_application},
            update_application::update_application,
        },
        tenants::update_tenant::{set_tenant_quotas, update_tenant},
    },
    policy::{
        AccessPolicy, ApiKeyLookup, ApplicationKind, Caller, CallerRequirement, Directory,
        DisplayName, Permission, PolicyPermit, Tenant, TenantSettings, Transform,
    },
};
use scrip_testing::{
    policy::{TOKENS, access_rule, access_with_rules, access_without_rules, permissions_for_kind},
    vault::{CreatedKey, create_key},
    vault_harness::{Engine, VaultHarness, test_origin},
};

/// Where policy is kept. Every column of them is in one of the tables of `policy_altered`.
pub(crate) const TABLES: &[&str] = &[
    "tenants",
    "tenant_keys",
    "lasting_keys",
    "applications",
    "api_keys",
    "access_sessions",
    "system_keys",
    "directory_state",
];

pub(crate) struct PolicyHarness {
    /// Before the world, whose folder it writes to.
    pub(crate) attacker: Connection,
    /// What a server had loaded before anybody touched anything.
    pub(crate) loaded: Directory,
    pub(crate) victim: PolicyActor,
    pub(crate) other: PolicyActor,
    pub(crate) witness: PolicyActor,
    pub(crate) vault_harness: VaultHarness,
}

/// Each table with its rows.
pub(crate) type TableRows = Vec<(&'static str, Vec<Vec<Value>>)>;

/// A tenant as its people know it.
pub(crate) struct PolicyActor {
    pub(crate) tenant: Arc<Tenant>,
    pub(crate) manager: CreatedKey,
    pub(crate) private: CreatedKey,
    pub(crate) public: CreatedKey,
}

impl PolicyActor {
    pub(crate) fn keys(&self) -> [&str; 3] {
        [&self.manager, &self.private, &self.public].map(|it| it.key.as_str())
    }

    pub(crate) fn operator(&self) -> PolicyPermit {
        PolicyPermit::for_operator(Arc::clone(&self.tenant))
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

/// Everything that can have a value has one, and every party has other values.
pub(crate) async fn create_actor(harness: &VaultHarness, name: &str) -> PolicyActor {
    let settings = TenantSettings { deduplicate_tokens: true, ..TenantSettings::default() };
    let tenant = harness.tenant(settings).await;
    let operator = PolicyPermit::for_operator(Arc::clone(&tenant));
    let manager =
        create_member(harness, operator.clone(), ApplicationKind::Management, management_access())
            .await;
    let caller = harness.authenticate(&manager.key).await;
    let by_manager =
        |permission| caller.permit_policy(CallerRequirement::Permission(permission)).unwrap();
    let create = by_manager(Permission::ApplicationCreate);
    let sees = access_with_rules([access_rule("/", Transform::Mask, TOKENS)]);
    let private =
        create_member(harness, create.clone(), ApplicationKind::Private, sees.clone()).await;
    let makes = access_without_rules(&[Permission::TokenCreate]);
    let public = create_member(harness, create, ApplicationKind::Public, makes.clone()).await;

    let rights = [(&manager, management_access()), (&private, sees), (&public, makes)];
    for (member, access) in rights {
        let permit = by_manager(Permission::ApplicationUpdate);
        let (name, access) = (DisplayName::parse(&format!("{name}'s")).unwrap(), access);
        let updated =
            update_application(&harness.vault, permit, member.application, name, access, None);
        updated.await.unwrap();
    }
    let mut quotas = tenant.quotas;
    quotas.set("tokenize_limit", "9").unwrap();
    set_tenant_quotas(&harness.vault, operator, Box::new(move |_| quotas)).await.unwrap();
    let edit = Box::new(|settings| settings);
    let (name, access) = (DisplayName::parse(name).unwrap(), edit);
    let permit = by_manager(Permission::TenantUpdate);
    update_tenant(&harness.vault, permit, name, access, None).await.unwrap();
    let tenant = Arc::clone(harness.directory().await.tenant(tenant.id).unwrap());
    PolicyActor { tenant, manager, private, public }
}

impl PolicyHarness {
    pub(crate) async fn open() -> Self {
        let harness = VaultHarness::open(Engine::Sqlite).await;
        let victim = create_actor(&harness, "victim").await;
        let other = create_actor(&harness, "other").await;
        let witness = create_actor(&harness, "witness").await;
        let attacker = Connection::open(harness.file()).unwrap();
        // Whoever breaks in is not held up by rules of ours.
        attacker.execute_batch("PRAGMA foreign_keys = OFF").unwrap();
        let before = harness.directory().await;
        Self { attacker, loaded: before, victim, other, witness, vault_harness: harness }
    }

    /// Takes from the schema whatever it checks, as somebody who can write to the file can.
    pub(crate) fn drop_schema_checks(&self) {
        let sql = "
            PRAGMA writable_schema = ON;
            UPDATE sqlite_schema SET sql = replace(replace(replace(replace(replace(sql,
                'STRICT, ', ''), ') STRICT', ')'), 'NOT NULL', ''), 'CHECK (one = 1)', ''),
                'CHECK (apart = zeroblob(1024))', '')
            WHERE type = 'table';
            PRAGMA writable_schema = RESET;";
        self.attacker.execute_batch(sql).unwrap();
        let next = "SELECT schema_version + 1 FROM pragma_schema_version";
        let next: i64 = self.attacker.query_row(next, [], |row| row.get(0)).unwrap();
        self.attacker.pragma_update(None, "schema_version", next).unwrap();
    }

    /// Writes with the names of the parties filled in. Says whether the engine let it happen.
    pub(crate) fn try_write(&self, sql: &str) -> bool {
        let mut sql = sql.to_owned();
        let mut fill = |name: &str, bytes: &[u8]| {
            let hex: String = bytes.iter().map(|it| format!("{it:02x}")).collect();
            sql = sql.replace(name, &format!("x'{hex}'"));
        };
        fill("{victim}", self.victim.tenant.id.0.as_bytes());
        fill("{other}", self.other.tenant.id.0.as_bytes());
        fill("{manager}", self.victim.manager.application.0.as_bytes());
        fill("{private}", self.victim.private.application.0.as_bytes());
        fill("{public}", self.victim.public.application.0.as_bytes());
        fill("{other private}", self.other.private.application.0.as_bytes());
        fill("{fresh}", &[0x5c; 16]);
        assert!(!sql.contains('{') || sql.contains("{}") || sql.contains("{\""), "{sql}");
        let done = self.attacker.execute_batch(&format!("BEGIN; {sql}; COMMIT"));
        if done.is_err() {
            self.attacker.execute_batch("ROLLBACK").unwrap();
        }
        done.is_ok()
    }

    /// Every row of every table of policy.
    pub(crate) fn rows(&self) -> TableRows {
        let rows = |table: &&'static str| {
            let sql = format!("SELECT * FROM {table}");
            let mut statement = self.attacker.prepare(&sql).unwrap();
            let columns = 0..statement.column_count();
            let row = |row: &rusqlite::Row<'_>| {
                columns.clone().map(|it| row.get_ref(it).map(owned_value)).collect()
            };
            let rows = statement.query_map([], row).unwrap();
            (*table, rows.collect::<Result<_, _>>().unwrap())
        };
        TABLES.iter().map(rows).collect()
    }

    /// Makes the tables what they were.
    pub(crate) fn restore(&self, rows: &TableRows) {
        self.attacker.execute_batch("BEGIN").unwrap();
        for (table, rows) in rows {
            self.attacker.execute(&format!("DELETE FROM {table}"), []).unwrap();
            for row in rows {
                let marks = vec!["?"; row.len()].join(", ");
                let sql = format!("INSERT INTO {table} VALUES ({marks})");
                self.attacker.execute(&sql, rusqlite::params_from_iter(row)).unwrap();
            }
        }
        self.attacker.execute_batch("COMMIT").unwrap();
    }

    /// Tries to change the touched tenant as the operator and as its manager, who were known before.
    pub(crate) async fn try_policy_changes(&self) -> [Result<(), Error>; 2] {
        let vault = &self.vault_harness.vault;
        let quotas = self.victim.tenant.quotas;
        let by_operator =
            set_tenant_quotas(vault, self.victim.operator(), Box::new(move |_| quotas)).await;
        let manager = self.loaded.authenticate(&self.victim.manager.key);
        let manager = caller(manager);
        let permit = manager
            .permit_policy(CallerRequirement::Permission(Permission::ApplicationCreate))
            .unwrap();
        let new = NewApplication {
            name: DisplayName::parse("new").unwrap(),
            kind: ApplicationKind::Private,
            access: access_without_rules(TOKENS),
            create_key: CreateKey::Yes,
        };
        let pepper = self.loaded.pepper();
        let by_manager = create_application(vault, permit, pepper, new, None).await;
        [by_operator.map(drop), by_manager.map(drop)]
    }
}

/// Text need not be text once somebody wrote to it.
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
pub(crate) fn principal(known: Option<&ApiKeyLookup>) -> Arc<scrip_core::policy::Principal> {
    match known {
        Some(ApiKeyLookup::Found { principal, .. }) => Arc::clone(principal),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
pub(crate) fn caller(known: Option<&ApiKeyLookup>) -> Caller {
    match known {
        Some(ApiKeyLookup::Found { principal, api_key }) => {
            Caller::new(Arc::clone(principal), test_origin()).with_api_key(Some(*api_key))
        }
        other => panic!("{other:?}"),
    }
}
