//! Row-level security between tenants, and the rights of the serving role. PostgreSQL enforces
//! both, even if a statement of Scrip lacks its tenant condition.

use std::collections::BTreeSet;

use scrip_store::{
    PostgresStore,
    postgres::PostgresSettings,
    tables::{TABLES, TenantRows},
};
use scrip_testing::{
    store_harness::{StoreHarness, token_record, without_cvc},
    vault_harness::Engine,
};
use tokio_postgres::{Client, NoTls, Row};

const FIRST_TENANT: &str = "11111111-1111-1111-1111-111111111111";
const SECOND_TENANT: &str = "22222222-2222-2222-2222-222222222222";

/// Tables without tenant data.
fn tables_without_tenant() -> BTreeSet<&'static str> {
    let tables = TABLES.iter().filter(|it| it.tenant_rows == TenantRows::None);
    tables.map(|it| it.name).collect()
}

/// Connects to a database. The connection ends with the runtime of the test.
async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Lists all tables with their columns and types.
async fn list_tables(superuser: &Client) -> Vec<(String, Vec<(String, String)>)> {
    let sql = "SELECT c.relname, array_agg(a.attname::text ORDER BY a.attnum),
            array_agg(t.typname::text ORDER BY a.attnum)
        FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
        JOIN pg_type t ON t.oid = a.atttypid
        WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r'
        GROUP BY c.relname ORDER BY c.relname";
    let to_table = |row: &Row| {
        let (columns, types): (Vec<String>, Vec<String>) = (row.get(1), row.get(2));
        (row.get(0), columns.into_iter().zip(types).collect())
    };
    superuser.query(sql, &[]).await.unwrap().iter().map(to_table).collect()
}

/// The column with the id of the tenant.
fn tenant_column(table: &str) -> &'static str {
    if matches!(table, "tenants" | "deleted_tenants") { "id" } else { "tenant" }
}

