//! Compares the examples of the OpenAPI document with rendered responses.

use serde_json::{Value, json};

use crate::{
    openapi::tests::{assert_examples, assert_limit_usize},
    wire::tokens::{
        list::{CURSOR_CHARS_MAX, CursorPagination, IDS_MAX},
        token_response::tests::get_token_examples,
    },
};

#[test]
fn documented_page_examples_match_rendered_pages() {
    let page = |pagination: Value| json!({"pagination": pagination, "data": get_token_examples()});
    let next = Some("AgEAAAAB3Q0rXw".to_owned());
    let cursor_pages =
        [next, None].map(|next| page(json!(CursorPagination { page_size: 20, next })));
    assert_examples("TokenPage", cursor_pages);
    let page_numbers =
        json!({"total_items": 3, "page_number": 1, "page_size": 20, "total_pages": 1});
    assert_examples("NumberedTokenPage", [page(page_numbers)]);
}

#[test]
fn documented_list_limits_match_the_code() {
    let cursors = ["list_tokens.start", "list_logs.start", "TokenSearch.start"];
    assert_limit_usize(&cursors, "maxLength", CURSOR_CHARS_MAX);
    assert_limit_usize(&["list_tokens_v1.id", "list_tokens_v1.ids"], "maxItems", IDS_MAX);
}
