//! What the settings of 3-D Secure say when they are whole, and when they are not.

use super::*;
use crate::config::{Problems, tests::load};

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
fn with(from: &str, to: &str) -> String {
    let whole = format!("{THREEDS}{VISA}");
    assert!(whole.contains(from), "{from}");
    whole.replace(from, to)
}

#[track_caller]
fn refused(text: &str, expected: &str) {
    let Problems(lines) = load(text, &[]).unwrap_err();
    assert!(lines.iter().any(|it| it.contains(expected)), "{lines:?}");
}

#[test]
fn a_section_connects_a_scheme() {
    let settings = load(&with("", ""), &[]).unwrap();
    let plan = settings.threeds_plan("http://127.0.0.1:1");
    assert!(plan.test.is_empty() && plan.simulator.is_none());
    assert_eq!(plan.production.len(), 1);
    let visa = plan.production.first().unwrap();
    assert_eq!(visa.scheme, Scheme::Visa);
    assert_eq!(visa.way.section, "threeds.production.visa");
    let hosts = visa.way.urls.iter().map(|it| it.0.authority.as_str());
    assert_eq!(hosts.collect::<Vec<_>>(), ["a.example", "b.example:8443"]);
    assert_eq!(visa.link.results_url, "https://results.example");
    assert_eq!(visa.link.operator_id.as_deref(), Some("operator"));
    assert_eq!(plan.terms.public_url, "https://vault.example");
    let results = settings.results_plan().unwrap();
    assert_eq!(results.schemes.len(), 1);
    let said = settings.of_schemes.iter().find(|(path, _)| path.ends_with("visa.operator_id"));
    assert_eq!(said.unwrap().1, "operator");
}

#[test]
fn a_scheme_for_tests_has_results_where_browsers_come() {
    let text = "[threeds]\npublic_url = \"listen\"\n".to_owned() + VISA;
    let text = text.replace(".production.", ".test.").replace("results_url", "# ");
    let plan = load(&text, &[]).unwrap().threeds_plan("http://127.0.0.1:1");
    assert!(plan.production.is_empty());
    assert_eq!(plan.test.first().unwrap().link.results_url, "http://127.0.0.1:1");
}

#[test]
fn half_a_configuration_is_none() {
    for name in ["urls", "client_certificate", "client_key", "roots", "reference_number"] {
        let expected = format!("threeds.production.visa.{name}: is required");
        refused(&with(&format!("\n{name} ="), "\n# ="), &expected);
        let line = with("", "");
        let line = line.lines().find(|it| it.starts_with(&format!("{name} ="))).unwrap();
        refused(&with(line, &format!("{name} = \"\"")), &expected);
    }
    refused(&with("\nresults_url", "\n# "), "threeds.production.visa.results_url: is required");
    refused(&with("\npublic_url", "\n# "), "threeds.public_url: is required");
    refused(&with("\nresults_key", "\n# "), "threeds.results_key: set all of them, or none");
    let nowhere = with("results_listen = \"127.0.0.1:4443\"", "");
    refused(&nowhere, "threeds.results_listen: is required where schemes of production are");
    refused(THREEDS, "threeds.results_listen: there is no section [threeds.production...]");
    let simulator = "[threeds]\nsimulator_url = \"http://127.0.0.1:1\"";
    refused(simulator, "threeds.public_url: is required");
    refused(
        "[threeds.production.visa]\noperator_id = \"a\"",
        "threeds.production.visa.urls: is req",
    );
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    refused(
        &with("[threeds.production.visa]", "[threeds.production.viza]"),
        "8:21: threeds.production.viza: is not a scheme; there are visa, mastercard,",
    );
    refused(
        &with("roots", "root"),
        "12:1: threeds.production.visa.root: is not a setting; there are urls,",
    );
    refused(
        &with("https://a.example", "http://a.example"),
        "9:8: threeds.production.visa.urls: must be such as https://",
    );
    refused(&with(", https", ",, https"), "threeds.production.visa.urls: must be such as https://");
    refused(&with("\"visa.pem\"", "7"), "client_certificate: must be text in quotes");
    refused(
        &with("https://results.example", "http://results.example"),
        "visa.results_url: must begin with https://",
    );
    refused(
        &with("https://results.example", "https://results.example/"),
        "visa.results_url: must be such as",
    );
    refused(
        &with("https://vault.example", "http://vault.example"),
        "threeds.public_url: must begin with https:// for production",
    );
    refused(
        &with("https://vault.example", "https://vault.example/"),
        "threeds.public_url: must be such as https://vault.example, without a slash",
    );
    refused(&with("https://vault.example", "vault.example"), "threeds.public_url: must be such as");
    refused(
        "[threeds]\nsimulator_url = \"http://10.0.0.1:1\"",
        "2:17: threeds.simulator_url: must be on this machine",
    );
    refused(
        "[threeds]\nproduction = 1",
        "2:1: threeds.production: is not a setting; [threeds] has",
    );
    refused("[threeds.production]\nvisa = 1", "threeds.production.visa: must be a section");
    refused("[threeds.production.visa]", "1:21: threeds.production.visa: has no settings");
    refused("[threeds.live.visa]\nurls = \"\"", "threeds.live: is not a setting");
    let long = "x".repeat(33);
    refused(
        &with("3DS_LOA_SER_TEST_020200_00001", &long),
        "reference_number: must have 1 to 32 char",
    );
}

