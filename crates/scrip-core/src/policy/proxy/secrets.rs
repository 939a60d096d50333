//! The sealed secrets of a proxy: its key, its configuration and the key of its certificate.

use std::{borrow::Cow, collections::BTreeMap};

use scrip_seal::{Sealed, TenantKeys};
use serde::{Deserialize, Serialize};
use zeroize::{Zeroize, Zeroizing};

use crate::{
    Error, FieldError,
    policy::{
        entity::EntityRecord,
        proxy::{ProxyRecord, record::SECRETS},
    },
};

/// The configuration of a proxy: names and values, which may be secrets of the destination.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ProxyConfiguration(BTreeMap<String, String>);

/// The maximum size of all names and values.
pub(crate) const CONFIGURATION_BYTES_MAX: usize = 32 * 1024;

/// Secrets are opened for each use and are wiped afterwards. `Debug` does not print them.
#[derive(Clone)]
pub struct ProxySecrets {
    pub key: ProxyKeyText,
    pub configuration: Option<ProxyConfiguration>,
    /// The private key of the client certificate, in PEM.
    pub private_key_pem: Option<Zeroizing<String>>,
}

impl ProxyConfiguration {
    /// Errors: the configuration is too large, or a name is empty.
    pub fn parse(entries: BTreeMap<String, String>) -> Result<Self, FieldError> {
        let configuration = Self(entries);
        let lengths =
            configuration.iter().map(|(name, value)| name.len().saturating_add(value.len()));
        if lengths.fold(0, usize::saturating_add) > CONFIGURATION_BYTES_MAX {
            let rule = "must have at most 32 KiB of names and values";
            return Err(FieldError::new("configuration", rule));
        }
        if configuration.iter().any(|(name, _)| name.is_empty()) {
            return Err(FieldError::new("configuration", "must not have an empty name"));
        }
        Ok(configuration)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
}

impl Drop for ProxyConfiguration {
    fn drop(&mut self) {
        self.0.values_mut().for_each(Zeroize::zeroize);
    }
}

hide_in_debug! { ProxyConfiguration }

/// The sealed document. The secrets themselves cannot be serialized by accident.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProxySecretsDocument<'a> {
    key: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    configuration: Option<Cow<'a, BTreeMap<String, String>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    private_key_pem: Option<Cow<'a, str>>,
}

impl ProxySecrets {
    /// Seals the secrets for this row. Every other clear column of the row must be final.
    pub(crate) fn seal(&self, keys: &TenantKeys, record: &ProxyRecord) -> Result<Sealed, Error> {
        let document = ProxySecretsDocument {
            key: self.key.expose().into(),
            configuration: self.configuration.as_ref().map(|it| Cow::Borrowed(&it.0)),
            private_key_pem: self.private_key_pem.as_ref().map(|it| it.as_str().into()),
        };
        let document = ProxyRecord::write_document(SECRETS, &document)?;
        Ok(record.seal_column(keys, SECRETS, &document))
    }

    /// Errors: the row was altered, or belongs to another tenant.
    pub fn open(keys: &TenantKeys, record: &ProxyRecord) -> Result<Self, Error> {
        let stored: ProxySecretsDocument<'_> =
            record.open_document(keys, SECRETS, &record.secrets)?;
        let configuration = stored.configuration.map(|it| ProxyConfiguration(it.into_owned()));
        Ok(Self {
            key: ProxyKeyText::from_stored(stored.key.into_owned()),
            configuration,
            private_key_pem: stored.private_key_pem.map(|it| Zeroizing::new(it.into_owned())),
        })
    }
}

hide_in_debug! { ProxySecrets }

/// The text of a proxy key. `Debug` does not print it, and it is wiped when dropped.
#[derive(Clone)]
pub struct ProxyKeyText(Zeroizing<String>);

/// 128 random bits.
const KEY_BYTES: usize = 16;

impl ProxyKeyText {
    pub fn new(fill_random: fn(&mut [u8])) -> Self {
        let mut bytes = Zeroizing::new([0; KEY_BYTES]);
        fill_random(bytes.as_mut());
        Self(Zeroizing::new(bs58::encode(bytes.as_ref()).into_string()))
    }

    pub(crate) fn from_stored(text: String) -> Self {
        Self(Zeroizing::new(text))
    }

    pub fn expose(&self) -> &str {
        &self.0
    }
}

hide_in_debug! { ProxyKeyText }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxy_keys_are_random_and_not_printed() {
        let create = || ProxyKeyText::new(scrip_seal::fill_random);
        let key = create();
        assert_ne!(key.expose(), create().expose());
        assert!((20..=22).contains(&key.expose().len()), "{} characters", key.expose().len());
        assert!(key.expose().bytes().all(|it| it.is_ascii_alphanumeric()));
        assert_eq!(format!("{key:?}"), "ProxyKeyText");
    }
}
