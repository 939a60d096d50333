//! Query plans: statements use an index and do not sort.

use rusqlite::Connection;
use scrip_testing::{store_harness::StoreHarness, vault_harness::Engine};

fn plan(connection: &Connection, sql: &str) -> String {
    let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let count = statement.parameter_count();
    let rows = statement.query_map(rusqlite::params_from_iter(vec![1; count]), |row| row.get(3));
    rows.unwrap().collect::<Result<Vec<String>, _>>().unwrap().join("; ")
}

/// The statements of SQLite about tokens, 3DS sessions and deliveries, with their names.
fn statements() -> Vec<(String, String)> {
    let package = env!("CARGO_MANIFEST_DIR");
    let files = [
        "sqlite/tokens/writes",
        "sqlite/tokens/listing",
        "sqlite/tokens/newest_tokens",
        "sqlite/maintenance/expiry",
        "sqlite/maintenance/deliveries",
        "sqlite/maintenance/key_rotations",
        "sqlite/engine/transaction",
        "shared/session_cards",
        "stores/threeds_sessions",
        "stores/deliveries",
        "stores/key_rotations",
    ];
    let mut statements = Vec::new();
    for file in files {
        let source = std::fs::read_to_string(format!("{package}/src/{file}.rs")).unwrap();
        let texts = source.split("\"\n-- ").skip(1).map(|it| it.split_once('"').unwrap().0);
        let count = statements.len();
        statements.extend(texts.map(str::to_owned));
        assert!(statements.len() > count, "{file} has no statements");
    }
    let assembled = std::fs::read_to_string(format!("{package}/statements/sqlite.sql")).unwrap();
    let assembled = assembled.split("\n-- ").filter(|it| it.contains("SELECT tokens."));
    statements.extend(assembled.map(|it| it.split_once(';').unwrap().0.to_owned()));
    // The table of rotations has at most one row for each tenant.
    statements.retain(|it| !it.contains("key_rotations"));
    let split_name = |it: String| {
        let (name, text) = it.split_once('\n').unwrap();
        (name.to_owned(), text.to_owned())
    };
    statements.into_iter().map(split_name).collect()
}

#[tokio::test]
async fn token_and_session_statements_use_an_index_and_never_sort() {
    let harness = StoreHarness::open(Engine::Sqlite).await;
    let connection = Connection::open(harness.vault_harness.file()).unwrap();
    let statements = statements();
    let listing_statements =
        ["list_entries", "list_newest", "last_container", "find_token_by_number"];
    let duplicate_statements = ["find_duplicate", "find_duplicate_to_read"];
    let expiry_statements = [
        "list_expired_tokens",
        "find_expired_token",
        "erase_expired_cvcs",
        "list_expired_threeds_sessions",
    ];
    let session_statements =
        ["find_threeds_session", "find_notified_threeds_session", "update_threeds_session"];
    let delivery_statements = [
        "select_due_deliveries",
        "claim_deliveries",
        "finish_deliveries",
        "list_due_webhooks",
        "list_deliveries",
        "find_success",
        "exhaust_deliveries",
        "delete_oldest_deliveries",
    ];
    for required in listing_statements
        .into_iter()
        .chain(duplicate_statements)
        .chain(expiry_statements)
        .chain(session_statements)
        .chain(delivery_statements)
    {
        assert!(statements.iter().any(|(name, _)| name == required), "{required} is missing");
    }
    for (name, sql) in statements {
        // A condition without a table is a scan of one constant row.
        let plan = plan(&connection, &sql).replace("SCAN CONSTANT ROW", "").replace("SCAN it", "");
        match name.as_str() {
            // One seek per webhook, after the first row of all webhooks.
            "list_due_webhooks" | "list_webhooks_with_deliveries" => {
                assert!(plan.contains("((tenant,webhook)>(?,?))"), "{name}: {plan}");
                assert!(!plan.contains("TEMP B-TREE"), "{name}: {plan}");
                continue;
            }
            // Counts the entries of a partial index, without the rows.
            "count_pending_deliveries" => {
                assert!(plan.contains("COVERING INDEX deliveries_by_age"), "{name}: {plan}");
                continue;
            }
            _ => (),
        }
        assert!(!plan.contains("SCAN"), "{name}: {plan}");
        assert!(!plan.contains("TEMP B-TREE"), "{name}: {plan}");
    }
    // The start of a page is part of the index seek, not a filter after it.
    let (_, list_sql) =
        self::statements().into_iter().find(|(name, _)| name == "list_entries").unwrap();
    let plan = plan(&connection, &list_sql);
    assert!(plan.contains("container>? AND (container,created_at,token)<(?,?,?)"), "{plan}");
    connection.execute("DROP TABLE token_index", []).unwrap();
    let table_without_index =
        "CREATE TABLE token_index (tenant, facet, container, created_at, token)";
    connection.execute(table_without_index, []).unwrap();
    assert!(
        self::plan(&connection, &list_sql).contains("SCAN"),
        "the check does not detect a scan"
    );
}
