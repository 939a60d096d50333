//! The second wall between tenants, and the rights of the role that serves: held by the engine, also
//! against a statement of ours that forgets its tenant.

use std::collections::BTreeSet;

use scrip_store::{PostgresStore, postgres::PostgresSettings};
use scrip_testing::{
    store_harness::{StoreHarness, token_record, without_cvc},
    vault_harness::Engine,
};
use tokio_postgres::{Client, NoTls, Row};

const OURS: &str = "11111111-1111-1111-1111-111111111111";
const THEIRS: &str = "22222222-2222-2222-2222-222222222222";

/// Tables that belong to no tenant.
const TABLES_WITHOUT_TENANT: &[&str] = &[
    "clock_state",
    "directory_state",
    "event_state",
    "import_state",
    "schema_state",
    "system_keys",
];

/// Goes with the test's runtime.
async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Every table there is, with its columns and their types.
async fn list_tables(superuser: &Client) -> Vec<(String, Vec<(String, String)>)> {
    let sql = "SELECT c.relname, array_agg(a.attname::text ORDER BY a.attnum),
            array_agg(t.typname::text ORDER BY a.attnum)
        FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
        JOIN pg_type t ON t.oid = a.atttypid
        WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r'
        GROUP BY c.relname ORDER BY c.relname";
    let table = |row: &Row| {
        let (columns, types): (Vec<String>, Vec<String>) = (row.get(1), row.get(2));
        (row.get(0), columns.into_iter().zip(types).collect())
    };
    superuser.query(sql, &[]).await.unwrap().iter().map(table).collect()
}

/// The column that says whose a row is.
fn tenant_column(table: &str) -> &'static str {
    if matches!(table, "tenants" | "deleted_tenants") { "id" } else { "tenant" }
}

/// Values for a row of this tenant, which differ from those of the other's where they must.
fn row_values(table: &str, columns: &[(String, String)], tenant: &str) -> String {
    let value = |(name, of): &(String, String)| match of.as_str() {
        "uuid" if name == tenant_column(table) => format!("'{tenant}'"),
        "uuid" => format!("'{}'", tenant.replace("1111-1111", "3333-3333")),
        "int8" | "int4" => "1".to_owned(),
        "text" => "'x'".to_owned(),
        "bytea" => format!("convert_to('{tenant}', 'UTF8')"),
        other => panic!("{table}: a column of type {other} is new here"),
    };
    columns.iter().map(value).collect::<Vec<_>>().join(", ")
}

async fn begin_with_scope(client: &Client, scope: Option<&str>) {
    client.batch_execute("BEGIN").await.unwrap();
    if let Some(scope) = scope {
        client.batch_execute(&format!("SET LOCAL scrip.tenant = '{scope}'")).await.unwrap();
    }
}

async fn count_rows(client: &Client, table: &str) -> i64 {
    client.query_one(&format!("SELECT count(*) FROM {table}"), &[]).await.unwrap().get(0)
}

