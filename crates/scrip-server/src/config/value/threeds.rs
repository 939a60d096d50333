//! Kinds of values in the settings of 3-D Secure, and the sections of the schemes.

use hyper::Uri;
use rustls::pki_types::ServerName;
use scrip_core::policy::TenantKind;
use scrip_threeds::{code::Scheme, format::Text};

use crate::{
    config::value::SettingValue,
    directory_servers::{
        MutualTlsPlan,
        address::{LoopbackUrl, SecureUrl},
        tenant_kind_name,
    },
};

/// Where browsers reach the vault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PublicUrl {
    /// Where the server listens.
    Listen,
    At(BaseUrl),
}

impl SettingValue for PublicUrl {
    fn parse(text: &str) -> Result<Self, String> {
        if text == "listen" {
            return Ok(Self::Listen);
        }
        if text.len() > PUBLIC_URL_BYTES_MAX {
            let rule = format!("must have at most {PUBLIC_URL_BYTES_MAX} characters");
            return Err(format!("{rule}: EMV has 256 for an address with a path behind it"));
        }
        BaseUrl::parse(text).map(Self::At)
    }
}

/// What is left of EMV's 256 for the longest of the addresses that browsers come back to:
/// `/3ds/sessions/{id}/challenge-notification`.
const PUBLIC_URL_BYTES_MAX: usize = 256 - 73;

/// What paths are put behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseUrl(pub(crate) String);

impl BaseUrl {
    pub(crate) fn is_secure(&self) -> bool {
        self.0.starts_with("https://")
    }
}

/// More would not leave room for what a message adds.
const BASE_URL_BYTES_MAX: usize = 256;

impl SettingValue for BaseUrl {
    fn parse(text: &str) -> Result<Self, String> {
        let rule = "must be such as https://vault.example, without a slash at the end";
        let uri: Uri = text.parse().map_err(|_| rule.to_owned())?;
        let known = ["https://", "http://"].iter().any(|it| text.starts_with(it));
        let named = uri.authority().is_some_and(|it| !it.as_str().contains('@'));
        let plain = !text.ends_with('/') && !text.contains(['?', '#']);
        let short = text.len() <= BASE_URL_BYTES_MAX;
        if known && named && plain && short {
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

/// One after the other, in the order in which they are tried.
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
        Self::parse(text).map_err(|_| format!("must have 1 to {MAX} characters, none of control"))
    }
}

/// What `[threeds.production.visa]` says.
#[derive(Debug, Clone)]
pub struct SchemeSettings {
    pub(crate) kind: TenantKind,
    pub(crate) scheme: Scheme,
    pub(crate) way: MutualTlsPlan,
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

/// A setting of such a section, for the example and for complaints.
#[derive(Debug)]
pub struct SchemeSetting {
    pub(crate) name: &'static str,
    pub(crate) description: &'static [&'static str],
}

pub(crate) const SCHEME_SETTINGS: &[SchemeSetting] = &[
    SchemeSetting {
        name: "urls",
        description: &[
            "The directory server, with TLS; several with commas between them are tried in order,",
            "the next one only when the one before cannot be connected to.",
        ],
    },
    SchemeSetting {
        name: "client_certificate",
        description: &["The certificate that the scheme gave us, and its chain, a PEM file."],
    },
    SchemeSetting { name: "client_key", description: &["Its private key, a PEM file."] },
    SchemeSetting {
        name: "roots",
        description: &[
            "Whom to believe to be the scheme, and nobody else: certificates in a PEM file.",
        ],
    },
    SchemeSetting {
        name: "reference_number",
        description: &["What EMVCo calls this 3DS server since its approval."],
    },
    SchemeSetting {
        name: "operator_id",
        description: &["What the scheme calls us; may be left out."],
    },
    SchemeSetting {
        name: "results_url",
        description: &[
            "Where the scheme reaches threeds.results_listen; for test tenants,",
            "threeds.public_url unless it is said.",
        ],
    },
    SchemeSetting {
        name: "results_subject",
        description: &[
            "A DNS name that the certificate must have with which the scheme sends results, for",
            "production only; when left out, any certificate under the roots is accepted.",
        ],
    },
];

/// Both kinds of tenants, and every scheme.
pub(crate) fn scheme_sections() -> impl Iterator<Item = (TenantKind, Scheme, String)> {
    let kinds = [TenantKind::Production, TenantKind::Test];
    kinds.into_iter().flat_map(|kind| {
        let section =
            move |it: &Scheme| format!("threeds.{}.{}", tenant_kind_name(kind), it.slug());
        Scheme::ALL.iter().map(move |it| (kind, *it, section(it)))
    })
}
