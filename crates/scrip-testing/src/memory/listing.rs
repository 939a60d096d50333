//! Lists, by going through everything.

use std::cmp::Reverse;

use scrip_core::{
    listing::{ListTokens, Listing, Outline, Position, SURVEY_TOKENS_MAX, SurveyTokens, Surveyed},
    policy::Inquiry,
    store::{ListingStore, StoreFuture},
    token::TokenRecord,
};

use crate::memory::{MemoryStore, Row};

impl ListingStore for MemoryStore {
    fn list_tokens(&self, inquiry: Inquiry, list: ListTokens) -> StoreFuture<'_, Listing> {
        self.with(move |state| {
            let tenant = inquiry.tenant().id;
            let place = |row: &Row| {
                let (created_at, number) = row.age();
                let container = list.spans.place(&row.token.record.containers)?.clone();
                Some(Position { container, created_at, number })
            };
            let asked = |it: &&Row| {
                it.tenant == tenant && list.facet.is_none_or(|facet| facet.is_of(&it.token.record))
            };
            let rows = state.tokens.iter().filter(asked);
            let mut all: Vec<_> = rows.filter_map(|it| Some((place(it)?, &it.token))).collect();
            all.sort_by(|(one, _), (other, _)| other.cmp(one));
            all.retain(|(it, _)| list.after.as_ref().is_none_or(|after| it < after));
            all.truncate(list.entries_max);
            let last = all.last().filter(|_| all.len() == list.entries_max);
            let rest = last.map(|(it, _)| it.clone());
            let live = all.into_iter().filter(|(_, it)| it.record.is_live(list.now));
            Listing { tokens: live.map(|(at, it)| (at, it.clone())).collect(), rest }
        })
    }

    fn survey_tokens(&self, inquiry: Inquiry, survey: SurveyTokens) -> StoreFuture<'_, Surveyed> {
        self.with(move |state| {
            let tenant = inquiry.tenant().id;
            let asked = |it: &&Row| {
                let record = &it.token.record;
                it.tenant == tenant
                    && record.is_live(survey.now)
                    && survey.spans.place(&record.containers).is_some()
                    && survey.facets.iter().all(|facet| facet.is_of(record))
            };
            let mut rows: Vec<_> = state.tokens.iter().filter(asked).collect();
            rows.sort_by_key(|it| Reverse(it.age()));
            rows.truncate(SURVEY_TOKENS_MAX);
            let outline = |it: &Row| {
                let TokenRecord { id, containers, .. } = it.token.record.clone();
                Outline { id, containers }
            };
            Surveyed::Found(rows.into_iter().map(outline).collect())
        })
    }
}