#[tokio::test]
async fn row_is_visible_only_in_the_scope_of_its_tenant() {
    let harness = StoreHarness::open(Engine::Postgres).await;
    let database = harness.vault_harness.database();
    let superuser = connect(&database.superuser_url()).await;
    let (owner, serving) = (connect(&database.owner_url()).await, connect(&database.url()).await);
    // Rows of two tenants in every table, whatever they refer to.
    superuser.batch_execute("SET session_replication_role = replica").await.unwrap();
    let tables = list_tables(&superuser).await;
    let names: BTreeSet<_> = tables.iter().map(|(name, _)| name.as_str()).collect();
    assert!(TABLES_WITHOUT_TENANT.iter().all(|it| names.contains(it)), "{names:?}");
    let mut walled = 0;
    for (table, columns) in &tables {
        if TABLES_WITHOUT_TENANT.contains(&table.as_str()) {
            continue;
        }
        walled += 1;
        superuser.batch_execute(&format!("DELETE FROM {table}")).await.unwrap();
        for tenant in [OURS, THEIRS] {
            let insert =
                format!("INSERT INTO {table} VALUES ({})", row_values(table, columns, tenant));
            superuser.batch_execute(&insert).await.unwrap();
        }
        let fresh = "44444444-4444-4444-4444-444444444444";
        for (scope, seen) in [
            (None, 0),
            (Some(""), 0),
            (Some("EVERY"), 0),
            (Some("nobody"), 0),
            (Some(fresh), 0),
            (Some(OURS), 1),
            (Some(THEIRS), 1),
            (Some("every"), 2),
        ] {
            for client in [&owner, &serving] {
                begin_with_scope(client, scope).await;
                assert_eq!(count_rows(client, table).await, seen, "{table} {scope:?}");
                client.batch_execute("ROLLBACK").await.unwrap();
            }
            // Whoever owns it may do everything, but for this.
            begin_with_scope(&owner, scope).await;
            let own = tenant_column(table);
            let update = format!("UPDATE {table} SET {own} = {own}");
            assert_eq!(
                owner.execute(&update, &[]).await.unwrap(),
                u64::try_from(seen).unwrap(),
                "{table} {scope:?}"
            );
            let delete = format!("DELETE FROM {table}");
            assert_eq!(
                owner.execute(&delete, &[]).await.unwrap(),
                u64::try_from(seen).unwrap(),
                "{table} {scope:?}"
            );
            let insert =
                format!("INSERT INTO {table} VALUES ({})", row_values(table, columns, OURS));
            let inserted = owner.batch_execute(&insert).await;
            let may = matches!(scope, Some(OURS | "every"));
            let rejected = inserted.as_ref().err().and_then(|it| it.code()).map(|it| it.code());
            // By the policy, or only by what it refers to, which comes after.
            assert_eq!(rejected == Some("42501"), !may, "{table} {scope:?}: {inserted:?}");
            owner.batch_execute("ROLLBACK").await.unwrap();
        }
        // Nor can a row be given away.
        begin_with_scope(&owner, Some(OURS)).await;
        let give = format!("UPDATE {table} SET {} = '{fresh}'", tenant_column(table));
        let given = owner.batch_execute(&give).await.unwrap_err();
        assert_eq!(given.code().unwrap().code(), "42501", "{table}");
        owner.batch_execute("ROLLBACK").await.unwrap();
    }
    assert_eq!(walled, tables.len() - TABLES_WITHOUT_TENANT.len());
}

/// What is given to the role that serves, by table: without it nothing works, which every other test
/// shows, and here that it is all.
const TABLE_PRIVILEGES: &[(&str, &str)] = &[
    ("access_sessions", "SELECT INSERT UPDATE DELETE"),
    ("active_months", "SELECT INSERT UPDATE DELETE"),
    ("active_tokens", "SELECT INSERT DELETE"),
    ("answer_data", "SELECT INSERT"),
    ("answers", "SELECT INSERT DELETE"),
    ("api_keys", "SELECT INSERT DELETE"),
    ("applications", "SELECT INSERT UPDATE DELETE"),
    ("checkpoints", "SELECT INSERT UPDATE"),
    ("clock_state", "SELECT INSERT UPDATE"),
    ("cvcs", "SELECT INSERT UPDATE DELETE"),
    ("deleted_tenants", "SELECT INSERT DELETE"),
    ("directory_state", "SELECT UPDATE"),
    ("event_state", "SELECT UPDATE"),
    ("filed", "SELECT INSERT DELETE"),
    ("guesses", "SELECT INSERT UPDATE DELETE"),
    ("heads", "SELECT INSERT UPDATE"),
    ("import_state", "SELECT INSERT UPDATE DELETE"),
    ("intent_cvcs", "SELECT INSERT DELETE"),
    ("lanes", "SELECT INSERT UPDATE"),
    ("lasting_keys", "SELECT INSERT UPDATE"),
    ("records", "SELECT INSERT DELETE"),
    ("schema_state", "SELECT"),
    ("session_events", "SELECT INSERT DELETE"),
    ("sessions", "SELECT INSERT UPDATE DELETE"),
    ("system_keys", "SELECT INSERT"),
    ("tenant_keys", "SELECT INSERT UPDATE"),
    ("tenants", "SELECT INSERT UPDATE DELETE"),
    ("token_intents", "SELECT INSERT DELETE"),
    ("tokens", "SELECT INSERT UPDATE DELETE"),
    ("usage_months", "SELECT INSERT UPDATE DELETE"),
    ("usage_types", "SELECT INSERT UPDATE DELETE"),
];

