//! How many tokens a tenant has and uses.

use scrip_core::{
    audit::Log,
    policy::Mandate,
    store::{StoreFuture, UsageStore},
    time::Month,
    token::Usage,
};

use crate::{
    rules::usage::{SWEEP_ACTIVE, SWEEP_CREATED, SWEEP_MONTHS},
    sql::for_both_engines,
};

for_both_engines! {
impl UsageStore {
    fn find_usage<'a>(&'a self, mandate: &'a Mandate, month: Month) -> StoreFuture<'a, Usage> {
        Box::pin(self.usage(mandate.tenant().id, month))
    }

    fn sweep_usage(&self, month: Month) -> StoreFuture<'_, usize> {
        let year_ago = month.a_year_before();
        Box::pin(async move {
            let created = self.delete_some(Log::Audit, &SWEEP_CREATED, year_ago).await?;
            let months = self.delete_some(Log::Access, &SWEEP_MONTHS, year_ago).await?;
            let tokens = self.delete_some(Log::Access, &SWEEP_ACTIVE, month).await?;
            Ok(created.saturating_add(months).saturating_add(tokens))
        })
    }
}
}
