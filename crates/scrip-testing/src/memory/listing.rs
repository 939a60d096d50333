//! Lists, by scanning all tokens.

use std::cmp::Reverse;

use scrip_core::{
    listing::{
        ListPosition, NEWEST_TOKENS_MAX, NewestTokens, NewestTokensScan, ScannedTokens,
        TokenOutline, TokenScan,
    },
    policy::LookupPermit,
    store::ListingStore,
    token::TokenRecord,
    types::StoreFuture,
};

use crate::memory::{MemoryStore, state::TokenRow};

impl ListingStore for MemoryStore {
    fn scan_tokens(&self, lookup: LookupPermit, scan: TokenScan) -> StoreFuture<'_, ScannedTokens> {
        self.with(move |state| {
            let tenant = lookup.tenant().id;
            let list_position = |row: &TokenRow| {
                let (created_at, number) = row.creation_order();
                let container = scan.ranges.listed_container(&row.token.record.containers)?.clone();
                Some(ListPosition { container, created_at, row_number: number })
            };
            let is_requested = |it: &&TokenRow| {
                it.tenant == tenant
                    && scan.facet.is_none_or(|searched| searched.facet().matches(&it.token.record))
            };
            let rows = state.tokens.iter().filter(is_requested);
            let mut entries: Vec<_> =
                rows.filter_map(|it| Some((list_position(it)?, &it.token))).collect();
            entries.sort_by(|(first, _), (second, _)| second.cmp(first));
            entries.retain(|(it, _)| scan.after.as_ref().is_none_or(|after| it < after));
            entries.truncate(scan.entries_max);
            let last = entries.last().filter(|_| entries.len() == scan.entries_max);
            let resume_after = last.map(|(it, _)| it.clone());
            let live = entries.into_iter().filter(|(_, it)| it.record.is_live(scan.now));
            ScannedTokens {
                tokens: live.map(|(position, it)| (position, it.clone())).collect(),
                resume_after,
            }
        })
    }

    fn find_newest_tokens(
        &self,
        lookup: LookupPermit,
        scan: NewestTokensScan,
    ) -> StoreFuture<'_, NewestTokens> {
        self.with(move |state| {
            let tenant = lookup.tenant().id;
            let is_requested = |it: &&TokenRow| {
                let record = &it.token.record;
                it.tenant == tenant
                    && record.is_live(scan.now)
                    && scan.ranges.listed_container(&record.containers).is_some()
                    && scan.facets.iter().all(|it| it.facet().matches(record))
            };
            let mut rows: Vec<_> = state.tokens.iter().filter(is_requested).collect();
            rows.sort_by_key(|it| Reverse(it.creation_order()));
            rows.truncate(NEWEST_TOKENS_MAX);
            let outline = |it: &TokenRow| {
                let TokenRecord { id, containers, .. } = it.token.record.clone();
                TokenOutline { id, containers }
            };
            NewestTokens::Found(rows.into_iter().map(outline).collect())
        })
    }
}
