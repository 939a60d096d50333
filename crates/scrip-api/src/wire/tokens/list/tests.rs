//! Examples of the OpenAPI document, made by the code that writes responses.

use serde_json::{Value, json};

use crate::{
    openapi::tests::{assert_examples, assert_limit_usize},
    wire::tokens::{
        list::{CURSOR_CHARS_MAX, CursorPagination, IDS_MAX},
        token_response::tests::examples_of_found,
    },
};

#[test]
fn examples_of_pages_are_what_the_code_writes() {
    let of = |pagination: Value| json!({"pagination": pagination, "data": examples_of_found()});
    let next = Some("AgEAAAAB3Q0rXw".to_owned());
    let by_cursor = [next, None].map(|next| of(json!(CursorPagination { page_size: 20, next })));
    assert_examples("TokenPage", by_cursor);
    let numbers = json!({"total_items": 3, "page_number": 1, "page_size": 20, "total_pages": 1});
    assert_examples("NumberedTokenPage", [of(numbers)]);
}

#[test]
fn limits_of_lists_are_in_the_document() {
    let cursors = ["list_tokens.start", "list_logs.start", "TokenSearch.start"];
    assert_limit_usize(&cursors, "maxLength", CURSOR_CHARS_MAX);
    assert_limit_usize(&["list_tokens_v1.id", "list_tokens_v1.ids"], "maxItems", IDS_MAX);
}
