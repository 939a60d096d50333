//! Token usage of a tenant. The counts are updated when tokens are created and deleted, so a read
//! takes only a few rows for any number of tokens.

use crate::{
    Timestamp,
    card::TokenType,
    policy::PolicyPermit,
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

/// The stored counts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TenantUsage {
    /// Sorted by name; only types that ever had a token.
    pub types: Vec<TokenTypeUsage>,
    /// Tokens created in the month, including deleted ones.
    pub created: u64,
    /// Tokens created before the month that were read, used or updated in it.
    pub active: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenTypeUsage {
    pub token_type: TokenType,
    /// Existing tokens. An expired token counts until it is deleted.
    pub count: u64,
    pub last_created_at: Timestamp,
}

impl TenantUsage {
    pub fn total(&self) -> u64 {
        self.types.iter().fold(0, |sum, it| sum.saturating_add(it.count))
    }

    pub fn monthly_active(&self) -> u64 {
        self.created.saturating_add(self.active)
    }
}