/// A session that waits for an answer is given up after a minute.
#[test]
fn an_authentication_ends_before_its_session_is_given_up() {
    let slow = |connect: u32, answer: u32| {
        let settings =
            format!("[threeds]\nconnect_deadline_ms = {connect}\nanswer_deadline_ms = {answer}\n");
        with("[threeds]\n", &settings)
    };
    assert!(load(&slow(10_000, 29_999), &[]).is_ok());
    refused(
        &slow(10_000, 30_000),
        "threeds.production.visa.urls with threeds.connect_deadline_ms and \
         threeds.answer_deadline_ms: an authentication may take 50000 ms in all, and must take less \
         than 50000",
    );
    let alone = "[threeds]\nconnect_deadline_ms = 10000\nanswer_deadline_ms = 40000\n";
    refused(alone, "threeds.connect_deadline_ms and threeds.answer_deadline_ms: an authentication");
    assert!(load(&alone.replace("40000", "39999"), &[]).is_ok());
    let settings = load(&slow(10_000, 20_000), &[]).unwrap();
    assert_eq!(settings.authentication_most(), Duration::from_secs(40));
}

#[test]
fn browsers_of_production_come_to_an_address_that_is_said() {
    refused(
        &with("\"https://vault.example\"", "\"listen\""),
        "threeds.public_url: must begin with https:// for production",
    );
}

#[test]
fn a_public_url_leaves_room_for_the_path() {
    let of = |length: usize| {
        let name = format!("https://{}", "x".repeat(length - "https://".len()));
        with("https://vault.example", &name)
    };
    let path = "/3ds/sessions/6fa459ea-ee8a-4ca4-894e-db77e160355e/challenge-notification";
    assert!(load(&of(256 - path.len()), &[]).is_ok());
    refused(&of(257 - path.len()), "threeds.public_url: must have at most 183 characters");
}

#[test]
fn production_does_not_lead_to_the_simulator() {
    let text = with("[threeds]", "[threeds]\nsimulator_url = \"http://127.0.0.1:4243\"");
    assert!(load(&text, &[]).is_ok());
    let text = text.replace("b.example:8443", "127.0.0.1:4243");
    refused(&text, "threeds.production.visa.urls: must not lead to threeds.simulator_url");
}

#[test]
fn results_subject_is_a_dns_name_and_for_production_only() {
    let with_subject = |value: &str| {
        let to = format!("operator_id = \"operator\"\nresults_subject = \"{value}\"");
        with("operator_id = \"operator\"", &to)
    };
    let settings = load(&with_subject("ds.visa.example"), &[]).unwrap();
    let results = settings.results_plan().unwrap();
    let subject = results.schemes.first().unwrap().subject.clone().unwrap();
    assert_eq!(subject.to_str(), "ds.visa.example");
    for wrong in ["not a name", "127.0.0.1", "https://ds.visa.example"] {
        refused(&with_subject(wrong), "results_subject: must be a DNS name");
    }
    let test = "[threeds]\npublic_url = \"listen\"\n".to_owned() + VISA;
    let test = test.replace(".production.", ".test.") + "results_subject = \"ds.example\"\n";
    refused(&test, "threeds.test.visa.results_subject: is for production only");
}
