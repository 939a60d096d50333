//! Idempotency keys: the claim of a request, and the response that a repeated request gets.

pub(crate) mod key_namespace;
pub mod proxy_call;
pub mod request_digest;
pub mod response;

pub(crate) use self::key_namespace::KeyNamespace;
pub use self::{
    proxy_call::{CallContent, CallDelivery, CallRecordKey, CallResponse},
    request_digest::{IdempotencyDigests, RequestContent, RequestDigest},
    response::{
        ClaimOutcome, IdempotencyClaim, IdempotencyLookup, IdempotencyRecord, RenderedResponse,
        ResponseRecorder, ResponseTokenData, StoredResponse, StoredTokenData,
        replay::{Replay, ReplayedToken},
    },
};
