//! Lists and surveys of tokens.

use scrip_core::{
    audit::LogKind,
    listing::{NewestTokens, NewestTokensScan, ScannedTokens, TokenScan},
    policy::LookupPermit,
    store::{ListingStore, StoreFuture},
};

use crate::{
    shared::tokens::{listing::scan_tokens, newest_tokens::find_newest_tokens},
    sql::for_both_engines,
};

for_both_engines! {
impl ListingStore {
    fn scan_tokens(&self, inquiry: LookupPermit, list: TokenScan) -> StoreFuture<'_, ScannedTokens> {
        let tenant = inquiry.tenant().id;
        Box::pin(self.read_snapshot(LogKind::Audit, tenant, async move |it| {
            scan_tokens(it, tenant, &list).await
        }))
    }

    fn find_newest_tokens(&self, inquiry: LookupPermit, survey: NewestTokensScan) -> StoreFuture<'_, NewestTokens> {
        let tenant = inquiry.tenant().id;
        Box::pin(self.read_snapshot(LogKind::Audit, tenant, async move |it| {
            find_newest_tokens(it, tenant, &survey).await
        }))
    }
}
}
