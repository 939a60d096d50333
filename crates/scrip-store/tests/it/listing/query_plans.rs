//! Query plans: statements use an index and do not sort.

use rusqlite::Connection;
use scrip_store::sqlite::statement_list::list_statements;
use scrip_testing::{store_harness::StoreHarness, vault_harness::Engine};

fn plan(connection: &Connection, sql: &str) -> String {
    let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let count = statement.parameter_count();
    let rows = statement.query_map(rusqlite::params_from_iter(vec![1; count]), |row| row.get(3));
    rows.unwrap().collect::<Result<Vec<String>, _>>().unwrap().join("; ")
}

/// Every statement of the statement list, with its name.
fn statements() -> Vec<(String, String)> {
    let split_name = |sql: &str| {
        let (name, text) = sql.trim_start().strip_prefix("-- ").unwrap().split_once('\n').unwrap();
        (name.to_owned(), text.to_owned())
    };
    list_statements().into_iter().map(split_name).collect()
}

/// A statement that is missing in the list would not be checked.
#[test]
fn every_token_and_session_statement_is_in_the_statement_list() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
    let token_files = ["writes", "index_entries", "listing", "newest_tokens"]
        .map(|it| format!("sqlite/tokens/{it}"));
    let other_files = [
        "sqlite/maintenance/expiry",
        "sqlite/engine/delivery_rows",
        "sqlite/engine/write_transaction",
    ];
    let shared_files = ["shared/session_cards", "shared/threeds_sessions", "shared/deliveries"];
    let other_files = other_files.into_iter().chain(shared_files).map(str::to_owned);
    for file in token_files.into_iter().chain(other_files) {
        let source = std::fs::read_to_string(format!("{folder}/{file}.rs")).unwrap();
        let listed = source.split("const STATEMENTS: &[&str] =").nth(1).unwrap();
        let (listed, _) = listed.split_once("&[").unwrap().1.split_once(']').unwrap();
        let listed: Vec<_> = listed.split(',').map(str::trim).collect();
        let constants = source.split("const ").skip(1).filter_map(|it| it.split_once(": &str ="));
        let names: Vec<_> = constants.map(|(name, _)| name).collect();
        assert!(!names.is_empty(), "{file} has no statements");
        for name in names {
            assert!(listed.contains(&name), "{file}: {name} is not in STATEMENTS");
        }
    }
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
