//! Errors of Vault and OpenBao, and what the operator can do about them.

use std::path::Path;

use hyper::StatusCode;
use serde::Deserialize;

use crate::source::UnlockError;

/// The operation that failed.
#[derive(Debug, Clone, Copy)]
pub(super) enum TransitAction {
    Encrypt,
    Decrypt,
}

impl TransitAction {
    pub(super) fn path(self) -> &'static str {
        match self {
            Self::Encrypt => "encrypt",
            Self::Decrypt => "decrypt",
        }
    }
}

/// A response with an error status. Its texts are compared, but never shown: a server may repeat a
/// secret in them.
pub(super) struct TransitFailure {
    status: StatusCode,
    errors: Vec<String>,
}

#[derive(Deserialize)]
struct ErrorList {
    errors: Vec<String>,
}

impl TransitFailure {
    pub(super) fn parse(status: StatusCode, body: &[u8]) -> Self {
        let errors = serde_json::from_slice(body).map(|it: ErrorList| it.errors);
        Self { status, errors: errors.unwrap_or_default() }
    }

    /// The token is not valid, has expired, or has no permission: the server does not distinguish.
    pub(super) fn is_forbidden(&self) -> bool {
        self.status == StatusCode::FORBIDDEN
    }

    fn mentions(&self, text: &str) -> bool {
        self.errors.iter().any(|it| it.contains(text))
    }

    /// `path` is the path of the key, without `/v1/`.
    pub(super) fn explain(&self, action: TransitAction, path: &str) -> UnlockError {
        if let Some(error) = self.explain_temporary() {
            return error;
        }
        match self.status {
            StatusCode::FORBIDDEN | StatusCode::UNAUTHORIZED => UnlockError::Denied(format!(
                "renew the token, or give it a policy with the capability update on {path}"
            )),
            StatusCode::NOT_FOUND => UnlockError::KeyMissing(format!(
                "the server has no Transit engine for {path}: check the mount and the namespace"
            )),
            StatusCode::BAD_REQUEST => self.explain_bad_request(action, path),
            _ => UnlockError::Settings(format!(
                "the server answered {} for {path}: check that it is Vault or OpenBao",
                self.status.as_u16()
            )),
        }
    }

    fn explain_bad_request(&self, action: TransitAction, path: &str) -> UnlockError {
        if self.mentions("encryption key not found") || self.mentions("soft-deleted key") {
            return UnlockError::KeyMissing(format!(
                "there is no key for {path}: create or restore it"
            ));
        }
        if self.mentions("associated_data") || self.mentions("not supported for key type") {
            return UnlockError::Settings(format!(
                "the key for {path} must have the type aes256-gcm96 or another type with associated \
                 data"
            ));
        }
        if self.mentions("context") {
            return UnlockError::Settings(format!(
                "the key for {path} must not use key derivation"
            ));
        }
        if self.mentions("too old") {
            return UnlockError::Rejected(
                "its version of the key is below min_decryption_version: lower that setting of the \
                 key"
                    .to_owned(),
            );
        }
        match action {
            TransitAction::Decrypt => UnlockError::Rejected(
                "it was altered, or belongs to another vault, unlock method, version or key"
                    .to_owned(),
            ),
            TransitAction::Encrypt => UnlockError::Settings(format!(
                "the server answered 400 for {path}: check the type of the key"
            )),
        }
    }

    /// A server answers a wrong secret with 400 or 403.
    pub(super) fn explain_login(&self, path: &str, secret_file: &Path) -> UnlockError {
        if let Some(error) = self.explain_temporary() {
            return error;
        }
        if self.status == StatusCode::NOT_FOUND {
            return UnlockError::Settings(format!(
                "the server has no login at {path}: check the mount and the namespace"
            ));
        }
        UnlockError::Denied(format!(
            "the login at {path} failed with {}: check the role, and renew the secret in {}",
            self.status.as_u16(),
            secret_file.display()
        ))
    }

    fn explain_temporary(&self) -> Option<UnlockError> {
        let status = self.status.as_u16();
        let reason = match status {
            503 => "it is sealed or in maintenance: unseal it",
            429 => "its rate limit is exceeded",
            412 | 472 | 473 => "this node is a standby: use the address of the active node",
            500..=599 => "it failed",
            _ => return None,
        };
        Some(UnlockError::Unavailable(format!("the server answered {status}: {reason}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_and_errors_are_mapped_to_what_the_operator_can_do() {
        use TransitAction::{Decrypt, Encrypt};
        for (status, text, action, expected) in [
            (400, "encryption key not found", Decrypt, "KeyMissing(there is no key"),
            (400, "cipher: message authentication failed", Decrypt, "Rejected(it was altered"),
            (400, "invalid ciphertext: no prefix", Decrypt, "Rejected(it was altered"),
            (
                400,
                "ciphertext or signature version is disallowed by policy (too old)",
                Decrypt,
                "Rejected(its version",
            ),
            (
                400,
                "'[0].associated_data' provided for non-AEAD cipher suite rsa-2048",
                Encrypt,
                "Settings(the key for transit/k must have the type",
            ),
            (
                400,
                "missing 'context' for key derivation; the key was created using a derived key",
                Encrypt,
                "Settings(the key for transit/k must not use key derivation",
            ),
            (400, "other", Encrypt, "Settings(the server answered 400"),
            (403, "permission denied", Encrypt, "Denied(renew the token, or give it a policy"),
            (404, "no handler for route", Encrypt, "KeyMissing(the server has no Transit engine"),
            (405, "unsupported operation", Encrypt, "Settings(the server answered 405"),
            (429, "rate limit quota exceeded", Encrypt, "Unavailable(the server answered 429"),
            (500, "internal error", Encrypt, "Unavailable(the server answered 500"),
            (503, "Vault is sealed", Encrypt, "Unavailable(the server answered 503: it is sealed"),
        ] {
            let body = format!(r#"{{"errors":["{text}"]}}"#);
            let failure =
                TransitFailure::parse(StatusCode::from_u16(status).unwrap(), body.as_bytes());
            let shown = format!("{:?}", failure.explain(action, "transit/k")).replace('"', "");
            assert!(shown.starts_with(expected), "{status} {text}: {shown}");
            assert!(status == 404 || !shown.contains(text), "the text of the server is not shown");
        }
    }
}
