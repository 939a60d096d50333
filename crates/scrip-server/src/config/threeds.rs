//! The settings of 3-D Secure: the flat ones' kinds of values, the sections of the schemes, and what
//! is planned by both.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use hyper::Uri;
use rustls::pki_types::ServerName;
use scrip_core::{
    tenant::TenantKind,
    threeds::{Link, Terms},
};
use scrip_threeds::{code::Scheme, format::Text};

use crate::{
    config::{
        Settings,
        file::Entry,
        parse,
        value::{Form, Value},
    },
    directory_servers::{
        Plan, SchemePlan, SecuredPlan, Timing,
        address::{LoopbackUrl, SecureUrl},
        results::{ResultsPlan, TrustedScheme},
        world,
    },
};

/// Where browsers reach the vault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PublicUrl {
    /// Where the server listens.
    Listen,
    At(BaseUrl),
}

impl Value for PublicUrl {
    const FORM: Form = Form::Text;

    fn parse(text: &str) -> Result<Self, String> {
        if text == "listen" {
            return Ok(Self::Listen);
        }
        if text.len() > PUBLIC_BYTES_MAX {
            let rule = format!("must have at most {PUBLIC_BYTES_MAX} characters");
            return Err(format!("{rule}: EMV has 256 for an address with a path behind it"));
        }
        BaseUrl::parse(text).map(Self::At)
    }
}

/// What is left of EMV's 256 for the longest of the addresses that browsers come back to:
/// `/3ds/sessions/{id}/challenge-notification`.
const PUBLIC_BYTES_MAX: usize = 256 - 73;

/// A session that has asked is given up after 60 seconds. The answer has to come before, and there has to be
/// time to write it down.
const AUTHENTICATION_MOST: Duration = Duration::from_secs(50);

/// What paths are put behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseUrl(pub(crate) String);

impl BaseUrl {
    fn is_secure(&self) -> bool {
        self.0.starts_with("https://")
    }
}

/// More would not leave room for what a message adds.
const BASE_BYTES_MAX: usize = 256;

impl Value for BaseUrl {
    const FORM: Form = Form::Text;

    fn parse(text: &str) -> Result<Self, String> {
        let rule = "must be such as https://vault.example, without a slash at the end";
        let uri: Uri = text.parse().map_err(|_| rule.to_owned())?;
        let known = ["https://", "http://"].iter().any(|it| text.starts_with(it));
        let named = uri.authority().is_some_and(|it| !it.as_str().contains('@'));
        let plain = !text.ends_with('/') && !text.contains(['?', '#']);
        let short = text.len() <= BASE_BYTES_MAX;
        if known && named && plain && short {
            Ok(Self(text.to_owned()))
        } else {
            Err(rule.to_owned())
        }
    }
}

impl Value for LoopbackUrl {
    const FORM: Form = Form::Text;

    fn parse(text: &str) -> Result<Self, String> {
        Self::parse(text)
    }
}

/// One after the other, in the order in which they are tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecureUrls(pub(crate) Vec<SecureUrl>);

impl Value for SecureUrls {
    const FORM: Form = Form::Text;

    fn parse(text: &str) -> Result<Self, String> {
        let urls =
            text.split(',').map(|it| SecureUrl::parse(it.trim())).collect::<Result<_, _>>()?;
        Ok(Self(urls))
    }
}

impl<const MAX: usize> Value for Text<1, MAX> {
    const FORM: Form = Form::Text;

    fn parse(text: &str) -> Result<Self, String> {
        Self::parse(text).map_err(|_| format!("must have 1 to {MAX} characters, none of control"))
    }
}

/// What `[threeds.production.visa]` says.
#[derive(Debug, Clone)]
pub struct SchemeSettings {
    pub(crate) kind: TenantKind,
    pub(crate) scheme: Scheme,
    pub(crate) section: String,
    urls: SecureUrls,
    client_certificate: PathBuf,
    client_key: PathBuf,
    roots: PathBuf,
    reference_number: Text<1, 32>,
    operator_id: Option<Text<1, 32>>,
    results_url: Option<BaseUrl>,
    results_subject: Option<SubjectName>,
}

/// A DNS name in a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubjectName(ServerName<'static>);

impl Value for SubjectName {
    const FORM: Form = Form::Text;

    fn parse(text: &str) -> Result<Self, String> {
        match ServerName::try_from(text.to_owned()) {
            Ok(name @ ServerName::DnsName(_)) => Ok(Self(name)),
            Ok(_) | Err(_) => Err("must be a DNS name such as ds.scheme.example".to_owned()),
        }
    }
}

impl SchemeSettings {
    pub fn client_key(&self) -> &Path {
        &self.client_key
    }
}

/// A setting of such a section, for the example and for complaints.
#[derive(Debug)]
pub struct OfScheme {
    pub(crate) name: &'static str,
    pub(crate) about: &'static [&'static str],
}

