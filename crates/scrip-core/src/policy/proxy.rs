//! Proxies: requests to a destination, with token data filled in on the way.
//!
//! A proxy is a signed row of the policy of its tenant: an attacker with write access to the
//! database can neither redirect it nor lend it an application. Its settings and secrets are sealed.

pub mod certificate;
pub mod details;
pub mod draft;
pub mod key;
pub mod program;
pub mod record;
pub mod secrets;
pub mod settings;
pub mod transform;

pub use self::{
    certificate::{AuthorityCertificates, CertificateSummary, ClientCertificate, TlsMinimum},
    details::ProxyDetails,
    draft::{CompiledDraft, ProxyDraft, ProxyTimeout},
    key::ProxyKeyText,
    program::ProxyProgram,
    record::ProxyRecord,
    secrets::{ProxyConfiguration, ProxySecrets},
    settings::ProxySettings,
    transform::{ProxyTransform, TransformList, source::TransformSource},
};
