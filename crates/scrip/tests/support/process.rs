//! A server in a process of its own. It never outlives its value.

use std::{
    io::{BufRead, BufReader},
    process::{Child, ChildStdout, Command, Stdio},
};

use serde_json::Value;

use crate::client::Access;

pub(crate) struct Server {
    pub(crate) child: Child,
    pub(crate) access: Access,
    /// Open as long as the server is, which may write to it.
    _stdout: BufReader<ChildStdout>,
}

impl Server {
    /// Waits until the server says that it is ready.
    pub(crate) fn start(command: &mut Command) -> Self {
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the server starts");
        let mut stdout = BufReader::new(child.stdout.take().expect("it was piped"));
        let mut line = String::new();
        stdout.read_line(&mut line).expect("its output can be read");
        let hello: Value = serde_json::from_str(&line).expect("its first line is JSON");
        let address = hello["url"].as_str().and_then(|it| it.strip_prefix("http://"));
        let address = address.and_then(|it| it.parse().ok()).expect("it says where it is");
        Self { child, access: Access { address, hello }, _stdout: stdout }
    }
}

/// SIGKILL: no handler of the server runs.
impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
