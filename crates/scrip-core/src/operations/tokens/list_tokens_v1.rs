//! List Tokens, with a page number.

use crate::{
    Error, Vault,
    listing::Page,
    operations::tokens::{OffsetPageQuery, offset_page::load_offset_page},
    policy::Caller,
    token::TokenView,
    types::{Operation, Permission},
};

/// Errors: the page number is too large, or there are too many tokens to scan.
pub async fn list_tokens_v1(
    vault: &Vault,
    caller: &Caller,
    query: OffsetPageQuery,
) -> Result<Page<TokenView>, Error> {
    load_offset_page(vault, caller, Operation::ListTokensV1, Permission::TokenRead, query).await
}
