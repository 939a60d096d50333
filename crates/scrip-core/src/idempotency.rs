//! Idempotency keys: the claim of a request, and the response that a repeated request gets.

pub(crate) mod key_namespace;
pub mod proxy_call;
pub mod request_digest;
pub mod response;
pub mod stored_response;

pub(crate) use self::key_namespace::KeyNamespace;
pub use self::{
    proxy_call::{CallContent, CallDelivery, CallRecordKey, CallResponse},
    request_digest::{IdempotencyDigests, RequestContent, RequestDigest},
    response::{
        IdempotencyRecord, RenderedResponse, ResponseRecorder, ResponseTokenData,
        replay::{Replay, ReplayedToken},
    },
    stored_response::{
        ClaimOutcome, IdempotencyClaim, IdempotencyLookup, StoredResponse, StoredTokenData,
    },
};
