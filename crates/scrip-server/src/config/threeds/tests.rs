//! What the settings of 3-D Secure say when they are whole, and when they are not.

use super::*;
use crate::config::{SettingProblems, tests::load};

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

/// The whole of it, with one text in place of another.
fn settings_with(from: &str, to: &str) -> String {
    let whole = format!("{THREEDS}{VISA}");
    assert!(whole.contains(from), "{from}");
    whole.replace(from, to)
}

#[track_caller]
fn check_rejected(text: &str, expected: &str) {
    let SettingProblems(lines) = load(text, &[]).unwrap_err();
    assert!(lines.iter().any(|it| it.contains(expected)), "{lines:?}");
}

#[test]
fn scheme_section_connects_the_scheme() {
    let settings = load(&settings_with("", ""), &[]).unwrap();
    let plan = settings.threeds_plan("http://127.0.0.1:1");
    assert!(plan.test.is_empty() && plan.simulator.is_none());
    assert_eq!(plan.production.len(), 1);
    let visa = plan.production.first().unwrap();
    assert_eq!(visa.scheme, Scheme::Visa);
    assert_eq!(visa.transport.section, "threeds.production.visa");
    let hosts = visa.transport.urls.iter().map(|it| it.0.authority.as_str());
    assert_eq!(hosts.collect::<Vec<_>>(), ["a.example", "b.example:8443"]);
    assert_eq!(visa.connection.results_url, "https://results.example");
    assert_eq!(visa.connection.operator_id.as_deref(), Some("operator"));
    assert_eq!(plan.settings.public_url, "https://vault.example");
    let results = settings.results_plan().unwrap();
    assert_eq!(results.schemes.len(), 1);
    let output = settings.of_schemes.iter().find(|(path, _)| path.ends_with("visa.operator_id"));
    assert_eq!(output.unwrap().1, "operator");
}

#[test]
fn test_scheme_receives_results_at_the_public_url() {
    let text = "[threeds]\npublic_url = \"listen\"\n".to_owned() + VISA;
    let text = text.replace(".production.", ".test.").replace("results_url", "# ");
    let plan = load(&text, &[]).unwrap().threeds_plan("http://127.0.0.1:1");
    assert!(plan.production.is_empty());
    assert_eq!(plan.test.first().unwrap().connection.results_url, "http://127.0.0.1:1");
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
    let nowhere = settings_with("results_listen = \"127.0.0.1:4443\"", "");
    check_rejected(&nowhere, "threeds.results_listen: is required where schemes of production are");
    check_rejected(THREEDS, "threeds.results_listen: there is no section [threeds.production...]");
    let simulator = "[threeds]\nsimulator_url = \"http://127.0.0.1:1\"";
    check_rejected(simulator, "threeds.public_url: is required");
    check_rejected(
        "[threeds.production.visa]\noperator_id = \"a\"",
        "threeds.production.visa.urls: is req",
    );
}

#[test]
fn invalid_threeds_settings_are_reported_with_line_and_column() {
    check_rejected(
        &settings_with("[threeds.production.visa]", "[threeds.production.viza]"),
        "8:21: threeds.production.viza: is not a scheme; there are visa, mastercard,",
    );
    check_rejected(
        &settings_with("roots", "root"),
        "12:1: threeds.production.visa.root: is not a setting; there are urls,",
    );
    check_rejected(
        &settings_with("https://a.example", "http://a.example"),
        "9:8: threeds.production.visa.urls: must be such as https://",
    );
    check_rejected(
        &settings_with(", https", ",, https"),
        "threeds.production.visa.urls: must be such as https://",
    );
    check_rejected(
        &settings_with("\"visa.pem\"", "7"),
        "client_certificate: must be text in quotes",
    );
    check_rejected(
        &settings_with("https://results.example", "http://results.example"),
        "visa.results_url: must begin with https://",
    );
    check_rejected(
        &settings_with("https://results.example", "https://results.example/"),
        "visa.results_url: must be such as",
    );
    check_rejected(
        &settings_with("https://vault.example", "http://vault.example"),
        "threeds.public_url: must begin with https:// for production",
    );
    check_rejected(
        &settings_with("https://vault.example", "https://vault.example/"),
        "threeds.public_url: must be such as https://vault.example, without a slash",
    );
    check_rejected(
        &settings_with("https://vault.example", "vault.example"),
        "threeds.public_url: must be such as",
    );
    check_rejected(
        "[threeds]\nsimulator_url = \"http://10.0.0.1:1\"",
        "2:17: threeds.simulator_url: must be on this machine",
    );
    check_rejected(
        "[threeds]\nproduction = 1",
        "2:1: threeds.production: is not a setting; [threeds] has",
    );
    check_rejected("[threeds.production]\nvisa = 1", "threeds.production.visa: must be a section");
    check_rejected("[threeds.production.visa]", "1:21: threeds.production.visa: has no settings");
    check_rejected("[threeds.live.visa]\nurls = \"\"", "threeds.live: is not a setting");
    let long = "x".repeat(33);
    check_rejected(
        &settings_with("3DS_LOA_SER_TEST_020200_00001", &long),
        "reference_number: must have 1 to 32 char",
    );
}

