//! Which tokens a batch uses, for the count of those that are active.

use scrip_core::{
    audit::read_log::active_month,
    id::TokenId,
    time::{Month, Timestamp},
    token::{BatchOutcome, TokenBatch, TokenWrite, WriteOutcome},
};

/// When the tokens of a batch were made, and when it uses them: what is older than this month is
/// active in it.
pub(crate) struct TokenActivity(Vec<(TokenId, Timestamp, Timestamp)>);

impl TokenActivity {
    pub(crate) fn from_batch(batch: &TokenBatch) -> Self {
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
    pub(crate) fn active_tokens(self, batched: &BatchOutcome) -> Vec<(Month, TokenId)> {
        let BatchOutcome::Written(outcomes) = batched else { return Vec::new() };
        let used = self.0.into_iter().zip(outcomes);
        let used = used.filter_map(|((id, created_at, at), outcome)| match outcome {
            WriteOutcome::New | WriteOutcome::Updated => Some((active_month(created_at, at)?, id)),
            WriteOutcome::Existing(it) => {
                Some((active_month(it.record.created_at, at)?, it.record.id.clone()))
            }
        });
        used.collect()
    }
}
