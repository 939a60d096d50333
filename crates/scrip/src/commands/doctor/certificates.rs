//! Checks of the certificates: of the client listener, and of the connections to schemes.

use std::path::Path;

use scrip_core::{Timestamp, types::time::Clock};
use scrip_operator::output::format_count;
use scrip_server::{
    clock::SystemClock,
    config::Settings,
    directory_servers::{HttpDirectoryServers, client_cert::ResultsTls},
    tls::{CertificateValidity, Certificates, ValidityStatus},
};

use crate::commands::doctor::finding::{CheckVerdict, Finding, failed, passed, warning};

const MS_PER_DAY: i64 = 24 * 60 * 60 * 1000;
const RENEW: &str =
    "write a renewed certificate and its key to the files; a running server reloads them";

pub(super) fn check_transport(settings: &Settings) -> Vec<Finding> {
    let server = &settings.server;
    match (&settings.tls.certificate, &settings.tls.key) {
        (Some(certificate), Some(key)) => {
            vec![match Certificates::for_clients(certificate, key) {
                Ok(_) => check_validity("tls", certificate, SystemClock.now()),
                Err(error) => failed("tls", format!("{error:#}")),
            }]
        }
        (_, _) if server.listen.ip().is_loopback() => {
            vec![passed("tls", "off; the listener accepts connections of this machine only")]
        }
        (_, _) => vec![warning(
            "tls",
            format!("off: keys and cards are sent unencrypted to {}", server.listen),
        )],
    }
}

/// Checks the files of the schemes, without connecting.
pub(super) fn check_directory_servers(settings: &Settings) -> Vec<Finding> {
    const CHECK: &str = "3-D Secure";
    if settings.schemes.is_empty() {
        return Vec::new();
    }
    let to_finding = |it: anyhow::Error| failed(CHECK, format!("{it:#}"));
    let connections =
        HttpDirectoryServers::new(&settings.directory_servers_settings("")).err().map(to_finding);
    let results = settings.results_listener_settings().map(ResultsTls::load_reloadable);
    let results = results.and_then(Result::err).map(to_finding);
    let findings: Vec<_> = connections.into_iter().chain(results).collect();
    if !findings.is_empty() {
        return findings;
    }
    let count = settings.schemes.len();
    let mut findings =
        vec![passed(CHECK, format!("the files of {} are valid", format_count(count, "scheme")))];
    let clients = settings.schemes.iter().map(|it| it.transport.client_certificate.clone());
    let results = settings.results_listener_settings().map(|it| it.certificate);
    let now = SystemClock.now();
    let validity_findings = clients.chain(results).map(|it| check_validity(CHECK, &it, now));
    findings.extend(validity_findings.filter(|it| it.verdict != CheckVerdict::Passed));
    findings
}

/// Checks the dates of a certificate that can be loaded.
fn check_validity(check: &'static str, file: &Path, now: Timestamp) -> Finding {
    let name = file.display();
    let Some(validity) = CertificateValidity::from_pem_file(file) else {
        return warning(check, format!("the dates of {name} cannot be read"));
    };
    let CertificateValidity { not_before, not_after } = validity;
    match validity.status_at(now) {
        ValidityStatus::Valid => {
            passed(check, format!("{name} matches its key and is valid until {not_after}"))
        }
        ValidityStatus::ExpiresSoon => {
            let days = not_after.unix_ms.saturating_sub(now.unix_ms) / MS_PER_DAY;
            let days = format_count(days, "day");
            let message = format!("{name} expires in {days}, at {not_after}; {RENEW}");
            warning(check, message)
        }
        ValidityStatus::Expired => {
            let message = format!("{name} expired at {not_after}, and others reject it; {RENEW}");
            failed(check, message)
        }
        ValidityStatus::NotYetValid => failed(
            check,
            format!(
                "{name} is not valid before {not_before}, and others reject it; the time is {now}: \
                 set the clock if it is wrong"
            ),
        ),
    }
}
