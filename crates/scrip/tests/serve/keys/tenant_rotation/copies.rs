//! Backups and exports that were made during a rotation, and lost progress.

use std::fs;

use scrip_testing::process::harness::ProcessHarness;
use serde_json::json;

use crate::{
    SCRIP,
    keys::{
        is_open, open_database,
        tenant_rotation::{RotationProcess, TOKENS},
    },
    operator::backup::expect_success,
};

/// A vault in the middle of its rotation. The server is stopped.
fn start_rotation() -> RotationProcess {
    let test = RotationProcess::new("50");
    let server = test.process.serve();
    test.create_tokens(&server, 0..TOKENS);
    test.rotate();
    test.wait_for_step();
    drop(server);
    assert_eq!((test.count_tokens(1), test.count_tokens(2)), (50, 200));
    test
}

/// A second machine that has only the root key.
fn second_machine(test: &RotationProcess) -> RotationProcess {
    let process = ProcessHarness::new(SCRIP)
        .with_variable("SCRIP_KEYS_PROMOTE_AFTER_SECONDS", "1")
        .with_variable("SCRIP_KEYS_DESTROY_AFTER_SECONDS", "1");
    fs::create_dir(process.data()).unwrap();
    fs::copy(test.process.data().join("root.key"), process.data().join("root.key")).unwrap();
    RotationProcess { process, key: test.key.clone() }
}

/// Expects that the rotation continues, and that every token opens before and after its end.
fn check_continued(machine: &RotationProcess) {
    assert_eq!(machine.status()["versions"], json!([1, 2]));
    assert_eq!((machine.count_tokens(1), machine.count_tokens(2)), (50, 200));
    let server = machine.process.serve();
    machine.check_tokens(&server, TOKENS);
    machine.end_lease();
    machine.wait_until_finished(2);
    drop(server);
    // A server that has the old key in memory would hide its destruction.
    let server = machine.process.serve();
    machine.check_tokens(&server, TOKENS);
    expect_success(&machine.process, &["audit", "verify"]);
}

impl RotationProcess {
    /// Lets the lease of the first server end, as if time had passed.
    fn end_lease(&self) {
        let sql = "UPDATE key_rotations SET lease_until = 0";
        open_database(&self.process).execute(sql, []).unwrap();
    }
}

#[test]
fn restored_backup_continues_its_rotation() {
    let test = start_rotation();
    let file = test.process.path("backup").display().to_string();
    expect_success(&test.process, &["backup", &file]);
    let machine = second_machine(&test);
    expect_success(&machine.process, &["restore", &file]);
    check_continued(&machine);
}

#[test]
fn imported_vault_continues_its_rotation() {
    let test = start_rotation();
    let file = test.process.path("export").display().to_string();
    expect_success(&test.process, &["export", &file]);
    let machine = second_machine(&test);
    expect_success(&machine.process, &["import", &file]);
    assert_eq!(machine.status()["rotation"], json!(null), "an export has no progress");
    check_continued(&machine);
}

/// The key that old rows need is destroyed only after another pass through all rows.
#[test]
fn rotation_with_lost_or_altered_progress_starts_again() {
    for sql in [
        "DELETE FROM key_rotations",
        "UPDATE key_rotations SET table_name = 'x'",
        "UPDATE key_rotations SET last_key = 'zzz'",
        "UPDATE key_rotations SET table_name = NULL, last_key = NULL, promoted_at = 0",
    ] {
        let test = start_rotation();
        assert_eq!(open_database(&test.process).execute(sql, []).unwrap(), 1, "{sql}");
        let RotationProcess { process, key } = test;
        let process = process.with_variable("SCRIP_KEYS_ROTATION_ROWS_PER_SECOND", "1000");
        let test = RotationProcess { process, key };
        test.end_lease();
        let server = test.process.serve();
        assert!(is_open(&server));
        test.wait_until_finished(2);
        drop(server);
        let server = test.process.serve();
        test.check_tokens(&server, TOKENS);
    }
}
