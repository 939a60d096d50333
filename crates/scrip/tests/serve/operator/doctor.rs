//! The report of `scrip doctor` on a vault with a problem.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use scrip_testing::process::harness::{ProcessHarness, becomes_true};
use serde_json::Value;

use crate::operator::commands::{create_with_application, run_json, value_text};

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
    let verdicts = verdicts_of_check(&report, "root key");
    assert_eq!(verdicts, ["warning"], "no warning although the root key is in the data directory");
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
fn doctor_warns_about_an_unusable_root_key_if_another_method_opens_the_vault() {
    let (process, ..) = create_with_application("private");
    let server = process.serve();
    assert!(becomes_true(|| server.status("/readyz") == 200));
    let file = process.path("unlock.key").display().to_string();
    run_json(&process, &["keys", "add", "file", &file]);
    drop(server);
    let root_key = process.data().join("root.key");
    let verdict = || {
        let (is_well, report) = run_doctor(&process);
        (is_well, verdicts_of_check(&report, "root key"), verdicts_of_check(&report, "unlock"))
    };
    let verdicts = |names: &[&str]| names.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
    let one_fails = verdicts(&["warning", "passed"]);
    // A key that others can read is always an error, also if no method needs it.
    fs::set_permissions(&root_key, fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(verdict(), (false, verdicts(&["failed"]), one_fails.clone()), "others can read it");
    fs::set_permissions(&root_key, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(&root_key, "malformed").unwrap();
    assert_eq!(verdict(), (true, verdicts(&["warning"]), one_fails.clone()), "malformed");
    fs::remove_file(&root_key).unwrap();
    assert_eq!(verdict(), (true, verdicts(&["warning"]), one_fails), "missing");
    fs::remove_file(&file).unwrap();
    let (is_well, root_key, unlock) = verdict();
    assert_eq!((is_well, root_key), (false, verdicts(&["failed"])), "no method works");
    assert_eq!(unlock, verdicts(&["failed", "failed"]));
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

/// The failed checks with their messages.
fn failed_checks(process: &ProcessHarness) -> Vec<(String, String)> {
    let (well, report) = run_doctor(process);
    let checks = report["checks"].as_array().expect("checks").iter();
    let failed = checks.filter(|it| it["verdict"] == "failed");
    let failed = failed.map(|it| (value_text(&it["check"]), value_text(&it["message"])));
    let failed: Vec<_> = failed.collect();
    assert_eq!(well, failed.is_empty(), "{report}");
    failed
}

/// Expects one failed check, of the audit trail, with this text.
#[track_caller]
fn expect_failed_audit(process: &ProcessHarness, text: &str) {
    let failed = failed_checks(process);
    assert_eq!(failed.len(), 1, "{failed:?}");
    for (check, message) in &failed {
        assert!(check == "audit" && message.contains(text), "{failed:?}");
        assert!(message.contains("scrip audit verify"), "{failed:?}");
    }
}

#[test]
fn doctor_reports_a_directory_without_a_vault_once() {
    let process = ProcessHarness::new(crate::SCRIP);
    fs::create_dir(process.data()).unwrap();
    fs::set_permissions(process.data(), fs::Permissions::from_mode(0o700)).unwrap();
    let failed = failed_checks(&process);
    let [(check, message)] = failed.as_slice() else { panic!("one failed check: {failed:?}") };
    assert!(check == "data directory" && message.contains("contains no vault"), "{failed:?}");
}

#[test]
fn doctor_reports_a_head_file_that_is_altered_or_cannot_be_read() {
    let (process, ..) = create_with_application("private");
    let file = process.data().join("audit.head");
    let head = fs::read_to_string(&file).unwrap();
    fs::write(&file, head.replace("audit", "adit")).unwrap();
    expect_failed_audit(&process, "audit.head was altered or belongs to another vault");
    fs::remove_file(&file).unwrap();
    expect_failed_audit(&process, "audit.head is missing");
    // A directory cannot be read as a file, not even by root.
    fs::create_dir(&file).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o700)).unwrap();
    expect_failed_audit(&process, "audit.head cannot be read: ");
    fs::remove_dir(&file).unwrap();
    fs::write(&file, head).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(failed_checks(&process), []);
}

#[test]
fn doctor_names_the_missing_directory_of_the_head_file() {
    let process = ProcessHarness::initialized(crate::SCRIP);
    let file = process.path("disk/audit.head").display().to_string();
    let process = process.with_variable("SCRIP_AUDIT_HEAD_FILE", &file);
    let failed = failed_checks(&process);
    let [(check, message)] = failed.as_slice() else { panic!("one failed check: {failed:?}") };
    assert!(check == "audit" && message.contains("disk does not exist"), "{failed:?}");
}

#[test]
fn doctor_reports_a_rolled_back_database() {
    let (process, _, application) = create_with_application("private");
    let copy = process.path("copy");
    fs::create_dir(&copy).unwrap();
    let copy_files = |source: &Path, target: &Path| {
        for file in ["scrip.db", "read_log.db"] {
            fs::copy(source.join(file), target.join(file)).unwrap();
        }
    };
    copy_files(&process.data(), &copy);
    run_json(&process, &["key", "create", &value_text(&application["id"])]);
    assert_eq!(failed_checks(&process), []);
    copy_files(&copy, &process.data());
    let expected = "the logs do not continue the chain heads in";
    expect_failed_audit(&process, expected);
    // A rolled-back chain that has grown is still reported.
    for _ in 0..3 {
        run_json(&process, &["key", "create", &value_text(&application["id"])]);
    }
    expect_failed_audit(&process, expected);
}

#[test]
fn doctor_reports_a_missing_or_altered_chain_head() {
    let (process, tenant, _) = create_with_application("private");
    let tenant = value_text(&tenant["id"]);
    let connection = rusqlite::Connection::open(process.data().join("scrip.db")).unwrap();
    connection.execute_batch("CREATE TABLE saved AS SELECT * FROM chain_heads").unwrap();
    let head_file = process.data().join("audit.head");
    let head = fs::read(&head_file).unwrap();
    for alteration in ["DELETE FROM chain_heads", "UPDATE chain_heads SET sequence = sequence + 1"]
    {
        connection.execute(alteration, []).unwrap();
        let expected = format!("the chain head of tenant {tenant} is missing or altered");
        expect_failed_audit(&process, &expected);
        // The head file is not needed for this check.
        fs::remove_file(&head_file).unwrap();
        let failed = failed_checks(&process);
        assert!(failed.iter().any(|(_, message)| message.contains(&expected)), "{failed:?}");
        fs::write(&head_file, &head).unwrap();
        fs::set_permissions(&head_file, fs::Permissions::from_mode(0o600)).unwrap();
        let restore = "DELETE FROM chain_heads; INSERT INTO chain_heads SELECT * FROM saved";
        connection.execute_batch(restore).unwrap();
    }
    connection.execute_batch("DROP TABLE saved").unwrap();
    assert_eq!(failed_checks(&process), []);
}

#[test]
fn doctor_and_init_warn_of_left_over_development_keys() {
    let process = ProcessHarness::initialized(crate::SCRIP);
    assert!(verdicts_of_check(&run_doctor(&process).1, "dev keys").is_empty());
    let server = process.start(&["dev", "--json"]);
    // A running `scrip dev` uses its keys.
    assert!(verdicts_of_check(&run_doctor(&process).1, "dev keys").is_empty());
    drop(server);
    let (well, report) = run_doctor(&process);
    assert_eq!((well, verdicts_of_check(&report, "dev keys")), (true, vec!["warning".to_owned()]));
    let output = process.run(&["init"]);
    let warning = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{warning}");
    assert!(warning.contains("dev-keys.json has three API keys in clear"), "{warning}");
    assert!(!warning.contains("key_test_"), "{warning}");
}

#[test]
fn doctor_reports_a_control_socket_that_cannot_be_created() {
    let process = ProcessHarness::initialized(crate::SCRIP);
    assert_eq!(verdicts_of_check(&run_doctor(&process).1, "control socket"), ["passed"]);
    let group = nix::unistd::Gid::effective().to_string();
    let missing = process.path("missing/control.sock").display().to_string();
    let process = process
        .with_variable("SCRIP_SERVER_CONTROL_SOCKET", &missing)
        .with_variable("SCRIP_SERVER_CONTROL_GROUP", &group);
    let (well, report) = run_doctor(&process);
    let verdicts = verdicts_of_check(&report, "control socket");
    assert_eq!((well, verdicts), (false, vec!["failed".to_owned()]), "{report}");

    // The server can create the socket, but no member of the group can reach it.
    fs::create_dir(process.path("missing")).unwrap();
    fs::set_permissions(process.path("missing"), fs::Permissions::from_mode(0o700)).unwrap();
    let (well, report) = run_doctor(&process);
    let verdicts = verdicts_of_check(&report, "control socket");
    assert_eq!((well, verdicts), (true, vec!["warning".to_owned()]), "{report}");
    assert!(report.to_string().contains("missing (mode 700)"), "{report}");

    let folder = process.path(&"x".repeat(100));
    let process = ProcessHarness::new(crate::SCRIP)
        .with_variable("SCRIP_STORAGE_DATA_DIR", &folder.display().to_string());
    assert!(process.run(&["init"]).status.success());
    let (well, report) = run_doctor(&process);
    let verdicts = verdicts_of_check(&report, "control socket");
    assert_eq!((well, verdicts), (true, vec!["warning".to_owned()]), "{report}");
    assert!(report.to_string().contains("use a shorter storage.data_dir"), "{report}");
}
