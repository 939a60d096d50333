//! Proxies: requests to a destination, with token data filled in on the way.
//!
//! A proxy is a signed row of the policy of its tenant: an attacker with write access to the
//! database can neither redirect it nor lend it an application. Its settings and secrets are sealed.

pub mod certificate;
pub mod details;
pub mod draft;
pub mod record;
pub mod secrets;
pub mod settings;
pub mod transform;

pub use self::{
    certificate::{AuthorityCertificates, CertificateSummary, ClientCertificate, TlsMinimum},
    details::ProxyDetails,
    draft::{CompiledDraft, ProxyDraft, ProxyTimeout},
    record::ProxyRecord,
    secrets::{ProxyConfiguration, ProxyKeyText, ProxySecrets},
    settings::ProxySettings,
    transform::{ProxyTransform, TransformList, source::TransformSource},
};
