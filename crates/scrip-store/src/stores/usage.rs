//! Usage: how many tokens a tenant has and how many are active.

use scrip_core::{
    audit::LogKind,
    policy::PolicyPermit,
    store::{TenantUsage, UsageStore},
    types::{StoreFuture, time::Month},
};

use crate::shared::usage::{
    DELETE_OLD_ACTIVE_MONTHS, DELETE_OLD_ACTIVE_TOKENS, DELETE_OLD_USAGE_MONTHS,
};

for_both_engines! {
impl UsageStore {
    fn find_usage<'a>(&'a self, permit: &'a PolicyPermit, month: Month) -> StoreFuture<'a, TenantUsage> {
        Box::pin(self.load_usage(permit.tenant().id, month))
    }

    fn delete_old_usage(&self, month: Month) -> StoreFuture<'_, usize> {
        let year_ago = month.minus_one_year();
        Box::pin(async move {
            let usage_months =
                self.delete_batch(LogKind::Audit, &DELETE_OLD_USAGE_MONTHS, year_ago).await?;
            let active_months =
                self.delete_batch(LogKind::Read, &DELETE_OLD_ACTIVE_MONTHS, year_ago).await?;
            let active_tokens =
                self.delete_batch(LogKind::Read, &DELETE_OLD_ACTIVE_TOKENS, month).await?;
            Ok(usage_months.saturating_add(active_months).saturating_add(active_tokens))
        })
    }
}
}