/// Values for a row of this tenant. They differ from the other tenant's row where the schema
/// requires it.
fn row_values(table: &str, columns: &[(String, String)], tenant: &str) -> String {
    let value = |(name, type_name): &(String, String)| match type_name.as_str() {
        "uuid" if name == tenant_column(table) => format!("'{tenant}'"),
        "uuid" => format!("'{}'", tenant.replace("1111-1111", "3333-3333")),
        "int8" | "int4" => "1".to_owned(),
        "text" => "'x'".to_owned(),
        "bytea" => format!("convert_to('{tenant}', 'UTF8')"),
        unknown_type => panic!("{table}: unknown column type {unknown_type}"),
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
    let (owner, serve_client) =
        (connect(&database.owner_url()).await, connect(&database.url()).await);
    // Rows of two tenants in every table; foreign keys are disabled.
    superuser.batch_execute("SET session_replication_role = replica").await.unwrap();
    let tables = list_tables(&superuser).await;
    let names: BTreeSet<_> = tables.iter().map(|(name, _)| name.as_str()).collect();
    let tables_without_tenant = tables_without_tenant();
    assert!(tables_without_tenant.is_subset(&names), "{names:?}");
    let mut isolated_count = 0;
    for (table, columns) in &tables {
        if tables_without_tenant.contains(table.as_str()) {
            continue;
        }
        isolated_count += 1;
        superuser.batch_execute(&format!("DELETE FROM {table}")).await.unwrap();
        for tenant in [FIRST_TENANT, SECOND_TENANT] {
            let insert =
                format!("INSERT INTO {table} VALUES ({})", row_values(table, columns, tenant));
            superuser.batch_execute(&insert).await.unwrap();
        }
        let unknown_tenant = "44444444-4444-4444-4444-444444444444";
        for (scope, visible_rows) in [
            (None, 0),
            (Some(""), 0),
            (Some("ALL"), 0),
            (Some("unknown"), 0),
            (Some(unknown_tenant), 0),
            (Some(FIRST_TENANT), 1),
            (Some(SECOND_TENANT), 1),
            (Some("all"), 2),
        ] {
            for client in [&owner, &serve_client] {
                begin_with_scope(client, scope).await;
                assert_eq!(count_rows(client, table).await, visible_rows, "{table} {scope:?}");
                client.batch_execute("ROLLBACK").await.unwrap();
            }
            // The owner may do everything except bypass row-level security.
            begin_with_scope(&owner, scope).await;
            let column = tenant_column(table);
            let update = format!("UPDATE {table} SET {column} = {column}");
            assert_eq!(
                owner.execute(&update, &[]).await.unwrap(),
                u64::try_from(visible_rows).unwrap(),
                "{table} {scope:?}"
            );
            let delete = format!("DELETE FROM {table}");
            assert_eq!(
                owner.execute(&delete, &[]).await.unwrap(),
                u64::try_from(visible_rows).unwrap(),
                "{table} {scope:?}"
            );
            let insert = format!(
                "INSERT INTO {table} VALUES ({})",
                row_values(table, columns, FIRST_TENANT)
            );
            let inserted = owner.batch_execute(&insert).await;
            let is_allowed = matches!(scope, Some(FIRST_TENANT | "all"));
            let error_code = inserted.as_ref().err().and_then(|it| it.code()).map(|it| it.code());
            // Rejected by the policy, or later only by a foreign key.
            assert_eq!(error_code == Some("42501"), !is_allowed, "{table} {scope:?}: {inserted:?}");
            owner.batch_execute("ROLLBACK").await.unwrap();
        }
        // The tenant of a row cannot be changed.
        begin_with_scope(&owner, Some(FIRST_TENANT)).await;
        let change_tenant =
            format!("UPDATE {table} SET {} = '{unknown_tenant}'", tenant_column(table));
        let error = owner.batch_execute(&change_tenant).await.unwrap_err();
        assert_eq!(error.code().unwrap().code(), "42501", "{table}");
        owner.batch_execute("ROLLBACK").await.unwrap();
    }
    assert_eq!(isolated_count, tables.len() - tables_without_tenant.len());
}

/// Rights of the serving role by table. Every other test shows that they suffice; this test shows
/// that there are no others.
const TABLE_PRIVILEGES: &[(&str, &str)] = &[
    ("access_sessions", "SELECT INSERT UPDATE DELETE"),
    ("active_months", "SELECT INSERT UPDATE DELETE"),
    ("active_tokens", "SELECT INSERT DELETE"),
    ("api_keys", "SELECT INSERT DELETE"),
    ("applications", "SELECT INSERT UPDATE DELETE"),
    ("approvals", "SELECT INSERT UPDATE DELETE"),
    ("chain_checkpoints", "SELECT INSERT UPDATE"),
    ("chain_heads", "SELECT INSERT UPDATE"),
    ("client_keys", "SELECT INSERT DELETE"),
    ("clock_watermark", "SELECT INSERT UPDATE"),
    ("cvcs", "SELECT INSERT UPDATE DELETE"),
    ("deleted_tenants", "SELECT INSERT DELETE"),
    ("deliveries", "SELECT INSERT UPDATE DELETE"),
    ("directory_state", "SELECT UPDATE"),
    ("dual_control", "SELECT INSERT UPDATE DELETE"),
    ("guesses", "SELECT INSERT UPDATE DELETE"),
    ("idempotency_records", "SELECT INSERT DELETE"),
    ("import_state", "SELECT INSERT UPDATE DELETE"),
    ("intent_cvcs", "SELECT INSERT DELETE"),
    ("key_rotations", "SELECT INSERT UPDATE DELETE"),
    ("log_records", "SELECT INSERT DELETE"),
    ("permanent_keys", "SELECT INSERT UPDATE"),
    ("proxies", "SELECT INSERT UPDATE DELETE"),
    ("response_token_data", "SELECT INSERT"),
    ("schema_state", "SELECT"),
    ("system_keys", "SELECT INSERT UPDATE"),
    ("tenant_keys", "SELECT INSERT UPDATE DELETE"),
    ("tenant_locks", "SELECT INSERT UPDATE"),
    ("tenants", "SELECT INSERT UPDATE DELETE"),
    ("threeds_sessions", "SELECT INSERT UPDATE DELETE"),
    ("token_index", "SELECT INSERT DELETE"),
    ("token_intents", "SELECT INSERT DELETE"),
    ("tokens", "SELECT INSERT UPDATE DELETE"),
    ("unlocks", "SELECT INSERT UPDATE DELETE"),
    ("usage_months", "SELECT INSERT UPDATE DELETE"),
    ("usage_types", "SELECT INSERT UPDATE DELETE"),
    ("vault_state", "SELECT INSERT UPDATE"),
    ("webhooks", "SELECT INSERT UPDATE DELETE"),
];

#[tokio::test]
async fn serve_role_has_exactly_the_needed_privileges() {
    let harness = StoreHarness::open(Engine::Postgres).await;
    let database = harness.vault_harness.database();
    let serve_client = connect(&database.url()).await;
    let list_privileges = async || -> Vec<(String, String)> {
        let sql = "SELECT c.relname::text, string_agg(p.it, ' ' ORDER BY p.at)
            FROM pg_class c CROSS JOIN unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE',
                'TRUNCATE', 'REFERENCES', 'TRIGGER']) WITH ORDINALITY AS p (it, at)
            WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'S', 'v')
                AND has_table_privilege(c.oid, p.it)
            GROUP BY c.relname ORDER BY c.relname";
        let rows = serve_client.query(sql, &[]).await.unwrap();
        rows.iter().map(|row| (row.get(0), row.get(1))).collect()
    };
    let expected: Vec<_> = TABLE_PRIVILEGES
        .iter()
        .map(|(it, privileges)| ((*it).into(), (*privileges).into()))
        .collect();
    assert_eq!(list_privileges().await, expected);
    let role_query =
        "SELECT rolsuper OR rolbypassrls OR rolcreaterole OR rolcreatedb OR rolreplication
        FROM pg_roles WHERE rolname = current_user";
    assert!(!serve_client.query_one(role_query, &[]).await.unwrap().get::<_, bool>(0));
    for sql in [
        "CREATE TABLE mine (it INTEGER)",
        "ALTER TABLE tokens DISABLE ROW LEVEL SECURITY",
        "ALTER TABLE tokens NO FORCE ROW LEVEL SECURITY",
        "DROP POLICY tenant_isolation ON tokens",
        "SET session_replication_role = replica",
        "SET row_security = off; SELECT count(*) FROM tokens",
        "TRUNCATE tokens CASCADE",
        "UPDATE log_records SET entity = 'x'",
        "DELETE FROM chain_heads",
        "UPDATE token_index SET container = '/'",
        "UPDATE schema_state SET version = 2",
    ] {
        let error = serve_client.batch_execute(sql).await.unwrap_err();
        assert_eq!(error.code().unwrap().code(), "42501", "{sql}");
        serve_client.batch_execute("RESET ALL").await.unwrap();
    }
    // Additional rights are revoked.
    let owner = connect(&database.owner_url()).await;
    let role_name = serve_client.query_one("SELECT quote_ident(current_user)", &[]).await.unwrap();
    let role_name: String = role_name.get(0);
    owner
        .batch_execute(&format!("GRANT ALL ON log_records, chain_heads TO {role_name}"))
        .await
        .unwrap();
    assert_ne!(list_privileges().await, expected);
    let settings = PostgresSettings::parse(&database.owner_url()).unwrap();
    PostgresStore::migrate(settings.clone().with_serve_role(scrip_testing::postgres::SERVE_ROLE))
        .await
        .unwrap();
    assert_eq!(list_privileges().await, expected);
    // The owner of the tables cannot be the serving role.
    let owner_as_serve_role = PostgresStore::migrate(
        settings.clone().with_serve_role(scrip_testing::postgres::OWNER_ROLE),
    )
    .await;
    assert!(owner_as_serve_role.is_err());
    let delete_statement = "DELETE FROM response_token_data";
    owner.batch_execute(delete_statement).await.unwrap();
    let unknown_role =
        PostgresStore::migrate(settings.with_serve_role("x\"; DROP TABLE tokens; --")).await;
    assert!(unknown_role.is_err());
    assert_eq!(list_privileges().await, expected);
}

