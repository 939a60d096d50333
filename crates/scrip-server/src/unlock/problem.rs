//! Why the vault key cannot be opened.

use scrip_api::app::readiness::NotReadyReason;
use thiserror::Error;

/// Why no method returned the vault key.
#[derive(Debug, Error)]
#[error("{text}")]
pub struct UnlockProblem {
    pub reason: NotReadyReason,
    /// A key was returned, but it is not the key of this vault.
    pub is_wrong_key: bool,
    pub(super) text: String,
}

impl UnlockProblem {
    pub(crate) fn new(reason: NotReadyReason, text: impl Into<String>) -> Self {
        Self { reason, is_wrong_key: false, text: text.into() }
    }

    pub(super) fn wrong_key(reason: NotReadyReason, text: impl Into<String>) -> Self {
        Self { reason, is_wrong_key: true, text: text.into() }
    }
}
