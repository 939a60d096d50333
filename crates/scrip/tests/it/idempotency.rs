//! Idempotency keys.

mod field_calls;
mod keys;
mod policy_replays;
mod public_keys;
mod tokenize_replays;
