//! A program on a terminal.

use std::{
    fs::File,
    io::{Read, Write},
    os::fd::OwnedFd,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use nix::pty::openpty;
use scrip_testing::process::{harness::becomes_true, wait};

/// A program whose input, output and messages are one terminal. It is killed at the end of the test.
pub(crate) struct Terminal {
    child: Child,
    input: File,
    text: Arc<Mutex<String>>,
}

impl Terminal {
    pub(crate) fn start(command: &mut Command) -> Self {
        let pair = openpty(None, None).unwrap();
        let stdio = || Stdio::from(pair.slave.try_clone().unwrap());
        command.stdin(stdio()).stdout(stdio()).stderr(stdio());
        let child = command.spawn().unwrap();
        // The command has copies of the other end, which would keep the terminal open.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        drop(pair.slave);
        let text = Arc::<Mutex<String>>::default();
        let output: OwnedFd = pair.master.try_clone().unwrap();
        let shared_text = Arc::clone(&text);
        let reader = thread::Builder::new().name("terminal".to_owned());
        reader.spawn(move || read_output(File::from(output), &shared_text)).unwrap();
        Self { child, input: File::from(pair.master), text }
    }

    /// All output since the start, or since the last call of `forget`.
    pub(crate) fn text(&self) -> String {
        self.text.lock().unwrap().replace("\r\n", "\n")
    }

    pub(crate) fn forget(&self) {
        self.text.lock().unwrap().clear();
    }

    /// Waits until the output contains a text, and returns the output.
    #[track_caller]
    pub(crate) fn wait_for(&self, expected: &str) -> String {
        assert!(becomes_true(|| self.text().contains(expected)), "{expected}: {}", self.text());
        self.text()
    }

    pub(crate) fn write_line(&mut self, line: &str) {
        self.input.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    #[track_caller]
    pub(crate) fn wait_for_end(&mut self) -> ExitStatus {
        let status = wait(&mut self.child, Duration::from_secs(20));
        assert!(status.is_some(), "the program still runs: {}", self.text());
        status.unwrap()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Reads until the program has ended: the terminal then reports an error.
fn read_output(mut output: File, text: &Mutex<String>) {
    let mut buffer = [0; 4096];
    while let Ok(count) = output.read(&mut buffer) {
        if count == 0 {
            return;
        }
        text.lock().unwrap().push_str(&String::from_utf8_lossy(&buffer[..count]));
    }
}
