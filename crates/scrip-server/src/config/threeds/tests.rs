//! Tests of valid and invalid 3-D Secure settings.

use super::*;
use crate::config::{load::tests::load, setting::SettingProblems};

const VISA: &str = r#"
[threeds.production.visa]
urls = "https://a.example/ds, https://b.example:8443/ds"
client_certificate = "visa.pem"
client_key = "visa.key"
roots = "visa-roots.pem"
reference_number = "3DS_LOA_SER_TEST_020200_00001"
operator_id = "operator"
results_url = "https://results.example"
"#;

const THREEDS: &str = r#"
[threeds]
public_url = "https://vault.example"
results_listen = "127.0.0.1:4443"
results_certificate = "results.pem"
results_key = "results.key"
"#;

/// Returns complete settings with one text replaced by another.
fn settings_with(from: &str, to: &str) -> String {
    let complete = format!("{THREEDS}{VISA}");
    assert!(complete.contains(from), "the settings do not contain {from}");
    complete.replace(from, to)
}

#[track_caller]
fn check_rejected(text: &str, expected: &str) {
    let SettingProblems(lines) = load(text, &[]).unwrap_err();
    assert!(lines.iter().any(|it| it.contains(expected)), "{expected} is not in {lines:?}");
}

#[test]
fn scheme_section_connects_the_scheme() {
    let settings = load(&settings_with("", ""), &[]).unwrap();
    let servers = settings.directory_servers_settings("http://127.0.0.1:1");
    assert!(servers.test.is_empty() && servers.simulator.is_none());
    assert_eq!(servers.production.len(), 1);
    let visa = servers.production.first().unwrap();
    assert_eq!(visa.scheme, Scheme::Visa);
    assert_eq!(visa.transport.section, "threeds.production.visa");
    let hosts = visa.transport.urls.iter().map(|it| it.0.authority.as_str());
    assert_eq!(hosts.collect::<Vec<_>>(), ["a.example", "b.example:8443"]);
    assert_eq!(visa.connection.results_url, "https://results.example");
    assert_eq!(visa.connection.operator_id.as_deref(), Some("operator"));
    assert_eq!(servers.threeds.public_url, "https://vault.example");
    let results = settings.results_listener_settings().unwrap();
    assert_eq!(results.schemes.len(), 1);
    let operator_id =
        settings.scheme_entries.iter().find(|(path, _)| path.ends_with("visa.operator_id"));
    assert_eq!(operator_id.unwrap().1, "operator");
}

#[test]
fn test_scheme_receives_results_at_the_public_url() {
    let text = "[threeds]\npublic_url = \"listen\"\n".to_owned() + VISA;
    let text = text.replace(".production.", ".test.").replace("results_url", "# ");
    let servers = load(&text, &[]).unwrap().directory_servers_settings("http://127.0.0.1:1");
    assert!(servers.production.is_empty());
    assert_eq!(servers.test.first().unwrap().connection.results_url, "http://127.0.0.1:1");
}

#[test]
fn incomplete_scheme_section_is_rejected() {
    for name in ["urls", "client_certificate", "client_key", "roots", "reference_number"] {
        let expected = format!("threeds.production.visa.{name}: is required");
        check_rejected(&settings_with(&format!("\n{name} ="), "\n# ="), &expected);
        let line = settings_with("", "");
        let line = line.lines().find(|it| it.starts_with(&format!("{name} ="))).unwrap();
        check_rejected(&settings_with(line, &format!("{name} = \"\"")), &expected);
    }
    check_rejected(
        &settings_with("\nresults_url", "\n# "),
        "threeds.production.visa.results_url: is required",
    );
    check_rejected(&settings_with("\npublic_url", "\n# "), "threeds.public_url: is required");
    check_rejected(
        &settings_with("\nresults_key", "\n# "),
        "threeds.results_key: set all of them, or none",
    );
    let without_listener = settings_with("results_listen = \"127.0.0.1:4443\"", "");
    check_rejected(
        &without_listener,
        "threeds.results_listen: is required if a production scheme is connected",
    );
    check_rejected(THREEDS, "threeds.results_listen: requires a section [threeds.production...]");
    let simulator = "[threeds]\nsimulator_url = \"http://127.0.0.1:1\"";
    check_rejected(simulator, "threeds.public_url: is required");
    check_rejected(
        "[threeds.production.visa]\noperator_id = \"a\"",
        "threeds.production.visa.urls: is req",
    );
}