/// A session that waits for an answer is given up after a minute.
#[test]
fn timeouts_longer_than_an_authentication_are_rejected() {
    let slow = |connect: u32, answer: u32| {
        let settings =
            format!("[threeds]\nconnect_deadline_ms = {connect}\nanswer_deadline_ms = {answer}\n");
        settings_with("[threeds]\n", &settings)
    };
    assert!(load(&slow(10_000, 29_999), &[]).is_ok());
    check_rejected(
        &slow(10_000, 30_000),
        "threeds.production.visa.urls with threeds.connect_deadline_ms and \
         threeds.answer_deadline_ms: an authentication may take 50000 ms in all, and must take less \
         than 50000",
    );
    let alone = "[threeds]\nconnect_deadline_ms = 10000\nanswer_deadline_ms = 40000\n";
    check_rejected(
        alone,
        "threeds.connect_deadline_ms and threeds.answer_deadline_ms: an authentication",
    );
    assert!(load(&alone.replace("40000", "39999"), &[]).is_ok());
    let settings = load(&slow(10_000, 20_000), &[]).unwrap();
    assert_eq!(settings.authentication_time_max(), Duration::from_secs(40));
}

#[test]
fn production_requires_an_https_public_url() {
    check_rejected(
        &settings_with("\"https://vault.example\"", "\"listen\""),
        "threeds.public_url: must begin with https:// for production",
    );
}

#[test]
fn public_url_length_is_limited_by_the_emv_maximum() {
    let of = |length: usize| {
        let name = format!("https://{}", "x".repeat(length - "https://".len()));
        settings_with("https://vault.example", &name)
    };
    let path = "/3ds/sessions/6fa459ea-ee8a-4ca4-894e-db77e160355e/challenge-notification";
    assert!(load(&of(256 - path.len()), &[]).is_ok());
    check_rejected(&of(257 - path.len()), "threeds.public_url: must have at most 183 characters");
}

#[test]
fn production_scheme_must_not_use_the_simulator_url() {
    let text = settings_with("[threeds]", "[threeds]\nsimulator_url = \"http://127.0.0.1:4243\"");
    assert!(load(&text, &[]).is_ok());
    let text = text.replace("b.example:8443", "127.0.0.1:4243");
    check_rejected(&text, "threeds.production.visa.urls: must not lead to threeds.simulator_url");
}

#[test]
fn results_subject_must_be_a_dns_name_for_production() {
    let with_subject = |value: &str| {
        let to = format!("operator_id = \"operator\"\nresults_subject = \"{value}\"");
        settings_with("operator_id = \"operator\"", &to)
    };
    let settings = load(&with_subject("ds.visa.example"), &[]).unwrap();
    let results = settings.results_plan().unwrap();
    let subject = results.schemes.first().unwrap().subject.clone().unwrap();
    assert_eq!(subject.to_str(), "ds.visa.example");
    for wrong in ["not a name", "127.0.0.1", "https://ds.visa.example"] {
        check_rejected(&with_subject(wrong), "results_subject: must be a DNS name");
    }
    let test = "[threeds]\npublic_url = \"listen\"\n".to_owned() + VISA;
    let test = test.replace(".production.", ".test.") + "results_subject = \"ds.example\"\n";
    check_rejected(&test, "threeds.test.visa.results_subject: is for production only");
}