/// The policy filters the result of the index scan and does not replace the index.
#[tokio::test]
async fn row_level_security_keeps_index_plans() {
    let harness = StoreHarness::open(Engine::Postgres).await;
    harness.insert(token_record("one")).await;
    let serve_client = connect(&harness.vault_harness.database().url()).await;
    let planner_settings = "SET enable_seqscan = off; SET enable_bitmapscan = off; SET plan_cache_mode = force_generic_plan";
    serve_client.batch_execute(planner_settings).await.unwrap();
    let queries = [
        (
            "SELECT body FROM tokens WHERE tenant = $1 AND id = $2",
            "uuid, text",
            "'11111111-1111-1111-1111-111111111111', 'one'",
            &["((tenant = $1) AND (id = $2))"][..],
        ),
        (
            "SELECT token FROM token_index WHERE tenant = $1 AND facet = $2 AND container >= $3
             AND (container, created_at, token) < ($4, $5, $6)
             ORDER BY container DESC, created_at DESC, token DESC LIMIT 9",
            "uuid, bytea, text, text, bigint, bigint",
            "'11111111-1111-1111-1111-111111111111', '', '/', '0', 0, 0",
            &["(container >= $3)", "(ROW(container, created_at, token) < ROW($4, $5, $6))"],
        ),
        (
            "SELECT sequence FROM log_records WHERE tenant = $1 AND log = $2 AND sequence > $3 ORDER BY sequence LIMIT 9",
            "uuid, text, bigint",
            "'11111111-1111-1111-1111-111111111111', 'audit', 0",
            &["((tenant = $1) AND (log = $2) AND (sequence > $3))"],
        ),
        (
            "SELECT tenant FROM tokens WHERE expires_at <= $1 ORDER BY expires_at LIMIT 1",
            "bigint",
            "0",
            &["(expires_at <= $1)"],
        ),
    ];
    for (sql, types, values, conditions) in queries {
        let prepare = format!("DEALLOCATE ALL; PREPARE query ({types}) AS {sql}");
        serve_client.batch_execute(&prepare).await.unwrap();
        let rows =
            serve_client.query(&format!("EXPLAIN EXECUTE query ({values})"), &[]).await.unwrap();
        let plan: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        let index_condition = plan.iter().find(|it| it.contains("Index Cond")).map(String::as_str);
        for condition in conditions {
            assert!(index_condition.is_some_and(|it| it.contains(condition)), "{plan:#?}");
        }
        let text = plan.join("\n");
        assert!(text.contains("current_setting") && !text.contains("Sort"), "{text}");
    }
}

