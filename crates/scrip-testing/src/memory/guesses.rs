//! The counts of the guessing budget and the search budget.

use scrip_core::{
    Timestamp,
    equality::{GuessBucket, GuessRecord, GuessStore},
    types::{StoreFuture, id::TenantId},
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
            let tenant_guesses = it.guesses.iter().filter(|(owner, _)| *owner == tenant);
            let live_guesses = tenant_guesses.map(|(_, it)| *it).filter(|it| it.expires_at > now);
            live_guesses.filter(|it| buckets.contains(&it.bucket)).collect()
        })
    }

    fn insert_guesses(&self, tenant: TenantId, records: Vec<GuessRecord>) -> StoreFuture<'_, ()> {
        self.with(move |it| {
            for record in records {
                let has_same_key = |(owner, it): &&mut (TenantId, GuessRecord)| {
                    (*owner, it.bucket, it.number_digest)
                        == (tenant, record.bucket, record.number_digest)
                };
                match it.guesses.iter_mut().find(has_same_key) {
                    None => it.guesses.push((tenant, record)),
                    Some((_, stored)) => {
                        stored.counted_at = stored.counted_at.max(record.counted_at);
                        stored.expires_at = stored.expires_at.max(record.expires_at);
                    }
                }
            }
        })
    }

    fn delete_expired_guesses(&self, cutoff: Timestamp) -> StoreFuture<'_, usize> {
        self.with(move |it| {
            let count_before = it.guesses.len();
            it.guesses.retain(|(_, it)| it.expires_at > cutoff);
            count_before.saturating_sub(it.guesses.len())
        })
    }
}
