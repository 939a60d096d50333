//! The report of `scrip doctor` on a vault with a problem.

use std::{fs, os::unix::fs::PermissionsExt};

use scrip_testing::process::harness::ProcessHarness;
use serde_json::Value;

use crate::operator::commands::{create_with_application, value_text};

/// The verdicts of one check.
fn verdicts_of_check(report: &Value, check: &str) -> Vec<String> {
    let checks = report["checks"].as_array().expect("checks");
    checks.iter().filter(|it| it["check"] == check).map(|it| value_text(&it["verdict"])).collect()
}

/// The report of the doctor command, whether or not it found problems.
fn run_doctor(process: &ProcessHarness) -> (bool, Value) {
    let output = process.run(&["doctor", "--json"]);
    let report = serde_json::from_slice(&output.stdout).expect("JSON");
    (output.status.success(), report)
}

#[test]
fn doctor_reports_problems() {
    let (process, ..) = create_with_application("private");
    let (well, report) = run_doctor(&process);
    assert!(well, "{report}");
    assert_eq!(
        verdicts_of_check(&report, "root key"),
        ["warning"],
        "no warning although the root key is in the data directory"
    );
    assert_eq!(verdicts_of_check(&report, "policy"), ["passed"]);
    assert!(report.to_string().contains("1 tenant, unaltered"), "{report}");

    let database = process.data().join("scrip.db");
    let mode = |mode| fs::set_permissions(&database, fs::Permissions::from_mode(mode)).unwrap();
    mode(0o644);
    let (well, report) = run_doctor(&process);
    assert_eq!(
        (well, verdicts_of_check(&report, "permissions")),
        (false, vec!["failed".to_owned()])
    );
    mode(0o600);

    let connection = rusqlite::Connection::open(&database).unwrap();
    let alter = |sql: &str| assert_eq!(connection.execute(sql, []).unwrap(), 1, "{sql}");
    alter("UPDATE applications SET name = 'altered'");
    let (well, report) = run_doctor(&process);
    assert_eq!((well, verdicts_of_check(&report, "policy")), (false, vec!["failed".to_owned()]));
    let rejected = process.run(&["key", "create", "00000000-0000-0000-0000-000000000000"]);
    assert!(!rejected.status.success());
    alter("UPDATE applications SET name = 'A'");
    assert!(run_doctor(&process).0);

    // An altered head is not trusted as a clock. `audit verify` reports it.
    alter("UPDATE chain_heads SET at = at + 3600000");
    let (_, report) = run_doctor(&process);
    assert_eq!(verdicts_of_check(&report, "clock"), ["passed"]);
    alter("UPDATE chain_heads SET at = at - 3600000");
    alter("INSERT INTO clock_watermark (singleton, now, earliest, mac) VALUES (1, 1, 1, x'')");
    let (well, report) = run_doctor(&process);
    assert_eq!((well, verdicts_of_check(&report, "clock")), (false, vec!["failed".to_owned()]));
    alter("DELETE FROM clock_watermark");
    alter("INSERT INTO deleted_tenants (id, deleted_at, mac) SELECT id, 1, x'' FROM tenants");
    let (well, report) = run_doctor(&process);
    assert_eq!((well, verdicts_of_check(&report, "deletions")), (false, vec!["failed".to_owned()]));
    alter("DELETE FROM deleted_tenants");

    fs::remove_file(process.data().join("root.key")).unwrap();
    let (well, report) = run_doctor(&process);
    assert_eq!((well, verdicts_of_check(&report, "root key")), (false, vec!["failed".to_owned()]));
    let count = report.to_string().matches("No such file or directory").count();
    assert_eq!(count, 1, "the cause of the missing root key: {report}");
}

#[test]
fn doctor_reports_a_missing_data_directory_once() {
    let process = ProcessHarness::new(crate::SCRIP);
    let (well, report) = run_doctor(&process);
    let checks = report["checks"].as_array().expect("checks");
    let failed: Vec<_> = checks.iter().filter(|it| it["verdict"] == "failed").collect();
    assert!(!well);
    let [failed] = failed.as_slice() else { panic!("one failed check: {report}") };
    assert_eq!(failed["check"], "data directory");
    assert!(value_text(&failed["message"]).contains("run: scrip init"), "{failed}");
}
