//! What the process gives up. Some of it only root can show; without root those tests say so and
//! pass.

#![expect(clippy::print_stderr, reason = "a test that could not show anything says so")]

use std::{
    fs::{self, Permissions},
    os::unix::fs::{MetadataExt, PermissionsExt, chown},
    path::Path,
};

use nix::unistd::{Gid, setgroups};
use scrip_testing::process::harness::{ProcessHarness, Running, eventually};

const NOBODY: u32 = 65534;

fn is_root() -> bool {
    let is_root = nix::unistd::Uid::effective().is_root();
    if !is_root {
        eprintln!("skipped: only root can show this");
    }
    is_root
}

/// A line of a file of the process in /proc.
fn line(server: &Running, file: &str, start: &str) -> String {
    let text = fs::read_to_string(format!("/proc/{}/{file}", server.child.id())).unwrap();
    text.lines().find(|it| it.starts_with(start)).unwrap_or_default().to_owned()
}

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

/// What the kernel gives to root although the process is somebody else's cannot be looked into.
fn owner(server: &Running) -> u32 {
    fs::metadata(format!("/proc/{}/environ", server.child.id())).unwrap().uid()
}

#[test]
fn there_are_no_core_dumps() {
    let house = ProcessHarness::founded(crate::SCRIP);
    for arguments in [["serve", "--json"], ["dev", "--json"]] {
        let server = house.start(&arguments);
        let core = line(&server, "limits", "Max core file size");
        assert_eq!(words(&core)[4..6], ["0", "0"], "{core}");
        assert_eq!(owner(&server), 0, "it is not dumpable");
    }
}

#[test]
fn memory_is_locked_where_it_may_be() {
    let locked = |server: &Running| words(&line(server, "status", "VmLck:"))[1] != "0";
    let house = ProcessHarness::founded(crate::SCRIP).set("SCRIP_SERVER_LOCK_MEMORY", "off");
    assert!(!locked(&house.serve()));
    assert!(!house.log().contains("memory is"));
    assert!(!locked(&house.start(&["dev", "--json"])), "dev does not");

    let house = house.set("SCRIP_SERVER_LOCK_MEMORY", "auto");
    let server = house.serve();
    house.logged("memory is ");
    let may = house.log().contains("memory is locked");
    assert_eq!(locked(&server), may, "it does as it says");
    drop(server);
    let house = house.set("SCRIP_SERVER_LOCK_MEMORY", "on");
    if !may {
        eprintln!("memory cannot be locked here, so only the refusal is shown");
        return house.refused(&["serve"], "memory cannot be locked");
    }
    let server = house.serve();
    assert!(locked(&server));
    assert!(eventually(|| server.status("/readyz") == 200));
    // What is mapped would be locked too, and a large database would fill memory.
    let maps = fs::read_to_string(format!("/proc/{}/maps", server.child.id())).unwrap();
    assert!(!maps.lines().any(|it| it.ends_with("/scrip.db")), "the database is not mapped");
}

/// Where a user who is not root gets at it.
fn make_reachable(path: &Path) {
    fs::set_permissions(path.parent().unwrap(), Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn the_rights_of_root_are_given_up() {
    if !is_root() {
        return;
    }
    // Groups that whoever starts the server may have, and that must not be left.
    setgroups(&[0, 4].map(Gid::from_raw)).unwrap();
    let house = ProcessHarness::new(crate::SCRIP).set("SCRIP_SERVER_USER", "nobody");
    make_reachable(&house.data());
    let output = house.run(&["init"]);
    assert!(output.status.success(), "{output:?}");
    for file in ["", "root.key", "scrip.db"] {
        let owner = fs::metadata(house.data().join(file)).unwrap().uid();
        assert_eq!(owner, NOBODY, "{file} belongs to the user that serves");
    }
    let server = house.serve();
    assert!(eventually(|| server.status("/readyz") == 200));
    for (ids, start) in [(4, "Uid:"), (4, "Gid:")] {
        let line = line(&server, "status", start);
        let nobody = NOBODY.to_string();
        assert_eq!(words(&line)[1..=ids], [&*nobody; 4], "{line}");
    }
    let groups = line(&server, "status", "Groups:");
    assert!(!words(&groups).iter().any(|it| ["0", "4"].contains(it)), "{groups}");
    for set in ["CapPrm:", "CapEff:"] {
        let held = line(&server, "status", set);
        assert_eq!(words(&held)[1], "0000000000000000", "{held}");
    }
    assert_eq!(owner(&server), 0, "it is not dumpable, though the user changed");
}

#[test]
fn a_user_that_cannot_be_had_is_refused() {
    let house =
        ProcessHarness::founded(crate::SCRIP).set("SCRIP_SERVER_USER", "nobody-of-this-name");
    house.refused(&["serve"], "there is no user nobody-of-this-name");
    let house = house.set("SCRIP_SERVER_USER", "root");
    house.refused(&["serve"], "must not be root");
    if !is_root() {
        return;
    }
    // As somebody else, who cannot become yet another, and may not lock memory.
    make_reachable(&house.data());
    for entry in fs::read_dir(house.data()).unwrap() {
        chown(entry.unwrap().path(), Some(NOBODY), None).unwrap();
    }
    chown(house.data(), Some(NOBODY), None).unwrap();
    // The program may lie where only root gets.
    let program = house.path("scrip");
    fs::copy(crate::SCRIP, &program).unwrap();
    let as_nobody = |house: &ProcessHarness, expected: &str| {
        use std::os::unix::process::CommandExt;
        let mut command = std::process::Command::new(&program);
        let like = house.command(&["serve"]);
        let variables = like.get_envs().filter_map(|(name, value)| Some((name, value?)));
        command.env_clear().envs(variables).arg("serve").current_dir(house.path(""));
        let output = command.uid(NOBODY).gid(NOBODY).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(expected), "{said}");
    };
    let house = house.set("SCRIP_SERVER_USER", "daemon");
    as_nobody(&house, "only root can become daemon");
    let house = house.set("SCRIP_SERVER_USER", "nobody").set("SCRIP_SERVER_LOCK_MEMORY", "on");
    as_nobody(&house, "memory cannot be locked");
}
