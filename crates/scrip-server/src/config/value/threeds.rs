//! Types of 3-D Secure settings, and the scheme sections.

use hyper::Uri;
use rustls::pki_types::ServerName;
use scrip_core::types::TenantKind;
use scrip_threeds::{code::Scheme, format::Text};

use crate::{
    config::value::SettingValue,
    directory_servers::{
        MutualTlsSettings,
        address::{LoopbackUrl, SecureUrl},
        tenant_kind_name,
    },
};

/// URL at which browsers reach the vault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PublicUrl {
    /// The listen address of the server.
    Listen,
    Url(BaseUrl),
}

impl SettingValue for PublicUrl {
    fn parse(text: &str) -> Result<Self, String> {
        if text == "listen" {
            return Ok(Self::Listen);
        }
        if text.len() > PUBLIC_URL_BYTES_MAX {
            let rule = format!("must have at most {PUBLIC_URL_BYTES_MAX} characters");
            return Err(format!("{rule}: EMV allows 256 for an address with its path"));
        }
        BaseUrl::parse(text).map(Self::Url)
    }
}

/// EMV allows 256 characters. The longest path that is appended is
/// `/3ds/sessions/{id}/challenge-notification`.
const PUBLIC_URL_BYTES_MAX: usize = 256 - 73;

/// A URL to which paths are appended, so without a slash at the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseUrl(pub(crate) String);

impl BaseUrl {
    pub(crate) fn is_secure(&self) -> bool {
        self.0.starts_with("https://")
    }
}

/// Longer URLs do not fit into EMV messages.
const BASE_URL_BYTES_MAX: usize = 256;

impl SettingValue for BaseUrl {
    fn parse(text: &str) -> Result<Self, String> {
        let rule = "must be a URL such as https://vault.example, without a slash at the end";
        let uri: Uri = text.parse().map_err(|_| rule.to_owned())?;
        let has_http_scheme = ["https://", "http://"].iter().any(|it| text.starts_with(it));
        let has_host = uri.authority().is_some_and(|it| !it.as_str().contains('@'));
        let can_append_path = !text.ends_with('/') && !text.contains(['?', '#']);
        let fits_message = text.len() <= BASE_URL_BYTES_MAX;
        if has_http_scheme && has_host && can_append_path && fits_message {
            Ok(Self(text.to_owned()))
        } else {
            Err(rule.to_owned())
        }
    }
}

impl SettingValue for LoopbackUrl {
    fn parse(text: &str) -> Result<Self, String> {
        Self::parse(text)
    }
}

/// URLs in the order in which they are tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecureUrls(pub(crate) Vec<SecureUrl>);

impl SettingValue for SecureUrls {
    fn parse(text: &str) -> Result<Self, String> {
        let urls =
            text.split(',').map(|it| SecureUrl::parse(it.trim())).collect::<Result<_, _>>()?;
        Ok(Self(urls))
    }
}

impl<const MAX: usize> SettingValue for Text<1, MAX> {
    fn parse(text: &str) -> Result<Self, String> {
        Self::parse(text)
            .map_err(|_| format!("must have 1 to {MAX} characters and no control characters"))
    }
}

/// Settings of a section such as `[threeds.production.visa]`.
#[derive(Debug, Clone)]
pub struct SchemeSettings {
    pub(crate) kind: TenantKind,
    pub(crate) scheme: Scheme,
    pub transport: MutualTlsSettings,
    pub(crate) reference_number: Text<1, 32>,
    pub(crate) operator_id: Option<Text<1, 32>>,
    pub(crate) results_url: Option<BaseUrl>,
    pub(crate) results_subject: Option<SubjectName>,
}

/// A DNS name in a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubjectName(pub(crate) ServerName<'static>);

impl SettingValue for SubjectName {
    fn parse(text: &str) -> Result<Self, String> {
        match ServerName::try_from(text.to_owned()) {
            Ok(name @ ServerName::DnsName(_)) => Ok(Self(name)),
            Ok(_) | Err(_) => Err("must be a DNS name such as ds.scheme.example".to_owned()),
        }
    }
}

/// A setting of a scheme section, for the example file and error messages.
#[derive(Debug)]
pub struct SchemeSetting {
    pub(crate) name: &'static str,
    pub(crate) description: &'static [&'static str],
}

pub(crate) const SCHEME_SETTINGS: &[SchemeSetting] = &[
    SchemeSetting {
        name: "urls",
        description: &[
            "URL of the directory server, with TLS. Several URLs, separated by commas, are tried in",
            "order; the next one is used only if the previous one accepts no connection.",
        ],
    },
    SchemeSetting {
        name: "client_certificate",
        description: &["Client certificate issued by the scheme, with its chain, a PEM file."],
    },
    SchemeSetting {
        name: "client_key",
        description: &["Private key of the client certificate, a PEM file."],
    },
    SchemeSetting {
        name: "roots",
        description: &["The only root certificates that are trusted for this scheme, a PEM file."],
    },
    SchemeSetting {
        name: "reference_number",
        description: &[
            "Reference number that EMVCo assigned to this 3DS server with its approval.",
        ],
    },
    SchemeSetting {
        name: "operator_id",
        description: &["Operator id that the scheme assigned; optional."],
    },
    SchemeSetting {
        name: "results_url",
        description: &[
            "URL at which the scheme reaches threeds.results_listen; for test tenants the default",
            "is threeds.public_url.",
        ],
    },
    SchemeSetting {
        name: "results_subject",
        description: &[
            "DNS name that the client certificate of the scheme must contain when it sends results,",
            "for production only; if empty, every certificate signed by the roots is accepted.",
        ],
    },
];

/// The sections of all schemes for both kinds of tenants.
pub(crate) fn scheme_sections() -> impl Iterator<Item = (TenantKind, Scheme, String)> {
    let kinds = [TenantKind::Production, TenantKind::Test];
    kinds.into_iter().flat_map(|kind| {
        let section_name =
            move |it: &Scheme| format!("threeds.{}.{}", tenant_kind_name(kind), it.slug());
        Scheme::ALL.iter().map(move |it| (kind, *it, section_name(it)))
    })
}
