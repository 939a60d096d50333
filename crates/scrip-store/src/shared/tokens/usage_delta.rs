//! What the tokens of a transaction change of the counts: kept until its commit, since most of them
//! are of the same tenant, type and month.

use std::collections::HashMap;

use scrip_core::{
    id::TenantId,
    time::{Month, Timestamp},
    token::TokenType,
};

/// In their order, so that a savepoint takes back the last ones.
#[derive(Debug, Default)]
pub(crate) struct UsageDelta {
    changes: Vec<UsageChange>,
}

#[derive(Debug, Clone, Copy)]
enum UsageChange {
    Created(TenantId, TokenType, Timestamp),
    Removed(TenantId, TokenType),
    /// Its counts were removed, and what came before does not bring them back.
    TenantRemoved(TenantId),
}

/// What is added up in a commit.
#[derive(Debug, Default)]
pub(crate) struct UsageTotals {
    pub(crate) types: HashMap<(TenantId, TokenType), TypeTotals>,
    pub(crate) months: HashMap<(Month, TenantId), i64>,
}

/// Of one type.
#[derive(Debug, Default)]
pub(crate) struct TypeTotals {
    pub(crate) created: i64,
    pub(crate) removed: i64,
    pub(crate) last_created_ms: i64,
}

impl UsageDelta {
    pub(crate) fn count_created(&mut self, tenant: TenantId, token_type: TokenType, at: Timestamp) {
        self.changes.push(UsageChange::Created(tenant, token_type, at));
    }

    pub(crate) fn count_removed(&mut self, tenant: TenantId, token_type: TokenType) {
        self.changes.push(UsageChange::Removed(tenant, token_type));
    }

    pub(crate) fn drop_tenant(&mut self, tenant: TenantId) {
        self.changes.push(UsageChange::TenantRemoved(tenant));
    }

    /// How many there are: up to where a savepoint takes them back.
    pub(crate) fn change_count(&self) -> usize {
        self.changes.len()
    }

    pub(crate) fn truncate(&mut self, to: usize) {
        self.changes.truncate(to);
    }

    pub(crate) fn totals(&self) -> UsageTotals {
        let UsageTotals { mut types, mut months } = UsageTotals::default();
        for change in &self.changes {
            match *change {
                UsageChange::Created(tenant, of, at) => {
                    let sum: &mut TypeTotals = types.entry((tenant, of)).or_default();
                    sum.created = sum.created.saturating_add(1);
                    sum.last_created_ms = sum.last_created_ms.max(at.unix_ms);
                    let created: &mut i64 =
                        months.entry((Month::from_timestamp(at), tenant)).or_default();
                    *created = created.saturating_add(1);
                }
                UsageChange::Removed(tenant, of) => {
                    let sum = types.entry((tenant, of)).or_default();
                    sum.removed = sum.removed.saturating_add(1);
                }
                UsageChange::TenantRemoved(tenant) => {
                    types.retain(|(it, _), _| *it != tenant);
                    months.retain(|(_, it), _| *it != tenant);
                }
            }
        }
        UsageTotals { types, months }
    }
}
