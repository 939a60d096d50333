//! Search Tokens, by page number.

use crate::{
    Vault,
    audit::Operation,
    caller::Caller,
    error::Error,
    numbered_page::{NumberedAsked, find_page},
    page::Page,
    permission::Permission,
    token::TokenView,
};

/// # Errors
/// The page is too far behind, or there is too much to look through.
pub async fn search_tokens_v1(
    vault: &Vault,
    caller: &Caller,
    asked: NumberedAsked,
) -> Result<Page<TokenView>, Error> {
    find_page(vault, caller, (Operation::SearchTokensV1, Permission::TokenSearch), asked).await
}
