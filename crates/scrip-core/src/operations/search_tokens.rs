//! Search Tokens, by cursor.

use crate::{
    Vault,
    audit::Operation,
    caller::Caller,
    cursor_page::{CursorPage, TokensAsked, turn_page},
    error::Error,
    permission::Permission,
};

/// # Errors
/// No rule lets the caller look there, or the cursor belongs to another question.
pub async fn search_tokens(
    vault: &Vault,
    caller: &Caller,
    asked: TokensAsked,
) -> Result<CursorPage, Error> {
    turn_page(vault, caller, (Operation::SearchTokens, Permission::TokenSearch), asked).await
}
