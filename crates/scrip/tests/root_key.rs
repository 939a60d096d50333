//! Where the root key comes from, and what is refused.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Stdio},
};

use scrip_testing::process::{ServerProcess, scrip_dev};

/// The program under test.
const SCRIP: &str = env!("CARGO_BIN_EXE_scrip");

/// The base64 text of 32 bytes.
const ONE: &str = "ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8=";
/// Of 32 bytes, all the same.
const ZEROS: &str = concat!("AAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAA=");
const TWO: &str = "QEFCQ0RFRkdISUpLTE1OT1BRUlNUVVZXWFlaW1xdXl8=";

/// A start that must fail, and what it says.
#[track_caller]
fn refused(command: &mut Command, expected: &str) {
    let output = command.stderr(Stdio::piped()).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "it started");
    assert!(output.stdout.is_empty(), "nothing is ready");
    assert!(said.contains(expected), "{said}");
}

fn with_key(data: &Path, key: &str) -> Command {
    let mut command = scrip_dev(SCRIP, data);
    command.env("SCRIP_ROOT_KEY", key);
    command
}

#[test]
fn the_environment_takes_the_place_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let keys = |server: ServerProcess| server.access.hello["keys"].clone();
    let first = keys(ServerProcess::start(&mut with_key(folder.path(), ONE)));
    assert!(!folder.path().join("root.key").exists(), "no key is written down");
    assert_eq!(keys(ServerProcess::start(&mut with_key(folder.path(), ONE))), first);
    refused(&mut with_key(folder.path(), TWO), "did not wrap the keys of this vault");
    refused(&mut with_key(folder.path(), "short"), "SCRIP_ROOT_KEY cannot be used");
    refused(&mut with_key(folder.path(), ZEROS), "fewer than 8 different bytes");
    refused(&mut scrip_dev(SCRIP, folder.path()), "did not wrap the keys of this vault");
}

#[test]
fn a_file_that_others_can_read_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    drop(ServerProcess::start(&mut scrip_dev(SCRIP, folder.path())));
    let file = folder.path().join("root.key");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    refused(&mut scrip_dev(SCRIP, folder.path()), "chmod 600");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    drop(ServerProcess::start(&mut scrip_dev(SCRIP, folder.path())));
}

#[test]
fn plain_http_stays_on_this_machine_unless_told() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = scrip_dev(SCRIP, folder.path());
    refused(command.args(["--listen", "0.0.0.0:0"]), "--plain-http");
}
