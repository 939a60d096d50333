//! Token usage of a tenant.

use crate::{
    policy::PolicyPermit,
    token::TenantUsage,
    types::{StoreFuture, time::Month},
};

/// Token usage of a tenant. Each method is one transaction.
pub trait UsageStore: Send + Sync {
    /// Reads the stored token counts of a tenant; no tokens are counted. Never waits for a writer.
    fn find_usage<'a>(
        &'a self,
        permit: &'a PolicyPermit,
        month: Month,
    ) -> StoreFuture<'a, TenantUsage>;

    /// Deletes some of the marks of active tokens in earlier months, and some of the monthly counts
    /// that are a year older; returns how many rows.
    fn delete_old_usage(&self, month: Month) -> StoreFuture<'_, usize>;
}
