//! Records of proxied calls with an idempotency key.
//!
//! A record is written before the first byte of the call leaves: it says that the call may have been
//! sent. The outcome replaces it. A call that was certainly not sent leaves no record.

use std::fmt;

use scrip_expression::value_cost;
use scrip_seal::{EpochKeys, OpenedValue, Purpose, Sealed, Secret};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    Error, Timestamp,
    equality::Comparison,
    idempotency::{
        IdempotencyDigests, IdempotencyRecord, RequestDigest, StoredResponse,
        request_digest::encode_without_cvc, response::place,
    },
    policy::{AccessTarget, Caller, UseRight},
    read_log::ReadLogEntry,
    types::{Containers, Operation, Plaintext, id::TokenId},
};

words! {
    /// How far a call got. An integrator decides by it whether a repetition is safe.
    pub enum CallDelivery {
        /// No byte of the call left the vault.
        NotSent = "not_sent",
        /// The call may have arrived.
        MaybeSent = "maybe_sent",
        /// The destination answered, but the caller does not get the answer.
        Answered = "answered",
    }
}

/// The content by which calls with the same idempotency key are compared. Headers are not part of
/// it: a client that repeats a call may sign or date it again.
#[derive(Debug, Clone, Copy)]
pub struct CallContent<'a> {
    pub method: &'a str,
    /// The id of the proxy, or the URL of an ephemeral one.
    pub destination: &'a str,
    pub path_and_query: &'a str,
    /// As the client sent it, with its expressions.
    pub body: &'a [u8],
    /// The encrypted data of the call.
    pub encrypted: Option<&'a CallDataComparison>,
}

/// Encrypted data by which calls are compared. Only the digest of a call reads it.
///
/// It is decrypted, because a client encrypts the same data differently each time, or as it was sent,
/// if the caller may not read it.
#[derive(Debug)]
pub struct CallDataComparison(Plaintext);

impl CallDataComparison {
    pub(crate) fn new(value: Plaintext) -> Self {
        Self(value)
    }
}

/// The digests of a call, and the content in which its numbers are counted before the digests are
/// compared.
pub(crate) struct ComparedCall {
    /// The first is stored. A record of an earlier version of the vault has the second one, over the
    /// bytes of the body.
    digests: [RequestDigest; 2],
    /// The body, path and query, without a CVC.
    pub(crate) content: Plaintext,
}

impl ComparedCall {
    pub(crate) fn stored_digest(&self) -> [u8; 32] {
        let [current, _] = self.digests;
        current.to_stored()
    }

    pub(crate) fn equals(&self, stored: Option<[u8; 32]>, comparison: Comparison) -> bool {
        self.digests.iter().any(|it| it.equals(stored, comparison))
    }
}

/// The work to parse a byte of a call and to digest it twice.
const COMPARISON_WORK_PER_BYTE: usize = 4;

impl CallContent<'_> {
    /// Only what a call with values of hosted fields is recognized by: method, destination, path and
    /// query, in which no value can be.
    pub(crate) fn without_data(self) -> Self {
        Self { body: &[], encrypted: None, ..self }
    }

    /// The work to prepare the comparison. The caller knows these sizes: encrypted data that it may not
    /// read is compared as it was sent.
    pub(crate) fn comparison_work(&self) -> usize {
        let Self { path_and_query, body, encrypted, .. } = self;
        let encrypted_bytes = encrypted.map_or(0, |it| value_cost(it.0.expose()));
        let bytes = path_and_query.len().saturating_add(body.len()).saturating_add(encrypted_bytes);
        bytes.saturating_mul(COMPARISON_WORK_PER_BYTE)
    }

    /// Prepares the comparison. A digest over a CVC would allow an attacker with the digest to test
    /// codes, so members and form fields named `cvc` are omitted.
    pub(crate) fn prepare_comparison(&self, caller: &Caller) -> ComparedCall {
        let Self { method, destination, path_and_query, body, encrypted } = self;
        let keys = &caller.tenant().keys;
        let encrypted = encrypted.map(|it| it.0.expose());
        let encrypted_bytes = encrypted.map(encode_without_cvc);
        let mut parts =
            vec![method.as_bytes(), destination.as_bytes(), path_and_query.as_bytes(), *body];
        parts.extend(encrypted_bytes.as_ref().map(Secret::expose));
        let earlier_digest = RequestDigest::new(keys.request_digest(&parts));
        let body = serde_json::from_slice(body)
            .unwrap_or_else(|_| Value::String(remove_cvc_fields(&String::from_utf8_lossy(body))));
        let path = Value::String(remove_cvc_fields(path_and_query));
        let mut content = vec![path, body];
        content.extend(encrypted.cloned());
        let content = Plaintext::new(Value::Array(content));
        let bytes = encode_without_cvc(content.expose());
        let parts = [b"call", method.as_bytes(), destination.as_bytes(), bytes.expose()];
        let digest = RequestDigest::new(keys.request_digest(&parts));
        ComparedCall { digests: [digest, earlier_digest], content }
    }
}

