//! Token lists and offset pages.

use scrip_core::{
    audit::LogKind,
    listing::{NewestTokens, NewestTokensScan, ScannedTokens, TokenScan},
    policy::LookupPermit,
    store::ListingStore,
    types::StoreFuture,
};

use crate::shared::tokens::{listing::scan_tokens, newest_tokens::find_newest_tokens};

for_both_engines! {
impl ListingStore {
    fn scan_tokens(&self, lookup: LookupPermit, scan: TokenScan) -> StoreFuture<'_, ScannedTokens> {
        let tenant = lookup.tenant().id;
        Box::pin(self.read_snapshot(LogKind::Audit, tenant, async move |it| {
            scan_tokens(it, tenant, &scan).await
        }))
    }

    fn find_newest_tokens(&self, lookup: LookupPermit, scan: NewestTokensScan) -> StoreFuture<'_, NewestTokens> {
        let tenant = lookup.tenant().id;
        Box::pin(self.read_snapshot(LogKind::Audit, tenant, async move |it| {
            find_newest_tokens(it, tenant, &scan).await
        }))
    }
}
}
