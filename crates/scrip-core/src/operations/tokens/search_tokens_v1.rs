//! Search Tokens, with a page number.

use crate::{
    Error, Vault,
    listing::Page,
    operations::tokens::{OffsetPageQuery, offset_page::load_offset_page},
    policy::Caller,
    token::TokenView,
    types::{Operation, Permission},
};

/// Errors: the page number is too large, there are too many tokens to scan, or a budget is
/// exhausted.
pub async fn search_tokens_v1(
    vault: &Vault,
    caller: &Caller,
    query: OffsetPageQuery,
) -> Result<Page<TokenView>, Error> {
    load_offset_page(vault, caller, Operation::SearchTokensV1, Permission::TokenSearch, query).await
}
