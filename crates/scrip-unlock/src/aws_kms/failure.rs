//! Errors of AWS KMS, and what the operator can do about them.

use hyper::StatusCode;
use serde::Deserialize;

use crate::source::UnlockError;

/// The operation that failed.
#[derive(Debug, Clone, Copy)]
pub(super) enum KmsAction {
    Encrypt,
    Decrypt,
}

impl KmsAction {
    /// The value of the header `X-Amz-Target`.
    pub(super) fn target(self) -> &'static str {
        match self {
            Self::Encrypt => "TrentService.Encrypt",
            Self::Decrypt => "TrentService.Decrypt",
        }
    }

    fn permission(self) -> &'static str {
        match self {
            Self::Encrypt => "kms:Encrypt",
            Self::Decrypt => "kms:Decrypt",
        }
    }
}

/// A response with an error status. Contains no text of the service except the name of the error.
#[derive(Debug)]
pub(super) struct KmsFailure {
    status: StatusCode,
    error_type: String,
}

#[derive(Deserialize)]
struct ErrorBody {
    #[serde(rename = "__type", default)]
    error_type: String,
}

impl KmsFailure {
    pub(super) fn parse(status: StatusCode, body: &[u8]) -> Self {
        let error_type = serde_json::from_slice(body).map(|it: ErrorBody| it.error_type);
        // The name may have a namespace: com.amazonaws.kms#NotFoundException.
        let mut error_type = error_type.unwrap_or_default();
        if let Some((_, name)) = error_type.rsplit_once('#') {
            error_type = name.to_owned();
        }
        error_type.retain(|it| it.is_ascii_alphanumeric());
        error_type.truncate(64);
        Self { status, error_type }
    }

    /// The service does not know or no longer accepts the credentials.
    pub(super) fn is_about_credentials(&self) -> bool {
        matches!(
            self.error_type.as_str(),
            "ExpiredTokenException"
                | "ExpiredToken"
                | "UnrecognizedClientException"
                | "InvalidClientTokenId"
                | "MissingAuthenticationTokenException"
                | "MissingAuthenticationToken"
        )
    }

    fn is_about_signature(&self) -> bool {
        matches!(
            self.error_type.as_str(),
            "SignatureDoesNotMatch"
                | "InvalidSignatureException"
                | "IncompleteSignatureException"
                | "IncompleteSignature"
                | "RequestExpired"
        )
    }

    pub(super) fn explain(self, action: KmsAction, key_id: &str, credentials: &str) -> UnlockError {
        let (name, permission) = (&self.error_type, action.permission());
        if self.is_about_credentials() {
            return UnlockError::Denied(format!(
                "AWS does not accept the credentials of {credentials} ({name}): renew them"
            ));
        }
        if self.is_about_signature() {
            return UnlockError::Denied(format!(
                "AWS does not accept the signature ({name}): check the secret access key of \
                 {credentials}, the region, and the clock of this machine"
            ));
        }
        match name.as_str() {
            "AccessDeniedException" => UnlockError::Denied(format!(
                "grant {permission} on {key_id} to the identity of {credentials}"
            )),
            "NotFoundException" => UnlockError::KeyMissing(format!(
                "AWS KMS has no key {key_id} in this region and account: check the key id"
            )),
            "DisabledException" => UnlockError::KeyMissing(format!(
                "the key {key_id} is disabled: run aws kms enable-key"
            )),
            "KMSInvalidStateException" => UnlockError::KeyMissing(format!(
                "the state of the key {key_id} does not permit its use, for example because its \
                 deletion is scheduled: run aws kms cancel-key-deletion, then aws kms enable-key"
            )),
            "InvalidCiphertextException" | "IncorrectKeyException" => UnlockError::Rejected(
                "it was altered, or belongs to another vault, unlock method, version or key"
                    .to_owned(),
            ),
            "InvalidKeyUsageException"
            | "ValidationException"
            | "UnsupportedOperationException" => UnlockError::Settings(format!(
                "{key_id} must be a symmetric key for encryption and decryption ({name})"
            )),
            _ => self.explain_status(permission, key_id, credentials),
        }
    }

    fn explain_status(&self, permission: &str, key_id: &str, credentials: &str) -> UnlockError {
        let name = &self.error_type;
        let status = format!("{} {name}", self.status.as_u16());
        let status = status.trim_end();
        let is_temporary = self.status.is_server_error()
            || [StatusCode::TOO_MANY_REQUESTS, StatusCode::REQUEST_TIMEOUT].contains(&self.status)
            || name.starts_with("Throttling")
            || ["KeyUnavailableException", "DependencyTimeoutException", "KMSInternalException"]
                .contains(&name.as_str());
        if is_temporary {
            return UnlockError::Unavailable(format!("AWS KMS answered {status}"));
        }
        if [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN].contains(&self.status) {
            return UnlockError::Denied(format!(
                "AWS answered {status}: check the credentials of {credentials}, and grant \
                 {permission} on {key_id} to their identity"
            ));
        }
        UnlockError::Settings(format!(
            "AWS KMS answered {status}: check the key id, the region and the endpoint"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_names_are_mapped_to_what_the_operator_can_do() {
        for (status, body, expected) in [
            (400, r#"{"__type":"AccessDeniedException"}"#, "Denied(grant kms:Decrypt on K"),
            (400, r#"{"__type":"ExpiredTokenException"}"#, "Denied(AWS does not accept the cred"),
            (403, r#"{"__type":"InvalidSignatureException"}"#, "Denied(AWS does not accept the si"),
            (400, r#"{"__type":"com.amazonaws.kms#NotFoundException"}"#, "KeyMissing(AWS KMS has"),
            (400, r#"{"__type":"DisabledException"}"#, "KeyMissing(the key K is disabled"),
            (400, r#"{"__type":"KMSInvalidStateException"}"#, "KeyMissing(the state of the key K"),
            (400, r#"{"__type":"InvalidCiphertextException"}"#, "Rejected(it was altered"),
            (400, r#"{"__type":"IncorrectKeyException"}"#, "Rejected(it was altered"),
            (400, r#"{"__type":"InvalidKeyUsageException"}"#, "Settings(K must be a symmetric"),
            (400, r#"{"__type":"ThrottlingException"}"#, "Unavailable(AWS KMS answered 400 Thro"),
            (400, r#"{"__type":"KeyUnavailableException"}"#, "Unavailable(AWS KMS answered 400"),
            (500, r#"{"__type":"KMSInternalException"}"#, "Unavailable(AWS KMS answered 500"),
            (503, "<html>", "Unavailable(AWS KMS answered 503"),
            (429, "", "Unavailable(AWS KMS answered 429"),
            (403, "<html>", "Denied(AWS answered 403"),
            (404, "not found", "Settings(AWS KMS answered 404"),
            (400, r#"{"__type":5}"#, "Settings(AWS KMS answered 400"),
        ] {
            let failure = KmsFailure::parse(StatusCode::from_u16(status).unwrap(), body.as_bytes());
            let error = failure.explain(KmsAction::Decrypt, "K", "the profile default");
            let shown = format!("{error:?}").replace('"', "");
            assert!(shown.starts_with(expected), "{body}: {shown}");
        }
    }

    #[test]
    fn error_name_of_a_hostile_peer_is_shortened_and_stripped() {
        let body = format!(r#"{{"__type":"{}\n\u001b[31m"}}"#, "x".repeat(5000));
        let failure = KmsFailure::parse(StatusCode::BAD_REQUEST, body.as_bytes());
        assert_eq!(failure.error_type, "x".repeat(64));
    }
}
