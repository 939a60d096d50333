//! How many tokens a tenant has and uses.

use crate::{policy::Mandate, store::StoreFuture, time::Month, token::Usage};

/// How many tokens a tenant has and uses.
/// Each method is one transaction.
pub trait UsageStore: Send + Sync {
    /// How many tokens a tenant has and uses, without counting them now. Never waits for a writer.
    fn find_usage<'a>(&'a self, mandate: &'a Mandate, month: Month) -> StoreFuture<'a, Usage>;

    /// Forgets some of which tokens were active in months before this one, and how many were in
    /// months that are a year older; how many rows.
    fn sweep_usage(&self, month: Month) -> StoreFuture<'_, usize>;
}
