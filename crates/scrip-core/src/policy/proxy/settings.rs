//! The sealed settings of a proxy. They contain no key and no configuration, so that they can stay
//! in memory.

use scrip_seal::{Sealed, TenantKeys};
use serde::{Deserialize, Serialize};

use crate::{
    Error, FieldError,
    policy::{
        destination::{DestinationUrl, destination_url::stored_url},
        entity::EntityRecord,
        proxy::{
            AuthorityCertificates, ProxyRecord, ProxyTimeout, ProxyTransform, TlsMinimum,
            TransformList, draft::read_timeout, record::SETTINGS, transform::TransformStage,
        },
    },
};

/// Sealed although they contain no key: a reader of the database must not learn which providers a
/// tenant uses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProxySettings {
    #[serde(rename = "destination_url", with = "stored_url")]
    pub destination: DestinationUrl,
    #[serde(default)]
    pub request_transforms: TransformList,
    #[serde(default)]
    pub response_transforms: TransformList,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "read_timeout")]
    pub timeout: Option<ProxyTimeout>,
    #[serde(rename = "ca_pem", skip_serializing_if = "Option::is_none")]
    pub authorities: Option<AuthorityCertificates>,
    #[serde(default)]
    pub tls_min: TlsMinimum,
    /// The chain of the client certificate, in PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate_pem: Option<String>,
    /// The memory of the compiled masks. `None` in rows of earlier versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pattern_bytes: Option<u64>,
}

/// The memory of the compiled masks of all proxies of a tenant.
const TENANT_PATTERN_BYTES_MAX: u64 = 32 * 1024 * 1024;
/// The memory of the compiled expressions of all templates of a tenant, estimated by their length: four
/// mebibytes of expressions.
const TENANT_EXPRESSION_BYTES_MAX: usize = 128 * 1024 * 1024;
/// The memory that a mask is assumed to need if its row does not say.
const UNKNOWN_PATTERN_BYTES: u64 = 16 * 1024;

/// The maximum size of the stored settings. Every change of a policy reads all of them.
const SETTINGS_BYTES_MAX: usize = 512 * 1024;

impl ProxySettings {
    fn compiled_bytes(&self) -> u64 {
        let requests = self.request_transforms.count_patterns();
        let patterns = requests.saturating_add(self.response_transforms.count_patterns());
        let patterns = u64::try_from(patterns).unwrap_or(u64::MAX);
        self.pattern_bytes.unwrap_or_else(|| patterns.saturating_mul(UNKNOWN_PATTERN_BYTES))
    }

    fn count_expression_bytes(&self) -> usize {
        let request_bytes = self.request_transforms.count_expression_bytes();
        request_bytes.saturating_add(self.response_transforms.count_expression_bytes())
    }

    /// Whether an earlier version stored a mask that this version does not run.
    pub fn has_unusable_mask(&self) -> bool {
        let lists = [
            (&self.request_transforms, TransformStage::Request),
            (&self.response_transforms, TransformStage::Response),
        ];
        lists
            .into_iter()
            .filter_map(|(list, stage)| list.compile(stage, None))
            .flatten()
            .any(|it| matches!(it, ProxyTransform::OversizedMask))
    }

    /// Checks the memory of the masks and of the templates of a tenant with these other proxies.
    pub(crate) fn check_compiled_bytes<'a>(
        &self,
        keys: &TenantKeys,
        others: impl Iterator<Item = &'a ProxyRecord>,
    ) -> Result<(), Error> {
        let own_bytes = (self.compiled_bytes(), self.count_expression_bytes());
        if own_bytes == (0, 0) {
            return Ok(());
        }
        let (mut bytes, mut expression_bytes) = own_bytes;
        for record in others {
            let other = Self::open(keys, record)?;
            bytes = bytes.saturating_add(other.compiled_bytes());
            expression_bytes = expression_bytes.saturating_add(other.count_expression_bytes());
        }
        if own_bytes.1 > 0 && expression_bytes > TENANT_EXPRESSION_BYTES_MAX {
            let rule = "the expressions in the transforms of a tenant must not have more than 4 MiB; \
                        delete a proxy, or use fewer or shorter expressions";
            return Err(FieldError::new("request_transforms", rule).into());
        }
        if own_bytes.0 > 0 && bytes > TENANT_PATTERN_BYTES_MAX {
            let rule = "the masks of a tenant must not need more than 32 MiB when compiled; delete \
                        a proxy, or use fewer or shorter expressions";
            return Err(FieldError::new("request_transforms", rule).into());
        }
        Ok(())
    }

    /// Seals the settings for this row. Every other clear column of the row must be final.
    pub(crate) fn seal(&self, keys: &TenantKeys, record: &ProxyRecord) -> Result<Sealed, Error> {
        let document = ProxyRecord::write_document(SETTINGS, self)?;
        if document.expose().len() > SETTINGS_BYTES_MAX {
            let rule = "the proxy would be larger than 512 KiB";
            return Err(FieldError::new("request_transforms", rule).into());
        }
        Ok(record.seal_column(keys, SETTINGS, &document))
    }

    /// Errors: the row was altered, or belongs to another tenant.
    pub fn open(keys: &TenantKeys, record: &ProxyRecord) -> Result<Self, Error> {
        record.open_document(keys, SETTINGS, &record.settings)
    }
}