pub(crate) const OF_SCHEME: &[OfScheme] = &[
    OfScheme {
        name: "urls",
        about: &[
            "The directory server, with TLS; several with commas between them are tried in order,",
            "the next one only when the one before cannot be connected to.",
        ],
    },
    OfScheme {
        name: "client_certificate",
        about: &["The certificate that the scheme gave us, and its chain, a PEM file."],
    },
    OfScheme { name: "client_key", about: &["Its private key, a PEM file."] },
    OfScheme {
        name: "roots",
        about: &["Whom to believe to be the scheme, and nobody else: certificates in a PEM file."],
    },
    OfScheme {
        name: "reference_number",
        about: &["What EMVCo calls this 3DS server since its approval."],
    },
    OfScheme { name: "operator_id", about: &["What the scheme calls us; may be left out."] },
    OfScheme {
        name: "results_url",
        about: &[
            "Where the scheme reaches threeds.results_listen; for test tenants,",
            "threeds.public_url unless it is said.",
        ],
    },
    OfScheme {
        name: "results_subject",
        about: &[
            "A DNS name that the certificate must have with which the scheme sends results, for",
            "production only; when left out, any certificate under the roots is accepted.",
        ],
    },
];

/// Both kinds of tenants, and every scheme.
pub(crate) fn sections() -> impl Iterator<Item = (TenantKind, Scheme, String)> {
    let kinds = [TenantKind::Production, TenantKind::Test];
    kinds.into_iter().flat_map(|kind| {
        let section = move |it: &Scheme| format!("threeds.{}.{}", world(kind), it.slug());
        Scheme::ALL.iter().map(move |it| (kind, *it, section(it)))
    })
}

/// The sections of the file, checked whole.
pub(super) fn read(
    file: &BTreeMap<String, Entry>,
    broken: &mut Vec<String>,
) -> Vec<SchemeSettings> {
    let mut read = Vec::new();
    for (kind, scheme, section) in sections() {
        let begins = format!("{section}.");
        if file.keys().any(|it| it.starts_with(&begins)) {
            read.extend(read_section(file, broken, (kind, scheme, section)));
        }
    }
    read
}

fn read_section(
    file: &BTreeMap<String, Entry>,
    broken: &mut Vec<String>,
    (kind, scheme, section): (TenantKind, Scheme, String),
) -> Option<SchemeSettings> {
    let said = |name: &str| {
        let path = format!("{section}.{name}");
        let entry = file.get(&path);
        let place = entry.map_or_else(|| path.clone(), |it| format!("{}: {path}", it.place));
        (entry.map(|it| it.text.clone()).unwrap_or_default(), place)
    };
    let mut missing = Vec::new();
    for name in ["urls", "client_certificate", "client_key", "roots", "reference_number"] {
        if said(name).0.is_empty() {
            missing.push(format!("{section}.{name}: is required"));
        }
    }
    if !missing.is_empty() {
        broken.append(&mut missing);
        return None;
    }
    let urls = parse(said("urls"), broken);
    let client_certificate = parse(said("client_certificate"), broken);
    let client_key = parse(said("client_key"), broken);
    let roots = parse(said("roots"), broken);
    let reference_number = parse(said("reference_number"), broken);
    let operator_id = parse(said("operator_id"), broken);
    let results_url = parse(said("results_url"), broken);
    let results_subject = parse(said("results_subject"), broken);
    Some(SchemeSettings {
        kind,
        scheme,
        urls: urls?,
        client_certificate: client_certificate?,
        client_key: client_key?,
        roots: roots?,
        reference_number: reference_number?,
        operator_id: operator_id?,
        results_url: results_url?,
        results_subject: results_subject?,
        section,
    })
}

/// What each value alone cannot tell.
pub(super) fn contradictions(settings: &Settings) -> Vec<String> {
    let (threeds, schemes) = (&settings.threeds, &settings.schemes);
    let production: Vec<_> =
        schemes.iter().filter(|it| it.kind == TenantKind::Production).collect();
    let mut found = Vec::new();
    let connected = !schemes.is_empty() || threeds.simulator_url.is_some();
    if connected && threeds.public_url.is_none() {
        found
            .push("threeds.public_url: is required, so that browsers find the way back".to_owned());
    }
    let results = [
        threeds.results_listen.is_some(),
        threeds.results_certificate.is_some(),
        threeds.results_key.is_some(),
    ];
    if results.contains(&true) && results.contains(&false) {
        let names = "threeds.results_listen, threeds.results_certificate and threeds.results_key";
        found.push(format!("{names}: set all of them, or none"));
    }
    if threeds.results_listen.is_some() && production.is_empty() {
        found
            .push("threeds.results_listen: there is no section [threeds.production...]".to_owned());
    }
    if threeds.results_listen.is_none() && !production.is_empty() {
        found
            .push("threeds.results_listen: is required where schemes of production are".to_owned());
    }
    let in_clear = match &threeds.public_url {
        Some(PublicUrl::At(url)) => !url.is_secure(),
        // Where the server listens is not where browsers of production come from.
        Some(PublicUrl::Listen) => true,
        None => false,
    };
    if in_clear && !production.is_empty() {
        found.push("threeds.public_url: must begin with https:// for production".to_owned());
    }
    found.extend(too_slow(settings));
    for it in schemes.iter().filter(|it| it.kind == TenantKind::Test) {
        if it.results_subject.is_some() {
            found.push(format!("{}.results_subject: is for production only", it.section));
        }
    }
    for it in production {
        let section = &it.section;
        match &it.results_url {
            Some(url) if url.is_secure() => (),
            Some(_) => found.push(format!("{section}.results_url: must begin with https://")),
            None => found.push(format!("{section}.results_url: is required")),
        }
        let simulator = threeds.simulator_url.as_ref();
        if it.urls.0.iter().any(|url| simulator.is_some_and(|it| it.is_at(url))) {
            found.push(format!("{section}.urls: must not lead to threeds.simulator_url"));
        }
    }
    found
}

