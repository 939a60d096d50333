//! List Tokens, by cursor.

use crate::{
    Error, Vault,
    audit::Operation,
    listing::{CursorPage, TokensAsked, cursor_page::turn_page},
    policy::{Caller, Permission},
};

/// # Errors
/// No rule lets the caller look there, or the cursor belongs to another question.
pub async fn list_tokens(
    vault: &Vault,
    caller: &Caller,
    asked: TokensAsked,
) -> Result<CursorPage, Error> {
    turn_page(vault, caller, Operation::ListTokens, Permission::TokenRead, asked).await
}
