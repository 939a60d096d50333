//! 3-D Secure settings: the scheme sections of the file, and the settings of clients and listeners
//! that are built from them.

use std::{collections::BTreeMap, time::Duration};

use scrip_core::{
    threeds::{SchemeConnection, ThreeDsSettings},
    types::TenantKind,
};
use scrip_threeds::code::Scheme;

use crate::{
    config::{
        file::FileEntry,
        setting::{SettingText, parse},
        table::Settings,
        value::threeds::{BaseUrl, PublicUrl, SchemeSettings, SecureUrls, scheme_sections},
    },
    directory_servers::{
        DirectoryServersSettings, ExchangeTimeouts, MutualTlsSettings, SchemeClientSettings,
        client_cert::{ResultsListenerSettings, TrustedScheme},
    },
};

/// A session in authentication is abandoned after 60 seconds. The response has to arrive earlier,
/// with time left to store it.
const AUTHENTICATION_TIME_MAX: Duration = Duration::from_secs(50);

/// Parses and checks all scheme sections.
pub(super) fn read_schemes(
    file: &BTreeMap<String, FileEntry>,
    problems: &mut Vec<String>,
) -> Vec<SchemeSettings> {
    let mut schemes = Vec::new();
    for (kind, scheme, section) in scheme_sections() {
        let prefix = format!("{section}.");
        if file.keys().any(|it| it.starts_with(&prefix)) {
            schemes.extend(read_section(file, problems, kind, scheme, section));
        }
    }
    schemes
}

fn read_section(
    file: &BTreeMap<String, FileEntry>,
    problems: &mut Vec<String>,
    kind: TenantKind,
    scheme: Scheme,
    section: String,
) -> Option<SchemeSettings> {
    let read_text = |name: &str| {
        let path = format!("{section}.{name}");
        let entry = file.get(&path);
        let location = entry.map_or_else(|| path.clone(), |it| format!("{}: {path}", it.location));
        SettingText { text: entry.map(|it| it.text.clone()).unwrap_or_default(), location }
    };
    let mut missing = Vec::new();
    for name in ["urls", "client_certificate", "client_key", "roots", "reference_number"] {
        if read_text(name).text.is_empty() {
            missing.push(format!("{section}.{name}: is required"));
        }
    }
    if !missing.is_empty() {
        problems.append(&mut missing);
        return None;
    }
    let urls: Option<SecureUrls> = parse(read_text("urls"), problems);
    let client_certificate = parse(read_text("client_certificate"), problems);
    let client_key = parse(read_text("client_key"), problems);
    let roots = parse(read_text("roots"), problems);
    let reference_number = parse(read_text("reference_number"), problems);
    let operator_id = parse(read_text("operator_id"), problems);
    let results_url = parse(read_text("results_url"), problems);
    let results_subject = parse(read_text("results_subject"), problems);
    Some(SchemeSettings {
        kind,
        scheme,
        reference_number: reference_number?,
        operator_id: operator_id?,
        results_url: results_url?,
        results_subject: results_subject?,
        transport: MutualTlsSettings {
            urls: urls?.0,
            client_certificate: client_certificate?,
            client_key: client_key?,
            roots: roots?,
            section,
        },
    })
}

/// Returns the problems that depend on more than one 3-D Secure setting.
pub(super) fn find_contradictions(settings: &Settings) -> Vec<String> {
    let (threeds, schemes) = (&settings.threeds, &settings.schemes);
    let production: Vec<_> =
        schemes.iter().filter(|it| it.kind == TenantKind::Production).collect();
    let mut problems = Vec::new();
    let is_connected = !schemes.is_empty() || threeds.simulator_url.is_some();
    if is_connected && threeds.public_url.is_none() {
        problems.push(
            "threeds.public_url: is required, so that browsers can return to the vault".to_owned(),
        );
    }
    let results_settings_present = [
        threeds.results_listen.is_some(),
        threeds.results_certificate.is_some(),
        threeds.results_key.is_some(),
    ];
    if results_settings_present.contains(&true) && results_settings_present.contains(&false) {
        let names = "threeds.results_listen, threeds.results_certificate and threeds.results_key";
        problems.push(format!("{names}: set all of them, or none"));
    }
    if threeds.results_listen.is_some() && production.is_empty() {
        problems
            .push("threeds.results_listen: requires a section [threeds.production...]".to_owned());
    }
    if threeds.results_listen.is_none() && !production.is_empty() {
        problems.push(
            "threeds.results_listen: is required if a production scheme is connected".to_owned(),
        );
    }
    let is_unencrypted = match &threeds.public_url {
        Some(PublicUrl::Url(url)) => !url.is_secure(),
        // Browsers of production cardholders cannot reach the listen address.
        Some(PublicUrl::Listen) => true,
        None => false,
    };
    if is_unencrypted && !production.is_empty() {
        problems.push("threeds.public_url: must begin with https:// for production".to_owned());
    }
    problems.extend(find_slow_timeouts(settings));
    for it in schemes.iter().filter(|it| it.kind == TenantKind::Test) {
        if it.results_subject.is_some() {
            problems
                .push(format!("{}.results_subject: is for production only", it.transport.section));
        }
    }
    for it in production {
        let section = &it.transport.section;
        match &it.results_url {
            Some(url) if url.is_secure() => (),
            Some(_) => problems.push(format!("{section}.results_url: must begin with https://")),
            None => problems.push(format!("{section}.results_url: is required")),
        }
        let simulator = threeds.simulator_url.as_ref();
        if it
            .transport
            .urls
            .iter()
            .any(|url| simulator.is_some_and(|it| it.has_same_authority(url)))
        {
            problems.push(format!("{section}.urls: must not be threeds.simulator_url"));
        }
    }
    problems
}

