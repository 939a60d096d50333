//! What every unlock source can do.

use std::{fmt, pin::Pin, time::Duration};

use scrip_seal::Secret;
use thiserror::Error;
use tokio::time::timeout;

/// The answer of a source. Sources on a network take time.
pub type UnlockFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, UnlockError>> + Send + 'a>>;

/// Wraps and unwraps the vault key.
pub trait UnlockSource: Send + Sync + fmt::Debug {
    /// Returns the wrapped key. `unwrap` with the same context returns `key`.
    fn wrap<'a>(&'a self, context: &'a UnlockContext, key: &'a Secret)
    -> UnlockFuture<'a, Vec<u8>>;

    /// Returns the key. A key that was wrapped in another context is an error.
    fn unwrap<'a>(
        &'a self,
        context: &'a UnlockContext,
        wrapped: &'a [u8],
    ) -> UnlockFuture<'a, Secret>;
}

/// Where a wrapped vault key belongs. Every source authenticates it with the key, so that a wrapped
/// key of another vault, unlock method or key version is rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnlockContext {
    /// The id of the vault.
    pub vault: String,
    /// The id of the unlock method.
    pub method: String,
    /// The kind of the unlock method, such as `aws-kms`.
    pub kind: &'static str,
    /// The version of the vault key.
    pub key_version: u32,
}

impl UnlockContext {
    /// The bytes that a source authenticates with the wrapped key. Each part is prefixed with its
    /// length, so that no two contexts have the same bytes.
    pub(crate) fn associated_data(&self) -> Vec<u8> {
        let version = self.key_version.to_string();
        let parts = ["scrip-unlock-1", &self.vault, &self.method, self.kind, &version];
        let mut bytes = Vec::new();
        for part in parts {
            let length = u64::try_from(part.len()).unwrap_or(u64::MAX);
            bytes.extend_from_slice(&length.to_be_bytes());
            bytes.extend_from_slice(part.as_bytes());
        }
        bytes
    }
}

/// Why a source did not wrap or unwrap a key. The text says what the operator can do.
#[derive(Debug, Error)]
pub enum UnlockError {
    /// The source may answer later, so the caller retries.
    #[error("the source does not answer: {0}")]
    Unavailable(String),
    #[error("the source denies access: {0}")]
    Denied(String),
    #[error("the key of the source does not exist or is disabled: {0}")]
    KeyMissing(String),
    /// The wrapped key was altered, or belongs to another vault, method, version or key.
    #[error("the source rejects the wrapped key: {0}")]
    Rejected(String),
    #[error("the settings of the source are not valid: {0}")]
    Settings(String),
}

/// The time for one wrap or unwrap, with all requests that it needs.
pub const DEFAULT_DEADLINE: Duration = Duration::from_secs(10);

/// Runs an operation. After the deadline it is dropped, which closes its connection.
pub(crate) async fn with_deadline<T>(
    deadline: Duration,
    source_name: &str,
    operation: impl Future<Output = Result<T, UnlockError>>,
) -> Result<T, UnlockError> {
    match timeout(deadline, operation).await {
        Ok(result) => result,
        Err(_) => Err(UnlockError::Unavailable(format!(
            "{source_name} has not answered within {} ms",
            deadline.as_millis()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn associated_data_depends_on_every_part_and_its_boundaries() {
        let context = |vault: &str, method: &str, kind, key_version| {
            let context = UnlockContext {
                vault: vault.to_owned(),
                method: method.to_owned(),
                kind,
                key_version,
            };
            context.associated_data()
        };
        let data = context("ab", "c", "transit", 1);
        assert_eq!(data, context("ab", "c", "transit", 1));
        for other in [
            context("a", "bc", "transit", 1),
            context("abc", "", "transit", 1),
            context("xb", "c", "transit", 1),
            context("ab", "d", "transit", 1),
            context("ab", "c", "pkcs11", 1),
            context("ab", "c", "transit", 2),
        ] {
            assert_ne!(data, other);
        }
    }
}
