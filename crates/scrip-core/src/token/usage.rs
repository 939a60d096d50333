//! How much a tenant uses: counted where things are made and removed, so that to tell it is to read
//! a few rows, however many tokens there are.

use crate::{time::Timestamp, token::TokenType};

/// What a store has counted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TenantUsage {
    /// In the order of their names; only types of which there ever was a token.
    pub types: Vec<TokenTypeUsage>,
    /// Tokens that were made in the month, whether they are still there or not.
    pub created: u64,
    /// Older ones that were read, used or updated in it.
    pub active: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenTypeUsage {
    pub token_type: TokenType,
    /// Tokens that are there. One whose time is over counts until it is removed.
    pub count: u64,
    pub last_created_at: Timestamp,
}

impl TenantUsage {
    #[must_use]
    pub fn total(&self) -> u64 {
        self.types.iter().fold(0, |sum, it| sum.saturating_add(it.count))
    }

    #[must_use]
    pub fn monthly_active(&self) -> u64 {
        self.created.saturating_add(self.active)
    }
}
