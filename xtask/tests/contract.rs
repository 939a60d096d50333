//! The pages about the contract name a test for each statement. Each named test exists.

#![expect(clippy::unwrap_used, reason = "helper functions of tests may panic")]

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use xtask::{sources, test_index::TestIndex};

const UNTESTED: &str = "no test: ";
const STATEMENTS_MIN: usize = 700;

fn repository_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// The rows of all tables with the heading `statement | test`, with the page of each.
fn read_rows() -> Vec<(String, String, String)> {
    let pages = sources::files_with_extension(&repository_root().join("docs/contract"), "md");
    let mut rows = Vec::new();
    for page in pages.unwrap() {
        let text = fs::read_to_string(&page).unwrap();
        let name = page.file_name().unwrap().to_string_lossy().into_owned();
        for line in text.lines().filter(|it| it.starts_with('|')) {
            // A pipe inside of a cell is written as \|.
            let line = line.replace("\\|", "\u{1}");
            let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
            assert_eq!(cells.len(), 2, "{name}: a row has a statement and a test: {line}");
            let is_heading = cells == ["statement", "test"] || cells == ["---", "---"];
            if !is_heading {
                rows.push((name.clone(), cells[0].to_owned(), cells[1].replace('\u{1}', "\\|")));
            }
        }
    }
    rows
}

/// The names in a cell: each in backticks, separated by commas.
fn parse_names(cell: &str) -> Option<Vec<&str>> {
    let names = cell.split("`, `");
    let cell_without_ends = cell.strip_prefix('`').and_then(|it| it.strip_suffix('`'));
    cell_without_ends?;
    let names: Vec<_> = names.map(|it| it.trim_matches('`')).collect();
    names.iter().all(|it| !it.contains('`')).then_some(names)
}

#[test]
fn each_statement_names_existing_tests_or_the_reason_without_one() {
    let index = TestIndex::read(&repository_root()).unwrap();
    let mut faults = Vec::new();
    for (page, statement, cell) in read_rows() {
        if let Some(reason) = cell.strip_prefix(UNTESTED) {
            if reason.split_whitespace().count() < 3 {
                faults.push(format!("{page}: {statement}: the reason is too short"));
            }
            continue;
        }
        let Some(names) = parse_names(&cell) else {
            faults.push(format!("{page}: {statement}: neither tests nor a reason: {cell}"));
            continue;
        };
        for name in names {
            match index.count(name) {
                1 => (),
                0 => faults.push(format!("{page}: there is no test {name}")),
                count => faults.push(format!("{page}: {count} tests end with {name}")),
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn statements_are_many_and_different() {
    let rows = read_rows();
    assert!(rows.len() >= STATEMENTS_MIN, "{} statements", rows.len());
    let mut seen = BTreeSet::new();
    for (page, statement, _) in &rows {
        assert!(seen.insert(statement), "{page}: this statement is not the only one: {statement}");
    }
}

#[test]
fn contract_pages_are_linked_in_both_lists_of_pages() {
    let docs = repository_root().join("docs");
    let lists = ["README.md", "contract.md"].map(|it| fs::read_to_string(docs.join(it)).unwrap());
    for page in sources::files_with_extension(&docs.join("contract"), "md").unwrap() {
        let link = format!("(contract/{})", page.file_name().unwrap().to_string_lossy());
        assert!(lists.iter().all(|it| it.contains(&link)), "{link} is missing");
    }
}

#[test]
fn names_of_missing_and_ambiguous_tests_are_detected() {
    let index = TestIndex::read(&repository_root()).unwrap();
    for (name, count) in [
        ("create_token::card_is_created_with_every_attribute", 1),
        ("test_tokens.py::test_trace_id_header_is_returned", 1),
        ("sdk.test.js \"challenge works in a frame\"", 1),
        ("elements-packages.test.js \"${way} stores a card\"", 1),
        ("create_token::no_such_test", 0),
        ("token::card_is_created_with_every_attribute", 0),
        ("card_is_created_with_every_attribute", 0),
        ("test_tokens.py::test_nothing", 0),
        ("test_nothing.py::test_trace_id_header_is_returned", 0),
        ("sdk.test.js \"no such title\"", 0),
        ("sdk.test.js challenge works in a frame", 0),
    ] {
        assert_eq!(index.count(name), count, "{name}");
    }
    assert!(index.count("tests::debug_output_shows_no_key") >= 1);
}
