//! Lists and searches of tokens.

use crate::{
    listing::{ListTokens, Listing, SurveyTokens, Surveyed},
    policy::Inquiry,
    store::StoreFuture,
};

/// Lists and searches of tokens.
/// Each method is one transaction.
pub trait ListingStore: Send + Sync {
    /// A stretch of the tenant's tokens by container, then by creation, both descending.
    fn list_tokens(&self, inquiry: Inquiry, list: ListTokens) -> StoreFuture<'_, Listing>;

    /// The newest tokens of some containers, for pages with totals.
    fn survey_tokens(&self, inquiry: Inquiry, survey: SurveyTokens) -> StoreFuture<'_, Surveyed>;
}
