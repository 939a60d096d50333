//! What a tenant uses: tokens are counted when somebody asks.

use std::collections::{BTreeMap, BTreeSet};

use scrip_core::{
    audit::seen::active,
    id::TenantId,
    policy::Mandate,
    store::{StoreFuture, UsageStore},
    time::{Month, Timestamp},
    token::{TokenRecord, TypeUsage, Usage},
};

use crate::memory::{MemoryStore, Row};

/// What cannot be told from the tokens that are there.
#[derive(Debug, Default, Clone)]
pub(super) struct Counted {
    /// The last of each type, by its name.
    last: BTreeMap<(TenantId, &'static str), TokenRecord>,
    created: BTreeMap<(TenantId, Month), u64>,
    active: BTreeMap<(TenantId, Month), u64>,
    active_tokens: BTreeSet<(Month, TenantId, String)>,
}

impl Counted {
    pub(super) fn made(&mut self, tenant: TenantId, record: &TokenRecord) {
        let last = self.last.entry((tenant, record.token_type.as_str()));
        let last = last.or_insert_with(|| record.clone());
        if last.created_at < record.created_at {
            *last = record.clone();
        }
        *self.created.entry((tenant, Month::of(record.created_at))).or_default() += 1;
    }

    pub(super) fn used(&mut self, tenant: TenantId, record: &TokenRecord, at: Timestamp) {
        if let Some(month) = active(record.created_at, at) {
            self.active(tenant, month, record.id.as_str());
        }
    }

    pub(super) fn active(&mut self, tenant: TenantId, month: Month, token: &str) {
        if self.active_tokens.insert((month, tenant, token.to_owned())) {
            *self.active.entry((tenant, month)).or_default() += 1;
        }
    }

    pub(super) fn sweep(&mut self, month: Month) -> usize {
        let rows = |it: &Self| it.created.len() + it.active.len() + it.active_tokens.len();
        let had = rows(self);
        self.created.retain(|(_, it), _| *it >= month.a_year_before());
        self.active.retain(|(_, it), _| *it >= month.a_year_before());
        self.active_tokens.retain(|(it, _, _)| *it >= month);
        had - rows(self)
    }

    pub(super) fn forget(&mut self, deleted: &[TenantId]) {
        self.last.retain(|(it, _), _| !deleted.contains(it));
        self.created.retain(|(it, _), _| !deleted.contains(it));
        self.active.retain(|(it, _), _| !deleted.contains(it));
        self.active_tokens.retain(|(_, it, _)| !deleted.contains(it));
    }
}

impl UsageStore for MemoryStore {
    fn find_usage<'a>(&'a self, mandate: &'a Mandate, month: Month) -> StoreFuture<'a, Usage> {
        self.with(move |state| {
            let tenant = mandate.tenant().id;
            let own = state.counted.last.iter().filter(|((it, _), _)| *it == tenant);
            let types = own.map(|(_, last)| {
                let same = |it: &&Row| {
                    it.tenant == tenant && it.token.record.token_type == last.token_type
                };
                let count = state.tokens.iter().filter(same).count();
                TypeUsage {
                    token_type: last.token_type,
                    count: u64::try_from(count).unwrap_or(u64::MAX),
                    last_created_at: last.created_at,
                }
            });
            Usage {
                types: types.collect(),
                created: state.counted.created.get(&(tenant, month)).copied().unwrap_or(0),
                active: state.counted.active.get(&(tenant, month)).copied().unwrap_or(0),
            }
        })
    }

    fn sweep_usage(&self, month: Month) -> StoreFuture<'_, usize> {
        self.with(move |it| it.counted.sweep(month))
    }
}