#[tokio::test]
async fn serve_role_has_exactly_the_needed_privileges() {
    let harness = StoreHarness::open(Engine::Postgres).await;
    let database = harness.vault_harness.database();
    let serving = connect(&database.url()).await;
    let rights = async || -> Vec<(String, String)> {
        let sql = "SELECT c.relname::text, string_agg(p.it, ' ' ORDER BY p.at)
            FROM pg_class c CROSS JOIN unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE',
                'TRUNCATE', 'REFERENCES', 'TRIGGER']) WITH ORDINALITY AS p (it, at)
            WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'S', 'v')
                AND has_table_privilege(c.oid, p.it)
            GROUP BY c.relname ORDER BY c.relname";
        let rows = serving.query(sql, &[]).await.unwrap();
        rows.iter().map(|row| (row.get(0), row.get(1))).collect()
    };
    let expected: Vec<_> =
        TABLE_PRIVILEGES.iter().map(|(it, may)| ((*it).into(), (*may).into())).collect();
    assert_eq!(rights().await, expected);
    let role = "SELECT rolsuper OR rolbypassrls OR rolcreaterole OR rolcreatedb OR rolreplication
        FROM pg_roles WHERE rolname = current_user";
    assert!(!serving.query_one(role, &[]).await.unwrap().get::<_, bool>(0));
    for sql in [
        "CREATE TABLE mine (it INTEGER)",
        "ALTER TABLE tokens DISABLE ROW LEVEL SECURITY",
        "ALTER TABLE tokens NO FORCE ROW LEVEL SECURITY",
        "DROP POLICY of_tenant ON tokens",
        "SET session_replication_role = replica",
        "SET row_security = off; SELECT count(*) FROM tokens",
        "TRUNCATE tokens CASCADE",
        "UPDATE records SET entity = 'x'",
        "DELETE FROM heads",
        "UPDATE filed SET container = '/'",
        "UPDATE schema_state SET version = 2",
    ] {
        let rejected = serving.batch_execute(sql).await.unwrap_err();
        assert_eq!(rejected.code().unwrap().code(), "42501", "{sql}");
        serving.batch_execute("RESET ALL").await.unwrap();
    }
    // What it was given besides is taken back.
    let owner = connect(&database.owner_url()).await;
    let serves = serving.query_one("SELECT quote_ident(current_user)", &[]).await.unwrap();
    let serves: String = serves.get(0);
    owner.batch_execute(&format!("GRANT ALL ON records, heads TO {serves}")).await.unwrap();
    assert_ne!(rights().await, expected);
    let settings = PostgresSettings::parse(&database.owner_url()).unwrap();
    PostgresStore::migrate(settings.clone().with_serve_role(scrip_testing::postgres::SERVE_ROLE))
        .await
        .unwrap();
    assert_eq!(rights().await, expected);
    // Its rights are not taken from whoever owns the tables.
    let owns = PostgresStore::migrate(
        settings.clone().with_serve_role(scrip_testing::postgres::OWNER_ROLE),
    )
    .await;
    assert!(owns.is_err());
    let deletes = "DELETE FROM answer_data";
    owner.batch_execute(deletes).await.unwrap();
    let nobody =
        PostgresStore::migrate(settings.with_serve_role("x\"; DROP TABLE tokens; --")).await;
    assert!(nobody.is_err());
    assert_eq!(rights().await, expected);
}

