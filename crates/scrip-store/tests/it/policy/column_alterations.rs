//! Policy is stored unencrypted. An attacker who alters a column in the database file gains nothing:
//! the tenant is rejected until the column is restored. Other tenants are not affected.

use std::collections::BTreeSet;

use scrip_core::policy::{Directory, entity::Entity};
use scrip_testing::vault_harness::Engine;

use crate::policy::{
    access_sessions,
    entity_alterations::{altered_values, policy_entities},
    harness::{PolicyHarness, TABLES, check_actors_unaltered, check_victim_rejected},
};

/// A table, a column, and the altered values, one at a time.
type ColumnAlteration = (&'static str, &'static str, &'static [&'static str]);

/// The altered row of a table.
fn altered_row(table: &str) -> &'static str {
    match table {
        "tenants" => "id = {victim}",
        "tenant_keys" | "permanent_keys" => "tenant = {victim}",
        "applications" => "id = {private}",
        "api_keys" => "application = {private}",
        "proxies" => "id = {proxy}",
        "webhooks" => "id = {webhook}",
        "client_keys" => "id = {client key}",
        _ => "TRUE",
    }
}

/// Alterations that the column types of the schema permit, besides those of every column of an
/// entity.
const ALTERATIONS: &[ColumnAlteration] = &[
    ("tenants", "settings", &["json_set(settings, '$.unknown', 1)"]),
    ("tenants", "quotas", &["json_set(quotas, '$.unknown', 1)"]),
    ("applications", "access", &["json_set(access, '$.unknown', 1)"]),
    ("tenants", "name", &["' ' || name || ' '", "char(10)", "'other'"]),
    ("tenants", "kind", &["'production'", "'unheard of'"]),
    (
        "tenants",
        "settings",
        &[
            "json_set(settings, '$.fingerprint_tokens', json('false'))",
            "json_set(settings, '$.token_deduplication_behavior', 'update_existing')",
            "json_set(settings, '$.deduplicate_tokens', 7)",
            "'{}'",
            "'null'",
        ],
    ),
    (
        "tenants",
        "quotas",
        &[
            "json_set(quotas, '$.tokenize_limit', 1000)",
            "json_set(quotas, '$.cvc_retention_seconds', 86400)",
            "json_remove(quotas, '$.tokenize_limit')",
            "'{}'",
        ],
    ),
    ("tenants", "created_by", &["{manager}"]),
    ("tenants", "modified_by", &["{private}", "{other}"]),
    ("tenants", "mac", &["policy_mac", "(SELECT mac FROM tenants WHERE id = {other})"]),
    ("tenants", "policy_counter", &["9223372036854775807"]),
    ("tenants", "policy_mac", &["mac", "(SELECT policy_mac FROM tenants WHERE id = {other})"]),
    ("tenant_keys", "tenant", &["{fresh}", "x''", "x'00'"]),
    ("tenant_keys", "version", &["0", "2", "-1", "4294967297"]),
    (
        "tenant_keys",
        "wrapped",
        &[
            "(SELECT wrapped FROM tenant_keys WHERE tenant = {other})",
            "(SELECT wrapped FROM permanent_keys WHERE tenant = {victim})",
            "substr(wrapped, 1, length(wrapped) - 1)",
            "zeroblob(length(wrapped))",
            "x''",
        ],
    ),
    ("permanent_keys", "tenant", &["{fresh}", "x''", "x'00'"]),
    (
        "permanent_keys",
        "wrapped",
        &[
            "(SELECT wrapped FROM permanent_keys WHERE tenant = {other})",
            "(SELECT wrapped FROM tenant_keys WHERE tenant = {victim})",
            "substr(wrapped, 1, length(wrapped) - 1)",
            "zeroblob(length(wrapped))",
            "x''",
        ],
    ),
    ("applications", "tenant", &["{other}"]),
    ("applications", "id", &["{other private}"]),
    ("applications", "name", &["char(10)"]),
    ("applications", "kind", &["'management'", "'public'", "'unheard of'"]),
    (
        "applications",
        "access",
        &[
            "(SELECT access FROM applications WHERE id = {manager})",
            "(SELECT access FROM applications WHERE id = {public})",
            "replace(access, 'mask', 'reveal')",
            "replace(access, '\"/\"', '\"/a/\"')",
            "json_set(access, '$.rules', json('[]'))",
            "json_remove(access, '$.rules[0].container')",
            "json_set(access, '$.permissions', json('[\"token:use\"]'))",
            "'{\"permissions\":[\"all\"],\"rules\":[]}'",
            "'{}'",
        ],
    ),
    ("applications", "origins", &["'https://attacker.example'", "'*'"]),
    ("applications", "created_by", &["{private}", "{other}"]),
    ("applications", "modified_by", &["{private}", "{other}"]),
    (
        "applications",
        "mac",
        &[
            "(SELECT mac FROM applications WHERE id = {manager})",
            "(SELECT mac FROM applications WHERE id = {other private})",
            "(SELECT mac FROM tenants WHERE id = {victim})",
        ],
    ),
    ("api_keys", "tenant", &["{other}"]),
    ("api_keys", "application", &["{manager}", "{public}", "{other private}"]),
    ("api_keys", "created_by", &["{private}", "{other}"]),
    (
        "api_keys",
        "mac",
        &[
            "(SELECT mac FROM api_keys WHERE application = {manager})",
            "(SELECT mac FROM api_keys WHERE application = {other private})",
            "(SELECT mac FROM applications WHERE id = {private})",
        ],
    ),
    ("proxies", "tenant", &["{other}"]),
    ("proxies", "name", &["char(10)"]),
    ("proxies", "application", &["{manager}", "{public}", "{other private}"]),
    ("proxies", "host", &["'a.example'", "'localhost'"]),
    (
        "proxies",
        "settings",
        &["(SELECT settings FROM proxies WHERE id = {other proxy})", "secrets"],
    ),
    ("proxies", "secrets", &["(SELECT secrets FROM proxies WHERE id = {other proxy})", "settings"]),
    ("proxies", "created_by", &["{private}", "{other}"]),
    ("proxies", "modified_by", &["{private}", "{other}"]),
    (
        "proxies",
        "mac",
        &[
            "(SELECT mac FROM proxies WHERE id = {other proxy})",
            "(SELECT mac FROM applications WHERE id = {private})",
        ],
    ),
    ("client_keys", "tenant", &["{other}"]),
    ("client_keys", "created_by", &["{private}", "{other}"]),
    ("client_keys", "mac", &["(SELECT mac FROM client_keys WHERE id = {other client key})"]),
    ("webhooks", "tenant", &["{other}"]),
    ("webhooks", "name", &["char(10)"]),
    ("webhooks", "status", &["'disabled'", "'Enabled'"]),
    ("webhooks", "events", &["'token.read'", "'token.deleted,token.created'", "events || ','"]),
    ("webhooks", "settings", &["secrets"]),
    ("webhooks", "secrets", &["settings"]),
    ("webhooks", "created_by", &["{private}", "{other}"]),
    ("webhooks", "modified_by", &["{private}", "{other}"]),
    ("webhooks", "mac", &["(SELECT mac FROM webhooks WHERE id = {other webhook})"]),
];

