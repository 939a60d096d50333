//! The counts of the guessing budget and the search budget.

use scrip_core::{
    id::TenantId,
    policy::guessing_budget::{GuessBucket, GuessRecord},
    store::{GuessStore, StoreFuture},
    time::Timestamp,
};

use crate::memory::MemoryStore;

impl GuessStore for MemoryStore {
    fn find_guesses<'a>(
        &'a self,
        tenant: TenantId,
        buckets: &'a [GuessBucket],
        now: Timestamp,
    ) -> StoreFuture<'a, Vec<GuessRecord>> {
        self.with(move |it| {
            let own = it.guesses.iter().filter(|(owner, _)| *owner == tenant);
            let live = own.map(|(_, it)| *it).filter(|it| it.expires_at > now);
            live.filter(|it| buckets.contains(&it.bucket)).collect()
        })
    }

    fn insert_guesses(&self, tenant: TenantId, records: Vec<GuessRecord>) -> StoreFuture<'_, ()> {
        self.with(move |it| {
            for record in records {
                let same = |(owner, it): &&mut (TenantId, GuessRecord)| {
                    (*owner, it.bucket, it.number_digest)
                        == (tenant, record.bucket, record.number_digest)
                };
                match it.guesses.iter_mut().find(same) {
                    None => it.guesses.push((tenant, record)),
                    Some((_, stored)) => {
                        stored.counted_at = stored.counted_at.max(record.counted_at);
                        stored.expires_at = stored.expires_at.max(record.expires_at);
                    }
                }
            }
        })
    }

    fn delete_expired_guesses(&self, expired_by: Timestamp) -> StoreFuture<'_, usize> {
        self.with(move |it| {
            let before = it.guesses.len();
            it.guesses.retain(|(_, it)| it.expires_at > expired_by);
            before.saturating_sub(it.guesses.len())
        })
    }
}
