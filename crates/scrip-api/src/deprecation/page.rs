//! The page for people, made of the table: `docs/api/deprecations.md`.

use std::{fmt::Write, fs, path::Path};

use hyper::HeaderMap;

use crate::{
    deprecation::{Deprecated, Standing, TABLE, mark, switchable},
    routes::ROUTES,
};

const HEAD: &str = "\
# Deprecations

<!-- Made of the table in crates/scrip-api/src/deprecation.rs. To make it again:
     SCRIP_TEST_GOLDEN=write cargo test --workspace --lib deprecation -->

What the interface has given up over the years, and what Scrip does about it. The days are those of
the hosted service that the interface belongs to. They do not stop Scrip: what still works here
works until you switch it off, because a client that was forgotten in a corner should fail on a day
of your choosing.

| what | deprecated | shut down | instead | in Scrip |
|---|---|---|---|---|
";

const ANSWERS: &str = "
## What an answer says

Every answer of a deprecated operation says so in its headers, whatever its status:

| header | |
|---|---|
| `Deprecation` | since when: seconds since 1970 after an `@` (RFC 9745) |
| `Sunset` | the day of the shutdown, as an HTTP date (RFC 8594); it may be long past |
| `Link` | `rel=\"successor-version\"`: the path to use instead |

Scripts in a browser can read all three. These operations send them:

| operation | headers |
|---|---|
";

const SWITCHES: &str = "
The log names the operation of every request when `log.filter` is `scrip_server=debug`, which shows
whether anybody still calls it.

## Switching off

| setting | variable | |
|---|---|---|
";

const MIGRATION: &str = "
`on` is the default of each. Switched off, the operation is a 410 whose detail names the successor,
with the same headers. Who has no known key still gets a 401, and who lacks the permission a 403:
neither is told how the server is set up. The body is not looked at, and no idempotency key is used
up.

## From List Tokens v1 to v2

`GET /tokens` becomes `GET /v2/tokens`; the permission is the same, `token:read`.

| in v1 | in v2 |
|---|---|
| `page` and `size`; the answer counts items and pages | `start` and `size`; hand the `next` of one answer to the following request as `start`, until there is none. Nothing is counted |
| `id`, repeated | get each token by `GET /tokens/{id}` |
| several `metadata.<key>` at once | one; see the ways around below |
| metadata matches in upper and lower case alike | it matches exactly as written, name and value |
| – | `container`, with or without one of `type`, `fingerprint` and `metadata.<key>` |
| newest first | by container, then newest first |

Before you move, look at what you stored: values that differ in case were one to v1, and are several
to v2.

## From Search Tokens v1 to v2

`POST /tokens/search` becomes `POST /v2/tokens/search`; the permission is the same, `token:search`.

| in v1 | in v2 |
|---|---|
| `page` in the body | `start` in the body, from the `next` of the answer before |
| `id:…` | `GET /tokens/{id}` |
| `data:…` | the same |
| `metadata.a:1 AND metadata.b:2` | one metadata term; see below |
| metadata matches in upper and lower case alike | it matches exactly as written, name and value |
| – | `type`, `fingerprint`, and `AND container:\"/pci/\"` beside any one term |

Where you searched for several metadata values together:

- search for the one that finds fewest, and compare the others in your own code; or
- write them into one value when you create the token (`customer_order: \"7-1001\"`), and search for
  that; or
- make the token's `id` of them, and get it without a search.

## Complex queries

`POST /tokens/search` takes one `id`, `data` or `metadata.<key>` term, or several metadata terms with
`AND` between them. `OR`, negation, terms of different attributes in one query, and terms for `type`,
`fingerprint`, `container`, or who created or modified a token and when, are a 400 that says which
rule was broken.

## Keys

An application can have several keys at a time, so one is replaced without an outage: create the new
one (`POST /applications/{id}/keys`), bring it to every client, then delete the old one
(`DELETE /applications/{id}/keys/{key_id}`). `POST /applications/{id}/regenerate` is 410 for every
known key, whether or not there is such an application.

## Privacy

`privacy` in a request has no effect, whatever it holds, and no answer has it. What it said is said by
containers: a token that names none is put into that of its type, `/<classification>/<impact_level>/`.
Who sees how much of it is decided by the rules of the application that asks.

## Reactors and proxies

There are none here yet, so their paths are 404. When they come, they come without what the table
calls shut down.
";

fn page() -> String {
    let mut page = HEAD.to_owned();
    for row in &TABLE {
        let (since, shutdown) = (row.since, row.shutdown);
        let (feature, instead) = (row.feature, row.instead);
        let here = here(&row.standing);
        writeln!(page, "| {feature} | {since} | {shutdown} | {instead} | {here} |").unwrap();
    }
    page += ANSWERS;
    for row in TABLE.iter().filter(|it| it.former().is_some()) {
        writeln!(page, "| {} | {} |", row.feature, headers(row)).unwrap();
    }
    page += SWITCHES;
    for operation in switchable() {
        let path = format!("deprecated.{}", operation.as_str());
        let variable = format!("SCRIP_{}", path.replace('.', "_")).to_ascii_uppercase();
        let row = TABLE.iter().find(|it| name(it) == operation.as_str());
        let feature = row.unwrap().feature;
        writeln!(page, "| `{path}` | `{variable}` | {feature}: `on` or `off` |").unwrap();
    }
    page += MIGRATION;
    page
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
fn the_page_is_made_of_the_table() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/api/deprecations.md");
    let page = page();
    if std::env::var_os("SCRIP_TEST_GOLDEN").is_some_and(|it| it == "write") {
        fs::write(&file, &page).unwrap();
    }
    let kept = fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(kept, page, "if this is meant, run with SCRIP_TEST_GOLDEN=write");
}