/// Addresses that may take longer, one after the other, than a session waits for an answer.
fn too_slow(settings: &Settings) -> Vec<String> {
    let names = "threeds.connect_deadline_ms and threeds.answer_deadline_ms";
    let rule = |most: Duration| {
        let (most, bound) = (most.as_millis(), AUTHENTICATION_MOST.as_millis());
        format!("an authentication may take {most} ms in all, and must take less than {bound}")
    };
    let is_over = |most: &Duration| *most >= AUTHENTICATION_MOST;
    let one = Some(settings.most_of(1)).filter(is_over);
    if let Some(most) = one {
        return vec![format!("{names}: {}", rule(most))];
    }
    let of_scheme = |it: &SchemeSettings| {
        let most = Some(settings.most_of(it.urls.0.len())).filter(is_over)?;
        Some(format!("{}.urls with {names}: {}", it.section, rule(most)))
    };
    settings.schemes.iter().filter_map(of_scheme).collect()
}

impl Settings {
    /// How long it takes at most to ask any scheme.
    pub fn authentication_most(&self) -> Duration {
        let addresses = self.schemes.iter().map(|it| it.urls.0.len()).max();
        self.most_of(addresses.unwrap_or(1))
    }

    /// Each address may take its time to connect; but one of them is asked.
    fn most_of(&self, addresses: usize) -> Duration {
        let connect = self.threeds.connect_deadline_ms.milliseconds();
        let connect = connect.saturating_mul(u32::try_from(addresses).unwrap_or(u32::MAX));
        connect.saturating_add(self.threeds.answer_deadline_ms.milliseconds())
    }

    /// Whom to connect; `listening` is where the server itself is.
    pub fn threeds_plan(&self, listening: &str) -> Plan {
        let threeds = &self.threeds;
        let public_url = match &threeds.public_url {
            Some(PublicUrl::At(BaseUrl(url))) => url.clone(),
            Some(PublicUrl::Listen) => listening.to_owned(),
            None => String::new(),
        };
        let server_name = threeds.server_name.as_ref().map(|it| it.expose().to_owned());
        let of = |kind| {
            let all = self.schemes.iter().filter(move |it: &&SchemeSettings| it.kind == kind);
            all.map(|it| it.plan(&public_url)).collect()
        };
        Plan {
            production: of(TenantKind::Production),
            test: of(TenantKind::Test),
            simulator: threeds.simulator_url.clone(),
            timing: Timing {
                connect: threeds.connect_deadline_ms.milliseconds(),
                answer: threeds.answer_deadline_ms.milliseconds(),
            },
            terms: Terms {
                lenient: threeds.lenient,
                server_name: server_name.unwrap_or_default(),
                public_url,
            },
        }
    }

    /// The listener of results, where there is one.
    pub fn results_plan(&self) -> Option<ResultsPlan> {
        let threeds = &self.threeds;
        let production = self.schemes.iter().filter(|it| it.kind == TenantKind::Production);
        Some(ResultsPlan {
            certificate: threeds.results_certificate.clone()?,
            key: threeds.results_key.clone()?,
            schemes: production.map(SchemeSettings::trusted).collect(),
        })
    }
}

impl SchemeSettings {
    /// Whose results are taken.
    fn trusted(&self) -> TrustedScheme {
        TrustedScheme {
            scheme: self.scheme,
            section: self.section.clone(),
            roots: self.roots.clone(),
            subject: self.results_subject.as_ref().map(|it| it.0.clone()),
        }
    }

    fn plan(&self, public_url: &str) -> SchemePlan {
        let results_url = self.results_url.as_ref().map(|it| it.0.clone());
        SchemePlan {
            scheme: self.scheme,
            way: SecuredPlan {
                section: self.section.clone(),
                urls: self.urls.0.clone(),
                client_certificate: self.client_certificate.clone(),
                client_key: self.client_key.clone(),
                roots: self.roots.clone(),
            },
            link: Link {
                reference_number: self.reference_number.expose().to_owned(),
                operator_id: self.operator_id.as_ref().map(|it| it.expose().to_owned()),
                results_url: results_url.unwrap_or_else(|| public_url.to_owned()),
            },
        }
    }
}

#[cfg(test)]
mod tests;
