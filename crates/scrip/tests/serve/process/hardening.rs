//! Privileges that the process gives up. Some tests need root. Without root they print a note and
//! pass.

#![expect(clippy::print_stderr, reason = "a skipped test reports that it was skipped")]

use std::{
    fs::{self, Permissions},
    os::unix::fs::{MetadataExt, PermissionsExt, chown},
    path::Path,
};

use nix::unistd::{Gid, setgroups};
use scrip_testing::process::harness::{ProcessHarness, RunningServer, becomes_true};

const NOBODY_UID: u32 = 65534;

fn is_root() -> bool {
    let is_root = nix::unistd::Uid::effective().is_root();
    if !is_root {
        eprintln!("skipped: this test needs root");
    }
    is_root
}

/// Returns a line of a file of the process in /proc.
fn proc_line(server: &RunningServer, file: &str, prefix: &str) -> String {
    let text = fs::read_to_string(format!("/proc/{}/{file}", server.child.id())).unwrap();
    text.lines().find(|it| it.starts_with(prefix)).unwrap_or_default().to_owned()
}

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

/// Returns the owner of `/proc/<pid>/environ`. The kernel assigns the file to root if the process
/// is not dumpable.
fn environ_owner(server: &RunningServer) -> u32 {
    fs::metadata(format!("/proc/{}/environ", server.child.id())).unwrap().uid()
}

#[test]
fn core_dumps_are_disabled() {
    let process = ProcessHarness::initialized(crate::SCRIP);
    for arguments in [["serve", "--json"], ["dev", "--json"]] {
        let server = process.start(&arguments);
        let core = proc_line(&server, "limits", "Max core file size");
        assert_eq!(words(&core)[4..6], ["0", "0"], "{core}");
        assert_eq!(environ_owner(&server), 0, "the process is dumpable");
    }
}

#[test]
fn memory_is_locked_according_to_the_setting() {
    let is_locked =
        |server: &RunningServer| words(&proc_line(server, "status", "VmLck:"))[1] != "0";
    let process =
        ProcessHarness::initialized(crate::SCRIP).with_variable("SCRIP_SERVER_LOCK_MEMORY", "off");
    assert!(!is_locked(&process.serve()));
    assert!(!process.log().contains("memory is"));
    assert!(!is_locked(&process.start(&["dev", "--json"])), "scrip dev must not lock memory");

    let process = process.with_variable("SCRIP_SERVER_LOCK_MEMORY", "auto");
    let server = process.serve();
    process.wait_for_log("memory is ");
    let may_lock = process.log().contains("memory is locked");
    assert_eq!(is_locked(&server), may_lock, "the log disagrees with the process");
    drop(server);
    let process = process.with_variable("SCRIP_SERVER_LOCK_MEMORY", "on");
    if !may_lock {
        eprintln!("memory cannot be locked here: only the rejection is tested");
        return process.assert_fails(&["serve"], "memory cannot be locked");
    }
    let server = process.serve();
    assert!(is_locked(&server));
    assert!(becomes_true(|| server.status("/readyz") == 200));
    // Locking would include mapped files, and a large database would fill the memory.
    let maps = fs::read_to_string(format!("/proc/{}/maps", server.child.id())).unwrap();
    let is_mapped = maps.lines().any(|it| it.ends_with("/scrip.db"));
    assert!(!is_mapped, "the database is mapped into memory");
}

