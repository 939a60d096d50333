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
        AccessPolicy, ApplicationKind, Caller, Directory, Known, Mandate, Name, Needs, Permission,
        Settings, Tenant, Transform,
    },
};
use scrip_testing::{
    policy::{TOKENS, permissions_of, plain, rule, ruled},
    vault::{CreatedKey, create_key},
    vault_harness::{Engine, VaultHarness, origin},
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
    pub(crate) outside: Connection,
    /// What a server had loaded before anybody touched anything.
    pub(crate) before: Directory,
    pub(crate) victim: Party,
    pub(crate) other: Party,
    pub(crate) witness: Party,
    pub(crate) world: VaultHarness,
}

/// Each table with its rows.
pub(crate) type Rows = Vec<(&'static str, Vec<Vec<Value>>)>;

/// A tenant as its people know it.
pub(crate) struct Party {
    pub(crate) tenant: Arc<Tenant>,
    pub(crate) manager: CreatedKey,
    pub(crate) private: CreatedKey,
    pub(crate) public: CreatedKey,
}

impl Party {
    pub(crate) fn keys(&self) -> [&str; 3] {
        [&self.manager, &self.private, &self.public].map(|it| it.key.as_str())
    }

    pub(crate) fn operator(&self) -> Mandate {
        Mandate::of_operator(Arc::clone(&self.tenant))
    }
}

fn management() -> AccessPolicy {
    plain(&permissions_of(ApplicationKind::Management))
}

async fn member(
    world: &VaultHarness,
    mandate: Mandate,
    kind: ApplicationKind,
    access: AccessPolicy,
) -> CreatedKey {
    create_key(&world.vault, world.directory().await.pepper(), mandate, kind, access).await
}

/// Everything that can have a value has one, and every party has other values.
pub(crate) async fn party(world: &VaultHarness, name: &str) -> Party {
    let settings = Settings { deduplicate_tokens: true, ..Settings::default() };
    let tenant = world.tenant(settings).await;
    let operator = Mandate::of_operator(Arc::clone(&tenant));
    let manager = member(world, operator.clone(), ApplicationKind::Management, management()).await;
    let caller = world.known(&manager.key).await;
    let by_manager = |permission| caller.mandate(Needs::Permission(permission)).unwrap();
    let create = by_manager(Permission::ApplicationCreate);
    let sees = ruled([rule("/", Transform::Mask, TOKENS)]);
    let private = member(world, create.clone(), ApplicationKind::Private, sees.clone()).await;
    let makes = plain(&[Permission::TokenCreate]);
    let public = member(world, create, ApplicationKind::Public, makes.clone()).await;

    let rights = [(&manager, management()), (&private, sees), (&public, makes)];
    for (member, access) in rights {
        let mandate = by_manager(Permission::ApplicationUpdate);
        let (name, access) = (Name::parse(&format!("{name}'s")).unwrap(), access);
        let updated =
            update_application(&world.vault, mandate, member.application, name, access, None);
        updated.await.unwrap();
    }
    let mut quotas = tenant.quotas;
    quotas.set("tokenize_limit", "9").unwrap();
    set_tenant_quotas(&world.vault, operator, Box::new(move |_| quotas)).await.unwrap();
    let edit = Box::new(|settings| settings);
    let (name, access) = (Name::parse(name).unwrap(), edit);
    let mandate = by_manager(Permission::TenantUpdate);
    update_tenant(&world.vault, mandate, name, access, None).await.unwrap();
    let tenant = Arc::clone(world.directory().await.tenant(tenant.id).unwrap());
    Party { tenant, manager, private, public }
}

impl PolicyHarness {
    pub(crate) async fn open() -> Self {
        let world = VaultHarness::open(Engine::Sqlite).await;
        let victim = party(&world, "victim").await;
        let other = party(&world, "other").await;
        let witness = party(&world, "witness").await;
        let outside = Connection::open(world.file()).unwrap();
        // Whoever breaks in is not held up by rules of ours.
        outside.execute_batch("PRAGMA foreign_keys = OFF").unwrap();
        let before = world.directory().await;
        Self { outside, before, victim, other, witness, world }
    }

    /// Takes from the schema whatever it checks, as somebody who can write to the file can.
    pub(crate) fn loosen(&self) {
        let sql = "
            PRAGMA writable_schema = ON;
            UPDATE sqlite_schema SET sql = replace(replace(replace(replace(replace(sql,
                'STRICT, ', ''), ') STRICT', ')'), 'NOT NULL', ''), 'CHECK (one = 1)', ''),
                'CHECK (apart = zeroblob(1024))', '')
            WHERE type = 'table';
            PRAGMA writable_schema = RESET;";
        self.outside.execute_batch(sql).unwrap();
        let next = "SELECT schema_version + 1 FROM pragma_schema_version";
        let next: i64 = self.outside.query_row(next, [], |row| row.get(0)).unwrap();
        self.outside.pragma_update(None, "schema_version", next).unwrap();
    }

    /// Writes with the names of the parties filled in. Says whether the engine let it happen.
    pub(crate) fn write(&self, sql: &str) -> bool {
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
        let done = self.outside.execute_batch(&format!("BEGIN; {sql}; COMMIT"));
        if done.is_err() {
            self.outside.execute_batch("ROLLBACK").unwrap();
        }
        done.is_ok()
    }

    /// Every row of every table of policy.
    pub(crate) fn rows(&self) -> Rows {
        let rows = |table: &&'static str| {
            let sql = format!("SELECT * FROM {table}");
            let mut statement = self.outside.prepare(&sql).unwrap();
            let columns = 0..statement.column_count();
            let row = |row: &rusqlite::Row<'_>| {
                columns.clone().map(|it| row.get_ref(it).map(value)).collect()
            };
            let rows = statement.query_map([], row).unwrap();
            (*table, rows.collect::<Result<_, _>>().unwrap())
        };
        TABLES.iter().map(rows).collect()
    }

    /// Makes the tables what they were.
    pub(crate) fn put_back(&self, rows: &Rows) {
        self.outside.execute_batch("BEGIN").unwrap();
        for (table, rows) in rows {
            self.outside.execute(&format!("DELETE FROM {table}"), []).unwrap();
            for row in rows {
                let marks = vec!["?"; row.len()].join(", ");
                let sql = format!("INSERT INTO {table} VALUES ({marks})");
                self.outside.execute(&sql, rusqlite::params_from_iter(row)).unwrap();
            }
        }
        self.outside.execute_batch("COMMIT").unwrap();
    }

    /// Tries to change the touched tenant as the operator and as its manager, who were known before.
    pub(crate) async fn try_to_change(&self) -> [Result<(), Error>; 2] {
        let vault = &self.world.vault;
        let quotas = self.victim.tenant.quotas;
        let by_operator =
            set_tenant_quotas(vault, self.victim.operator(), Box::new(move |_| quotas)).await;
        let manager = self.before.authenticate(&self.victim.manager.key);
        let manager = caller(manager);
        let mandate = manager.mandate(Needs::Permission(Permission::ApplicationCreate)).unwrap();
        let new = NewApplication {
            name: Name::parse("new").unwrap(),
            kind: ApplicationKind::Private,
            access: plain(TOKENS),
            create_key: CreateKey::Yes,
        };
        let pepper = self.before.pepper();
        let by_manager = create_application(vault, mandate, pepper, new, None).await;
        [by_operator.map(drop), by_manager.map(drop)]
    }
}

/// Text need not be text once somebody wrote to it.
fn value(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(it) => Value::Integer(it),
        ValueRef::Real(it) => Value::Real(it),
        ValueRef::Text(it) => Value::Text(String::from_utf8_lossy(it).into_owned()),
        ValueRef::Blob(it) => Value::Blob(it.to_vec()),
    }
}

#[track_caller]
pub(crate) fn principal(known: Option<&Known>) -> Arc<scrip_core::policy::Principal> {
    match known {
        Some(Known::Principal { principal, .. }) => Arc::clone(principal),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
pub(crate) fn caller(known: Option<&Known>) -> Caller {
    match known {
        Some(Known::Principal { principal, api_key }) => {
            Caller::new(Arc::clone(principal), origin()).with_api_key(Some(*api_key))
        }
        other => panic!("{other:?}"),
    }
}
