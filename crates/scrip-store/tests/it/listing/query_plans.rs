//! How the engine finds what is asked for: by an index, and without sorting.

use rusqlite::Connection;
use scrip_store::sqlite::statement_list::list_statements;
use scrip_testing::{store_harness::StoreHarness, vault_harness::Engine};

fn plan(connection: &Connection, sql: &str) -> String {
    let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let count = statement.parameter_count();
    let rows = statement.query_map(rusqlite::params_from_iter(vec![1; count]), |row| row.get(3));
    rows.unwrap().collect::<Result<Vec<String>, _>>().unwrap().join("; ")
}

/// Every statement of the files below, by its name.
fn statements() -> Vec<(String, String)> {
    let named = |sql: &str| {
        let (name, text) = sql.trim_start().strip_prefix("-- ").unwrap().split_once('\n').unwrap();
        (name.to_owned(), text.to_owned())
    };
    list_statements().into_iter().map(named).collect()
}

/// A statement that a file has and the list lacks would not be looked at.
#[test]
fn every_token_and_session_statement_is_in_the_statement_list() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
    let tokens = ["writes", "entries", "listing", "survey"].map(|it| format!("sqlite/tokens/{it}"));
    let others = ["sqlite/maintenance/sweep", "sqlite/engine/write_transaction", "stores/sessions"];
    let others = others.into_iter().chain(["rules/session_cards"]).map(str::to_owned);
    for file in tokens.into_iter().chain(others) {
        let source = std::fs::read_to_string(format!("{folder}/{file}.rs")).unwrap();
        let list = source.split("const STATEMENTS: &[&str] = &[").nth(1).unwrap();
        let list: Vec<_> = list.split(']').next().unwrap().split(',').map(str::trim).collect();
        let constants = source.split("const ").skip(1).filter_map(|it| it.split_once(": &str ="));
        let names: Vec<_> = constants.map(|(name, _)| name).collect();
        assert!(!names.is_empty(), "{file}");
        for name in names {
            assert!(list.contains(&name), "{file}: {name} is not in STATEMENTS");
        }
    }
}

#[tokio::test]
async fn token_and_session_statements_use_an_index_and_never_sort() {
    let harness = StoreHarness::open(Engine::Sqlite).await;
    let connection = Connection::open(harness.vault_harness.file()).unwrap();
    let statements = statements();
    let needed = ["list_entries", "list_newest", "last_container", "find_at"];
    let duplicates = ["find_duplicate", "find_duplicate_to_read"];
    let sweeps = ["list_ended_tokens", "find_ended", "sweep_cvcs", "list_ended_sessions"];
    let sessions = ["find_session", "find_notified_session", "update_session"];
    let events = ["next_events", "list_events", "forget_events"];
    for needed in needed.into_iter().chain(duplicates).chain(sweeps).chain(sessions).chain(events) {
        assert!(statements.iter().any(|(name, _)| name == needed), "{needed} is not found");
    }
    for (name, sql) in statements {
        let plan = plan(&connection, &sql);
        assert!(!plan.contains("SCAN"), "{name}: {plan}");
        assert!(!plan.contains("TEMP B-TREE"), "{name}: {plan}");
    }
    // The bound of a page is part of the seek, not a filter behind it.
    let (_, list) =
        self::statements().into_iter().find(|(name, _)| name == "list_entries").unwrap();
    let plan = plan(&connection, &list);
    assert!(plan.contains("container>? AND (container,created_at,token)<(?,?,?)"), "{plan}");
    connection.execute("DROP TABLE filed", []).unwrap();
    let bare = "CREATE TABLE filed (tenant, facet, container, created_at, token)";
    connection.execute(bare, []).unwrap();
    assert!(self::plan(&connection, &list).contains("SCAN"), "the check itself would not notice");
}
