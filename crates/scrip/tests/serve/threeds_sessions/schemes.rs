//! Schemes that the settings connect: card ranges, what is told of them, and what ends the start.

use std::{fmt::Write, fs, os::unix::fs::PermissionsExt};

use scrip_testing::{
    directory_server::{
        DirectoryServer, ServerBehavior, authority::CertificateAuthority, card_ranges_response,
    },
    process::{
        harness::{ProcessHarness, becomes_true},
        prometheus::ParsedMetricsPage,
    },
};
use serde_json::Value;
use tokio::runtime::Runtime;

pub(crate) const SERVER_NAMES: &[&str] = &["127.0.0.1"];
const RANGES: &[(&str, &str, &str)] =
    &[("4000000000000000", "4099999999999999", "A"), ("4200000000000000", "4299999999999999", "A")];

pub(crate) fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// A house with its own authority for each scheme of production, and a directory server of each.
pub(crate) struct SchemesHarness {
    pub(crate) process: ProcessHarness,
    pub(crate) runtime: Runtime,
    pub(crate) schemes: Vec<(CertificateAuthority, DirectoryServer)>,
    /// Who vouches for the listener of results.
    pub(crate) own_authority: CertificateAuthority,
}

pub(crate) const SCHEMES: &[&str] = &["visa", "mastercard"];

impl SchemesHarness {
    pub(crate) fn new() -> Self {
        let (process, runtime) = (ProcessHarness::initialized(crate::SCRIP), runtime());
        let folder = process.path("");
        let ours = CertificateAuthority::new(&folder, "ours");
        let results = ours.issue("results", SERVER_NAMES);
        let mut settings = format!(
            "[threeds]\npublic_url = \"https://vault.example\"\nresults_listen = \"127.0.0.1:0\"\n\
             results_certificate = {:?}\nresults_key = {:?}\n",
            results.certificate, results.key,
        );
        let mut schemes = Vec::new();
        for name in SCHEMES {
            let authority = CertificateAuthority::new(&folder, name);
            let server = DirectoryServer::start(
                runtime.handle(),
                Some(authority.server_config(SERVER_NAMES)),
                &[ServerBehavior::JsonWithTransactionId(card_ranges_response("one", RANGES))],
            );
            let client = authority.issue("client", &["vault.example"]);
            write!(
                settings,
                "[threeds.production.{name}]\nurls = {:?}\nclient_certificate = {:?}\n\
                 client_key = {:?}\nroots = {:?}\nreference_number = \"reference\"\n\
                 results_url = \"https://results.example\"\n",
                server.url(),
                client.certificate,
                client.key,
                authority.roots_file(),
            )
            .unwrap();
            schemes.push((authority, server));
        }
        fs::write(process.path("scrip.toml"), settings).unwrap();
        Self { process, runtime, schemes, own_authority: ours }
    }
}

#[test]
fn card_ranges_are_fetched_at_start_and_reported() {
    let connected = SchemesHarness::new();
    let process = connected.process.with_variable("SCRIP_METRICS_LISTEN", "127.0.0.1:0");
    let server = process.serve();
    process.wait_for_log("card ranges of Visa: 2");
    process.wait_for_log("card ranges of Mastercard: 2");
    for (_, server) in &connected.schemes {
        assert_eq!(server.received_requests()[0].json()["threeDSServerRefNumber"], "reference");
    }
    let told = process.run(&["status", "--json"]);
    let told: Value = serde_json::from_slice(&told.stdout).unwrap();
    let schemes = told["server"]["threeds"].as_array().unwrap();
    assert_eq!(schemes.len(), SCHEMES.len());
    for (told, name) in schemes.iter().zip(SCHEMES) {
        assert_eq!((&told["world"], &told["scheme"]), (&"production".into(), &(*name).into()));
        assert_eq!(told["card_ranges"], 2);
        assert!(told["fetched_at"].is_string());
    }
    let page = ureq::get(server.metrics.as_ref().unwrap()).call().unwrap();
    let page = ParsedMetricsPage::parse(&page.into_body().read_to_string().unwrap());
    let of = |family: &str, more: &[(&str, &str)]| {
        let labels = [&[("world", "production"), ("scheme", "visa")], more].concat();
        page.find(family, &labels)
    };
    assert_eq!(of("scrip_threeds_card_ranges", &[]), Some(2.0));
    assert_eq!(of("scrip_threeds_card_ranges_failures_total", &[]), Some(0.0));
    assert_eq!(of("scrip_threeds_asks_total", &[("outcome", "broken")]), Some(0.0));
    assert!(of("scrip_threeds_card_ranges_fetched_timestamp_seconds", &[]).unwrap() > 1e9);
}

