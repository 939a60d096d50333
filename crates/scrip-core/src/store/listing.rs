//! Lists and searches of tokens.

use crate::{
    listing::{NewestTokens, NewestTokensScan, ScannedTokens, TokenScan},
    policy::LookupPermit,
    types::StoreFuture,
};

/// Lists and searches of tokens. Each method is one transaction.
pub trait ListingStore: Send + Sync {
    /// A chunk of the tenant's tokens, sorted by container, then by creation, both descending.
    fn scan_tokens(&self, lookup: LookupPermit, scan: TokenScan) -> StoreFuture<'_, ScannedTokens>;

    /// The newest tokens of some containers, for pages with totals.
    fn find_newest_tokens(
        &self,
        lookup: LookupPermit,
        scan: NewestTokensScan,
    ) -> StoreFuture<'_, NewestTokens>;
}
