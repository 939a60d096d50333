//! How many tokens a tenant has and uses.

use scrip_core::{
    audit::LogKind,
    policy::PolicyPermit,
    store::{StoreFuture, UsageStore},
    time::Month,
    token::TenantUsage,
};

use crate::{
    shared::usage::{DELETE_OLD_ACTIVE_MONTHS, DELETE_OLD_ACTIVE_TOKENS, DELETE_OLD_USAGE_MONTHS},
    sql::for_both_engines,
};

for_both_engines! {
impl UsageStore {
    fn find_usage<'a>(&'a self, mandate: &'a PolicyPermit, month: Month) -> StoreFuture<'a, TenantUsage> {
        Box::pin(self.usage(mandate.tenant().id, month))
    }

    fn delete_old_usage(&self, month: Month) -> StoreFuture<'_, usize> {
        let year_ago = month.one_year_earlier();
        Box::pin(async move {
            let created = self.delete_some(LogKind::Audit, &DELETE_OLD_USAGE_MONTHS, year_ago).await?;
            let months = self.delete_some(LogKind::Read, &DELETE_OLD_ACTIVE_MONTHS, year_ago).await?;
            let tokens = self.delete_some(LogKind::Read, &DELETE_OLD_ACTIVE_TOKENS, month).await?;
            Ok(created.saturating_add(months).saturating_add(tokens))
        })
    }
}
}
