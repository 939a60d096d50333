//! The pages about the contract name a test for each statement. Each named test exists.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helper functions of tests may panic")]

use std::{
    collections::BTreeSet,
    env, fs,
    path::{Path, PathBuf},
    process,
};

use xtask::{sources, test_index::TestIndex};

const UNTESTED: &str = "no test: ";
const STATEMENTS_MIN: usize = 700;

fn repository_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// A row of a table, and the page that has it.
struct ContractRow {
    page: String,
    statement: String,
    tests: String,
}

/// The rows of all tables with the heading `statement | test`.
fn read_rows() -> Vec<ContractRow> {
    let pages = sources::files_with_extension(&repository_root().join("docs/contract"), "md");
    let mut rows = Vec::new();
    for file in pages.unwrap() {
        let text = fs::read_to_string(&file).unwrap();
        let page = file.file_name().unwrap().to_string_lossy();
        for line in text.lines().filter(|it| it.starts_with('|')) {
            let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
            match cells.as_slice() {
                ["statement", "test"] | ["---", "---"] => (),
                [statement, tests] => rows.push(ContractRow {
                    page: page.to_string(),
                    statement: (*statement).to_owned(),
                    tests: (*tests).to_owned(),
                }),
                _ => panic!("{page}: a row has a statement and its tests: {line}"),
            }
        }
    }
    rows
}

/// The names in a cell: each in backticks, separated by commas.
fn parse_names(cell: &str) -> Option<Vec<&str>> {
    let names = cell.strip_prefix('`').and_then(|it| it.strip_suffix('`'))?;
    let names: Vec<_> = names.split("`, `").collect();
    names.iter().all(|it| !it.contains('`')).then_some(names)
}

#[test]
fn each_statement_names_existing_tests_or_the_reason_without_one() {
    let index = TestIndex::read(&repository_root()).unwrap();
    let mut faults = Vec::new();
    for ContractRow { page, statement, tests } in read_rows() {
        if let Some(reason) = tests.strip_prefix(UNTESTED) {
            if reason.split_whitespace().count() < 3 {
                faults.push(format!("{page}: {statement}: the reason is too short"));
            }
            continue;
        }
        let Some(names) = parse_names(&tests) else {
            faults.push(format!("{page}: {statement}: neither tests nor a reason: {tests}"));
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
    for ContractRow { page, statement, .. } in &rows {
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
fn names_of_missing_tests_are_detected() {
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
}

#[test]
fn name_of_two_tests_is_counted_twice_until_it_has_more_segments() {
    let root = env::temp_dir().join(format!("xtask-contract-{}", process::id()));
    for folder in ["crates/a/src", "crates/b/src"] {
        fs::create_dir_all(root.join(folder)).unwrap();
        fs::write(root.join(folder).join("id.rs"), "#[test]\nfn id_is_short() {}\n").unwrap();
    }
    let index = TestIndex::read(&root);
    fs::remove_dir_all(&root).unwrap();
    let index = index.unwrap();
    assert_eq!(index.count("id::id_is_short"), 2);
    assert_eq!(index.count("a::src::id::id_is_short"), 1);
}
