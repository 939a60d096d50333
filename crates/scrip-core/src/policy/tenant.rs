//! A tenant: whose tokens these are, and what it decided about them.

pub mod quota;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use scrip_seal::{AuditKey, Place, TenantKeys, WrappedTenantKeys};
use serde::{Deserialize, Serialize};

use crate::{
    id::{ApplicationId, TenantId},
    policy::{
        Policy, PolicyRecords, PolicySeal, Stamp,
        application::{Application, ApplicationRecord, Name},
        tenant::quota::Quotas,
    },
    time::Timestamp,
};

/// A loaded tenant with its policy, shared by all of its callers. It never changes: another one
/// takes its place.
#[derive(Debug)]
pub struct Tenant {
    pub id: TenantId,
    pub name: Name,
    pub kind: TenantKind,
    pub settings: Settings,
    pub quotas: Quotas,
    pub created: Stamp,
    pub modified: Option<Stamp>,
    /// When its keys are destroyed, for a tenant that was deleted.
    pub deletes_at: Option<Timestamp>,
    pub keys: Arc<TenantKeys>,
    /// The vault's, for the records of its callers.
    pub audit_key: Arc<AuditKey>,
    pub applications: BTreeMap<ApplicationId, Application>,
    /// Of the policy that all this was read from.
    pub seal: PolicySeal,
}

impl Tenant {
    /// Of rows that were checked.
    #[must_use]
    pub fn new(keys: Arc<TenantKeys>, audit_key: Arc<AuditKey>, records: PolicyRecords) -> Self {
        let mut api_keys = HashMap::<_, Vec<_>>::new();
        for api_key in records.api_keys {
            api_keys.entry(api_key.record.application).or_default().push(api_key.record);
        }
        let mut application = |record: ApplicationRecord| {
            let mut api_keys = api_keys.remove(&record.id).unwrap_or_default();
            api_keys.sort_by_key(|it| (it.created.at, it.id));
            (record.id, Application { record, api_keys })
        };
        let applications = records.applications.into_iter().map(|it| application(it.record));
        let applications = applications.collect();
        let TenantRecord {
            id, name, kind, settings, quotas, created, modified, deletes_at, ..
        } = records.tenant.record;
        let seal = records.seal;
        Self {
            id,
            name,
            kind,
            settings,
            quotas,
            created,
            modified,
            deletes_at,
            keys,
            audit_key,
            applications,
            seal,
        }
    }
}

/// Test tenants hold no real cards; production tenants never reach the simulator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TenantKind {
    Test,
    Production,
}

impl TenantKind {
    pub const ALL: [Self; 2] = [Self::Test, Self::Production];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Test => "test",
            Self::Production => "production",
        }
    }

    /// What a key's text tells of it.
    #[must_use]
    pub fn key_mark(self) -> &'static str {
        match self {
            Self::Test => "test",
            Self::Production => "prod",
        }
    }

    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.as_str() == text)
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
    /// Kept for the day when there are proxies.
    pub disable_ephemeral_proxy: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            fingerprint_tokens: true,
            deduplicate_tokens: false,
            token_deduplication_behavior: DeduplicationBehavior::ReadExisting,
            disable_ephemeral_proxy: false,
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
        serde_json::from_str(text).ok().filter(|it: &Self| it.to_text() == text)
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
    pub const ALL: [Self; 2] = [Self::ReadExisting, Self::UpdateExisting];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ReadExisting => "read_existing",
            Self::UpdateExisting => "update_existing",
        }
    }

    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.as_str() == text)
    }
}

/// A tenant as the store keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantRecord {
    pub id: TenantId,
    pub name: Name,
    pub kind: TenantKind,
    pub settings: Settings,
    pub quotas: Quotas,
    pub keys: WrappedTenantKeys,
    pub created: Stamp,
    pub modified: Option<Stamp>,
    /// When its keys are destroyed, for a tenant that was deleted.
    pub deletes_at: Option<Timestamp>,
}

impl Policy for TenantRecord {
    /// The wrapped keys too: an old version must not come back unnoticed.
    fn place(&self) -> Place {
        let place = Place::new("policy.tenant")
            .bytes(self.id.0.as_bytes())
            .text(self.name.as_str())
            .text(self.kind.as_str())
            .text(&self.settings.to_text())
            .text(&self.quotas.to_text())
            .bytes(self.keys.lasting.as_bytes());
        let place = self.keys.sealing.iter().fold(place, |place, (version, key)| {
            place.number(i64::from(*version)).bytes(key.as_bytes())
        });
        Stamp::bind(place, &[Some(self.created), self.modified])
            .optional_number(self.deletes_at.map(|it| it.unix_ms))
    }
}
