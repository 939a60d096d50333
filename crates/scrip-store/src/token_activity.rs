//! Collects the tokens that a batch uses, for the count of active tokens.

use scrip_core::{
    Timestamp,
    read_log::active_month,
    token_batch::{BatchOutcome, TokenBatch, TokenWrite, WriteOutcome},
    types::{id::TokenId, time::Month},
};

/// Creation time and time of use of each token of a batch. A token created before the month of its
/// use is active in that month.
pub(crate) struct TokenActivity(Vec<(TokenId, Timestamp, Timestamp)>);

impl TokenActivity {
    pub(crate) fn from_batch(batch: &TokenBatch) -> Self {
        let read_activity = |it: &TokenWrite| {
            let (record, audit) = match it {
                TokenWrite::Insert(it) => (&it.token.record, &it.audit),
                TokenWrite::Update(it) => (&it.token, &it.audit),
            };
            (record.id.clone(), record.created_at, audit.at)
        };
        Self(batch.writes.iter().map(read_activity).collect())
    }

    /// Returns the tokens that became active. Depends on the outcome, because an existing duplicate
    /// may replace a new token.
    pub(crate) fn active_tokens(self, outcome: &BatchOutcome) -> Vec<(Month, TokenId)> {
        let BatchOutcome::Written(outcomes) = outcome else { return Vec::new() };
        let activities = self.0.into_iter().zip(outcomes);
        let active = activities.filter_map(|((id, created_at, at), outcome)| match outcome {
            WriteOutcome::New | WriteOutcome::Updated => Some((active_month(created_at, at)?, id)),
            WriteOutcome::Existing(it) => {
                Some((active_month(it.record.created_at, at)?, it.record.id.clone()))
            }
        });
        active.collect()
    }
}
