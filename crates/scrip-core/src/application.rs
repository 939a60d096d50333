//! Applications and their keys, as the store keeps them.

use serde::{Deserialize, Serialize};

use crate::{
    container::Container,
    id::{ApiKeyId, ApplicationId, TenantId},
    permission::{ApplicationKind, Permission, Permissions, Transform},
    tenant::TenantKind,
    time::Timestamp,
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApplicationRecord {
    pub id: ApplicationId,
    pub tenant: TenantId,
    pub name: String,
    pub kind: ApplicationKind,
    pub access: AccessPolicy,
    pub created_at: Timestamp,
}

/// What an application was granted: plain permissions, rules, or both.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AccessPolicy {
    pub permissions: Permissions,
    pub rules: Vec<AccessRule>,
}

/// Permissions within a container, and how much of a token they show there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessRule {
    pub description: String,
    pub priority: i64,
    pub container: Container,
    pub transform: Transform,
    pub permissions: Permissions,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKeyRecord {
    pub id: ApiKeyId,
    pub tenant: TenantId,
    pub application: ApplicationId,
    /// The key itself is shown once and never stored.
    pub digest: [u8; 32],
    pub created_at: Timestamp,
}

/// The text of a new key: `key_test_us_pvt_` and 192 bits of chance.
#[must_use]
pub fn new_api_key(tenant: TenantKind, kind: ApplicationKind, chance: fn(&mut [u8])) -> String {
    const LETTERS: &[u8; 32] = b"ABCDEFGHJKMNPQRSTVWXYZ0123456789";
    let mut bytes = [0; 39];
    chance(&mut bytes);
    let letter = |byte: &u8| LETTERS.get(usize::from(byte % 32)).copied().map(char::from);
    let random: String = bytes.iter().filter_map(letter).collect();
    format!("key_{}_us_{}_{random}", tenant.as_str(), kind.key_mark())
}

/// The text form of an access policy, the same in every engine.
#[derive(Serialize, Deserialize)]
struct StoredPolicy {
    permissions: Vec<String>,
    rules: Vec<StoredRule>,
}

#[derive(Serialize, Deserialize)]
struct StoredRule {
    description: String,
    priority: i64,
    container: String,
    transform: String,
    permissions: Vec<String>,
}

fn names(permissions: Permissions) -> Vec<String> {
    permissions.iter().map(|it| it.as_str().to_owned()).collect()
}

fn permissions(names: &[String]) -> Option<Permissions> {
    names.iter().map(|it| Permission::parse(it)).collect()
}

impl AccessPolicy {
    #[must_use]
    pub fn to_text(&self) -> String {
        let rule = |rule: &AccessRule| StoredRule {
            description: rule.description.clone(),
            priority: rule.priority,
            container: rule.container.as_str().to_owned(),
            transform: rule.transform.as_str().to_owned(),
            permissions: names(rule.permissions),
        };
        let stored = StoredPolicy {
            permissions: names(self.permissions),
            rules: self.rules.iter().map(rule).collect(),
        };
        serde_json::to_string(&stored).unwrap_or_default()
    }

    /// Nothing when the text is not one that [`AccessPolicy::to_text`] wrote.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        let stored: StoredPolicy = serde_json::from_str(text).ok()?;
        let rule = |rule: StoredRule| {
            Some(AccessRule {
                description: rule.description,
                priority: rule.priority,
                container: Container::parse(&rule.container).ok()?,
                transform: Transform::parse(&rule.transform)?,
                permissions: permissions(&rule.permissions)?,
            })
        };
        Some(Self {
            permissions: permissions(&stored.permissions)?,
            rules: stored.rules.into_iter().map(rule).collect::<Option<_>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_read_back() {
        let policy = AccessPolicy {
            permissions: Permissions::of(&[Permission::TokenCreate]),
            rules: vec![AccessRule {
                description: "cards".to_owned(),
                priority: 3,
                container: Container::parse("/pci/").unwrap(),
                transform: Transform::Reveal,
                permissions: Permissions::of(&[Permission::TokenRead, Permission::TokenUse]),
            }],
        };
        assert_eq!(AccessPolicy::from_text(&policy.to_text()), Some(policy));
        assert_eq!(AccessPolicy::from_text("{}"), None);
    }

    #[test]
    fn keys_tell_their_kind_and_hold_chance() {
        let key =
            || new_api_key(TenantKind::Test, ApplicationKind::Public, scrip_seal::fill_random);
        assert!(key().starts_with("key_test_us_pub_"));
        assert_ne!(key(), key());
    }
}