/// Without the system key no API key can be checked, so the directory is not loaded.
const SYSTEM_KEY_ALTERATIONS: &[ColumnAlteration] = &[
    ("system_keys", "name", &["'other'", "''", "'PEPPER'"]),
    (
        "system_keys",
        "wrapped",
        &[
            "(SELECT wrapped FROM permanent_keys WHERE tenant = {victim})",
            "substr(wrapped, 1, length(wrapped) - 1)",
            "zeroblob(length(wrapped))",
            "x''",
        ],
    ),
];

/// The padding that puts a key on its own page. The schema checks the padding too, so the schema
/// must be altered first.
const PADDING_ALTERATIONS: &[ColumnAlteration] =
    &[("tenant_keys", "padding", WRONG_PADDINGS), ("permanent_keys", "padding", WRONG_PADDINGS)];

const WRONG_PADDINGS: &[&str] = &[
    "x''",
    "wrapped",
    "zeroblob(1023)",
    "zeroblob(1025)",
    "CAST(zeroblob(1023) || x'01' AS BLOB)",
];

/// Columns that grant no rights.
const HARMLESS_ALTERATIONS: &[ColumnAlteration] = &[
    // The version only triggers a reload in other processes, which also reload twice a minute.
    ("directory_state", "version", &["version + 100", "version - 1", "0", "-1"]),
];

/// Columns with a value that a check of the schema fixes. Without the check the column is ignored.
const FIXED_COLUMNS: &[(&str, &str)] = &[("directory_state", "singleton")];

