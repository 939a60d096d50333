//! Idempotency keys: the claim of a request, and the response that a repeated request gets.

pub mod answer;
pub mod request_digest;
pub mod stored_answer;