/// Returns a problem for every scheme with timeouts that could add up to more than the session
/// timeout.
fn find_slow_timeouts(settings: &Settings) -> Vec<String> {
    let names = "threeds.connect_deadline_ms and threeds.response_deadline_ms";
    let describe = |time: Duration| {
        let (time, limit) = (time.as_millis(), AUTHENTICATION_TIME_MAX.as_millis());
        format!("an authentication may take up to {time} ms; the limit is {limit} ms")
    };
    let is_over = |time: &Duration| *time >= AUTHENTICATION_TIME_MAX;
    let single_address_time = Some(settings.time_for_addresses(1)).filter(is_over);
    if let Some(time) = single_address_time {
        return vec![format!("{names}: {}", describe(time))];
    }
    let check_scheme = |it: &SchemeSettings| {
        let time = Some(settings.time_for_addresses(it.transport.urls.len())).filter(is_over)?;
        Some(format!("{}.urls with {names}: {}", it.transport.section, describe(time)))
    };
    settings.schemes.iter().filter_map(check_scheme).collect()
}

impl Settings {
    /// Maximum duration of an authentication over all schemes.
    pub fn authentication_time_max(&self) -> Duration {
        let addresses = self.schemes.iter().map(|it| it.transport.urls.len()).max();
        self.time_for_addresses(addresses.unwrap_or(1))
    }

    /// Returns the maximum duration of an authentication with this number of addresses. Every
    /// address may use its full connect timeout, but only one receives the message.
    fn time_for_addresses(&self, addresses: usize) -> Duration {
        let connect = self.threeds.connect_deadline_ms.milliseconds();
        let connect = connect.saturating_mul(u32::try_from(addresses).unwrap_or(u32::MAX));
        connect.saturating_add(self.threeds.response_deadline_ms.milliseconds())
    }

    /// Settings of the connected schemes. `listen_url` is the address of this server.
    pub fn directory_servers_settings(&self, listen_url: &str) -> DirectoryServersSettings {
        let threeds = &self.threeds;
        let public_url = match &threeds.public_url {
            Some(PublicUrl::Url(BaseUrl(url))) => url.clone(),
            Some(PublicUrl::Listen) => listen_url.to_owned(),
            None => String::new(),
        };
        let server_name = threeds.server_name.as_ref().map(|it| it.expose().to_owned());
        let clients_for = |kind| {
            let schemes = self.schemes.iter().filter(move |it: &&SchemeSettings| it.kind == kind);
            schemes.map(|it| it.client_settings(&public_url)).collect()
        };
        DirectoryServersSettings {
            production: clients_for(TenantKind::Production),
            test: clients_for(TenantKind::Test),
            simulator: threeds.simulator_url.clone(),
            timeouts: ExchangeTimeouts {
                connect: threeds.connect_deadline_ms.milliseconds(),
                response: threeds.response_deadline_ms.milliseconds(),
            },
            threeds: ThreeDsSettings {
                lenient: threeds.lenient,
                server_name: server_name.unwrap_or_default(),
                public_url,
            },
        }
    }

    /// Settings of the results listener; `None` without a listener.
    pub fn results_listener_settings(&self) -> Option<ResultsListenerSettings> {
        let threeds = &self.threeds;
        let production = self.schemes.iter().filter(|it| it.kind == TenantKind::Production);
        Some(ResultsListenerSettings {
            certificate: threeds.results_certificate.clone()?,
            key: threeds.results_key.clone()?,
            schemes: production.map(SchemeSettings::trusted_scheme).collect(),
        })
    }
}

impl SchemeSettings {
    fn trusted_scheme(&self) -> TrustedScheme {
        TrustedScheme {
            scheme: self.scheme,
            section: self.transport.section.clone(),
            roots: self.transport.roots.clone(),
            required_dns_name: self.results_subject.as_ref().map(|it| it.0.clone()),
        }
    }

    fn client_settings(&self, public_url: &str) -> SchemeClientSettings {
        let results_url = self.results_url.as_ref().map(|it| it.0.clone());
        SchemeClientSettings {
            scheme: self.scheme,
            transport: self.transport.clone(),
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