#[tokio::test]
async fn alteration_tables_cover_every_policy_column() {
    let harness = PolicyHarness::open().await;
    let query_names = |sql: &str| -> BTreeSet<String> {
        let mut statement = harness.attacker.prepare(sql).unwrap();
        let names = statement.query_map([], |row| row.get(0)).unwrap();
        names.collect::<Result<_, _>>().unwrap()
    };
    for table in TABLES {
        let schema_columns = query_names(&format!("SELECT name FROM pragma_table_info('{table}')"));
        let entities = policy_entities().filter(|it| it.table == *table);
        let entity_columns = entities.flat_map(|it| it.columns).map(|it| (*table, it.name));
        let tested_columns =
            [ALTERATIONS, PADDING_ALTERATIONS, SYSTEM_KEY_ALTERATIONS, HARMLESS_ALTERATIONS]
                .concat();
        let tested_columns = tested_columns.iter().map(|(table, column, _)| (*table, *column));
        let tested_columns = tested_columns.chain(entity_columns);
        let tested_columns = tested_columns.chain(FIXED_COLUMNS.iter().copied());
        let session_columns = access_sessions::list_columns().map(|it| ("access_sessions", it));
        let tested_columns = tested_columns.chain(session_columns).filter(|(it, _)| it == table);
        let tested_columns = tested_columns.map(|(_, column)| column.to_owned());
        assert_eq!(tested_columns.collect::<BTreeSet<_>>(), schema_columns, "{table}");
    }
    // The other tables belong to tokens, 3DS sessions, deliveries and logs; `column_alterations.rs` in
    // `sqlite`, `sessions` and `deliveries`, and `audit/log_tampering.rs` test them. The server's
    // test suite alters the clock, the deleted tenants, the unlock methods and the approvals.
    let other_tables = [
        "response_token_data",
        "idempotency_records",
        "log_records",
        "chain_checkpoints",
        "chain_heads",
        "clock_watermark",
        "cvcs",
        "deleted_tenants",
        "token_index",
        // A deleted counter grants more guesses and no rights.
        "guesses",
        "intent_cvcs",
        "deliveries",
        "threeds_sessions",
        "token_intents",
        "tokens",
        // Altered progress and counters are wrong and grant no rights.
        "key_rotations",
        "usage_months",
        "usage_types",
    ];
    let vault_tables = ["approvals", "dual_control", "unlocks", "vault_state"];
    let other_tables = other_tables.iter().chain(&vault_tables);
    let all_tables = other_tables.chain(TABLES).map(|it| (*it).to_owned()).collect::<BTreeSet<_>>();
    assert_eq!(query_names("SELECT name FROM sqlite_schema WHERE type = 'table'"), all_tables);
}

/// Checks that keys of this tenant are rejected, keys of other tenants work, the alteration is
/// reported, and no policy change signs the altered rows.
pub(crate) async fn check_rejected(harness: &PolicyHarness, context: &str) -> Directory {
    let rows = harness.read_rows();
    let PolicyHarness { vault_harness, loaded_directory, victim, witness, .. } = harness;
    let actors = [victim, witness];
    let altered_directory =
        check_victim_rejected(vault_harness, loaded_directory, actors, context).await;
    for outcome in harness.try_policy_changes().await {
        assert!(outcome.is_err(), "{context}");
    }
    assert_eq!(harness.read_rows(), rows, "{context}");
    altered_directory
}

/// Checks that all keys work after a restart and in a server that had loaded the altered policy.
pub(crate) async fn check_unaltered(
    harness: &PolicyHarness,
    altered_directory: Option<&Directory>,
    context: &str,
) {
    let actors = [&harness.victim, &harness.other, &harness.witness];
    check_actors_unaltered(&harness.vault_harness, altered_directory, actors, context).await;
}

fn update_statements(alterations: &[ColumnAlteration]) -> Vec<String> {
    let mut statements = Vec::new();
    for (table, column, values) in alterations {
        let update =
            |it| format!("UPDATE {table} SET {column} = {it} WHERE {}", altered_row(table));
        statements.extend(values.iter().map(update));
    }
    statements
}

async fn check_each_rejected(harness: &PolicyHarness, alterations: &[ColumnAlteration]) {
    let rows = harness.read_rows();
    for sql in update_statements(alterations) {
        assert!(harness.try_write(&sql), "{sql}");
        assert_ne!(harness.read_rows(), rows, "{sql}");
        let altered_directory = check_rejected(harness, &sql).await;
        harness.restore(&rows);
        check_unaltered(harness, Some(&altered_directory), &sql).await;
    }
    for outcome in harness.try_policy_changes().await {
        outcome.unwrap();
    }
}

#[tokio::test]
async fn altered_policy_column_is_detected() {
    check_each_rejected(&PolicyHarness::open().await, ALTERATIONS).await;
}

