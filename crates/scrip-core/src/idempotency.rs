//! Idempotency keys: the claim of a request, and the response that a repeated request gets.

pub mod answer;
pub mod request_digest;
pub mod stored_answer;

pub use self::{
    answer::{AnswerPart, AnswerRecord, Remember, RenderAnswer, Rendered, Replay, Replayed},
    request_digest::{AnswerKey, SentRequest},
    stored_answer::{AskedAnswer, Claim, Claimed, StoredAnswer, StoredPart},
};
