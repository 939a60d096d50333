//! Each failure to unlock the vault has its own reason, and all reports name the same one.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
};

use scrip_testing::process::harness::{ProcessHarness, becomes_true};

use crate::{
    SCRIP,
    keys::{keep_only, shares::vault_with_shares, text},
    operator::commands::{doctor_report, run_json},
    process::verification_codes::serve_ready,
    telemetry::metrics::scrape,
};

const ROOT_KEY_TEXT: &str = "root key is missing or wrong";

struct ExpectedReason {
    label: &'static str,
    /// Part of the answer to clients.
    answer: &'static str,
    /// Part of the line of `scrip doctor` about the server.
    doctor: &'static str,
}

/// Expects that a server of this vault is sealed, and that answers, metrics and doctor say why.
#[track_caller]
fn assert_reason(process: ProcessHarness, expected: &ExpectedReason) {
    let process = process.with_variable("SCRIP_METRICS_LISTEN", "127.0.0.1:0");
    let server = process.serve();
    let value = |reason: &str| scrape(&server).value("scrip_not_ready", &[("reason", reason)]);
    assert!(becomes_true(|| value(expected.label) == 1.0), "{}: {}", expected.label, process.log());
    for path in ["/readyz", "/tokens/1"] {
        let answer = server.send("GET", path).text();
        assert!(answer.contains(expected.answer), "{path}: {answer}");
        assert_eq!(answer.contains(ROOT_KEY_TEXT), expected.label == "root_key", "{answer}");
    }
    assert_eq!(scrape(&server).value("scrip_sealed", &[]), 1.0);
    let report = doctor_report(&process);
    let line = report.lines().find(|it| it.starts_with("ERROR    server")).unwrap_or_default();
    assert!(line.contains(expected.doctor), "{report}");
    assert_eq!(line.contains(ROOT_KEY_TEXT), expected.label == "root_key", "{report}");
}

#[test]
fn vault_that_waits_for_shares_says_so_everywhere() {
    let (process, _) = vault_with_shares();
    let expected = ExpectedReason {
        label: "shares",
        answer: "the vault is sealed until enough people have entered their shares",
        doctor: "it waits for shares. 3 of 5 people must each enter a share: scrip unseal",
    };
    assert_reason(process, &expected);
}

#[test]
fn missing_root_key_is_the_reason_root_key() {
    let process = ProcessHarness::initialized(SCRIP);
    fs::remove_file(process.data().join("root.key")).unwrap();
    let expected = ExpectedReason {
        label: "root_key",
        answer: "the vault is sealed: its root key is missing or wrong",
        doctor: "is sealed: its root key is missing or wrong. the root key",
    };
    assert_reason(process, &expected);
}

#[test]
fn readable_root_key_is_denied_and_not_called_missing() {
    let process = ProcessHarness::initialized(SCRIP);
    let file = process.data().join("root.key");
    fs::set_permissions(file, Permissions::from_mode(0o644)).unwrap();
    let expected = ExpectedReason {
        label: "unlock_denied",
        answer: "the vault is sealed: access to its key is denied",
        doctor: "is sealed: access to its key is denied",
    };
    assert_reason(process, &expected);
}

#[test]
fn missing_key_of_another_method_is_not_called_a_root_key() {
    let process = ProcessHarness::initialized(SCRIP)
        .with_variable("SCRIP_UNLOCK_KEY", "ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8=");
    let server = serve_ready(&process);
    let added = run_json(&process, &["keys", "add", "env", "SCRIP_UNLOCK_KEY"]);
    keep_only(&process, &text(&added["method"]["id"]));
    drop(server);
    let process = process.with_variable("SCRIP_UNLOCK_KEY", "");
    let expected = ExpectedReason {
        label: "unlock_key_missing",
        answer: "the vault is sealed: the key of its unlock method is missing",
        doctor: "the key of its unlock method is missing",
    };
    assert_reason(process, &expected);
}

#[test]
fn wrong_value_of_a_variable_is_not_called_a_root_key() {
    let process = ProcessHarness::initialized(SCRIP)
        .with_variable("SCRIP_UNLOCK_KEY", "ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8=");
    let server = serve_ready(&process);
    let added = run_json(&process, &["keys", "add", "env", "SCRIP_UNLOCK_KEY"]);
    keep_only(&process, &text(&added["method"]["id"]));
    drop(server);
    let process =
        process.with_variable("SCRIP_UNLOCK_KEY", "QEFCQ0RFRkdISUpLTE1OT1BRUlNUVVZXWFlaW1xdXl8=");
    let expected = "SCRIP_UNLOCK_KEY is a key of another vault";
    process.assert_fails(&["audit", "verify"], expected);
    let reason = ExpectedReason {
        label: "unlock_key_wrong",
        answer: "the vault is sealed: its unlock method returned another key",
        doctor: "is sealed: its unlock method returned another key",
    };
    assert_reason(process, &reason);
}
