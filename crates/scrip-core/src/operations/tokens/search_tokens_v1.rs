//! Search Tokens, by page number.

use crate::{
    Error, Vault,
    audit::Operation,
    listing::{NumberedAsked, Page, numbered_page::find_page},
    policy::{Caller, Permission},
    token::TokenView,
};

/// # Errors
/// The page is too far behind, there is too much to look through, or a budget is spent.
pub async fn search_tokens_v1(
    vault: &Vault,
    caller: &Caller,
    asked: NumberedAsked,
) -> Result<Page<TokenView>, Error> {
    if let Some(term) = &asked.data {
        vault.count_search(caller, term).await?;
    }
    find_page(vault, caller, Operation::SearchTokensV1, Permission::TokenSearch, asked).await
}
