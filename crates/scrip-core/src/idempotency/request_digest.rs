//! The digest by which a repeated request is recognized.
//!
//! The response of another resource would mislead its caller, so a stored response is replayed only
//! to a request with the same method and path. Many browsers share a public key, and therefore the
//! scope of idempotency keys: their bodies must be the same, too. For this comparison, the sealed
//! head of the response contains a keyed digest.

use scrip_seal::Secret;
use serde_json::Value;

use crate::{equality::Comparison, policy::Caller, types::Plaintext};

/// The content by which requests are compared. The body is the parsed body; an encrypted body is
/// decrypted first.
#[derive(Debug, Clone, Copy)]
pub struct RequestContent<'a> {
    pub method: &'a str,
    pub path: &'a str,
    /// `None` for an operation that reads no body, and for a caller whose bodies are not compared.
    pub body: Option<&'a Plaintext>,
}

/// The digest under which a response is stored, and the digest of its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdempotencyDigests {
    pub key: [u8; 32],
    /// `None` until the request is known.
    pub request: Option<[u8; 32]>,
}

/// The digest of a request. Equality needs a comparison, because it confirms the data of the first
/// request.
#[derive(Debug, Clone, Copy)]
pub struct RequestDigest([u8; 32]);

impl RequestDigest {
    pub(super) fn new(digest: [u8; 32]) -> Self {
        Self(digest)
    }

    /// The stored form.
    pub(crate) fn to_stored(self) -> [u8; 32] {
        self.0
    }

    /// Whether the stored request is equal.
    pub(crate) fn equals(self, stored: Option<[u8; 32]>, _: Comparison) -> bool {
        stored == Some(self.0)
    }
}

/// A request that repeats an idempotency key, and the proof that it may be compared.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RepeatedRequest {
    pub(crate) digest: RequestDigest,
    pub(crate) comparison: Comparison,
}

impl RequestContent<'_> {
    pub(crate) fn digest(&self, caller: &Caller) -> RequestDigest {
        let bytes = self.body.map(|it| encode_without_cvc(it.expose()));
        let bytes = bytes.unwrap_or_else(|| Secret::new(Vec::new()));
        let (method, path) = (self.method.as_bytes(), self.path.as_bytes());
        RequestDigest(caller.tenant().keys.request_digest(&[method, path, bytes.expose()]))
    }
}

/// The member that the digest omits. A digest over a CVC would allow an attacker with the digest to
/// test codes.
const OMITTED_MEMBER: &str = "cvc";

/// The bytes of a value for a digest.
pub(super) fn encode_without_cvc(value: &Value) -> Secret {
    // Capacity for a usual body: a buffer that grows leaves copies in memory.
    let mut bytes = Vec::with_capacity(2048);
    write_value(value, &mut bytes);
    Secret::new(bytes)
}

/// Encodes a value. Every value starts with its kind, and texts with their length, so two different
/// values never have the same bytes. Members are sorted by name.
fn write_value(value: &Value, bytes: &mut Vec<u8>) {
    match value {
        Value::Null => bytes.push(b'n'),
        Value::Bool(true) => bytes.push(b't'),
        Value::Bool(false) => bytes.push(b'f'),
        Value::Number(number) => write_text(b'#', &number.to_string(), bytes),
        Value::String(text) => write_text(b'"', text, bytes),
        Value::Array(items) => {
            bytes.push(b'[');
            items.iter().for_each(|it| write_value(it, bytes));
            bytes.push(b']');
        }
        Value::Object(members) => {
            bytes.push(b'{');
            let mut sorted: Vec<_> =
                members.iter().filter(|(name, _)| *name != OMITTED_MEMBER).collect();
            sorted.sort_unstable_by_key(|(name, _)| *name);
            for (name, member) in sorted {
                write_text(b':', name, bytes);
                write_value(member, bytes);
            }
            bytes.push(b'}');
        }
    }
}

fn write_text(kind: u8, text: &str, bytes: &mut Vec<u8>) {
    bytes.push(kind);
    bytes.extend_from_slice(&u64::try_from(text.len()).unwrap_or(u64::MAX).to_be_bytes());
    bytes.extend_from_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn encode(value: &Value) -> Vec<u8> {
        let mut bytes = Vec::new();
        write_value(value, &mut bytes);
        bytes
    }

    #[test]
    fn request_digest_ignores_cvc_at_any_depth_and_member_order() {
        let first = json!({"type": "card", "data": {"number": "4242", "cvc": "123"}});
        let second = json!({"data": {"cvc": "456", "number": "4242"}, "type": "card"});
        assert_eq!(encode(&first), encode(&second));
        assert_eq!(
            encode(&json!({"a": [{"cvc": 1, "b": {"cvc": {"c": 2}}}]})),
            encode(&json!({"a": [{"b": {}}]}))
        );
    }

    #[test]
    fn different_request_bodies_encode_to_different_bytes() {
        let values = [
            json!(null),
            json!(1),
            json!("1"),
            json!([]),
            json!({}),
            json!([1, 2]),
            json!([[1], 2]),
            json!([1, [2]]),
            json!(["1:", "2"]),
            json!(["1", ":2"]),
            json!({"a": 1}),
            json!({"a": {"b": 1}}),
            json!({"a": {}, "b": 1}),
            json!({"cvv": "123"}),
        ];
        let mut encodings: Vec<_> = values.iter().map(encode).collect();
        encodings.sort();
        encodings.dedup();
        assert_eq!(encodings.len(), values.len());
    }
}
