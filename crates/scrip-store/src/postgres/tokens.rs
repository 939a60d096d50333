//! Tokens, token intents and the token index.

pub(crate) mod index_entries;
mod intents;
mod listing;
mod newest_tokens;
mod pending_idempotency_record;
pub(crate) mod write_group;
pub(crate) mod writes;