/// A text of the complete settings, its invalid replacement, and the reported problem.
#[rustfmt::skip]
const INVALID: &[(&str, &str, &str)] = &[
    ("[threeds.production.visa]", "[threeds.production.viza]",
     "8:21: threeds.production.viza: is not a scheme; schemes are visa, mastercard,"),
    ("roots", "root", "12:1: threeds.production.visa.root: is not a setting; settings are urls,"),
    ("https://a.example", "http://a.example",
     "9:8: threeds.production.visa.urls: must be a URL such as https://"),
    (", https", ",, https", "threeds.production.visa.urls: must be a URL such as https://"),
    ("\"visa.pem\"", "7", "client_certificate: must be a string in quotes"),
    ("https://results.example", "http://results.example",
     "visa.results_url: must begin with https://"),
    ("https://results.example", "https://results.example/",
     "visa.results_url: must be a URL such as"),
    ("https://vault.example", "http://vault.example",
     "threeds.public_url: must begin with https:// for production"),
    ("\"https://vault.example\"", "\"listen\"",
     "threeds.public_url: must begin with https:// for production"),
    ("https://vault.example", "https://vault.example/",
     "threeds.public_url: must be a URL such as https://vault.example, without a slash"),
    ("https://vault.example", "vault.example", "threeds.public_url: must be a URL such as"),
    ("3DS_LOA_SER_TEST_020200_00001", "123456789012345678901234567890123",
     "reference_number: must have 1 to 32 char"),
];

#[test]
fn invalid_threeds_settings_are_reported_with_line_and_column() {
    for (from, to, expected) in INVALID {
        check_rejected(&settings_with(from, to), expected);
    }
    for (text, expected) in [
        (
            "[threeds]\nsimulator_url = \"http://10.0.0.1:1\"",
            "2:17: threeds.simulator_url: must be a URL on this machine",
        ),
        ("[threeds]\nproduction = 1", "2:1: threeds.production: is not a setting; [threeds] has"),
        ("[threeds.production]\nvisa = 1", "threeds.production.visa: must be a section"),
        ("[threeds.production.visa]", "1:21: threeds.production.visa: is empty"),
        ("[threeds.live.visa]\nurls = \"\"", "threeds.live: is not a setting"),
    ] {
        check_rejected(text, expected);
    }
}

/// A session that waits for a response is abandoned after a minute.
#[test]
fn timeouts_longer_than_an_authentication_are_rejected() {
    let settings_with_timeouts = |connect: u32, response: u32| {
        let settings = format!(
            "[threeds]\nconnect_deadline_ms = {connect}\nresponse_deadline_ms = {response}\n"
        );
        settings_with("[threeds]\n", &settings)
    };
    assert!(load(&settings_with_timeouts(10_000, 29_999), &[]).is_ok());
    check_rejected(
        &settings_with_timeouts(10_000, 30_000),
        "threeds.production.visa.urls with threeds.connect_deadline_ms and \
         threeds.response_deadline_ms: an authentication may take up to 50000 ms; the limit is \
         50000 ms",
    );
    let timeouts_without_scheme =
        "[threeds]\nconnect_deadline_ms = 10000\nresponse_deadline_ms = 40000\n";
    check_rejected(
        timeouts_without_scheme,
        "threeds.connect_deadline_ms and threeds.response_deadline_ms: an authentication",
    );
    assert!(load(&timeouts_without_scheme.replace("40000", "39999"), &[]).is_ok());
    let settings = load(&settings_with_timeouts(10_000, 20_000), &[]).unwrap();
    assert_eq!(settings.authentication_time_max(), Duration::from_secs(40));
}

#[test]
fn public_url_length_is_limited_by_the_emv_maximum() {
    let settings_with_length = |length: usize| {
        let url = format!("https://{}", "x".repeat(length - "https://".len()));
        settings_with("https://vault.example", &url)
    };
    let path = "/3ds/sessions/6fa459ea-ee8a-4ca4-894e-db77e160355e/challenge-notification";
    assert!(load(&settings_with_length(256 - path.len()), &[]).is_ok());
    check_rejected(
        &settings_with_length(257 - path.len()),
        "threeds.public_url: must have at most 183 characters",
    );
}

#[test]
fn production_scheme_must_not_use_the_simulator_url() {
    let text = settings_with("[threeds]", "[threeds]\nsimulator_url = \"http://127.0.0.1:4243\"");
    assert!(load(&text, &[]).is_ok());
    let text = text.replace("b.example:8443", "127.0.0.1:4243");
    check_rejected(&text, "threeds.production.visa.urls: must not be threeds.simulator_url");
}

#[test]
fn results_subject_must_be_a_dns_name_for_production() {
    let with_subject = |value: &str| {
        let to = format!("operator_id = \"operator\"\nresults_subject = \"{value}\"");
        settings_with("operator_id = \"operator\"", &to)
    };
    let settings = load(&with_subject("ds.visa.example"), &[]).unwrap();
    let results = settings.results_listener_settings().unwrap();
    let name = results.schemes.first().unwrap().required_dns_name.clone().unwrap();
    assert_eq!(name.to_str(), "ds.visa.example");
    for text in ["not a name", "127.0.0.1", "https://ds.visa.example"] {
        check_rejected(&with_subject(text), "results_subject: must be a DNS name");
    }
    let test = "[threeds]\npublic_url = \"listen\"\n".to_owned() + VISA;
    let test = test.replace(".production.", ".test.") + "results_subject = \"ds.example\"\n";
    check_rejected(&test, "threeds.test.visa.results_subject: is for production only");
}
