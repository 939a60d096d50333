//! The sealed secrets of a proxy: its key, its configuration and the key of its certificate.

use std::{collections::BTreeMap, fmt};

use scrip_seal::{Sealed, Secret, TenantKeys};
use serde::{Deserialize, Serialize};
use zeroize::{Zeroize, Zeroizing};

use crate::{
    Error, FieldError,
    policy::{
        entity::EntityRecord,
        proxy::{ProxyKeyText, ProxyRecord},
    },
};

/// The configuration of a proxy: names and values, which may be secrets of the destination.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ProxyConfiguration(BTreeMap<String, String>);

/// The maximum size of all names and values.
pub const CONFIGURATION_BYTES_MAX: usize = 32 * 1024;

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

impl fmt::Debug for ProxyConfiguration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProxyConfiguration")
    }
}

#[derive(Serialize)]
struct ProxySecretsRef<'a> {
    key: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    configuration: Option<&'a BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    private_key_pem: Option<&'a str>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredProxySecrets {
    key: String,
    configuration: Option<BTreeMap<String, String>>,
    private_key_pem: Option<String>,
}

impl ProxySecrets {
    /// Seals the secrets for this row. Every other clear column of the row must be final.
    pub(crate) fn seal(&self, keys: &TenantKeys, record: &ProxyRecord) -> Result<Sealed, Error> {
        let secrets = ProxySecretsRef {
            key: self.key.expose(),
            configuration: self.configuration.as_ref().map(|it| &it.0),
            private_key_pem: self.private_key_pem.as_ref().map(|it| it.as_str()),
        };
        // Reserve space for every proxy: a buffer that grows leaves copies of itself in memory.
        let mut bytes = Vec::with_capacity(1024);
        serde_json::to_writer(&mut bytes, &secrets).map_err(|_| invalid_secrets())?;
        Ok(record.seal_column(keys, "proxy.secrets", &Secret::new(bytes)))
    }

    /// Errors: the row was altered, or belongs to another tenant.
    pub fn open(keys: &TenantKeys, record: &ProxyRecord) -> Result<Self, Error> {
        let secret = record.open_column(keys, "proxy.secrets", &record.secrets)?;
        let stored: StoredProxySecrets =
            serde_json::from_slice(secret.expose()).map_err(|_| invalid_secrets())?;
        Ok(Self {
            key: ProxyKeyText::from_stored(stored.key),
            configuration: stored.configuration.map(ProxyConfiguration),
            private_key_pem: stored.private_key_pem.map(Zeroizing::new),
        })
    }
}

fn invalid_secrets() -> Error {
    Error::Internal("the secrets of a proxy cannot be parsed".into())
}

impl fmt::Debug for ProxySecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProxySecrets")
    }
}
