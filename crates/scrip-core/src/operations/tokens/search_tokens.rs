//! Search Tokens, with a cursor.

use crate::{
    Error, Vault,
    listing::CursorPage,
    operations::tokens::{ListTokensQuery, cursor_page::load_cursor_page},
    policy::Caller,
    token::TokenView,
    types::{Operation, Permission},
};

/// Errors: no rule allows the caller to search the container, the cursor belongs to another query,
/// or a budget is exhausted.
pub async fn search_tokens(
    vault: &Vault,
    caller: &Caller,
    query: ListTokensQuery,
) -> Result<CursorPage<TokenView>, Error> {
    load_cursor_page(vault, caller, Operation::SearchTokens, Permission::TokenSearch, query).await
}
