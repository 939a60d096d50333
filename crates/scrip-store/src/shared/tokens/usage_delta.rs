//! Changes of the usage counters in a transaction. They are collected until the commit, because
//! most of them have the same tenant, type and month.

use std::collections::HashMap;

use scrip_core::{
    Timestamp,
    card::TokenType,
    types::{id::TenantId, time::Month},
};

/// The changes of a transaction in order, so that a savepoint can roll back the latest ones.
#[derive(Debug, Default)]
pub(crate) struct UsageDelta {
    changes: Vec<UsageChange>,
}

#[derive(Debug, Clone, Copy)]
enum UsageChange {
    Created(TenantId, TokenType, Timestamp),
    Removed(TenantId, TokenType),
    /// The tenant's counters were deleted; earlier changes do not restore them.
    TenantRemoved(TenantId),
}

/// The sums of the changes, which a commit writes.
#[derive(Debug, Default)]
pub(crate) struct UsageTotals {
    pub(crate) types: HashMap<(TenantId, TokenType), TypeTotals>,
    pub(crate) months: HashMap<(Month, TenantId), i64>,
}

/// Totals of one token type.
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

    /// Returns the number of changes, to which a savepoint can roll back.
    pub(crate) fn change_count(&self) -> usize {
        self.changes.len()
    }

    pub(crate) fn truncate(&mut self, change_count: usize) {
        self.changes.truncate(change_count);
    }

    pub(crate) fn totals(&self) -> UsageTotals {
        let UsageTotals { mut types, mut months } = UsageTotals::default();
        for change in &self.changes {
            match *change {
                UsageChange::Created(tenant, token_type, at) => {
                    let type_totals: &mut TypeTotals =
                        types.entry((tenant, token_type)).or_default();
                    type_totals.created = type_totals.created.saturating_add(1);
                    type_totals.last_created_ms = type_totals.last_created_ms.max(at.unix_ms);
                    let month_total: &mut i64 =
                        months.entry((Month::from_timestamp(at), tenant)).or_default();
                    *month_total = month_total.saturating_add(1);
                }
                UsageChange::Removed(tenant, token_type) => {
                    let type_totals = types.entry((tenant, token_type)).or_default();
                    type_totals.removed = type_totals.removed.saturating_add(1);
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
