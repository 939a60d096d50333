//! The namespaces of idempotency keys, and what a repeated request has to have in common with the
//! first one.
//!
//! A script in the page of a shop chooses everything in a request of the hosted fields except what a
//! payer typed. If the vault compared such a request with an earlier one, or counted its numbers, each
//! answer and each counter would depend on a value that the script may not read: a hundred numbers of
//! the script and a typed one are a hundred or a hundred and one. So these requests have keys of their
//! own, and a key alone says which request it is: it is a digest over a secret of the frame, the
//! content of the page, and the edits of the fields.

use crate::{
    FieldError,
    policy::Caller,
    types::{DisclosureRule, DisclosureRules},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyNamespace {
    /// The content of a repeated request is compared, if many clients share the API key.
    Requests,
    /// Requests of hosted fields. Nothing but key, method and path is compared, and nothing is counted.
    FieldCalls,
}

/// What separates keys of field calls from other keys.
const FIELD_CALL_SCOPE: &[u8] = b"field call";
const KEY_BYTES_MAX: usize = 256;
/// A digest with 256 bits. A forged header must not make keys comparable that others can guess.
const FIELD_CALL_KEY_DIGITS: usize = 64;

const INVALID_KEY: &str = "must have 1 to 256 bytes";
const INVALID_FIELD_CALL_KEY: &str =
    "must have 64 hexadecimal digits in lower case: a request of the hosted fields has a digest";

impl KeyNamespace {
    pub(crate) fn of(caller: &Caller, rules: DisclosureRules) -> Self {
        let is_separate = rules.applies(DisclosureRule::FieldCallsAreNotCompared);
        if caller.sends_field_values() && is_separate { Self::FieldCalls } else { Self::Requests }
    }

    /// Whether the content of a repeated request may decide about its answer.
    pub(crate) fn compares_content(self) -> bool {
        self == Self::Requests
    }

    /// The digest under which the response to a request is stored. `kind` separates kinds of requests.
    /// Access sessions of one application do not share keys.
    ///
    /// Errors: the key does not have the form of this namespace.
    pub(crate) fn digest_key(
        self,
        caller: &Caller,
        kind: &[u8],
        key: &[u8],
    ) -> Result<[u8; 32], FieldError> {
        let (own_scope, has_form, reason) = match self {
            Self::Requests => (&[][..], (1..=KEY_BYTES_MAX).contains(&key.len()), INVALID_KEY),
            Self::FieldCalls => (FIELD_CALL_SCOPE, is_digest(key), INVALID_FIELD_CALL_KEY),
        };
        if !has_form {
            return Err(FieldError::new("BT-IDEMPOTENCY-KEY", reason));
        }
        let session = caller.access_session().map(|it| it.0).unwrap_or_default();
        let scope =
            [caller.application().0.as_bytes().as_slice(), &session, kind, own_scope].concat();
        Ok(caller.tenant().keys.idempotency_digest(&scope, key))
    }
}

fn is_digest(key: &[u8]) -> bool {
    let is_digit = |it: &u8| matches!(it, b'0'..=b'9' | b'a'..=b'f');
    key.len() == FIELD_CALL_KEY_DIGITS && key.iter().all(is_digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_of_a_field_call_has_64_hexadecimal_digits_in_lower_case() {
        assert!(is_digest("0123456789abcdef".repeat(4).as_bytes()));
        let forms = [String::new(), "a".repeat(63), "a".repeat(65), "A".repeat(64), "g".repeat(64)];
        for key in forms {
            assert!(!is_digest(key.as_bytes()), "{key}");
        }
    }
}
