//! List Tokens, with a cursor.

use crate::{
    Error, Vault,
    listing::CursorPage,
    operations::tokens::{ListTokensQuery, cursor_page::load_cursor_page},
    policy::Caller,
    token::TokenView,
    types::{Operation, Permission},
};

/// Errors: no rule allows the caller to list the container, or the cursor belongs to another query.
pub async fn list_tokens(
    vault: &Vault,
    caller: &Caller,
    query: ListTokensQuery,
) -> Result<CursorPage<TokenView>, Error> {
    load_cursor_page(vault, caller, Operation::ListTokens, Permission::TokenRead, query).await
}
