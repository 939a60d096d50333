//! A command that stands still at a known place: where it tells how far it has come.

use std::{
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
    /// Starts a command whose standard error takes that many more bytes, and then no more until
    /// somebody reads; so it waits at the first line that does not fit.
    pub(crate) fn start(process: &ProcessHarness, arguments: &[&str], stderr_bytes: usize) -> Self {
        let (stderr, mut writer) = pipe().expect("a pipe");
        let page = 4096;
        fcntl(writer.as_fd(), FcntlArg::F_SETPIPE_SZ(4096)).expect("a size");
        let size = fcntl(writer.as_fd(), FcntlArg::F_GETPIPE_SZ).expect("a size");
        let size = usize::try_from(size).expect("a size");
        assert!(size.is_multiple_of(page), "{size}");
        // Should it take less than it says, this fails instead of waiting.
        fcntl(writer.as_fd(), FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).expect("a pipe");
        writer.write_all(&vec![b'\n'; size - stderr_bytes]).expect("it has room");
        fcntl(writer.as_fd(), FcntlArg::F_SETFL(OFlag::empty())).expect("a pipe");
        let mut command = process.command(arguments);
        let child = command.stdout(Stdio::null()).stderr(writer).spawn().expect("it runs");
        Self { child, stderr }
    }

    /// Lets it go on; what it says then.
    pub(crate) fn resume(mut self) -> (Child, JoinHandle<String>) {
        let read = move || {
            let mut output = String::new();
            self.stderr.read_to_string(&mut output).expect("it is text");
            output.trim().to_owned()
        };
        (self.child, thread::Builder::new().spawn(read).expect("a thread"))
    }

    /// Waits until that is so, with the command still at work. Then it is killed.
    #[track_caller]
    pub(crate) fn kill_when(mut self, condition: impl FnMut() -> bool) {
        assert!(becomes_true(condition), "it does not come that far");
        assert!(self.child.try_wait().expect("it is ours").is_none(), "it should be stuck");
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }
}
