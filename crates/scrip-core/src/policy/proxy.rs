//! Proxies: requests to a destination, with token data filled in on the way.
//!
//! A proxy is a signed row of the policy of its tenant: an attacker with write access to the
//! database can neither redirect it nor lend it an application. Its settings and secrets are sealed.

pub mod certificate;
pub mod destination_url;
pub mod details;
pub mod draft;
pub mod host_name;
pub mod key;
pub mod loaded_proxy;
pub mod program;
pub mod record;
pub mod secrets;
pub mod settings;
pub mod transform;

pub use self::{
    certificate::{AuthorityCertificates, CertificateSummary, ClientCertificate, TlsMinimum},
    destination_url::{DestinationUrl, FieldNames, LoopbackDestinations, PathError},
    details::ProxyDetails,
    draft::{CompiledDraft, ProxyDraft, ProxyTimeout},
    host_name::HostName,
    key::ProxyKeyText,
    loaded_proxy::{Proxy, ProxyLookup},
    program::ProxyProgram,
    record::ProxyRecord,
    secrets::{ProxyConfiguration, ProxySecrets},
    settings::ProxySettings,
    transform::{ProxyTransform, TransformList, TransformSource},
};
