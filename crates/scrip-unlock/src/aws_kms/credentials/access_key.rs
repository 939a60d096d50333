//! An access key of AWS.

use std::fmt;

use scrip_seal::Secret;

/// An access key, permanent or temporary.
pub(crate) struct AwsCredentials {
    pub(crate) access_key_id: String,
    pub(crate) secret_access_key: Secret,
    pub(crate) session_token: Option<Secret>,
    /// In seconds since 1970.
    pub(crate) expires_at: Option<i64>,
}

impl fmt::Debug for AwsCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AwsCredentials")
    }
}
