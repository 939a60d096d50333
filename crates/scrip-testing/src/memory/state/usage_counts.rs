//! Usage that cannot be computed from the existing tokens.

use std::collections::{BTreeMap, BTreeSet};

use scrip_core::{
    Timestamp,
    read_log::active_month,
    token::TokenRecord,
    types::{id::TenantId, time::Month},
};

/// Usage that cannot be computed from the existing tokens.
#[derive(Debug, Default, Clone)]
pub(in crate::memory) struct UsageCounts {
    /// The last token of each type, by type name.
    pub(in crate::memory) last: BTreeMap<(TenantId, &'static str), TokenRecord>,
    pub(in crate::memory) created: BTreeMap<(TenantId, Month), u64>,
    pub(in crate::memory) active: BTreeMap<(TenantId, Month), u64>,
    active_tokens: BTreeSet<(Month, TenantId, String)>,
}

impl UsageCounts {
    pub(in crate::memory) fn count_created(&mut self, tenant: TenantId, record: &TokenRecord) {
        let last = self.last.entry((tenant, record.token_type.as_str()));
        let last = last.or_insert_with(|| record.clone());
        if last.created_at < record.created_at {
            *last = record.clone();
        }
        *self.created.entry((tenant, Month::from_timestamp(record.created_at))).or_default() += 1;
    }

    pub(in crate::memory) fn count_used(
        &mut self,
        tenant: TenantId,
        record: &TokenRecord,
        at: Timestamp,
    ) {
        if let Some(month) = active_month(record.created_at, at) {
            self.count_active(tenant, month, record.id.as_str());
        }
    }

    pub(in crate::memory) fn count_active(&mut self, tenant: TenantId, month: Month, token: &str) {
        if self.active_tokens.insert((month, tenant, token.to_owned())) {
            *self.active.entry((tenant, month)).or_default() += 1;
        }
    }

    pub(in crate::memory) fn delete_old(&mut self, month: Month) -> usize {
        let count_rows = |it: &Self| it.created.len() + it.active.len() + it.active_tokens.len();
        let count_before = count_rows(self);
        self.created.retain(|(_, it), _| *it >= month.minus_one_year());
        self.active.retain(|(_, it), _| *it >= month.minus_one_year());
        self.active_tokens.retain(|(it, _, _)| *it >= month);
        count_before - count_rows(self)
    }

    pub(in crate::memory) fn remove_tenants(&mut self, deleted: &[TenantId]) {
        self.last.retain(|(it, _), _| !deleted.contains(it));
        self.created.retain(|(it, _), _| !deleted.contains(it));
        self.active.retain(|(it, _), _| !deleted.contains(it));
        self.active_tokens.retain(|(_, it, _)| !deleted.contains(it));
    }
}
