//! The page for people, `docs/api/deprecations.md`: its tables have the rows of our table.

use std::{fmt::Write, fs, path::Path};

use hyper::HeaderMap;

use crate::{
    deprecation::{
        DeprecatedFeature, DeprecationStatus, TABLE, add_headers, switchable_operations,
    },
    routes::ROUTES,
};

/// What the page's three tables begin with; their rows are made of the table of the code.
const FEATURE_TABLE_HEAD: &str =
    "| what | deprecated | shut down | instead | in Scrip |\n|---|---|---|---|---|\n";
const HEADER_TABLE_HEAD: &str = "| operation | headers |\n|---|---|\n";
const SWITCH_TABLE_HEAD: &str = "| setting | variable | |\n|---|---|---|\n";

/// Returns the page with the rows of a table replaced.
fn with_rows(page: &str, head: &str, rows: &str) -> String {
    let (before, table) = page.split_once(head).unwrap();
    let is_row = |it: &&str| it.starts_with('|');
    let length: usize = table.split_inclusive('\n').take_while(is_row).map(str::len).sum();
    let (_, after) = table.split_at(length);
    format!("{before}{head}{rows}{after}")
}

fn feature_rows() -> String {
    let mut rows = String::new();
    for row in TABLE.iter() {
        let (since, shutdown) = (row.since, row.shutdown);
        let (feature, instead) = (row.feature, row.replacement);
        let here = status_text(&row.status);
        writeln!(rows, "| {feature} | {since} | {shutdown} | {instead} | {here} |").unwrap();
    }
    rows
}

fn header_rows() -> String {
    let mut rows = String::new();
    for row in TABLE.iter().filter(|it| it.deprecated_operation().is_some()) {
        writeln!(rows, "| {} | {} |", row.feature, headers(row)).unwrap();
    }
    rows
}

fn switch_rows() -> String {
    let mut rows = String::new();
    for operation in switchable_operations() {
        let path = format!("deprecated.{}", operation.as_str());
        let variable = format!("SCRIP_{}", path.replace('.', "_")).to_ascii_uppercase();
        let row = TABLE.iter().find(|it| operation_name(it) == operation.as_str());
        let feature = row.unwrap().feature;
        writeln!(rows, "| `{path}` | `{variable}` | {feature}: `on` or `off` |").unwrap();
    }
    rows
}

fn operation_name(row: &DeprecatedFeature) -> &'static str {
    row.deprecated_operation().map_or("", |it| it.operation.as_str())
}

fn status_text(status: &DeprecationStatus) -> &'static str {
    match status {
        DeprecationStatus::Active(_) => "works, and can be switched off",
        DeprecationStatus::Removed(_) => "410",
        DeprecationStatus::Rejected => "400",
        DeprecationStatus::Ignored => "ignored",
        DeprecationStatus::NotImplemented => "not built yet: 404",
        DeprecationStatus::NeverOffered => "never there",
    }
}

fn headers(row: &DeprecatedFeature) -> String {
    let Some(former) = row.deprecated_operation() else { return String::new() };
    let route = ROUTES.iter().find(|it| it.operation == former.operation);
    let mut headers = HeaderMap::new();
    add_headers(former.operation, route.map_or("", |it| it.path), &mut headers);
    let shown =
        headers.iter().map(|(name, value)| format!("`{name}: {}`", value.to_str().unwrap()));
    shown.collect::<Vec<_>>().join("<br>")
}

#[test]
fn deprecations_page_lists_every_row_of_the_table() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/api/deprecations.md");
    let stored = fs::read_to_string(&file).unwrap();
    let page = with_rows(&stored, FEATURE_TABLE_HEAD, &feature_rows());
    let page = with_rows(&page, HEADER_TABLE_HEAD, &header_rows());
    let page = with_rows(&page, SWITCH_TABLE_HEAD, &switch_rows());
    if std::env::var_os("SCRIP_TEST_GOLDEN").is_some_and(|it| it == "write") {
        fs::write(&file, &page).unwrap();
        return;
    }
    assert_eq!(stored, page, "if this is meant, run with SCRIP_TEST_GOLDEN=write");
}
