//! Key and password files that other users can read prevent the start. The error names the file.

use std::{fs, os::unix::fs::PermissionsExt};

use scrip_testing::process::harness::ProcessHarness;

use crate::{
    network::tls_client::{create_certificate, with_tls},
    operator::commands::run_json,
};

/// Expects that a start fails while every user can read this file.
#[track_caller]
fn check_rejected_while_readable(process: &ProcessHarness, name: &str, setting: &str, fix: &str) {
    let file = process.path(name);
    let set_mode = |mode| fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
    set_mode(0o644);
    let fix = format!("is accessible to other users (mode 644); run: chmod {fix} {name}");
    process.assert_fails(&["serve"], &format!("{setting}: {name} {fix}"));
    let doctor = process.run(&["doctor"]);
    let output = String::from_utf8_lossy(&doctor.stdout);
    assert!(!doctor.status.success() && output.contains(&fix), "{output}");
    set_mode(0o600);
}

#[test]
fn tls_key_readable_by_others_prevents_start() {
    let process = with_tls(ProcessHarness::initialized(crate::SCRIP));
    create_certificate(&process);
    check_rejected_while_readable(&process, "key.pem", "tls.key", "640");
    drop(process.serve());
}

#[test]
fn password_and_metrics_key_readable_by_others_prevent_start() {
    let process = ProcessHarness::initialized(crate::SCRIP);
    fs::write(process.path("secret"), "a-key-of-the-operator").unwrap();
    let process = process
        .with_variable("SCRIP_LIMITS_REDIS_URL", "redis://127.0.0.1:1/")
        .with_variable("SCRIP_LIMITS_REDIS_PASSWORD_FILE", "secret");
    check_rejected_while_readable(&process, "secret", "limits.redis_password_file", "640");
    let process = ProcessHarness::initialized(crate::SCRIP);
    fs::write(process.path("secret"), "a-key-of-the-operator").unwrap();
    let process = process.with_variable("SCRIP_METRICS_KEY_FILE", "secret");
    check_rejected_while_readable(&process, "secret", "metrics.key_file", "600");
    drop(process.serve());
}

#[test]
fn settings_file_with_password_readable_by_others_prevents_start() {
    let process = ProcessHarness::new(crate::SCRIP);
    let url = "postgres://scrip:secret@127.0.0.1:1/scrip?sslmode=disable";
    let text = format!("[storage]\nurl = \"{url}\"\nsingle_node = true\n");
    fs::write(process.path("scrip.toml"), text).unwrap();
    let process = process.with_variable("SCRIP_CONFIG", "scrip.toml");
    let file = process.path("scrip.toml");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    // The doctor reports it although there is no data directory.
    assert_eq!(settings_file_verdicts(&process), ["failed"]);
    process.assert_fails(
        &["serve"],
        "storage.url: scrip.toml is accessible to other users (mode 644)",
    );
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    process.assert_fails(&["serve"], "cannot be used");
    assert!(settings_file_verdicts(&process).is_empty());
}

/// The verdicts of the doctor about a settings file that others can read.
fn settings_file_verdicts(process: &ProcessHarness) -> Vec<String> {
    let output = process.run(&["doctor", "--json"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let checks = report["checks"].as_array().unwrap().iter();
    let text = "storage.url: scrip.toml is accessible to other users (mode 644); run: chmod 640";
    let is_match = |it: &&serde_json::Value| it["message"].as_str().unwrap().contains(text);
    checks.filter(is_match).map(|it| it["verdict"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn doctor_warns_of_an_unused_password_in_a_settings_file_readable_by_others() {
    let process = ProcessHarness::new(crate::SCRIP);
    let text = "[storage]\nurl = \"postgres://scrip:secret@127.0.0.1:1/scrip?sslmode=disable\"\n";
    let file = process.path("scrip.toml");
    fs::write(&file, text).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let process = process
        .with_variable("SCRIP_STORAGE_URL", "postgres://scrip@127.0.0.1:1/scrip?sslmode=disable");
    assert_eq!(settings_file_verdicts(&process), ["warning"]);
    fs::write(&file, text.replace(":secret@", "@")).unwrap();
    assert!(settings_file_verdicts(&process).is_empty());
}

#[test]
fn doctor_warns_of_a_root_key_in_the_environment() {
    let process = ProcessHarness::initialized(crate::SCRIP);
    let key = fs::read_to_string(process.data().join("root.key")).unwrap();
    let checks = |process: &ProcessHarness| run_json(process, &["doctor"])["checks"].clone();
    let root_key = |checks: serde_json::Value| {
        let check = checks.as_array().unwrap().iter().find(|it| it["check"] == "root key");
        check.unwrap().clone()
    };
    let process = process.with_variable("SCRIP_ROOT_KEY", key.trim());
    let finding = root_key(checks(&process));
    assert_eq!(finding["verdict"], "warning", "{finding}");
    assert!(finding["message"].as_str().unwrap().contains("set keys.root_key_file"), "{finding}");
}
