//! Commands with an output that is not read to its end, as by `scrip … | head -1`.

use std::{
    io::pipe,
    process::{Output, Stdio},
};

use scrip_testing::process::harness::{ProcessHarness, becomes_true};

use crate::operator::commands::run_json;

/// A pipe without a reader.
fn closed_pipe() -> Stdio {
    let (reader, writer) = pipe().unwrap();
    drop(reader);
    Stdio::from(writer)
}

/// Runs a command with a closed standard output.
fn run_without_reader(process: &ProcessHarness, command: &str) -> Output {
    let mut command = process.command(&command.split(' ').collect::<Vec<_>>());
    command.stdout(closed_pipe()).stderr(Stdio::piped()).output().unwrap()
}

#[test]
fn commands_end_quietly_when_their_output_is_not_read() {
    let process = ProcessHarness::initialized(crate::SCRIP);
    let commands = [
        "init",
        "config example",
        "config check",
        "config check --json",
        "completions bash",
        "completions zsh",
        "--help",
        "tenant --help",
        "tenant create Acme",
        "tenant list",
        "tenant show Acme",
        "tenant list --json",
        "application list",
        "access-session list",
        "bin status",
        "audit verify --json",
        "status",
        "doctor",
        "doctor --json",
        "backup --json copy",
        "backup verify --json copy",
        "export --json moved",
    ];
    for command in commands {
        let output = run_without_reader(&process, command);
        assert_eq!(output.stderr, b"", "{command}: {}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "{command}");
    }
    // The work was done.
    let tenants = run_json(&process, &["tenant", "list"])["tenants"].clone();
    assert_eq!(tenants.as_array().map(Vec::len), Some(1));
    // A failure is still a failure.
    let output = run_without_reader(&process, "tenant show none");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn closed_standard_error_does_not_cause_a_panic() {
    let process = ProcessHarness::initialized(crate::SCRIP).with_variable("SCRIP_SERVER_USR", "me");
    for (command, code) in [("tenant list", 0), ("tenant show none", 1), ("backup copy", 0)] {
        let mut child = process.command(&command.split(' ').collect::<Vec<_>>());
        let status = child.stdout(closed_pipe()).stderr(closed_pipe()).status().unwrap();
        assert_eq!(status.code(), Some(code), "{command}");
    }
}

#[test]
fn server_without_readers_of_its_output_and_log_serves() {
    let process = ProcessHarness::initialized(crate::SCRIP);
    let mut command = process.command(&["serve", "--json"]);
    let mut server = command.stdout(closed_pipe()).stderr(closed_pipe()).spawn().unwrap();
    let is_open = becomes_true(|| {
        let status = run_json(&process, &["status"]);
        status["server"]["sealed"] == false
    });
    let is_running = server.try_wait().unwrap().is_none();
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(is_open && is_running);
}
