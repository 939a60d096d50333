//! The settings of 3-D Secure: the sections of the schemes as the file has them, and what is planned
//! by the settings.

use std::{collections::BTreeMap, time::Duration};

use scrip_core::{
    policy::TenantKind,
    threeds::{SchemeConnection, ThreeDsSettings},
};
use scrip_threeds::code::Scheme;

use crate::{
    config::{
        SettingText,
        file::FileEntry,
        parse,
        table::Settings,
        value::threeds::{BaseUrl, PublicUrl, SchemeSettings, SecureUrls, scheme_sections},
    },
    directory_servers::{
        DirectoryServersPlan, ExchangeTimeouts, MutualTlsPlan, SchemePlan,
        results::{ResultsPlan, TrustedScheme},
    },
};

/// A session that has asked is given up after 60 seconds. The answer has to come before, and there has to be
/// time to write it down.
const AUTHENTICATION_TIME_MAX: Duration = Duration::from_secs(50);

/// The sections of the file, checked whole.
pub(super) fn read_schemes(
    file: &BTreeMap<String, FileEntry>,
    problems: &mut Vec<String>,
) -> Vec<SchemeSettings> {
    let mut read = Vec::new();
    for (kind, scheme, section) in scheme_sections() {
        let begins = format!("{section}.");
        if file.keys().any(|it| it.starts_with(&begins)) {
            read.extend(read_section(file, problems, kind, scheme, section));
        }
    }
    read
}

fn read_section(
    file: &BTreeMap<String, FileEntry>,
    problems: &mut Vec<String>,
    kind: TenantKind,
    scheme: Scheme,
    section: String,
) -> Option<SchemeSettings> {
    let output = |name: &str| {
        let path = format!("{section}.{name}");
        let entry = file.get(&path);
        let place = entry.map_or_else(|| path.clone(), |it| format!("{}: {path}", it.location));
        SettingText { text: entry.map(|it| it.text.clone()).unwrap_or_default(), location: place }
    };
    let mut missing = Vec::new();
    for name in ["urls", "client_certificate", "client_key", "roots", "reference_number"] {
        if output(name).text.is_empty() {
            missing.push(format!("{section}.{name}: is required"));
        }
    }
    if !missing.is_empty() {
        problems.append(&mut missing);
        return None;
    }
    let urls: Option<SecureUrls> = parse(output("urls"), problems);
    let client_certificate = parse(output("client_certificate"), problems);
    let client_key = parse(output("client_key"), problems);
    let roots = parse(output("roots"), problems);
    let reference_number = parse(output("reference_number"), problems);
    let operator_id = parse(output("operator_id"), problems);
    let results_url = parse(output("results_url"), problems);
    let results_subject = parse(output("results_subject"), problems);
    Some(SchemeSettings {
        kind,
        scheme,
        reference_number: reference_number?,
        operator_id: operator_id?,
        results_url: results_url?,
        results_subject: results_subject?,
        way: MutualTlsPlan {
            urls: urls?.0,
            client_certificate: client_certificate?,
            client_key: client_key?,
            roots: roots?,
            section,
        },
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
    found.extend(slow_timeouts(settings));
    for it in schemes.iter().filter(|it| it.kind == TenantKind::Test) {
        if it.results_subject.is_some() {
            found.push(format!("{}.results_subject: is for production only", it.way.section));
        }
    }
    for it in production {
        let section = &it.way.section;
        match &it.results_url {
            Some(url) if url.is_secure() => (),
            Some(_) => found.push(format!("{section}.results_url: must begin with https://")),
            None => found.push(format!("{section}.results_url: is required")),
        }
        let simulator = threeds.simulator_url.as_ref();
        if it.way.urls.iter().any(|url| simulator.is_some_and(|it| it.has_same_authority(url))) {
            found.push(format!("{section}.urls: must not lead to threeds.simulator_url"));
        }
    }
    found
}

/// Addresses that may take longer, one after the other, than a session waits for an answer.
fn slow_timeouts(settings: &Settings) -> Vec<String> {
    let names = "threeds.connect_deadline_ms and threeds.answer_deadline_ms";
    let rule = |maximum: Duration| {
        let (maximum, bound) = (maximum.as_millis(), AUTHENTICATION_TIME_MAX.as_millis());
        format!("an authentication may take {maximum} ms in all, and must take less than {bound}")
    };
    let is_over = |maximum: &Duration| *maximum >= AUTHENTICATION_TIME_MAX;
    let one = Some(settings.time_for_addresses(1)).filter(is_over);
    if let Some(maximum) = one {
        return vec![format!("{names}: {}", rule(maximum))];
    }
    let of_scheme = |it: &SchemeSettings| {
        let maximum = Some(settings.time_for_addresses(it.way.urls.len())).filter(is_over)?;
        Some(format!("{}.urls with {names}: {}", it.way.section, rule(maximum)))
    };
    settings.schemes.iter().filter_map(of_scheme).collect()
}

impl Settings {
    /// How long it takes at most to ask any scheme.
    pub fn authentication_time_max(&self) -> Duration {
        let addresses = self.schemes.iter().map(|it| it.way.urls.len()).max();
        self.time_for_addresses(addresses.unwrap_or(1))
    }

    /// Each address may take its time to connect; but one of them is asked.
    fn time_for_addresses(&self, addresses: usize) -> Duration {
        let connect = self.threeds.connect_deadline_ms.milliseconds();
        let connect = connect.saturating_mul(u32::try_from(addresses).unwrap_or(u32::MAX));
        connect.saturating_add(self.threeds.answer_deadline_ms.milliseconds())
    }

    /// Whom to connect; `listening` is where the server itself is.
    pub fn threeds_plan(&self, listen_url: &str) -> DirectoryServersPlan {
        let threeds = &self.threeds;
        let public_url = match &threeds.public_url {
            Some(PublicUrl::At(BaseUrl(url))) => url.clone(),
            Some(PublicUrl::Listen) => listen_url.to_owned(),
            None => String::new(),
        };
        let server_name = threeds.server_name.as_ref().map(|it| it.expose().to_owned());
        let of = |kind| {
            let all = self.schemes.iter().filter(move |it: &&SchemeSettings| it.kind == kind);
            all.map(|it| it.scheme_plan(&public_url)).collect()
        };
        DirectoryServersPlan {
            production: of(TenantKind::Production),
            test: of(TenantKind::Test),
            simulator: threeds.simulator_url.clone(),
            timeouts: ExchangeTimeouts {
                connect: threeds.connect_deadline_ms.milliseconds(),
                response: threeds.answer_deadline_ms.milliseconds(),
            },
            settings: ThreeDsSettings {
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
            schemes: production.map(SchemeSettings::trusted_scheme).collect(),
        })
    }
}

impl SchemeSettings {
    /// Whose results are taken.
    fn trusted_scheme(&self) -> TrustedScheme {
        TrustedScheme {
            scheme: self.scheme,
            section: self.way.section.clone(),
            roots: self.way.roots.clone(),
            subject: self.results_subject.as_ref().map(|it| it.0.clone()),
        }
    }

    fn scheme_plan(&self, public_url: &str) -> SchemePlan {
        let results_url = self.results_url.as_ref().map(|it| it.0.clone());
        SchemePlan {
            scheme: self.scheme,
            transport: self.way.clone(),
            connection: SchemeConnection {
                reference_number: self.reference_number.expose().to_owned(),
                operator_id: self.operator_id.as_ref().map(|it| it.expose().to_owned()),
                results_url: results_url.unwrap_or_else(|| public_url.to_owned()),
            },
        }
    }
}

#[cfg(test)]
mod tests;
