//! Every operation on tokens.

mod card_details;
mod create_token;
mod deduplication;
mod delete_token;
mod detokenize;
mod encrypted_data;
mod expire_token;
mod expressions;
mod get_token;
pub(crate) mod intents;
mod list_tokens;
mod search_tokens;
mod tokenize;
mod tokenize_duplicates;
mod update_token;

use crate::harness::server::{TestResponse, text_fields};

/// The ids of the tokens in a list.
#[track_caller]
fn ids(response: &TestResponse) -> Vec<String> {
    text_fields(&response.expect_status(200)["data"], "id")
}
