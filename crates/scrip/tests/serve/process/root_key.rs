//! Sources of the root key, and values that are rejected.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Stdio},
};

use scrip_testing::process::{ServerProcess, scrip_dev_command};

use crate::SCRIP;

/// The base64 text of 32 different bytes.
const FIRST_KEY: &str = "ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8=";
/// The base64 text of 32 equal bytes.
const ZERO_KEY: &str = concat!("AAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAA=");
const SECOND_KEY: &str = "QEFCQ0RFRkdISUpLTE1OT1BRUlNUVVZXWFlaW1xdXl8=";

/// Runs a start that must fail with this message.
#[track_caller]
fn expect_start_failure(command: &mut Command, expected: &str) {
    let output = command.stderr(Stdio::piped()).output().expect("run the command");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "it started");
    assert!(output.stdout.is_empty(), "the server printed a ready message");
    assert!(stderr.contains(expected), "{stderr}");
}

fn with_key(data: &Path, key: &str) -> Command {
    let mut command = scrip_dev_command(SCRIP, data);
    command.env("SCRIP_ROOT_KEY", key);
    command
}

#[test]
fn root_key_from_environment_replaces_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let keys = |server: ServerProcess| server.server_address.ready_message["keys"].clone();
    let first = keys(ServerProcess::start(&mut with_key(folder.path(), FIRST_KEY)));
    assert!(!folder.path().join("root.key").exists(), "a root key file was created");
    assert_eq!(keys(ServerProcess::start(&mut with_key(folder.path(), FIRST_KEY))), first);
    expect_start_failure(
        &mut with_key(folder.path(), SECOND_KEY),
        "this is the root key of another vault",
    );
    expect_start_failure(&mut with_key(folder.path(), "short"), "SCRIP_ROOT_KEY cannot be used");
    expect_start_failure(&mut with_key(folder.path(), ZERO_KEY), "fewer than 8 different bytes");
    expect_start_failure(
        &mut scrip_dev_command(SCRIP, folder.path()),
        "root.key cannot be used: No such file or directory",
    );
    assert!(!folder.path().join("root.key").exists(), "a key for another vault was created");
}

#[test]
fn root_key_file_readable_by_others_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    drop(ServerProcess::start(&mut scrip_dev_command(SCRIP, folder.path())));
    let file = folder.path().join("root.key");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    expect_start_failure(&mut scrip_dev_command(SCRIP, folder.path()), "chmod 600");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    drop(ServerProcess::start(&mut scrip_dev_command(SCRIP, folder.path())));
}

#[test]
fn plain_http_on_a_public_address_needs_the_flag() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = scrip_dev_command(SCRIP, folder.path());
    expect_start_failure(command.args(["--listen", "0.0.0.0:0"]), "--plain-http");
}
