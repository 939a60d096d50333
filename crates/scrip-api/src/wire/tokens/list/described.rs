//! Lists of tokens, described.

use scrip_core::listing::SURVEY_TOKENS_MAX;
use serde_json::{Value, json};

use crate::wire::{
    described::{Description, Tag, entries, operation, parameter},
    policy::access::described::container,
    query::described::{cursor_page_of, page_of, page_parameters, size_parameter},
    schema::{Schema, list, map, named, text},
    tokens::{
        list::{CURSOR_CHARS_MAX, CursorPagination, IDS_MAX},
        token::described::{examples_of_found, token_type},
    },
};

pub(crate) fn components() -> Vec<(&'static str, Schema)> {
    let of = |pagination: Value| json!({"pagination": pagination, "data": examples_of_found()});
    let next = Some("AgEAAAAB3Q0rXw".to_owned());
    let numbers = json!({"total_items": 3, "page_number": 1, "page_size": 20, "total_pages": 1});
    let by_cursor = [next, None].map(|next| of(json!(CursorPagination { page_size: 20, next })));
    vec![
        ("TokenPage", cursor_page_of(named("Token")).examples(by_cursor)),
        ("NumberedTokenPage", page_of(named("Token")).examples([of(numbers)])),
    ]
}

/// The last page that there can be, when each has one token.
pub(crate) fn page_max() -> u64 {
    u64::try_from(SURVEY_TOKENS_MAX).unwrap_or(u64::MAX)
}

/// That it is the `next` of a page of the same question no schema can say.
pub(crate) fn start() -> Schema {
    text().pattern("^[A-Za-z0-9_-]+$").with("maxLength", CURSOR_CHARS_MAX)
}

pub(crate) fn by_cursor() -> Description {
    let one = map(text()).with("maxProperties", 1);
    operation(Tag::Tokens, "List tokens")
        .about(
            "By container, then by creation, both descending; of what is not the caller's to read, \
             nothing. `container` goes with any of the other filters; `type`, `fingerprint` and \
             `metadata` do not go together.

A page may be shorter than asked and still have a `next`: go on until that is null.",
        )
        .query([
            parameter("container", container(), "This container and all beneath it."),
            parameter("type", token_type(), "Only of this type."),
            parameter("fingerprint", text(), "Only with this fingerprint."),
            entries("metadata", one, "Only with exactly this entry."),
            size_parameter(),
            parameter("start", start(), "The `next` of the page before."),
        ])
        .answer(200, "A page of tokens.", named("TokenPage"))
}

pub(crate) fn by_number() -> Description {
    let ids = || list(text()).with("maxItems", IDS_MAX);
    operation(Tag::Tokens, "List tokens by page number")
        .about("The newest first. `page` times `size` is at most 10,000, and counting ends there.")
        .query([
            parameter("id", ids(), "Only these; may be given up to 1000 times."),
            parameter("ids", ids(), "The same under another name."),
            entries("metadata", map(text()), "Only with these entries, in upper or lower case."),
        ])
        .query(page_parameters(page_max()))
        .answer(200, "A page of tokens.", named("NumberedTokenPage"))
        .problem(422)
}