/// The policy is a filter behind the index, not instead of it.
#[tokio::test]
async fn row_level_security_keeps_index_plans() {
    let harness = StoreHarness::open(Engine::Postgres).await;
    harness.insert(token_record("one")).await;
    let serving = connect(&harness.vault_harness.database().url()).await;
    let set = "SET enable_seqscan = off; SET enable_bitmapscan = off; SET plan_cache_mode = force_generic_plan";
    serving.batch_execute(set).await.unwrap();
    let asked = [
        (
            "SELECT body FROM tokens WHERE tenant = $1 AND id = $2",
            "uuid, text",
            "'11111111-1111-1111-1111-111111111111', 'one'",
            &["((tenant = $1) AND (id = $2))"][..],
        ),
        (
            "SELECT token FROM filed WHERE tenant = $1 AND facet = $2 AND container >= $3
             AND (container, created_at, token) < ($4, $5, $6)
             ORDER BY container DESC, created_at DESC, token DESC LIMIT 9",
            "uuid, bytea, text, text, bigint, bigint",
            "'11111111-1111-1111-1111-111111111111', '', '/', '0', 0, 0",
            &["(container >= $3)", "(ROW(container, created_at, token) < ROW($4, $5, $6))"],
        ),
        (
            "SELECT n FROM records WHERE tenant = $1 AND log = $2 AND n > $3 ORDER BY n LIMIT 9",
            "uuid, text, bigint",
            "'11111111-1111-1111-1111-111111111111', 'audit', 0",
            &["((tenant = $1) AND (log = $2) AND (n > $3))"],
        ),
        (
            "SELECT tenant FROM tokens WHERE expires_at <= $1 ORDER BY expires_at LIMIT 1",
            "bigint",
            "0",
            &["(expires_at <= $1)"],
        ),
    ];
    for (sql, types, values, conditions) in asked {
        let prepare = format!("DEALLOCATE ALL; PREPARE asked ({types}) AS {sql}");
        serving.batch_execute(&prepare).await.unwrap();
        let rows = serving.query(&format!("EXPLAIN EXECUTE asked ({values})"), &[]).await.unwrap();
        let plan: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        let index = plan.iter().find(|it| it.contains("Index Cond")).map(String::as_str);
        for condition in conditions {
            assert!(index.is_some_and(|it| it.contains(condition)), "{plan:#?}");
        }
        let text = plan.join("\n");
        assert!(text.contains("current_setting") && !text.contains("Sort"), "{text}");
    }
}

/// An id of a session is one across tenants, though none can see the other's.
#[tokio::test]
async fn threeds_session_id_is_unique_across_tenants() {
    let harness = StoreHarness::open(Engine::Postgres).await;
    let superuser = connect(&harness.vault_harness.database().superuser_url()).await;
    let insert = |tenant| {
        format!(
            "INSERT INTO sessions (tenant, id, created_by, created_at, revision, body)
             VALUES ('{tenant}', '{OURS}', '{OURS}', 1, 0, '')"
        )
    };
    superuser.batch_execute(&insert(OURS)).await.unwrap();
    let taken = superuser.batch_execute(&insert(THEIRS)).await.unwrap_err();
    assert_eq!(taken.code().unwrap().code(), "23505");
}

/// What goes with a row goes in the owner's name, past the policies.
#[tokio::test]
async fn deleting_a_token_cascades_to_its_cvc() {
    let harness = StoreHarness::open(Engine::Postgres).await;
    let cvc = Some(scrip_testing::store_harness::cvc_record("123"));
    let token = scrip_core::token::StoredToken { cvc, ..without_cvc(token_record("one")) };
    let insert = harness.new_insert(token, scrip_core::token::Deduplicate::No);
    harness.insert_token(insert).await.unwrap();
    let [tokens, codes, _] = harness.row_counts().await;
    assert_eq!((tokens, codes), (1, 1));
    harness.delete("one", 0).await;
    let [tokens, codes, _] = harness.row_counts().await;
    assert_eq!((tokens, codes), (0, 0));
}
