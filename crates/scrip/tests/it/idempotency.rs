//! Idempotency keys.

mod keys;
mod policy_replays;
mod public_keys;
mod tokenize_replays;
