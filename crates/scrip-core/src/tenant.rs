//! A tenant: whose tokens these are, and what it decided about them.

use std::time::Duration;

use scrip_seal::{TenantKeys, WrappedTenantKeys};
use serde::{Deserialize, Serialize};

use crate::{id::TenantId, time::Timestamp};

/// A loaded tenant, shared by all of its callers.
#[derive(Debug)]
pub struct Tenant {
    pub id: TenantId,
    pub kind: TenantKind,
    pub settings: Settings,
    pub keys: TenantKeys,
}

/// Test tenants hold no real cards; production tenants never reach the simulator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TenantKind {
    Test,
    Production,
}

impl TenantKind {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Test => "test",
            Self::Production => "prod",
        }
    }

    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Test, Self::Production].into_iter().find(|it| it.as_str() == text)
    }
}

/// What a tenant can decide for itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// Whether tokens without an expression of their own are fingerprinted.
    pub fingerprint_tokens: bool,
    /// Whether a create that says nothing about it deduplicates.
    pub deduplicate_tokens: bool,
    pub token_deduplication_behavior: DeduplicationBehavior,
    pub cvc_retention_seconds: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            fingerprint_tokens: true,
            deduplicate_tokens: false,
            token_deduplication_behavior: DeduplicationBehavior::ReadExisting,
            cvc_retention_seconds: 60 * 60,
        }
    }
}

impl Settings {
    /// The text form, the same in every engine.
    #[must_use]
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Nothing when the text is not one that [`Settings::to_text`] wrote.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    #[must_use]
    pub fn cvc_retention(&self) -> Duration {
        Duration::from_secs(self.cvc_retention_seconds)
    }
}

/// What a create does with the token that is already there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeduplicationBehavior {
    ReadExisting,
    UpdateExisting,
}

impl DeduplicationBehavior {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ReadExisting => "read_existing",
            Self::UpdateExisting => "update_existing",
        }
    }
}

/// A tenant as the store keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantRecord {
    pub id: TenantId,
    pub name: String,
    pub kind: TenantKind,
    pub settings: Settings,
    pub keys: WrappedTenantKeys,
    pub created_at: Timestamp,
}
