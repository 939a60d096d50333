//! Search Tokens, by cursor.

use crate::{
    Vault,
    audit::Operation,
    error::Error,
    listing::cursor_page::{CursorPage, TokenFilter, TokensAsked, turn_page},
    policy::{caller::Caller, permission::Permission},
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
    let needs = (Operation::SearchTokens, Permission::TokenSearch);
    turn_page(vault, caller, needs, asked).await
}
