//! Which tokens a batch uses, for the count of those that are active.

use scrip_core::{
    audit::seen::active,
    id::TokenId,
    time::{Month, Timestamp},
    token::{Batched, Outcome, TokenBatch, TokenWrite},
};

/// When the tokens of a batch were made, and when it uses them: what is older than this month is
/// active in it.
pub(crate) struct Uses(Vec<(TokenId, Timestamp, Timestamp)>);

impl Uses {
    pub(crate) fn of(batch: &TokenBatch) -> Self {
        let of = |it: &TokenWrite| {
            let (record, audit) = match it {
                TokenWrite::Insert(it) => (&it.token.record, &it.audit),
                TokenWrite::Update(it) => (&it.token, &it.audit),
            };
            (record.id.clone(), record.created_at, audit.at)
        };
        Self(batch.writes.iter().map(of).collect())
    }

    /// By what became of it: another token may have taken the place of one.
    pub(crate) fn active(self, batched: &Batched) -> Vec<(Month, TokenId)> {
        let Batched::Written(outcomes) = batched else { return Vec::new() };
        let used = self.0.into_iter().zip(outcomes);
        let used = used.filter_map(|((id, created_at, at), outcome)| match outcome {
            Outcome::New | Outcome::Updated => Some((active(created_at, at)?, id)),
            Outcome::Existing(it) => {
                Some((active(it.record.created_at, at)?, it.record.id.clone()))
            }
        });
        used.collect()
    }
}
