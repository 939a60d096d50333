//! What every unlock source can do.

use std::{fmt, pin::Pin};

use scrip_seal::Secret;
use thiserror::Error;

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