/// Removes the fields of a form or query with a name such as `cvc` or `card[cvc]`.
fn remove_cvc_fields(text: &str) -> String {
    let is_cvc = |field: &str| {
        let name = field.split('=').next().unwrap_or_default();
        let name = name.rsplit(['[', '.', '?']).next().unwrap_or_default();
        name.trim_end_matches(']').eq_ignore_ascii_case("cvc") && field.contains('=')
    };
    if !text.contains('=') {
        return text.to_owned();
    }
    let fields: Vec<_> = text
        .split('&')
        .map(|it| if is_cvc(it) { it.split('=').next().unwrap_or_default() } else { it })
        .collect();
    fields.join("&")
}

/// The answer of a destination, after the response transforms. `Debug` prints no content.
#[derive(Clone, PartialEq, Eq)]
pub struct CallResponse {
    pub status: u16,
    pub headers: Vec<(String, Vec<u8>)>,
    pub body: Vec<u8>,
}

impl CallResponse {
    /// Longer bodies are not stored.
    pub const BODY_BYTES_MAX: usize = 64 * 1024;
}

impl fmt::Debug for CallResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CallResponse({})", self.status)
    }
}

/// Names one record of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallRecordKey {
    pub digest: [u8; 32],
    pub created_at: Timestamp,
}

/// The state that a record stores.
#[derive(Debug)]
pub(crate) enum CallState {
    MaybeSent,
    /// The answer is not stored, or can no longer be read. Old records have no status.
    Answered {
        status: Option<u16>,
    },
    Response(CallResponse),
}

impl CallState {
    pub(crate) fn delivery(&self) -> CallDelivery {
        match self {
            Self::MaybeSent => CallDelivery::MaybeSent,
            Self::Answered { .. } | Self::Response(_) => CallDelivery::Answered,
        }
    }
}

/// The right by which a call used a token. A replay needs the right again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CallTarget {
    containers: String,
    /// For an access session with conditions on ids.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    id: Option<String>,
}

impl CallTarget {
    pub(crate) fn new(caller: &Caller, containers: &Containers, id: Option<&TokenId>) -> Self {
        let id = caller.access_session().and(id).map(|it| it.as_str().to_owned());
        Self { containers: containers.to_text(), id }
    }

    fn check(&self, caller: &Caller, right: UseRight) -> Result<(), Error> {
        let containers = Containers::parse(self.containers.split(',')).map_err(|_| unreadable())?;
        let id = self.id.as_deref().map(TokenId::parse).transpose().map_err(|_| unreadable())?;
        caller.permit_use(right, AccessTarget { containers: &containers, id: id.as_ref() })?;
        Ok(())
    }
}

/// The first part of the sealed record. The response, if there is one, follows it.
#[derive(Serialize, Deserialize)]
struct CallHead {
    state: CallHeadState,
    /// The status of an answer that is not stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    answered_status: Option<u16>,
    request: Option<[u8; 32]>,
    is_ephemeral: bool,
    targets: Vec<CallTarget>,
    /// The ids of the used tokens, for the record of a replay. Old records have none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tokens: Vec<String>,
}

#[derive(Serialize, Deserialize, Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum CallHeadState {
    MaybeSent,
    Answered,
    Response {
        status: u16,
        /// The end of the response, in Unix milliseconds, if the call may have used a CVC. The response
        /// is then encrypted with the epoch key of this time, because the destination may repeat the
        /// CVC.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cvc_ends_ms: Option<i64>,
    },
}

