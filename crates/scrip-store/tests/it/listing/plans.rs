//! How the engine finds what is asked for: by an index, and without sorting.

use rusqlite::Connection;
use scrip_testing::{store_harness::StoreHarness, vault_harness::Engine};

fn plan(connection: &Connection, sql: &str) -> String {
    let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let count = statement.parameter_count();
    let rows = statement.query_map(rusqlite::params_from_iter(vec![1; count]), |row| row.get(3));
    rows.unwrap().collect::<Result<Vec<String>, _>>().unwrap().join("; ")
}

/// Every statement of the engine's source that reads or finds.
fn statements() -> Vec<(String, String)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/sqlite");
    let row = std::fs::read_to_string(format!("{folder}/row.rs")).unwrap();
    let columns = row.split("() => {").nth(1).unwrap().split('}').next().unwrap();
    let columns: String = columns.split('"').nth(1).unwrap().replace("\\\n", " ");
    let mut found = Vec::new();
    let files = ["listing.rs", "survey.rs", "tokens.rs", "filed.rs", "sweep.rs"];
    for file in files.into_iter().chain(["sessions.rs", "events.rs"]) {
        let source = std::fs::read_to_string(format!("{folder}/{file}")).unwrap();
        for part in source.split("-- ").skip(1) {
            let (name, rest) = part.split_once(['\n', '\\']).unwrap();
            let text = match rest.split_once("token_columns!(),") {
                Some((_, after)) if rest.starts_with("nSELECT") => {
                    format!("SELECT {columns} {}", after.split('"').nth(1).unwrap())
                }
                Some(_) | None => rest.split("\";").next().unwrap().to_owned(),
            };
            if text.trim_start().starts_with(|it: char| it.is_ascii_uppercase()) {
                found.push((name.to_owned(), text));
            }
        }
    }
    found
}

#[tokio::test]
async fn every_statement_uses_an_index_and_none_sorts() {
    let desk = StoreHarness::open(Engine::Sqlite).await;
    let connection = Connection::open(desk.world.file()).unwrap();
    let statements = statements();
    let needed = ["list_entries", "list_newest", "last_container", "find_at"];
    let duplicates = ["find_duplicate", "find_duplicate_to_read"];
    let sweeps = ["list_expired", "find_expired", "sweep_cvcs", "list_ended_sessions"];
    let sessions = ["find_session", "find_notified_session", "update_session"];
    let events = ["next_event", "list_events", "forget_events"];
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
