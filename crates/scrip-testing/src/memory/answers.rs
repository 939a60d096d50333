//! Remembered answers, in a list.

use scrip_core::{
    id::{TenantId, TokenId},
    idempotency::{AnswerPart, AnswerRecord, AskedAnswer, Claimed, StoredAnswer, StoredPart},
    operations::claim_answer::ANSWER_RETENTION,
    store::{AnswerStore, StoreError, StoreFuture},
    time::Timestamp,
};

use crate::memory::{MemoryStore, State};

/// An answer, and the token that each of its parts shows.
#[derive(Debug, Clone)]
pub(super) struct Answer {
    pub(super) tenant: TenantId,
    pub(super) record: AnswerRecord,
    pub(super) tokens: Vec<TokenId>,
}

impl AnswerStore for MemoryStore {
    fn claim_answer(&self, asked: AskedAnswer) -> StoreFuture<'_, Claimed> {
        let Some(claim) = self.claims.take(asked.digest) else {
            return self.with(|_| Claimed::InFlight);
        };
        self.with(move |it| it.answer(&asked).map_or(Claimed::Claim(claim), Claimed::Answered))
    }

    fn forget_answers(&self, before: Timestamp) -> StoreFuture<'_, usize> {
        self.with(move |it| {
            let had = it.answers.len();
            it.answers.retain(|it| it.record.created_at > before);
            had - it.answers.len()
        })
    }
}

impl State {
    /// `tokens` are what the writes made or found.
    pub(super) fn remember(
        &mut self,
        tenant: TenantId,
        answer: Option<AnswerRecord>,
        tokens: &[TokenId],
    ) -> Result<(), StoreError> {
        let Some(record) = answer else { return Ok(()) };
        let forgotten = record.created_at.before(ANSWER_RETENTION);
        let same = |it: &Answer| it.record.digest == record.digest;
        self.answers.retain(|it| !same(it) || it.record.created_at > forgotten);
        if self.answers.iter().any(same) {
            return Err(StoreError::Answered);
        }
        let shown = record.parts.iter().map(|it| tokens.get(it.at).cloned());
        let shown: Option<Vec<_>> = shown.collect();
        let tokens = shown.ok_or(StoreError::Corrupt("an answer shows no token"))?;
        self.answers.push(Answer { tenant, record, tokens });
        Ok(())
    }

    pub(super) fn answer(&self, asked: &AskedAnswer) -> Option<StoredAnswer> {
        let is = |it: &&Answer| {
            let record = &it.record;
            it.tenant == asked.tenant
                && record.digest == asked.digest
                && record.created_at > asked.since
        };
        let Answer { tenant, record, tokens } = self.answers.iter().find(is)?;
        let part = |(part, id): (&AnswerPart, &TokenId)| {
            let row = self.tokens.get(self.live(*tenant, id, asked.now)?)?;
            Some(StoredPart {
                at: part.at,
                token: id.clone(),
                containers: row.token.record.containers.clone(),
                sealed: part.sealed.clone(),
            })
        };
        let parts = record.parts.iter().zip(tokens).filter_map(part).collect();
        let AnswerRecord { digest, created_at, head, .. } = record.clone();
        Some(StoredAnswer { digest, created_at, head, parts })
    }
}
