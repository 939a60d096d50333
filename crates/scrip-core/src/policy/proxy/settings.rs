//! The sealed settings of a proxy. They contain no key and no configuration, so that they can stay
//! in memory.

use scrip_seal::{Purpose, Sealed, Secret, TenantKeys};
use serde::{Deserialize, Serialize};

use crate::{
    error::{Error, FieldError},
    proxy::{
        AuthorityCertificates, DestinationUrl, ProxyRecord, ProxyTimeout, TlsMinimum,
        transform::TransformList,
    },
};

/// Sealed although they contain no key: a reader of the database must not learn which providers a
/// tenant uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxySettings {
    pub destination: DestinationUrl,
    pub request_transforms: TransformList,
    pub response_transforms: TransformList,
    pub timeout: Option<ProxyTimeout>,
    pub authorities: Option<AuthorityCertificates>,
    pub tls_min: TlsMinimum,
    /// The chain of the client certificate, in PEM.
    pub certificate_pem: Option<String>,
}

/// The maximum size of the stored settings. Every change of a policy reads all of them.
const SETTINGS_BYTES_MAX: usize = 512 * 1024;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredProxySettings {
    destination_url: String,
    #[serde(default)]
    request_transforms: TransformList,
    #[serde(default)]
    response_transforms: TransformList,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ca_pem: Option<AuthorityCertificates>,
    #[serde(default)]
    tls_min: TlsMinimum,
    #[serde(skip_serializing_if = "Option::is_none")]
    certificate_pem: Option<String>,
}

impl ProxySettings {
    /// Seals the settings for this row. Every other clear column of the row must be final.
    pub(crate) fn seal(&self, keys: &TenantKeys, record: &ProxyRecord) -> Result<Sealed, Error> {
        let stored = StoredProxySettings {
            destination_url: self.destination.as_str().to_owned(),
            request_transforms: self.request_transforms.clone(),
            response_transforms: self.response_transforms.clone(),
            timeout: self.timeout.map(ProxyTimeout::seconds),
            ca_pem: self.authorities.clone(),
            tls_min: self.tls_min,
            certificate_pem: self.certificate_pem.clone(),
        };
        let bytes = serde_json::to_vec(&stored).map_err(|_| invalid_settings())?;
        if bytes.len() > SETTINGS_BYTES_MAX {
            let rule = "the proxy would be larger than 512 KiB";
            return Err(FieldError::new("request_transforms", rule).into());
        }
        let place = record.sealed_place("proxy.settings");
        Ok(keys.seal(Purpose::Data, &place, &Secret::new(bytes)))
    }

    /// # Errors
    /// The row was altered, or belongs to another tenant.
    pub fn open(keys: &TenantKeys, record: &ProxyRecord) -> Result<Self, Error> {
        let place = record.sealed_place("proxy.settings");
        let secret = keys.open(Purpose::Data, &place, &record.settings)?;
        let stored: StoredProxySettings =
            serde_json::from_slice(secret.expose()).map_err(|_| invalid_settings())?;
        Ok(Self {
            destination: DestinationUrl::from_stored(&stored.destination_url)
                .ok_or_else(invalid_settings)?,
            request_transforms: stored.request_transforms,
            response_transforms: stored.response_transforms,
            timeout: stored.timeout.and_then(|it| ProxyTimeout::parse(it).ok()),
            authorities: stored.ca_pem,
            tls_min: stored.tls_min,
            certificate_pem: stored.certificate_pem,
        })
    }
}

pub(super) fn invalid_settings() -> Error {
    Error::Internal("the settings of a proxy cannot be parsed".into())
}