/// Makes a path reachable for other users.
fn make_reachable(path: &Path) {
    fs::set_permissions(path.parent().unwrap(), Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn root_privileges_are_dropped() {
    if !is_root() {
        return;
    }
    // The starting user has supplementary groups, which the server must drop.
    setgroups(&[0, 4].map(Gid::from_raw)).unwrap();
    let process = ProcessHarness::new(crate::SCRIP).with_variable("SCRIP_SERVER_USER", "nobody");
    make_reachable(&process.data());
    let output = process.run(&["init"]);
    assert!(output.status.success(), "{output:?}");
    for file in ["", "root.key", "scrip.db"] {
        let owner = fs::metadata(process.data().join(file)).unwrap().uid();
        assert_eq!(owner, NOBODY_UID, "{file} must belong to the server user");
    }
    let server = process.serve();
    assert!(becomes_true(|| server.status("/readyz") == 200));
    for (ids, prefix) in [(4, "Uid:"), (4, "Gid:")] {
        let line = proc_line(&server, "status", prefix);
        let uid = NOBODY_UID.to_string();
        assert_eq!(words(&line)[1..=ids], [&*uid; 4], "{line}");
    }
    let groups = proc_line(&server, "status", "Groups:");
    assert!(!words(&groups).iter().any(|it| ["0", "4"].contains(it)), "{groups}");
    for capability_set in ["CapPrm:", "CapEff:"] {
        let capabilities = proc_line(&server, "status", capability_set);
        assert_eq!(words(&capabilities)[1], "0000000000000000", "{capabilities}");
    }
    assert_eq!(environ_owner(&server), 0, "the process is dumpable after the user change");
}

/// Runs a command as a user without rights.
fn run_unprivileged(process: &ProcessHarness, arguments: &[&str]) -> std::process::Output {
    use std::os::unix::process::CommandExt;
    // The program may be in a folder that only root can read.
    let program = process.path("scrip");
    if !program.exists() {
        fs::copy(crate::SCRIP, &program).unwrap();
    }
    let mut command = std::process::Command::new(&program);
    let default_command = process.command(arguments);
    let variables = default_command.get_envs().filter_map(|(name, value)| Some((name, value?)));
    command.env_clear().envs(variables).args(arguments).current_dir(process.path(""));
    command.uid(NOBODY_UID).gid(NOBODY_UID).output().unwrap()
}

#[test]
fn data_directory_of_another_user_is_a_permission_error_and_not_a_missing_vault() {
    if !is_root() {
        return;
    }
    let process = ProcessHarness::initialized(crate::SCRIP);
    make_reachable(&process.data());
    for arguments in [&["serve"][..], &["tenant", "list"], &["doctor"]] {
        let output = run_unprivileged(&process, arguments);
        assert!(!output.status.success(), "{output:?}");
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        assert!(text.contains("cannot be used: Permission denied"), "{text}");
        for wrong_advice in ["scrip init", "import it again", "is missing"] {
            assert!(!text.contains(wrong_advice), "{wrong_advice}: {text}");
        }
    }
}

#[test]
fn unusable_server_user_is_rejected() {
    let process = ProcessHarness::initialized(crate::SCRIP)
        .with_variable("SCRIP_SERVER_USER", "missing-user");
    process.assert_fails(&["serve"], "user missing-user does not exist");
    let process = process.with_variable("SCRIP_SERVER_USER", "root");
    process.assert_fails(&["serve"], "must not be root");
    if !is_root() {
        return;
    }
    // Run as a user that can neither change to a third user nor lock memory.
    make_reachable(&process.data());
    for entry in fs::read_dir(process.data()).unwrap() {
        chown(entry.unwrap().path(), Some(NOBODY_UID), None).unwrap();
    }
    chown(process.data(), Some(NOBODY_UID), None).unwrap();
    let expect_unprivileged_failure = |process: &ProcessHarness, expected: &str| {
        let output = run_unprivileged(process, &["serve"]);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && stderr.contains(expected), "{stderr}");
    };
    let process = process.with_variable("SCRIP_SERVER_USER", "daemon");
    expect_unprivileged_failure(&process, "only root can switch to daemon");
    let process = process
        .with_variable("SCRIP_SERVER_USER", "nobody")
        .with_variable("SCRIP_SERVER_LOCK_MEMORY", "on");
    expect_unprivileged_failure(&process, "memory cannot be locked");
}
