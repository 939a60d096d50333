//! The usage of a tenant. Existing tokens are counted when usage is read.

use std::collections::{BTreeMap, BTreeSet};

use scrip_core::{
    audit::read_log::active_month,
    id::TenantId,
    policy::PolicyPermit,
    store::{StoreFuture, UsageStore},
    time::{Month, Timestamp},
    token::{TenantUsage, TokenRecord, TokenTypeUsage},
};

use crate::memory::{MemoryStore, TokenRow};

/// Usage that cannot be computed from the existing tokens.
#[derive(Debug, Default, Clone)]
pub(super) struct UsageCounts {
    /// The last token of each type, by type name.
    last: BTreeMap<(TenantId, &'static str), TokenRecord>,
    created: BTreeMap<(TenantId, Month), u64>,
    active: BTreeMap<(TenantId, Month), u64>,
    active_tokens: BTreeSet<(Month, TenantId, String)>,
}

impl UsageCounts {
    pub(super) fn count_created(&mut self, tenant: TenantId, record: &TokenRecord) {
        let last = self.last.entry((tenant, record.token_type.as_str()));
        let last = last.or_insert_with(|| record.clone());
        if last.created_at < record.created_at {
            *last = record.clone();
        }
        *self.created.entry((tenant, Month::from_timestamp(record.created_at))).or_default() += 1;
    }

    pub(super) fn count_used(&mut self, tenant: TenantId, record: &TokenRecord, at: Timestamp) {
        if let Some(month) = active_month(record.created_at, at) {
            self.count_active(tenant, month, record.id.as_str());
        }
    }

    pub(super) fn count_active(&mut self, tenant: TenantId, month: Month, token: &str) {
        if self.active_tokens.insert((month, tenant, token.to_owned())) {
            *self.active.entry((tenant, month)).or_default() += 1;
        }
    }

    pub(super) fn delete_old(&mut self, month: Month) -> usize {
        let count_rows = |it: &Self| it.created.len() + it.active.len() + it.active_tokens.len();
        let count_before = count_rows(self);
        self.created.retain(|(_, it), _| *it >= month.minus_one_year());
        self.active.retain(|(_, it), _| *it >= month.minus_one_year());
        self.active_tokens.retain(|(it, _, _)| *it >= month);
        count_before - count_rows(self)
    }

    pub(super) fn remove_tenants(&mut self, deleted: &[TenantId]) {
        self.last.retain(|(it, _), _| !deleted.contains(it));
        self.created.retain(|(it, _), _| !deleted.contains(it));
        self.active.retain(|(it, _), _| !deleted.contains(it));
        self.active_tokens.retain(|(_, it, _)| !deleted.contains(it));
    }
}

impl UsageStore for MemoryStore {
    fn find_usage<'a>(
        &'a self,
        permit: &'a PolicyPermit,
        month: Month,
    ) -> StoreFuture<'a, TenantUsage> {
        self.with(move |state| {
            let tenant = permit.tenant().id;
            let last_tokens = state.usage.last.iter().filter(|((it, _), _)| *it == tenant);
            let types = last_tokens.map(|(_, last)| {
                let has_same_type = |it: &&TokenRow| {
                    it.tenant == tenant && it.token.record.token_type == last.token_type
                };
                let count = state.tokens.iter().filter(has_same_type).count();
                TokenTypeUsage {
                    token_type: last.token_type,
                    count: u64::try_from(count).unwrap_or(u64::MAX),
                    last_created_at: last.created_at,
                }
            });
            TenantUsage {
                types: types.collect(),
                created: state.usage.created.get(&(tenant, month)).copied().unwrap_or(0),
                active: state.usage.active.get(&(tenant, month)).copied().unwrap_or(0),
            }
        })
    }

    fn delete_old_usage(&self, month: Month) -> StoreFuture<'_, usize> {
        self.with(move |it| it.usage.delete_old(month))
    }
}
