//! The page for people, `docs/api/deprecations.md`: its tables have the rows of our table.

use std::{fmt::Write, fs, path::Path};

use hyper::HeaderMap;

use crate::{
    deprecation::{Deprecated, Standing, TABLE, mark, switchable},
    routes::ROUTES,
};

/// What the page's three tables begin with; their rows are made of the table of the code.
const FEATURES: &str =
    "| what | deprecated | shut down | instead | in Scrip |\n|---|---|---|---|---|\n";
const HEADERS: &str = "| operation | headers |\n|---|---|\n";
const SWITCHES: &str = "| setting | variable | |\n|---|---|---|\n";

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
        let (feature, instead) = (row.feature, row.instead);
        let here = here(&row.standing);
        writeln!(rows, "| {feature} | {since} | {shutdown} | {instead} | {here} |").unwrap();
    }
    rows
}

fn header_rows() -> String {
    let mut rows = String::new();
    for row in TABLE.iter().filter(|it| it.former().is_some()) {
        writeln!(rows, "| {} | {} |", row.feature, headers(row)).unwrap();
    }
    rows
}

fn switch_rows() -> String {
    let mut rows = String::new();
    for operation in switchable() {
        let path = format!("deprecated.{}", operation.as_str());
        let variable = format!("SCRIP_{}", path.replace('.', "_")).to_ascii_uppercase();
        let row = TABLE.iter().find(|it| name(it) == operation.as_str());
        let feature = row.unwrap().feature;
        writeln!(rows, "| `{path}` | `{variable}` | {feature}: `on` or `off` |").unwrap();
    }
    rows
}

fn name(row: &Deprecated) -> &'static str {
    row.former().map_or("", |it| it.operation.as_str())
}

fn here(standing: &Standing) -> &'static str {
    match standing {
        Standing::Kept(_) => "works, and can be switched off",
        Standing::Removed(_) => "410",
        Standing::Refused => "400",
        Standing::Ignored => "ignored",
        Standing::Unbuilt => "not built yet: 404",
        Standing::Never => "never there",
    }
}

fn headers(row: &Deprecated) -> String {
    let Some(former) = row.former() else { return String::new() };
    let route = ROUTES.iter().find(|it| it.operation == former.operation);
    let mut headers = HeaderMap::new();
    mark(former.operation, route.map_or("", |it| it.path), &mut headers);
    let shown =
        headers.iter().map(|(name, value)| format!("`{name}: {}`", value.to_str().unwrap()));
    shown.collect::<Vec<_>>().join("<br>")
}

#[test]
fn the_page_has_the_rows_of_the_table() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/api/deprecations.md");
    let kept = fs::read_to_string(&file).unwrap();
    let page = with_rows(&kept, FEATURES, &feature_rows());
    let page = with_rows(&page, HEADERS, &header_rows());
    let page = with_rows(&page, SWITCHES, &switch_rows());
    if std::env::var_os("SCRIP_TEST_GOLDEN").is_some_and(|it| it == "write") {
        fs::write(&file, &page).unwrap();
        return;
    }
    assert_eq!(kept, page, "if this is meant, run with SCRIP_TEST_GOLDEN=write");
}
