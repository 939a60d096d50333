//! What a tenant decides for itself.

use serde::{Deserialize, Serialize};

/// What a tenant can decide for itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TenantSettings {
    /// Whether tokens without an expression of their own are fingerprinted.
    pub fingerprint_tokens: bool,
    /// Whether a create that says nothing about it deduplicates.
    pub deduplicate_tokens: bool,
    pub token_deduplication_behavior: DeduplicationBehavior,
    /// Kept for the day when there are proxies.
    pub disable_ephemeral_proxy: bool,
}

impl Default for TenantSettings {
    fn default() -> Self {
        Self {
            fingerprint_tokens: true,
            deduplicate_tokens: false,
            token_deduplication_behavior: DeduplicationBehavior::ReadExisting,
            disable_ephemeral_proxy: false,
        }
    }
}

impl TenantSettings {
    /// The text form, the same in every engine.
    #[must_use]
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Nothing when the text is not one that [`Settings::to_text`] wrote.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok().filter(|it: &Self| it.to_text() == text)
    }
}

words! {
    /// What a create does with the token that is already there.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum DeduplicationBehavior {
        ReadExisting = "read_existing",
        UpdateExisting = "update_existing",
    }
}
