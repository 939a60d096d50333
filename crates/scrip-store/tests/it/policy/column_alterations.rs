//! Policy stands in clear. Whoever alters any column of it in the database file gains nothing: the
//! tenant is refused until it is put back, and nobody else notices.

use std::collections::BTreeSet;

use scrip_core::policy::{ApiKeyLookup, Directory};

use crate::policy::{
    access_sessions,
    harness::{PolicyHarness, TABLES, principal},
};

/// A column, and what somebody makes of it, one value at a time.
type ColumnAlteration = (&'static str, &'static str, &'static [&'static str]);

/// Which row of a table is altered.
fn altered_row(table: &str) -> &'static str {
    match table {
        "tenants" => "id = {victim}",
        "tenant_keys" | "lasting_keys" => "tenant = {victim}",
        "applications" => "id = {private}",
        "api_keys" => "application = {private}",
        _ => "TRUE",
    }
}

/// In tables that check their types.
const ALTERATIONS: &[ColumnAlteration] = &[
    // Another spelling of the same is not what we wrote.
    ("tenants", "name", &["' ' || name || ' '"]),
    ("tenants", "settings", &["' ' || settings", "json_set(settings, '$.unknown', 1)"]),
    ("tenants", "quotas", &["' ' || quotas", "json_set(quotas, '$.unknown', 1)"]),
    ("applications", "access", &["' ' || access", "json_set(access, '$.unknown', 1)"]),
    ("applications", "name", &["name || ' '"]),
    ("tenants", "id", &["{fresh}", "x''", "x'00'", "zeroblob(32)"]),
    ("tenants", "name", &["'another'", "''", "char(10)", "'other'"]),
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
            "(SELECT wrapped FROM lasting_keys WHERE tenant = {victim})",
            "substr(wrapped, 1, length(wrapped) - 1)",
            "zeroblob(length(wrapped))",
            "x''",
        ],
    ),
    ("lasting_keys", "tenant", &["{fresh}", "x''", "x'00'"]),
    (
        "lasting_keys",
        "wrapped",
        &[
            "(SELECT wrapped FROM lasting_keys WHERE tenant = {other})",
            "(SELECT wrapped FROM tenant_keys WHERE tenant = {victim})",
            "substr(wrapped, 1, length(wrapped) - 1)",
            "zeroblob(length(wrapped))",
            "x''",
        ],
    ),
    ("applications", "tenant", &["{other}", "{fresh}", "x''", "x'00'"]),
    ("applications", "id", &["{fresh}", "{other private}", "x''", "x'00'"]),
    ("applications", "name", &["'another'", "''", "char(10)"]),
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
];

/// Without it nobody at all can be known, so nothing is loaded.
const SYSTEM_KEY_ALTERATIONS: &[ColumnAlteration] = &[
    ("system_keys", "name", &["'other'", "''", "'PEPPER'"]),
    (
        "system_keys",
        "wrapped",
        &[
            "(SELECT wrapped FROM lasting_keys WHERE tenant = {victim})",
            "substr(wrapped, 1, length(wrapped) - 1)",
            "zeroblob(length(wrapped))",
            "x''",
        ],
    ),
];

/// What keeps a key where it can be destroyed. The schema checks it too, so that has to be altered
/// first.
const PADDING_ALTERATIONS: &[ColumnAlteration] =
    &[("tenant_keys", "apart", WRONG_PADDINGS), ("lasting_keys", "apart", WRONG_PADDINGS)];

const WRONG_PADDINGS: &[&str] = &[
    "x''",
    "wrapped",
    "zeroblob(1023)",
    "zeroblob(1025)",
    "CAST(zeroblob(1023) || x'01' AS BLOB)",
];

/// Columns that decide nothing, and why.
const HARMLESS: &[ColumnAlteration] = &[
    // Tells other processes to look again. They look twice a minute even when it does not.
    ("directory_state", "version", &["version + 100", "version - 1", "0", "-1"]),
];

/// Cannot be altered: it is one by a check of the schema. Without the check it is passed over.
const FIXED: &[(&str, &str)] = &[("directory_state", "one")];

