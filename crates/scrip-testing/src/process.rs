//! The program in a process of its own. A process never outlives its value.

pub mod client;
pub mod harness;
pub mod prometheus;

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
    /// Open as long as the server is, which may write to it.
    _stdout: BufReader<ChildStdout>,
}

impl ServerProcess {
    /// Waits until the server says that it is ready.
    pub fn start(command: &mut Command) -> Self {
        let (child, stdout, hello) = start(command.stdin(Stdio::null()));
        let address = hello["url"].as_str().and_then(|it| it.strip_prefix("http://"));
        let address = address.and_then(|it| it.parse().ok()).expect("it says where it is");
        Self {
            child,
            server_address: ServerAddress { address, ready_message: hello },
            _stdout: stdout,
        }
    }
}

/// SIGKILL: no handler of the server runs.
impl Drop for ServerProcess {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Starts a command and reads its first line, which is null if the line is no JSON.
fn start(command: &mut Command) -> (Child, BufReader<ChildStdout>, Value) {
    let mut child = command.stdout(Stdio::piped()).spawn().expect("the program starts");
    let mut stdout = BufReader::new(child.stdout.take().expect("it was piped"));
    let mut line = String::new();
    stdout.read_line(&mut line).expect("its output can be read");
    (child, stdout, serde_json::from_str(&line).unwrap_or_default())
}

/// `scrip dev` of this program: the vault as it is shipped, on any free port.
pub fn scrip_dev_command(program: &str, data: &Path) -> Command {
    let mut command = Command::new(program);
    command.args(["dev", "--json", "--listen", "127.0.0.1:0", "--data-dir"]).arg(data);
    command.args(["--rate-limits", "off"]);
    command.env_remove("SCRIP_ROOT_KEY").stderr(Stdio::null());
    command
}

/// Stops a server the way a service manager does.
pub fn terminate(child: &Child) {
    let sent = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
    assert!(sent.expect("kill can be run").success());
}

/// Nothing when it still runs after that long.
pub fn wait(child: &mut Child, timeout: Duration) -> Option<ExitStatus> {
    let step = Duration::from_millis(20);
    let mut waited = Duration::ZERO;
    while waited < timeout {
        if let Some(status) = child.try_wait().expect("it is ours to wait for") {
            return Some(status);
        }
        std::thread::sleep(step);
        waited += step;
    }
    None
}