/// A session id is unique across tenants, although no tenant can see the other's row.
#[tokio::test]
async fn threeds_session_id_is_unique_across_tenants() {
    let harness = StoreHarness::open(Engine::Postgres).await;
    let superuser = connect(&harness.vault_harness.database().superuser_url()).await;
    let insert_statement = |tenant| {
        format!(
            "INSERT INTO threeds_sessions (tenant, id, created_by, created_at, revision, body)
             VALUES ('{tenant}', '{FIRST_TENANT}', '{FIRST_TENANT}', 1, 0, '')"
        )
    };
    superuser.batch_execute(&insert_statement(FIRST_TENANT)).await.unwrap();
    let error = superuser.batch_execute(&insert_statement(SECOND_TENANT)).await.unwrap_err();
    assert_eq!(error.code().unwrap().code(), "23505");
}

/// Cascading deletes run as the owner, without row-level security.
#[tokio::test]
async fn deleting_a_token_cascades_to_its_cvc() {
    let harness = StoreHarness::open(Engine::Postgres).await;
    let cvc = Some(scrip_testing::store_harness::cvc_record("123"));
    let token = scrip_core::token::StoredToken { cvc, ..without_cvc(token_record("one")) };
    let insert = harness.new_insert(token, scrip_core::disclosure::Deduplicate::No);
    harness.insert_token(insert).await.unwrap();
    let [tokens, cvcs, _] = harness.row_counts().await;
    assert_eq!((tokens, cvcs), (1, 1));
    harness.delete("one", 0).await;
    let [tokens, cvcs, _] = harness.row_counts().await;
    assert_eq!((tokens, cvcs), (0, 0));
}
