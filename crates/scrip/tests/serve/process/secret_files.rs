//! Files with keys and passwords that other users can read end the start, and the file is named.

use std::{fs, os::unix::fs::PermissionsExt};

use scrip_testing::process::harness::ProcessHarness;

use crate::{
    network::tls_client::{certify, with_tls},
    operator::commands::json,
};

/// With a file of this name that everybody can read.
#[track_caller]
fn refused_while_open(house: &ProcessHarness, name: &str, setting: &str, fix: &str) {
    let file = house.path(name);
    let set_mode = |mode| fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
    set_mode(0o644);
    let fix = format!("is open to others (mode 644); run: chmod {fix} {name}");
    house.refused(&["serve"], &format!("{setting}: {name} {fix}"));
    let doctor = house.run(&["doctor"]);
    let said = String::from_utf8_lossy(&doctor.stdout).into_owned();
    assert!(!doctor.status.success() && said.contains(&fix), "{said}");
    set_mode(0o600);
}

#[test]
fn tls_key_that_everybody_can_read_ends_the_start() {
    let house = with_tls(ProcessHarness::founded(crate::SCRIP));
    certify(&house);
    refused_while_open(&house, "key.pem", "tls.key", "640");
    drop(house.serve());
}

#[test]
fn password_and_metrics_key_that_everybody_can_read_end_the_start() {
    let house = ProcessHarness::founded(crate::SCRIP);
    fs::write(house.path("secret"), "a-key-of-the-operator").unwrap();
    let house = house
        .set("SCRIP_LIMITS_REDIS_URL", "redis://127.0.0.1:1/")
        .set("SCRIP_LIMITS_REDIS_PASSWORD_FILE", "secret");
    refused_while_open(&house, "secret", "limits.redis_password_file", "640");
    let house = ProcessHarness::founded(crate::SCRIP);
    fs::write(house.path("secret"), "a-key-of-the-operator").unwrap();
    let house = house.set("SCRIP_METRICS_KEY_FILE", "secret");
    refused_while_open(&house, "secret", "metrics.key_file", "600");
    drop(house.serve());
}

#[test]
fn settings_file_with_a_password_that_everybody_can_read_ends_the_start() {
    let house = ProcessHarness::new(crate::SCRIP);
    let url = "postgres://scrip:secret@127.0.0.1:1/scrip?sslmode=disable";
    let text = format!("[storage]\nurl = \"{url}\"\nonly_node = true\n");
    fs::write(house.path("scrip.toml"), text).unwrap();
    let house = house.set("SCRIP_CONFIG", "scrip.toml");
    let file = house.path("scrip.toml");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    house.refused(&["serve"], "storage.url: scrip.toml is open to others (mode 644)");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    house.refused(&["serve"], "cannot be used");
}

#[test]
fn doctor_warns_of_a_root_key_in_the_environment() {
    let house = ProcessHarness::founded(crate::SCRIP);
    let key = fs::read_to_string(house.data().join("root.key")).unwrap();
    let checks = |house: &ProcessHarness| json(house, &["doctor"])["checks"].clone();
    let root_key = |checks: serde_json::Value| {
        let found = checks.as_array().unwrap().iter().find(|it| it["check"] == "root key");
        found.unwrap().clone()
    };
    let house = house.set("SCRIP_ROOT_KEY", key.trim());
    let finding = root_key(checks(&house));
    assert_eq!(finding["verdict"], "warning", "{finding}");
    assert!(finding["says"].as_str().unwrap().contains("set keys.root_key_file"), "{finding}");
}
