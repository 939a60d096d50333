//! Settings that a tenant can change.

use serde::{Deserialize, Serialize};

/// Settings that a tenant can change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TenantSettings {
    /// Whether tokens without their own fingerprint expression get a fingerprint.
    pub fingerprint_tokens: bool,
    /// Whether a create request that does not specify deduplication deduplicates.
    pub deduplicate_tokens: bool,
    pub token_deduplication_behavior: DeduplicationBehavior,
    /// Whether only pre-configured proxies can be called.
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
    /// The text form; the same in both engines.
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// `None` when the text is not the output of [`TenantSettings::to_text`].
    pub fn from_text(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok().filter(|it: &Self| it.to_text() == text)
    }
}

words! {
    /// The action of a create request that finds an existing token.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum DeduplicationBehavior {
        ReadExisting = "read_existing",
        UpdateExisting = "update_existing",
    }
}