#[tokio::test]
async fn alteration_tables_cover_every_policy_column() {
    let harness = PolicyHarness::open().await;
    let of = |sql: &str| -> BTreeSet<String> {
        let mut statement = harness.attacker.prepare(sql).unwrap();
        let names = statement.query_map([], |row| row.get(0)).unwrap();
        names.collect::<Result<_, _>>().unwrap()
    };
    for table in TABLES {
        let actual = of(&format!("SELECT name FROM pragma_table_info('{table}')"));
        let tested = [ALTERATIONS, PADDING_ALTERATIONS, SYSTEM_KEY_ALTERATIONS, HARMLESS].concat();
        let tested = tested.iter().map(|(table, column, _)| (*table, *column));
        let tested = tested.chain(FIXED.iter().copied());
        let tested = tested.chain(access_sessions::columns().map(|it| ("access_sessions", it)));
        let tested = tested.filter(|(it, _)| it == table).map(|(_, column)| column.to_owned());
        assert_eq!(tested.collect::<BTreeSet<_>>(), actual, "{table}");
    }
    // Everything else is about tokens and the trail; their tests are in `sqlite_altered`, `sessions_altered` and `trail`. Rows about the vault
    // itself, the clock and deleted tenants, are altered in the suite of the server.
    let others = [
        "answer_data",
        "answers",
        "audit",
        "audit_checkpoints",
        "audit_heads",
        "clock_state",
        "cvcs",
        "deleted_tenants",
        // A number that was set back is not given again while its event is there.
        "event_state",
        "filed",
        // A count that is removed gives a caller more guesses, and opens nothing.
        "guesses",
        "intent_cvcs",
        "session_events",
        "sessions",
        "token_intents",
        "tokens",
        // Counts that somebody altered are wrong, and open nothing.
        "usage_months",
        "usage_types",
    ]
    .iter();
    let known = others.chain(TABLES).map(|it| (*it).to_owned()).collect::<BTreeSet<_>>();
    assert_eq!(of("SELECT name FROM sqlite_schema WHERE type = 'table'"), known);
}

/// Whoever held keys of this tenant is refused, others are not, somebody hears of it, and no change
/// puts a seal of ours under it.
pub(crate) async fn check_rejected(harness: &PolicyHarness, context: &str) -> Directory {
    let (rows, victim) = (harness.rows(), harness.victim.tenant.id);
    let mut loaded = None;
    for before in [None, Some(&harness.loaded)] {
        let directory = harness.vault_harness.reload(before).await.unwrap();
        for key in harness.victim.keys() {
            let known = directory.authenticate(key);
            assert!(
                matches!(known, None | Some(ApiKeyLookup::PolicyAltered)),
                "{context}: {known:?}"
            );
        }
        assert!(directory.tenant(victim).is_none(), "{context}");
        for member in [&harness.victim.manager, &harness.victim.private, &harness.victim.public] {
            assert!(directory.principal(member.application).is_none(), "{context}");
        }
        for key in harness.witness.keys() {
            principal(directory.authenticate(key));
        }
        let named = |it: Option<_>| it.is_none_or(|it| it == victim);
        assert!(directory.alterations().iter().any(|it| named(it.tenant)), "{context}");
        loaded = Some(directory);
    }
    for outcome in harness.try_policy_changes().await {
        assert!(outcome.is_err(), "{context}");
    }
    assert_eq!(harness.rows(), rows, "{context}");
    loaded.unwrap()
}

/// All is well, for whoever starts now and for whoever saw what was wrong.
pub(crate) async fn check_unaltered(
    harness: &PolicyHarness,
    before: Option<&Directory>,
    context: &str,
) {
    for before in [None, before] {
        let directory = harness.vault_harness.reload(before).await.unwrap();
        assert_eq!(directory.alterations(), [], "{context}");
        for party in [&harness.victim, &harness.other, &harness.witness] {
            for key in party.keys() {
                principal(directory.authenticate(key));
            }
        }
    }
}

