//! Compares the tables of `docs/api/deprecations.md` with the deprecation table.

use std::{fmt::Write, fs, path::Path};

use hyper::HeaderMap;

use crate::{
    deprecation::{
        DeprecatedFeature, DeprecationStatus, TABLE, add_headers, switchable_operations,
    },
    routes::ROUTES,
};

/// The head rows of the three tables. The rows below are generated from the deprecation table.
const FEATURE_TABLE_HEAD: &str =
    "| feature | deprecated | shut down | replacement | in Scrip |\n|---|---|---|---|---|\n";
const HEADER_TABLE_HEAD: &str = "| operation | headers |\n|---|---|\n";
const SWITCH_TABLE_HEAD: &str = "| setting | variable | |\n|---|---|---|\n";

/// Returns the page with the rows of a table replaced.
fn replace_rows(page: &str, head: &str, rows: &str) -> String {
    let (text_before, table) = page.split_once(head).unwrap();
    let is_row = |it: &&str| it.starts_with('|');
    let length: usize = table.split_inclusive('\n').take_while(is_row).map(str::len).sum();
    let (_, text_after) = table.split_at(length);
    format!("{text_before}{head}{rows}{text_after}")
}

fn feature_rows() -> String {
    let mut rows = String::new();
    for row in TABLE.iter() {
        let (since, shutdown) = (row.since, row.shutdown);
        let (feature, replacement) = (row.feature, row.replacement);
        let status = status_text(&row.status);
        writeln!(rows, "| {feature} | {since} | {shutdown} | {replacement} | {status} |").unwrap();
    }
    rows
}

fn header_rows() -> String {
    let mut rows = String::new();
    for row in TABLE.iter().filter(|it| it.deprecated_operation().is_some()) {
        writeln!(rows, "| {} | {} |", row.feature, format_headers(row)).unwrap();
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
        DeprecationStatus::Active(_) => "works; can be switched off",
        DeprecationStatus::Removed(_) => "410",
        DeprecationStatus::Rejected => "400",
        DeprecationStatus::Ignored => "ignored",
        DeprecationStatus::NotImplemented => "not implemented: 404",
        DeprecationStatus::NeverOffered => "never offered",
    }
}

fn format_headers(row: &DeprecatedFeature) -> String {
    let Some(deprecated) = row.deprecated_operation() else { return String::new() };
    let route = ROUTES.iter().find(|it| it.operation == deprecated.operation);
    let mut headers = HeaderMap::new();
    add_headers(deprecated.operation, route.map_or("", |it| it.path), &mut headers);
    let lines =
        headers.iter().map(|(name, value)| format!("`{name}: {}`", value.to_str().unwrap()));
    lines.collect::<Vec<_>>().join("<br>")
}

#[test]
fn deprecations_page_lists_every_row_of_the_table() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/api/deprecations.md");
    let stored_page = fs::read_to_string(&file).unwrap();
    let page = replace_rows(&stored_page, FEATURE_TABLE_HEAD, &feature_rows());
    let page = replace_rows(&page, HEADER_TABLE_HEAD, &header_rows());
    let page = replace_rows(&page, SWITCH_TABLE_HEAD, &switch_rows());
    if std::env::var_os("SCRIP_TEST_GOLDEN").is_some_and(|it| it == "write") {
        fs::write(&file, &page).unwrap();
        return;
    }
    assert_eq!(stored_page, page, "if the change is intended, run with SCRIP_TEST_GOLDEN=write");
}
