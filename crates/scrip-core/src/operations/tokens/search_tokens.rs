//! Search Tokens, by cursor.

use crate::{
    Error, Vault,
    audit::Operation,
    listing::{CursorPage, TokenFilter, TokensAsked, cursor_page::turn_page},
    policy::{Caller, Permission},
};

/// # Errors
/// No rule lets the caller look there, the cursor belongs to another question, or a budget is spent.
pub async fn search_tokens(
    vault: &Vault,
    caller: &Caller,
    asked: TokensAsked,
) -> Result<CursorPage, Error> {
    match (&asked.filter, &asked.start) {
        (TokenFilter::Data(term), None) => vault.count_search(caller, term).await?,
        // The next page of a search that was counted.
        (TokenFilter::Data(_), Some(_))
        | (
            TokenFilter::All
            | TokenFilter::Type(_)
            | TokenFilter::Fingerprint(_)
            | TokenFilter::Metadata { .. },
            _,
        ) => (),
    }
    turn_page(vault, caller, Operation::SearchTokens, Permission::TokenSearch, asked).await
}