/// Seals the records of one call.
pub(crate) struct CallSealer<'a> {
    pub(crate) caller: &'a Caller,
    pub(crate) digests: IdempotencyDigests,
    pub(crate) created_at: Timestamp,
    pub(crate) right: UseRight,
    pub(crate) targets: Vec<CallTarget>,
    pub(crate) tokens: Vec<String>,
    /// When the stored response must end, because it can repeat a CVC.
    pub(crate) answer_ends_at: Option<Timestamp>,
}

impl CallSealer<'_> {
    /// The record of a state. If the epoch key of the CVC is gone, the response is not stored, and
    /// a repetition learns only that the destination answered.
    /// Errors: the record cannot be encoded.
    pub(crate) fn seal_record(
        &self,
        epoch_keys: &EpochKeys,
        state: &CallState,
        now: Timestamp,
    ) -> Result<IdempotencyRecord, Error> {
        let (answered_status, (state, response)) = match state {
            CallState::MaybeSent => (None, (CallHeadState::MaybeSent, Vec::new())),
            CallState::Answered { status } => (*status, (CallHeadState::Answered, Vec::new())),
            CallState::Response(response) => {
                (Some(response.status), self.seal_response(epoch_keys, response, now))
            }
        };
        let head = CallHead {
            state,
            answered_status,
            request: self.digests.request,
            is_ephemeral: self.right == UseRight::EphemeralProxy,
            targets: self.targets.clone(),
            tokens: self.tokens.clone(),
        };
        let head = serde_json::to_vec(&head).map_err(|_| unreadable())?;
        let mut bytes = Vec::with_capacity(head.len().saturating_add(response.len() + 8));
        write_part(&head, &mut bytes);
        bytes.extend_from_slice(&response);
        let digest = self.digests.key;
        let place = place(self.caller, "call", &digest, self.created_at);
        let keys = &self.caller.tenant().keys;
        let head = keys.seal(Purpose::Response, &place, &Secret::new(bytes));
        Ok(IdempotencyRecord { digest, created_at: self.created_at, head, token_data: Vec::new() })
    }

    fn seal_response(
        &self,
        epoch_keys: &EpochKeys,
        response: &CallResponse,
        now: Timestamp,
    ) -> (CallHeadState, Vec<u8>) {
        let bytes = encode_response(response);
        let status = response.status;
        let Some(ends_at) = self.answer_ends_at else {
            return (CallHeadState::Response { status, cvc_ends_ms: None }, bytes);
        };
        let place = place(self.caller, "call-response", &self.digests.key, self.created_at);
        let ends_ms = ends_at.unix_ms;
        let is_expired = ends_at <= now;
        match epoch_keys.seal(&place, &Secret::new(bytes), ends_ms) {
            Ok(sealed) if !is_expired => {
                let state = CallHeadState::Response { status, cvc_ends_ms: Some(ends_ms) };
                (state, sealed.as_bytes().to_vec())
            }
            Ok(_) | Err(_) => (CallHeadState::Answered, Vec::new()),
        }
    }
}

/// A record that was opened for a repeated call.
pub(crate) struct OpenedCall {
    pub(crate) state: CallState,
    /// The digest of the first call.
    pub(crate) request: Option<[u8; 32]>,
    right: UseRight,
    targets: Vec<CallTarget>,
    tokens: Vec<String>,
}

impl OpenedCall {
    /// The entries of a replay: the proxy, or an empty entity for an ephemeral one, and the tokens.
    /// `destination` is that of an equal call.
    pub(crate) fn replay_entries(&self, destination: &str) -> Vec<ReadLogEntry> {
        const REPLAYED: &str = "replayed";
        let is_proxy = self.right == UseRight::PreConfiguredProxy;
        let proxy = if is_proxy { destination } else { "" };
        let mut entries = vec![ReadLogEntry::new(proxy, REPLAYED)];
        entries.extend(self.tokens.iter().map(|id| ReadLogEntry {
            operation: Some(Operation::UseToken),
            ..ReadLogEntry::new(id.as_str(), REPLAYED)
        }));
        entries
    }

    /// Checks that the caller may still use the tokens of the call.
    /// Errors: the caller lost the right.
    pub(crate) fn check_rights(&self, caller: &Caller) -> Result<(), Error> {
        drop(caller.permit_use_lookup(self.right)?);
        self.targets.iter().try_for_each(|it| it.check(caller, self.right))
    }

