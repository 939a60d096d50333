//! The program in a child process, which is killed when its value is dropped.

pub mod client;
pub mod harness;
pub mod prometheus;
pub mod redis;
pub mod unlock_sources;

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, ChildStdout, Command, ExitStatus, Stdio},
    time::Duration,
};

use serde_json::Value;

use crate::process::client::ServerAddress;

/// A server that listens without TLS.
#[derive(Debug)]
pub struct ServerProcess {
    pub child: Child,
    pub server_address: ServerAddress,
    /// Stays open as long as the server runs, because the server may write to it.
    _stdout: BufReader<ChildStdout>,
}

impl ServerProcess {
    /// Starts a server and waits until it reports that it is ready.
    pub fn start(command: &mut Command) -> Self {
        let (child, stdout, ready_message) = start(command.stdin(Stdio::null()));
        let address = ready_message["url"].as_str().and_then(|it| it.strip_prefix("http://"));
        let address =
            address.and_then(|it| it.parse().ok()).expect("the ready message has an address");
        Self { child, server_address: ServerAddress { address, ready_message }, _stdout: stdout }
    }
}

/// Sends SIGKILL: no handler of the server runs.
impl Drop for ServerProcess {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Starts a command and parses the first line of its output. The value is `null` if the line is not
/// JSON.
fn start(command: &mut Command) -> (Child, BufReader<ChildStdout>, Value) {
    let mut child = command.stdout(Stdio::piped()).spawn().expect("start the program");
    let mut stdout = BufReader::new(child.stdout.take().expect("the output is piped"));
    let mut line = String::new();
    stdout.read_line(&mut line).expect("read the output of the program");
    (child, stdout, serde_json::from_str(&line).unwrap_or_default())
}

/// The command `scrip dev` on a free port.
pub fn scrip_dev_command(program: &str, data: &Path) -> Command {
    let mut command = Command::new(program);
    command.args(["dev", "--json", "--listen", "127.0.0.1:0", "--data-dir"]).arg(data);
    command.args(["--rate-limits", "off"]);
    command.env_remove("SCRIP_ROOT_KEY").stderr(Stdio::null());
    command
}

/// Stops a server with SIGTERM, like a service manager.
pub fn terminate(child: &Child) {
    let kill_status = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
    assert!(kill_status.expect("run kill").success());
}

/// Waits for the process to end. Returns `None` if the process still runs after the timeout.
pub fn wait(child: &mut Child, timeout: Duration) -> Option<ExitStatus> {
    let poll_interval = Duration::from_millis(20);
    let mut waited = Duration::ZERO;
    while waited < timeout {
        if let Some(status) = child.try_wait().expect("poll the child process") {
            return Some(status);
        }
        std::thread::sleep(poll_interval);
        waited += poll_interval;
    }
    None
}