fn update_statements(altered: &[ColumnAlteration]) -> Vec<String> {
    let mut each = Vec::new();
    for (table, column, values) in altered {
        let update =
            |it| format!("UPDATE {table} SET {column} = {it} WHERE {}", altered_row(table));
        each.extend(values.iter().map(update));
    }
    each
}

async fn check_each_rejected(harness: &PolicyHarness, table: &[ColumnAlteration]) {
    let rows = harness.rows();
    for sql in update_statements(table) {
        assert!(harness.try_write(&sql), "{sql}");
        assert_ne!(harness.rows(), rows, "{sql}");
        let rejected = check_rejected(harness, &sql).await;
        harness.restore(&rows);
        check_unaltered(harness, Some(&rejected), &sql).await;
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

/// The schema can be altered too, and then a column can hold anything.
#[tokio::test]
async fn policy_column_of_another_type_is_detected() {
    let harness = PolicyHarness::open().await;
    harness.drop_schema_checks();
    check_unaltered(&harness, Some(&harness.loaded), "loosened").await;
    let rows = harness.rows();
    for (table, column, _) in ALTERATIONS.iter().chain(PADDING_ALTERATIONS) {
        for value in ["NULL", "1.5", "'text'", "x'c328'", "CAST(x'c328' AS TEXT)"] {
            let sql = format!("UPDATE {table} SET {column} = {value} WHERE {}", altered_row(table));
            // A key column of a table without row numbers never is null, and nobody is nobody.
            if !harness.try_write(&sql) || harness.rows() == rows {
                continue;
            }
            let rejected = check_rejected(&harness, &sql).await;
            harness.restore(&rows);
            check_unaltered(&harness, Some(&rejected), &sql).await;
        }
    }
}

#[tokio::test]
async fn directory_does_not_load_with_altered_system_keys() {
    let harness = PolicyHarness::open().await;
    let rows = harness.rows();
    let mut all = update_statements(SYSTEM_KEY_ALTERATIONS);
    all.push("DELETE FROM system_keys WHERE TRUE".to_owned());
    let of = |name: &str| {
        let of_one = format!("WHERE name = '{name}'");
        all.iter().map(|it| it.replace("WHERE TRUE", &of_one)).collect::<Vec<_>>()
    };
    let swapped = "UPDATE system_keys SET wrapped =
        (SELECT wrapped FROM system_keys AS it WHERE it.name <> system_keys.name)";
    for sql in of("pepper").into_iter().chain(of("audit")).chain([swapped.to_owned()]) {
        assert!(harness.try_write(&sql), "{sql}");
        for before in [None, Some(&harness.loaded)] {
            assert!(harness.vault_harness.reload(before).await.is_err(), "{sql}");
        }
        harness.restore(&rows);
        check_unaltered(&harness, Some(&harness.loaded), &sql).await;
    }
}

#[tokio::test]
async fn harmless_policy_columns_change_no_rights() {
    let harness = PolicyHarness::open().await;
    let rows = harness.rows();
    for sql in update_statements(HARMLESS) {
        assert!(harness.try_write(&sql) && harness.rows() != rows, "{sql}");
        check_unaltered(&harness, Some(&harness.loaded), &sql).await;
        let after = harness.vault_harness.directory().await;
        let (was, is) =
            [&harness.loaded, &after].map(|it| it.tenant(harness.victim.tenant.id)).into();
        let (was, is) = (was.unwrap(), is.unwrap());
        assert_eq!((&was.name, &was.settings), (&is.name, &is.settings), "{sql}");
        assert_eq!(was.applications, is.applications, "{sql}");
        harness.restore(&rows);
    }
    for (table, column) in FIXED {
        for value in ["0", "2", "NULL"] {
            assert!(!harness.try_write(&format!("UPDATE {table} SET {column} = {value}")));
        }
    }
    harness.drop_schema_checks();
    assert!(harness.try_write("UPDATE directory_state SET one = 2"));
    check_unaltered(&harness, Some(&harness.loaded), "one").await;
}