#[test]
fn failed_card_range_fetch_is_retried() {
    let connected = SchemesHarness::new();
    let (_, visa) = &connected.schemes[0];
    visa.set_behaviors(&[
        ServerBehavior::HangUp,
        ServerBehavior::JsonWithTransactionId(card_ranges_response("one", RANGES)),
    ]);
    let server = connected.process.serve();
    connected.process.wait_for_log("card ranges could not be fetched");
    connected.process.wait_for_log("the vault is open");
    // Nobody waits for it.
    assert_eq!(server.status("/readyz"), 200);
    connected.process.wait_for_log("card ranges of Visa: 2");
    assert_eq!(visa.received_requests().len(), 2);
}

#[test]
fn unusable_scheme_file_prevents_start_and_is_named() {
    let connected = SchemesHarness::new();
    let process = &connected.process;
    let file = |name: &str| process.path(name);
    let cases = [
        ("visa-client-key.pem", "threeds.production.visa.client_key: "),
        ("mastercard-client-certificate.pem", "threeds.production.mastercard.client_certificate: "),
        ("visa-roots.pem", "threeds.production.visa.roots: "),
        ("ours-results-key.pem", "threeds.results_key: "),
    ];
    for (name, expected) in cases {
        let whole = fs::read(file(name)).unwrap();
        fs::remove_file(file(name)).unwrap();
        process.assert_fails(&["serve"], expected);
        fs::write(file(name), "").unwrap();
        process.assert_fails(&["serve"], expected);
        let doctor = process.run(&["doctor"]);
        assert!(String::from_utf8_lossy(&doctor.stdout).contains(expected), "{doctor:?}");
        fs::write(file(name), whole).unwrap();
        fs::set_permissions(file(name), fs::Permissions::from_mode(0o600)).unwrap();
    }
    let others = fs::read(file("mastercard-client-key.pem")).unwrap();
    fs::write(file("visa-client-key.pem"), others).unwrap();
    process.assert_fails(
        &["serve"],
        "threeds.production.visa.client_certificate and client_key cannot be",
    );
}

#[test]
fn changed_client_certificate_is_reloaded() {
    let connected = SchemesHarness::new();
    let process = connected.process.with_variable("SCRIP_TLS_RELOAD_SECONDS", "1");
    let _server = process.serve();
    process.wait_for_log("card ranges of Visa: 2");
    let (authority, _) = &connected.schemes[0];
    authority.issue("client", &["vault.example"]);
    assert!(becomes_true(|| {
        let log = process.log();
        let mut lines = log.lines().filter(|it| it.contains("the certificate was read again"));
        lines.any(|it| it.contains("threeds.production.visa"))
    }));
}

#[test]
fn dev_uses_the_configured_simulator() {
    let runtime = runtime();
    let reply = [ServerBehavior::JsonWithTransactionId(card_ranges_response("one", RANGES))];
    let simulator = DirectoryServer::start(runtime.handle(), None, &reply);
    let url = format!("http://{}", simulator.address);
    let process =
        ProcessHarness::new(crate::SCRIP).with_variable("SCRIP_THREEDS_SIMULATOR_URL", &url);
    let _server = process.start(&["dev", "--json"]);
    process.wait_for_log("card ranges of UPI: 2");
    assert!(becomes_true(|| simulator.received_requests().len() == 7));
    let mut paths: Vec<_> = simulator.received_requests().into_iter().map(|it| it.path).collect();
    paths.sort_unstable();
    assert_eq!(paths.first().unwrap(), "/sim/ds/american-express");
    assert_eq!(paths.last().unwrap(), "/sim/ds/visa");
}
