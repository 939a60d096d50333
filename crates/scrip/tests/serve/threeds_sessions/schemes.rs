//! Schemes connected by settings: card ranges, status reports, and errors that prevent the start.

use std::{fmt::Write, fs, os::unix::fs::PermissionsExt};

use scrip_testing::{
    directory_server::{
        DirectoryServer, ServerBehavior, authority::CertificateAuthority, card_ranges_response,
    },
    process::{
        harness::{ProcessHarness, becomes_true},
        prometheus::ParsedMetricsPage,
    },
    requests::{assert_members, http_client::BlockingClient},
};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

pub(crate) const SERVER_NAMES: &[&str] = &["127.0.0.1"];
const RANGES: &[(&str, &str, &str)] =
    &[("4000000000000000", "4099999999999999", "A"), ("4200000000000000", "4299999999999999", "A")];

pub(crate) fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// A process with a certificate authority and a directory server for each production scheme.
pub(crate) struct SchemesHarness {
    pub(crate) process: ProcessHarness,
    pub(crate) runtime: Runtime,
    pub(crate) schemes: Vec<(CertificateAuthority, DirectoryServer)>,
    /// The certificate authority of the results listener.
    pub(crate) own_authority: CertificateAuthority,
}

pub(crate) const SCHEMES: &[&str] = &["visa", "mastercard"];

impl SchemesHarness {
    pub(crate) fn new() -> Self {
        let (process, runtime) = (ProcessHarness::initialized(crate::SCRIP), runtime());
        let folder = process.path("");
        let own_authority = CertificateAuthority::new(&folder, "ours");
        let results = own_authority.issue("results", SERVER_NAMES);
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
        Self { process, runtime, schemes, own_authority }
    }
}

#[test]
fn card_ranges_are_fetched_at_start_and_reported() {
    let harness = SchemesHarness::new();
    let process = harness.process.with_variable("SCRIP_METRICS_LISTEN", "127.0.0.1:0");
    let server = process.serve();
    process.wait_for_log("fetched 2 card ranges of Visa");
    process.wait_for_log("fetched 2 card ranges of Mastercard");
    for (_, server) in &harness.schemes {
        assert_eq!(server.received_requests()[0].json()["threeDSServerRefNumber"], "reference");
    }
    let output = process.run(&["status", "--json"]);
    let output: Value = serde_json::from_slice(&output.stdout).unwrap();
    let schemes = output["server"]["threeds"].as_array().unwrap();
    assert_eq!(schemes.len(), SCHEMES.len());
    for (status, name) in schemes.iter().zip(SCHEMES) {
        assert_members(status, &json!({"tenant_type": "production", "scheme": name}));
        assert_eq!(status["card_ranges"], 2);
        assert!(status["fetched_at"].is_string());
    }
    let page = BlockingClient::default().get(server.metrics.as_ref().unwrap()).send();
    let page = ParsedMetricsPage::parse(&page.expect_status(200).text());
    let value_of = |family: &str, more_labels: &[(&str, &str)]| {
        let labels = [&[("tenant_type", "production"), ("scheme", "visa")], more_labels].concat();
        page.find(family, &labels)
    };
    assert_eq!(value_of("scrip_threeds_card_ranges", &[]), Some(2.0));
    assert_eq!(value_of("scrip_threeds_card_ranges_failures_total", &[]), Some(0.0));
    assert_eq!(value_of("scrip_threeds_requests_total", &[("outcome", "failed")]), Some(0.0));
    assert!(value_of("scrip_threeds_card_ranges_fetched_timestamp_seconds", &[]).unwrap() > 1e9);
}

#[test]
fn failed_card_range_fetch_is_retried() {
    let harness = SchemesHarness::new();
    let (_, visa) = &harness.schemes[0];
    visa.set_behaviors(&[
        ServerBehavior::HangUp,
        ServerBehavior::JsonWithTransactionId(card_ranges_response("one", RANGES)),
    ]);
    let server = harness.process.serve();
    harness.process.wait_for_log("fetching card ranges failed");
    harness.process.wait_for_log("the vault is open");
    // The start does not wait for card ranges.
    assert_eq!(server.status("/readyz"), 200);
    harness.process.wait_for_log("fetched 2 card ranges of Visa");
    assert_eq!(visa.received_requests().len(), 2);
}

#[test]
fn unusable_scheme_file_prevents_start_and_is_named() {
    let harness = SchemesHarness::new();
    let process = &harness.process;
    let file = |name: &str| process.path(name);
    let cases = [
        ("visa-client-key.pem", "threeds.production.visa.client_key: "),
        ("mastercard-client-certificate.pem", "threeds.production.mastercard.client_certificate: "),
        ("visa-roots.pem", "threeds.production.visa.roots: "),
        ("ours-results-key.pem", "threeds.results_key: "),
    ];
    for (name, expected) in cases {
        let file_bytes = fs::read(file(name)).unwrap();
        fs::remove_file(file(name)).unwrap();
        process.assert_fails(&["serve"], expected);
        fs::write(file(name), "").unwrap();
        process.assert_fails(&["serve"], expected);
        let doctor = process.run(&["doctor"]);
        assert!(String::from_utf8_lossy(&doctor.stdout).contains(expected), "{doctor:?}");
        fs::write(file(name), file_bytes).unwrap();
        fs::set_permissions(file(name), fs::Permissions::from_mode(0o600)).unwrap();
    }
    let mastercard_key = fs::read(file("mastercard-client-key.pem")).unwrap();
    fs::write(file("visa-client-key.pem"), mastercard_key).unwrap();
    process.assert_fails(
        &["serve"],
        "threeds.production.visa.client_certificate and client_key do not match",
    );
}

#[test]
fn changed_client_certificate_is_reloaded() {
    let harness = SchemesHarness::new();
    let process = harness.process.with_variable("SCRIP_TLS_RELOAD_SECONDS", "1");
    let _server = process.serve();
    process.wait_for_log("fetched 2 card ranges of Visa");
    let (authority, _) = &harness.schemes[0];
    authority.issue("client", &["vault.example"]);
    assert!(becomes_true(|| {
        let log = process.log();
        let mut lines = log.lines().filter(|it| it.contains("reloaded the certificate"));
        lines.any(|it| it.contains("threeds.production.visa"))
    }));
}

#[test]
fn dev_uses_the_configured_simulator() {
    let runtime = runtime();
    let response = [ServerBehavior::JsonWithTransactionId(card_ranges_response("one", RANGES))];
    let simulator = DirectoryServer::start(runtime.handle(), None, &response);
    let url = format!("http://{}", simulator.address);
    let process =
        ProcessHarness::new(crate::SCRIP).with_variable("SCRIP_THREEDS_SIMULATOR_URL", &url);
    let _server = process.start(&["dev", "--json"]);
    process.wait_for_log("fetched 2 card ranges of UPI");
    assert!(becomes_true(|| simulator.received_requests().len() == 7));
    let mut paths: Vec<_> = simulator.received_requests().into_iter().map(|it| it.path).collect();
    paths.sort_unstable();
    assert_eq!(paths.first().unwrap(), "/sim/ds/american-express");
    assert_eq!(paths.last().unwrap(), "/sim/ds/visa");
}
