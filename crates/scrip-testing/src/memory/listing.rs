//! Lists, by going through everything.

use std::cmp::Reverse;

use scrip_core::{
    listing::{
        ListPosition, NEWEST_TOKENS_MAX, NewestTokens, NewestTokensScan, ScannedTokens,
        TokenOutline, TokenScan,
    },
    policy::LookupPermit,
    store::{ListingStore, StoreFuture},
    token::TokenRecord,
};

use crate::memory::{MemoryStore, TokenRow};

impl ListingStore for MemoryStore {
    fn scan_tokens(&self, lookup: LookupPermit, scan: TokenScan) -> StoreFuture<'_, ScannedTokens> {
        self.with(move |state| {
            let tenant = lookup.tenant().id;
            let place = |row: &TokenRow| {
                let (created_at, number) = row.creation_order();
                let container = scan.ranges.listed_container(&row.token.record.containers)?.clone();
                Some(ListPosition { container, created_at, row_number: number })
            };
            let asked = |it: &&TokenRow| {
                it.tenant == tenant
                    && scan.facet.is_none_or(|facet| facet.matches(&it.token.record))
            };
            let rows = state.tokens.iter().filter(asked);
            let mut all: Vec<_> = rows.filter_map(|it| Some((place(it)?, &it.token))).collect();
            all.sort_by(|(one, _), (other, _)| other.cmp(one));
            all.retain(|(it, _)| scan.after.as_ref().is_none_or(|after| it < after));
            all.truncate(scan.entries_max);
            let last = all.last().filter(|_| all.len() == scan.entries_max);
            let rest = last.map(|(it, _)| it.clone());
            let live = all.into_iter().filter(|(_, it)| it.record.is_live(scan.now));
            ScannedTokens {
                tokens: live.map(|(at, it)| (at, it.clone())).collect(),
                resume_after: rest,
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
            let asked = |it: &&TokenRow| {
                let record = &it.token.record;
                it.tenant == tenant
                    && record.is_live(scan.now)
                    && scan.ranges.listed_container(&record.containers).is_some()
                    && scan.facets.iter().all(|facet| facet.matches(record))
            };
            let mut rows: Vec<_> = state.tokens.iter().filter(asked).collect();
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
