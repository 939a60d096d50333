//! List Tokens, by page number.

use crate::{
    Error, Vault,
    audit::Operation,
    listing::{OffsetPageQuery, Page, offset_page::load_offset_page},
    policy::{Caller, Permission},
    token::TokenView,
};

/// # Errors
/// The page is too far behind, or there is too much to look through.
pub async fn list_tokens_v1(
    vault: &Vault,
    caller: &Caller,
    query: OffsetPageQuery,
) -> Result<Page<TokenView>, Error> {
    load_offset_page(vault, caller, Operation::ListTokensV1, Permission::TokenRead, query).await
}
