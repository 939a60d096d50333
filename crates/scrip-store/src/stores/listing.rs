//! Lists and surveys of tokens.

use scrip_core::{
    audit::Log,
    listing::{ListTokens, Listing, SurveyTokens, Surveyed},
    policy::Inquiry,
    store::{ListingStore, StoreFuture},
};

use crate::{
    rules::tokens::{listing::list_tokens, survey::survey_tokens},
    sql::for_both_engines,
};

for_both_engines! {
impl ListingStore {
    fn list_tokens(&self, inquiry: Inquiry, list: ListTokens) -> StoreFuture<'_, Listing> {
        let tenant = inquiry.tenant().id;
        Box::pin(self.at_one_instant(Log::Audit, tenant, async move |it| {
            list_tokens(it, tenant, &list).await
        }))
    }

    fn survey_tokens(&self, inquiry: Inquiry, survey: SurveyTokens) -> StoreFuture<'_, Surveyed> {
        let tenant = inquiry.tenant().id;
        Box::pin(self.at_one_instant(Log::Audit, tenant, async move |it| {
            survey_tokens(it, tenant, &survey).await
        }))
    }
}
}
