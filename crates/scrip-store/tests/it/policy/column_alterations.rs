//! Policy is stored unencrypted. An attacker who alters a column in the database file gains nothing:
//! the tenant is rejected until the column is restored. Other tenants are not affected.

use std::collections::BTreeSet;

use scrip_core::policy::{ApiKeyLookup, Directory};

use crate::policy::{
    access_sessions,
    harness::{PolicyHarness, TABLES, expect_principal},
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

/// Alterations that the column types of the schema permit.
const ALTERATIONS: &[ColumnAlteration] = &[
    // A different spelling of the same name is also an alteration.
    ("tenants", "settings", &["' ' || settings", "json_set(settings, '$.unknown', 1)"]),
    ("tenants", "quotas", &["' ' || quotas", "json_set(quotas, '$.unknown', 1)"]),
    ("applications", "access", &["' ' || access", "json_set(access, '$.unknown', 1)"]),
    ("tenants", "id", &["{fresh}", "x''", "x'00'", "zeroblob(32)"]),
    ("tenants", "name", &["' ' || name || ' '", "'another'", "''", "char(10)", "'other'"]),
    ("tenants", "kind", &["'production'", "'unheard of'", "''"]),
    (
        "tenants",
        "settings",
        &[
            "json_set(settings, '$.fingerprint_tokens', json('false'))",
            "json_set(settings, '$.token_deduplication_behavior', 'update_existing')",
            "json_set(settings, '$.deduplicate_tokens', 7)",
            "'{}'",
            "'null'",
            "''",
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
            "''",
        ],
    ),
    ("tenants", "created_by", &["{manager}", "zeroblob(16)", "x'00'", "x''"]),
    ("tenants", "created_at", &["created_at + 1", "created_at - 1", "0", "-1"]),
    ("tenants", "modified_by", &["{private}", "{other}", "x'00'", "NULL"]),
    ("tenants", "modified_at", &["modified_at + 1", "0", "NULL"]),
    ("tenants", "deletes_at", &["0", "1", "4102444800000"]),
    ("tenants", "sealing_version", &["0", "1", "2", "-1"]),
    (
        "tenants",
        "mac",
        &[
            "zeroblob(32)",
            "policy_mac",
            "(SELECT mac FROM tenants WHERE id = {other})",
            "substr(mac, 1, 31)",
            "x''",
        ],
    ),
    (
        "tenants",
        "policy_counter",
        &["policy_counter + 1", "policy_counter - 1", "0", "-1", "9223372036854775807"],
    ),
    (
        "tenants",
        "policy_mac",
        &[
            "zeroblob(32)",
            "mac",
            "(SELECT policy_mac FROM tenants WHERE id = {other})",
            "substr(policy_mac, 1, 31)",
            "x''",
        ],
    ),
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
    ("applications", "tenant", &["{other}", "{fresh}", "x''", "x'00'"]),
    ("applications", "id", &["{fresh}", "{other private}", "x''", "x'00'"]),
    ("applications", "name", &["name || ' '", "'another'", "''", "char(10)"]),
    ("applications", "kind", &["'management'", "'public'", "'unheard of'", "''"]),
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
            "''",
        ],
    ),
    ("applications", "origins", &["'https://attacker.example'", "'*'", "''"]),
    ("applications", "created_by", &["{private}", "{other}", "x'00'", "NULL"]),
    ("applications", "created_at", &["created_at + 1", "0", "-1"]),
    ("applications", "modified_by", &["{private}", "{other}", "x'00'", "NULL"]),
    ("applications", "modified_at", &["modified_at + 1", "0", "NULL"]),
    (
        "applications",
        "mac",
        &[
            "(SELECT mac FROM applications WHERE id = {manager})",
            "(SELECT mac FROM applications WHERE id = {other private})",
            "(SELECT mac FROM tenants WHERE id = {victim})",
            "zeroblob(32)",
            "x''",
        ],
    ),
    ("api_keys", "tenant", &["{other}", "{fresh}", "x''", "x'00'"]),
    ("api_keys", "application", &["{manager}", "{public}", "{other private}", "{fresh}", "x''"]),
    ("api_keys", "id", &["{fresh}", "x''", "x'00'"]),
    ("api_keys", "digest", &["zeroblob(32)", "substr(digest, 1, 31)", "x''"]),
    ("api_keys", "created_by", &["{private}", "{other}", "x'00'", "NULL"]),
    ("api_keys", "created_at", &["created_at + 1", "0", "-1"]),
    (
        "api_keys",
        "mac",
        &[
            "(SELECT mac FROM api_keys WHERE application = {manager})",
            "(SELECT mac FROM api_keys WHERE application = {other private})",
            "(SELECT mac FROM applications WHERE id = {private})",
            "zeroblob(32)",
            "x''",
        ],
    ),
    ("proxies", "tenant", &["{other}", "{fresh}", "x''", "x'00'"]),
    ("proxies", "id", &["{fresh}", "x''", "x'00'"]),
    ("proxies", "digest", &["zeroblob(32)", "substr(digest, 1, 31)", "x''"]),
    ("proxies", "name", &["'another'", "''", "char(10)", "name || ' '"]),
    ("proxies", "application", &["{manager}", "{public}", "{other private}", "x'00'", "NULL"]),
    ("proxies", "require_auth", &["0", "2", "-1"]),
    ("proxies", "disable_detokenization", &["1", "2", "-1"]),
    ("proxies", "host", &["'a.example'", "upper(host)", "'localhost'", "''", "NULL"]),
    (
        "proxies",
        "settings",
        &[
            "(SELECT settings FROM proxies WHERE id = {other proxy})",
            "secrets",
            "substr(settings, 1, length(settings) - 1)",
            "zeroblob(length(settings))",
            "x''",
        ],
    ),
    (
        "proxies",
        "secrets",
        &[
            "(SELECT secrets FROM proxies WHERE id = {other proxy})",
            "settings",
            "substr(secrets, 1, length(secrets) - 1)",
            "x''",
        ],
    ),
    ("proxies", "created_by", &["{private}", "{other}", "x'00'", "NULL"]),
    ("proxies", "created_at", &["created_at + 1", "0", "-1"]),
    ("proxies", "modified_by", &["{private}", "{other}", "x'00'", "NULL"]),
    ("proxies", "modified_at", &["modified_at + 1", "0", "NULL"]),
    (
        "proxies",
        "mac",
        &[
            "(SELECT mac FROM proxies WHERE id = {other proxy})",
            "(SELECT mac FROM applications WHERE id = {private})",
            "zeroblob(32)",
            "x''",
        ],
    ),
    ("client_keys", "tenant", &["{other}", "{fresh}", "x''", "x'00'"]),
    ("client_keys", "id", &["{fresh}", "x''", "x'00'"]),
    ("client_keys", "expires_at", &["expires_at + 1", "0", "-1"]),
    (
        "client_keys",
        "private_key",
        &["zeroblob(length(private_key))", "substr(private_key, 2)", "x''"],
    ),
    ("client_keys", "created_by", &["{private}", "{other}", "x'00'", "NULL"]),
    ("client_keys", "created_at", &["created_at + 1", "0", "-1"]),
    (
        "client_keys",
        "mac",
        &["(SELECT mac FROM client_keys WHERE id = {other client key})", "zeroblob(32)"],
    ),
    ("webhooks", "tenant", &["{other}", "{fresh}", "x''", "x'00'"]),
    ("webhooks", "id", &["{fresh}", "x''", "x'00'"]),
    ("webhooks", "name", &["'another'", "''", "char(10)", "name || ' '"]),
    ("webhooks", "status", &["'disabled'", "'Enabled'", "''"]),
    (
        "webhooks",
        "events",
        &["'token.read'", "'token.deleted,token.created'", "events || ','", "''"],
    ),
    ("webhooks", "settings", &["secrets", "zeroblob(length(settings))", "x''"]),
    ("webhooks", "secrets", &["settings", "substr(secrets, 2)", "x''"]),
    ("webhooks", "created_by", &["{private}", "{other}", "x'00'", "NULL"]),
    ("webhooks", "created_at", &["created_at + 1", "0", "-1"]),
    ("webhooks", "modified_by", &["{private}", "{other}", "x'00'", "NULL"]),
    ("webhooks", "modified_at", &["modified_at + 1", "0", "NULL"]),
    ("webhooks", "mac", &["(SELECT mac FROM webhooks WHERE id = {other webhook})", "zeroblob(32)"]),
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
        let tested_columns =
            [ALTERATIONS, PADDING_ALTERATIONS, SYSTEM_KEY_ALTERATIONS, HARMLESS_ALTERATIONS]
                .concat();
        let tested_columns = tested_columns.iter().map(|(table, column, _)| (*table, *column));
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
    let (rows, victim) = (harness.read_rows(), harness.victim.tenant.id);
    let mut altered_directory = None;
    for previous in [None, Some(&harness.loaded_directory)] {
        let directory = harness.vault_harness.reload(previous).await.unwrap();
        for key in harness.victim.keys() {
            let lookup = directory.authenticate(key);
            assert!(
                matches!(lookup, None | Some(ApiKeyLookup::PolicyAltered)),
                "{context}: {lookup:?}"
            );
        }
        assert!(directory.tenant(victim).is_none(), "{context}");
        for member in [&harness.victim.manager, &harness.victim.private, &harness.victim.public] {
            assert!(directory.principal(member.application).is_none(), "{context}");
        }
        assert!(!harness.victim.has_proxy(&directory), "{context}");
        assert!(harness.witness.has_proxy(&directory), "{context}");
        for key in harness.witness.keys() {
            expect_principal(directory.authenticate(key));
        }
        let names_victim = |it: Option<_>| it.is_none_or(|it| it == victim);
        assert!(directory.alterations().iter().any(|it| names_victim(it.tenant)), "{context}");
        altered_directory = Some(directory);
    }
    for outcome in harness.try_policy_changes().await {
        assert!(outcome.is_err(), "{context}");
    }
    assert_eq!(harness.read_rows(), rows, "{context}");
    altered_directory.unwrap()
}

/// Checks that all keys work after a restart and in a server that had loaded the altered policy.
pub(crate) async fn check_unaltered(
    harness: &PolicyHarness,
    altered_directory: Option<&Directory>,
    context: &str,
) {
    for previous in [None, altered_directory] {
        let directory = harness.vault_harness.reload(previous).await.unwrap();
        assert_eq!(directory.alterations(), [], "{context}");
        for actor in [&harness.victim, &harness.other, &harness.witness] {
            assert!(actor.has_proxy(&directory) && actor.has_webhook(&directory), "{context}");
            assert!(actor.has_client_key(&directory), "{context}");
            for key in actor.keys() {
                expect_principal(directory.authenticate(key));
            }
        }
    }
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
    for (table, column, _) in ALTERATIONS.iter().chain(PADDING_ALTERATIONS) {
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
