//! What the process gives up. Some of it only root can show; without root those tests say so and
//! pass.

#![expect(clippy::print_stderr, reason = "a test that could not show anything says so")]

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
        eprintln!("skipped: only root can show this");
    }
    is_root
}

/// A line of a file of the process in /proc.
fn proc_line(server: &RunningServer, file: &str, start: &str) -> String {
    let text = fs::read_to_string(format!("/proc/{}/{file}", server.child.id())).unwrap();
    text.lines().find(|it| it.starts_with(start)).unwrap_or_default().to_owned()
}

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

/// What the kernel gives to root although the process is somebody else's cannot be looked into.
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
        assert_eq!(environ_owner(&server), 0, "it is not dumpable");
    }
}

#[test]
fn memory_is_locked_according_to_the_setting() {
    let locked = |server: &RunningServer| words(&proc_line(server, "status", "VmLck:"))[1] != "0";
    let process =
        ProcessHarness::initialized(crate::SCRIP).with_variable("SCRIP_SERVER_LOCK_MEMORY", "off");
    assert!(!locked(&process.serve()));
    assert!(!process.log().contains("memory is"));
    assert!(!locked(&process.start(&["dev", "--json"])), "dev does not");

    let process = process.with_variable("SCRIP_SERVER_LOCK_MEMORY", "auto");
    let server = process.serve();
    process.wait_for_log("memory is ");
    let may = process.log().contains("memory is locked");
    assert_eq!(locked(&server), may, "it does as it says");
    drop(server);
    let process = process.with_variable("SCRIP_SERVER_LOCK_MEMORY", "on");
    if !may {
        eprintln!("memory cannot be locked here, so only the refusal is shown");
        return process.assert_fails(&["serve"], "memory cannot be locked");
    }
    let server = process.serve();
    assert!(locked(&server));
    assert!(becomes_true(|| server.status("/readyz") == 200));
    // What is mapped would be locked too, and a large database would fill memory.
    let maps = fs::read_to_string(format!("/proc/{}/maps", server.child.id())).unwrap();
    assert!(!maps.lines().any(|it| it.ends_with("/scrip.db")), "the database is not mapped");
}

/// Where a user who is not root gets at it.
fn make_reachable(path: &Path) {
    fs::set_permissions(path.parent().unwrap(), Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn root_privileges_are_dropped() {
    if !is_root() {
        return;
    }
    // Groups that whoever starts the server may have, and that must not be left.
    setgroups(&[0, 4].map(Gid::from_raw)).unwrap();
    let process = ProcessHarness::new(crate::SCRIP).with_variable("SCRIP_SERVER_USER", "nobody");
    make_reachable(&process.data());
    let output = process.run(&["init"]);
    assert!(output.status.success(), "{output:?}");
    for file in ["", "root.key", "scrip.db"] {
        let owner = fs::metadata(process.data().join(file)).unwrap().uid();
        assert_eq!(owner, NOBODY_UID, "{file} belongs to the user that serves");
    }
    let server = process.serve();
    assert!(becomes_true(|| server.status("/readyz") == 200));
    for (ids, start) in [(4, "Uid:"), (4, "Gid:")] {
        let line = proc_line(&server, "status", start);
        let nobody = NOBODY_UID.to_string();
        assert_eq!(words(&line)[1..=ids], [&*nobody; 4], "{line}");
    }
    let groups = proc_line(&server, "status", "Groups:");
    assert!(!words(&groups).iter().any(|it| ["0", "4"].contains(it)), "{groups}");
    for set in ["CapPrm:", "CapEff:"] {
        let held = proc_line(&server, "status", set);
        assert_eq!(words(&held)[1], "0000000000000000", "{held}");
    }
    assert_eq!(environ_owner(&server), 0, "it is not dumpable, though the user changed");
}

#[test]
fn unusable_server_user_is_rejected() {
    let process = ProcessHarness::initialized(crate::SCRIP)
        .with_variable("SCRIP_SERVER_USER", "nobody-of-this-name");
    process.assert_fails(&["serve"], "there is no user nobody-of-this-name");
    let process = process.with_variable("SCRIP_SERVER_USER", "root");
    process.assert_fails(&["serve"], "must not be root");
    if !is_root() {
        return;
    }
    // As somebody else, who cannot become yet another, and may not lock memory.
    make_reachable(&process.data());
    for entry in fs::read_dir(process.data()).unwrap() {
        chown(entry.unwrap().path(), Some(NOBODY_UID), None).unwrap();
    }
    chown(process.data(), Some(NOBODY_UID), None).unwrap();
    // The program may lie where only root gets.
    let program = process.path("scrip");
    fs::copy(crate::SCRIP, &program).unwrap();
    let as_nobody = |process: &ProcessHarness, expected: &str| {
        use std::os::unix::process::CommandExt;
        let mut command = std::process::Command::new(&program);
        let like = process.command(&["serve"]);
        let variables = like.get_envs().filter_map(|(name, value)| Some((name, value?)));
        command.env_clear().envs(variables).arg("serve").current_dir(process.path(""));
        let output = command.uid(NOBODY_UID).gid(NOBODY_UID).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(expected), "{said}");
    };
    let process = process.with_variable("SCRIP_SERVER_USER", "daemon");
    as_nobody(&process, "only root can become daemon");
    let process = process
        .with_variable("SCRIP_SERVER_USER", "nobody")
        .with_variable("SCRIP_SERVER_LOCK_MEMORY", "on");
    as_nobody(&process, "memory cannot be locked");
}
