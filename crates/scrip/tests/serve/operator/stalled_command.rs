//! A command that the test stalls at a known position: where the command prints its progress.

use std::{
    fs::{self, DirEntry},
    io::{PipeReader, Read, Write, pipe},
    os::fd::AsFd,
    process::{Child, Stdio},
    thread::{self, JoinHandle},
};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use scrip_testing::process::harness::{ProcessHarness, becomes_true};

pub(crate) struct StalledCommand {
    pub(crate) child: Child,
    stderr: PipeReader,
}

impl StalledCommand {
    /// Starts a command with a standard error pipe that accepts this many bytes until the test
    /// reads it. The command waits at the first line that does not fit.
    pub(crate) fn start(process: &ProcessHarness, arguments: &[&str], stderr_bytes: usize) -> Self {
        let (stderr, mut writer) = pipe().expect("a pipe");
        let page = 4096;
        fcntl(writer.as_fd(), FcntlArg::F_SETPIPE_SZ(4096)).expect("a size");
        let size = fcntl(writer.as_fd(), FcntlArg::F_GETPIPE_SZ).expect("a size");
        let size = usize::try_from(size).expect("a size");
        assert!(size.is_multiple_of(page), "{size}");
        // If the pipe is smaller than reported, this fails instead of waiting.
        fcntl(writer.as_fd(), FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).expect("a pipe");
        writer.write_all(&vec![b'\n'; size - stderr_bytes]).expect("the pipe has enough space");
        fcntl(writer.as_fd(), FcntlArg::F_SETFL(OFlag::empty())).expect("a pipe");
        let mut command = process.command(arguments);
        let child = command.stdout(Stdio::null()).stderr(writer).spawn().expect("run the command");
        Self { child, stderr }
    }

    /// Whether a thread of the command waits in the kernel for space in the pipe.
    fn is_stalled(&self) -> bool {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.child.id())).expect("the threads");
        let function = |it: DirEntry| fs::read_to_string(it.path().join("wchan"));
        let mut functions = tasks.flatten().flat_map(function);
        functions.any(|it| it.ends_with("pipe_write"))
    }

    /// Continues the command. Returns its remaining output.
    pub(crate) fn resume(mut self) -> (Child, JoinHandle<String>) {
        let read_stderr = move || {
            let mut output = String::new();
            self.stderr.read_to_string(&mut output).expect("the output is UTF-8");
            output.trim().to_owned()
        };
        (self.child, thread::Builder::new().spawn(read_stderr).expect("start a thread"))
    }

    /// Waits until the condition holds and the command is stalled, and then kills it.
    #[track_caller]
    pub(crate) fn kill_when(mut self, mut condition: impl FnMut() -> bool) {
        let is_reached = || condition() && self.is_stalled();
        assert!(becomes_true(is_reached), "the command did not reach the expected state");
        let status = self.child.try_wait().expect("poll the child process");
        assert!(status.is_none(), "the command is not stalled");
        self.child.kill().expect("run the command");
        self.child.wait().expect("wait for the process to end");
    }
}
