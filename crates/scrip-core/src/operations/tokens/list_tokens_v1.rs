//! List Tokens, by page number.

use crate::{
    Error, Vault,
    audit::Operation,
    listing::{NumberedAsked, Page, numbered_page::find_page},
    policy::{Caller, Permission},
    token::TokenView,
};

/// # Errors
/// The page is too far behind, or there is too much to look through.
pub async fn list_tokens_v1(
    vault: &Vault,
    caller: &Caller,
    asked: NumberedAsked,
) -> Result<Page<TokenView>, Error> {
    find_page(vault, caller, Operation::ListTokensV1, Permission::TokenRead, asked).await
}
