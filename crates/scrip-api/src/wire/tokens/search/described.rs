//! Searches, described.

use serde_json::json;

use crate::wire::{
    described::{Description, Tag, operation},
    query::described::{number_asked, size_asked},
    schema::{Schema, always, named, request, sometimes, text},
    tokens::{
        list::described::{page_max, start},
        search::QUERY_BYTES_MAX,
    },
};

pub(crate) fn components() -> Vec<(&'static str, Schema)> {
    let by_cursor = request([
        always(
            "query",
            query("token-query").about(
                "One term about `type`, `fingerprint`, `data` or `metadata.NAME`, perhaps with one \
                 about `container`, such as `metadata.customer:7 AND container:\"/pci/\"`.",
            ),
        ),
        sometimes("size", size_asked()),
        sometimes("start", start().about("The `next` of the page before.")),
    ]);
    let by_number = request([
        always(
            "query",
            query("token-query-v1").about(
                "One term about `id`, `data` or `metadata.NAME`, or several about metadata joined \
                 with `AND`.",
            ),
        ),
        sometimes("page", number_asked(page_max())),
        sometimes("size", size_asked()),
    ]);
    let customer = json!({"query": "metadata.customer:7 AND container:\"/pci/\"", "size": 50});
    let both = json!({"query": "metadata.customer:7 AND metadata.order:1001", "page": 1});
    vec![
        ("TokenSearch", by_cursor.examples([customer])),
        ("NumberedTokenSearch", by_number.examples([both])),
    ]
}

/// The language is said in words: terms, `field:value` or `field:"a value"`.
fn query(format: &str) -> Schema {
    text().sized(1, QUERY_BYTES_MAX).with("format", format)
}

const LANGUAGE: &str = "A term is `field:value`, or `field:\"a value\"` with a backslash before what \
    would end it. There is no OR, no negation, no wildcard and no range. `data` finds what one of a \
    token's search indexes gave.";

pub(crate) fn by_cursor() -> Description {
    operation(Tag::Tokens, "Search tokens").about(LANGUAGE).body(named("TokenSearch")).answer(
        200,
        "A page of tokens, in the order of the list.",
        named("TokenPage"),
    )
}

pub(crate) fn by_number() -> Description {
    operation(Tag::Tokens, "Search tokens by page number")
        .about(LANGUAGE)
        .body(named("NumberedTokenSearch"))
        .answer(200, "A page of tokens, the newest first.", named("NumberedTokenPage"))
        .problem(422)
}
