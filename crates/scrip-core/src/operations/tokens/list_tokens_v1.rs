//! List Tokens, by page number.

use crate::{
    audit::Operation,
    error::Error,
    listing::{NumberedAsked, Page, numbered_page::find_page},
    policy::{Caller, Permission},
    token::TokenView,
    vault::Vault,
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
