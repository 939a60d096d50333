//! How many tokens a tenant has and uses.

use crate::{policy::PolicyPermit, store::StoreFuture, time::Month, token::TenantUsage};

/// How many tokens a tenant has and uses.
/// Each method is one transaction.
pub trait UsageStore: Send + Sync {
    /// How many tokens a tenant has and uses, without counting them now. Never waits for a writer.
    fn find_usage<'a>(
        &'a self,
        permit: &'a PolicyPermit,
        month: Month,
    ) -> StoreFuture<'a, TenantUsage>;

    /// Forgets some of which tokens were active in months before this one, and how many were in
    /// months that are a year older; how many rows.
    fn delete_old_usage(&self, month: Month) -> StoreFuture<'_, usize>;
}
