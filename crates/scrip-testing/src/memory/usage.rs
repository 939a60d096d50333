//! The usage of a tenant. Existing tokens are counted when usage is read.

use scrip_core::{
    policy::PolicyPermit,
    store::{TenantUsage, TokenTypeUsage, UsageStore},
    types::{StoreFuture, time::Month},
};

use crate::memory::{MemoryStore, state::TokenRow};

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
