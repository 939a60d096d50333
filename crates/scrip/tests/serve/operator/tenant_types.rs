//! The type and the name of a new tenant.

use std::fs;

use scrip_testing::process::harness::ProcessHarness;
use serde_json::Value;

use crate::operator::commands::{run_json, run_text, value_text};

fn tenant_count(process: &ProcessHarness) -> usize {
    run_json(process, &["tenant", "list"])["tenants"].as_array().expect("tenants").len()
}

#[test]
fn tenant_without_a_type_is_refused_with_an_explanation() {
    let process = ProcessHarness::initialized(crate::SCRIP);
    for explanation in ["cannot change later", "--type production", "--type test", "real cards"] {
        process.assert_fails(&["tenant", "create", "Acme"], explanation);
    }
    assert_eq!(tenant_count(&process), 0);
    let help = run_text(&process, &["tenant", "create", "--help"]);
    assert!(help.contains("scrip tenant create <NAME> --type <production|test>"), "{help}");
}

#[test]
fn second_tenant_of_a_name_needs_allow_duplicate_name() {
    let process = ProcessHarness::initialized(crate::SCRIP);
    let create = ["tenant", "create", "Acme", "--type", "production"];
    let first_id = value_text(&run_json(&process, &create)["id"]);
    process.assert_fails(&create, &format!("tenant {first_id} is already named Acme"));
    process.assert_fails(&["tenant", "create", " Acme ", "--type", "test"], &first_id);
    assert_eq!(tenant_count(&process), 1);

    // A deleted tenant that can be restored would have the name again.
    run_json(&process, &["tenant", "delete", "Acme", "--yes"]);
    process.assert_fails(&create, &format!("scrip tenant restore {first_id}"));
    let second = run_json(&process, &[&create[..], &["--allow-duplicate-name"]].concat());
    assert_ne!(value_text(&second["id"]), first_id);

    // A destroyed tenant has no name.
    run_json(&process, &["tenant", "delete", &first_id, "--yes", "--now"]);
    run_json(&process, &["tenant", "delete", "Acme", "--yes", "--now"]);
    run_json(&process, &create);
}

fn tenant_type_findings(process: &ProcessHarness) -> Vec<Value> {
    let checks = run_json(process, &["doctor"])["checks"].clone();
    let checks = checks.as_array().expect("checks").clone();
    checks.into_iter().filter(|it| it["check"] == "tenant types").collect()
}

#[test]
fn doctor_warns_of_a_vault_with_test_tenants_only() {
    let process = ProcessHarness::initialized(crate::SCRIP);
    assert!(tenant_type_findings(&process).is_empty(), "a new vault has no tenant yet");
    run_json(&process, &["tenant", "create", "Try", "--type", "test"]);
    let findings = tenant_type_findings(&process);
    let [finding] = findings.as_slice() else { panic!("one warning: {findings:?}") };
    assert_eq!(finding["verdict"], "warning");
    assert!(value_text(&finding["message"]).contains("only test tenants exist"), "{finding}");

    let keys = process.data().join("dev-keys.json");
    fs::write(&keys, "{}").unwrap();
    assert!(tenant_type_findings(&process).is_empty(), "a vault of scrip dev");
    fs::remove_file(keys).unwrap();
    run_json(&process, &["tenant", "create", "Real", "--type", "production"]);
    assert!(tenant_type_findings(&process).is_empty(), "a production tenant exists");
}