#[tokio::test]
async fn altered_column_of_each_entity_is_detected() {
    let harness = PolicyHarness::open().await;
    let rows = harness.read_rows();
    for entity in policy_entities() {
        for column in entity.columns {
            let mut detected = 0;
            for value in altered_values(Engine::Sqlite, column) {
                let row = altered_row(entity.table);
                let sql =
                    format!("UPDATE {} SET {} = {value} WHERE {row}", entity.table, column.name);
                // The row may have this value already.
                if !harness.try_write(&sql) || harness.read_rows() == rows {
                    continue;
                }
                let altered_directory = check_rejected(&harness, &sql).await;
                harness.restore(&rows);
                check_unaltered(&harness, Some(&altered_directory), &sql).await;
                detected += 1;
            }
            assert!(detected > 0, "no value alters {}.{}", entity.table, column.name);
        }
    }
}

#[tokio::test]
async fn wrong_key_padding_is_detected() {
    let harness = PolicyHarness::open().await;
    for sql in update_statements(PADDING_ALTERATIONS) {
        assert!(!harness.try_write(&sql), "{sql}");
    }
    harness.drop_schema_checks();
    check_each_rejected(&harness, PADDING_ALTERATIONS).await;
}

/// An attacker can also alter the schema, and then a column can have any type.
#[tokio::test]
async fn policy_column_of_another_type_is_detected() {
    let harness = PolicyHarness::open().await;
    harness.drop_schema_checks();
    check_unaltered(&harness, Some(&harness.loaded_directory), "without schema checks").await;
    let rows = harness.read_rows();
    let key_columns = ALTERATIONS.iter().chain(PADDING_ALTERATIONS).map(|it| (it.0, it.1));
    let columns = |it: &'static Entity| it.columns.iter().map(|column| (it.table, column.name));
    let columns: BTreeSet<_> = policy_entities().flat_map(columns).chain(key_columns).collect();
    for (table, column) in columns {
        for value in ["NULL", "1.5", "'text'", "x'c328'", "CAST(x'c328' AS TEXT)"] {
            let sql = format!("UPDATE {table} SET {column} = {value} WHERE {}", altered_row(table));
            // A key column of a table without row numbers is never NULL, and NULL matches no actor.
            if !harness.try_write(&sql) || harness.read_rows() == rows {
                continue;
            }
            let altered_directory = check_rejected(&harness, &sql).await;
            harness.restore(&rows);
            check_unaltered(&harness, Some(&altered_directory), &sql).await;
        }
    }
}

#[tokio::test]
async fn directory_does_not_load_with_altered_system_keys() {
    let harness = PolicyHarness::open().await;
    let rows = harness.read_rows();
    let mut statements = update_statements(SYSTEM_KEY_ALTERATIONS);
    statements.push("DELETE FROM system_keys WHERE TRUE".to_owned());
    let statements_for_key = |name: &str| {
        let condition = format!("WHERE name = '{name}'");
        statements.iter().map(|it| it.replace("WHERE TRUE", &condition)).collect::<Vec<_>>()
    };
    let swap_keys = "UPDATE system_keys SET wrapped =
        (SELECT wrapped FROM system_keys AS it WHERE it.name <> system_keys.name)";
    for sql in statements_for_key("pepper")
        .into_iter()
        .chain(statements_for_key("audit"))
        .chain([swap_keys.to_owned()])
    {
        assert!(harness.try_write(&sql), "{sql}");
        for previous in [None, Some(&harness.loaded_directory)] {
            assert!(harness.vault_harness.reload(previous).await.is_err(), "{sql}");
        }
        harness.restore(&rows);
        check_unaltered(&harness, Some(&harness.loaded_directory), &sql).await;
    }
}

#[tokio::test]
async fn harmless_policy_columns_change_no_rights() {
    let harness = PolicyHarness::open().await;
    let rows = harness.read_rows();
    for sql in update_statements(HARMLESS_ALTERATIONS) {
        assert!(harness.try_write(&sql) && harness.read_rows() != rows, "{sql}");
        check_unaltered(&harness, Some(&harness.loaded_directory), &sql).await;
        let altered_directory = harness.vault_harness.directory().await;
        let (expected, actual) = [&harness.loaded_directory, &altered_directory]
            .map(|it| it.tenant(harness.victim.tenant.id))
            .into();
        let (expected, actual) = (expected.unwrap(), actual.unwrap());
        assert_eq!((&actual.name, &actual.settings), (&expected.name, &expected.settings), "{sql}");
        assert_eq!(actual.applications, expected.applications, "{sql}");
        harness.restore(&rows);
    }
    for (table, column) in FIXED_COLUMNS {
        for value in ["0", "2", "NULL"] {
            assert!(!harness.try_write(&format!("UPDATE {table} SET {column} = {value}")));
        }
    }
    harness.drop_schema_checks();
    assert!(harness.try_write("UPDATE directory_state SET singleton = 2"));
    check_unaltered(&harness, Some(&harness.loaded_directory), "singleton").await;
}