    /// Errors: the record was altered.
    pub(crate) async fn open(
        caller: &Caller,
        epoch_keys: &EpochKeys,
        stored: &StoredResponse,
        now: Timestamp,
    ) -> Result<Self, Error> {
        let place_of = |part| place(caller, part, &stored.digest, stored.created_at);
        let keys = &caller.tenant().keys;
        let bytes = keys.open(Purpose::Response, &place_of("call"), &stored.head)?;
        let (head, response) = read_part(bytes.expose()).ok_or_else(unreadable)?;
        let head: CallHead = serde_json::from_slice(head).map_err(|_| unreadable())?;
        let state = match head.state {
            CallHeadState::MaybeSent => CallState::MaybeSent,
            CallHeadState::Answered => CallState::Answered { status: head.answered_status },
            CallHeadState::Response { status, cvc_ends_ms: None } => {
                CallState::Response(decode_response(status, response).ok_or_else(unreadable)?)
            }
            CallHeadState::Response { status, cvc_ends_ms: Some(ends_ms) }
                if ends_ms <= now.unix_ms =>
            {
                CallState::Answered { status: Some(status) }
            }
            CallHeadState::Response { status, cvc_ends_ms: Some(ends_ms) } => {
                let sealed = Sealed::from_stored(response.to_vec());
                let place = place_of("call-response");
                // Another node may have the key. If it does not respond, the answer is withheld.
                let opened = match epoch_keys.load_opening_key(&sealed, ends_ms).await {
                    Ok(_) => epoch_keys.open(&place, &sealed, ends_ms)?,
                    Err(_) => OpenedValue::KeyNotLoaded,
                };
                match opened {
                    OpenedValue::KeyDestroyed | OpenedValue::KeyNotLoaded => {
                        CallState::Answered { status: Some(status) }
                    }
                    OpenedValue::Open(response) => {
                        let response = decode_response(status, response.expose());
                        CallState::Response(response.ok_or_else(unreadable)?)
                    }
                }
            }
        };
        let CallHead { request, is_ephemeral, targets, tokens, .. } = head;
        let right =
            if is_ephemeral { UseRight::EphemeralProxy } else { UseRight::PreConfiguredProxy };
        Ok(Self { state, request, right, targets, tokens })
    }
}

/// Encodes the headers, each as two parts with their lengths, an empty part, and the body.
fn encode_response(response: &CallResponse) -> Vec<u8> {
    // Capacity for the whole response: a buffer that grows leaves copies in memory.
    let header_bytes = response.headers.iter().map(|(name, value)| name.len() + value.len() + 16);
    let capacity = header_bytes.sum::<usize>().saturating_add(response.body.len() + 16);
    let mut bytes = Vec::with_capacity(capacity);
    for (name, value) in &response.headers {
        write_part(name.as_bytes(), &mut bytes);
        write_part(value, &mut bytes);
    }
    write_part(&[], &mut bytes);
    bytes.extend_from_slice(&response.body);
    bytes
}

fn decode_response(status: u16, bytes: &[u8]) -> Option<CallResponse> {
    let (mut headers, mut remaining) = (Vec::new(), bytes);
    loop {
        let (name, after_name) = read_part(remaining)?;
        if name.is_empty() {
            return Some(CallResponse { status, headers, body: after_name.to_vec() });
        }
        let (value, after_value) = read_part(after_name)?;
        headers.push((String::from_utf8(name.to_vec()).ok()?, value.to_vec()));
        remaining = after_value;
    }
}

fn write_part(part: &[u8], bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(&u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
    bytes.extend_from_slice(part);
}

fn read_part(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, remaining) = bytes.split_first_chunk::<8>()?;
    remaining.split_at_checked(usize::try_from(u64::from_be_bytes(*length)).ok()?)
}

fn unreadable() -> Error {
    Error::Internal("the record of a proxied call cannot be parsed".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_call_response_decodes_to_the_same_headers_and_body() {
        let header = |name: &str, value: &[u8]| (name.to_owned(), value.to_vec());
        let responses = [
            CallResponse { status: 204, headers: Vec::new(), body: Vec::new() },
            CallResponse {
                status: 402,
                headers: vec![header("x-a", b""), header("x-a", b"\xff\0")],
                body: b"\0\0\0".to_vec(),
            },
        ];
        for response in responses {
            let encoded = encode_response(&response);
            assert_eq!(decode_response(response.status, &encoded), Some(response));
            for length in 0..encoded.len().min(8) {
                assert_eq!(decode_response(200, &encoded[..length]), None);
            }
        }
    }
}
