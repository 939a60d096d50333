//! Shares on the terminal: read without echo.

use std::io::{self, BufRead, IsTerminal};

use anyhow::bail;
use nix::sys::termios::{LocalFlags, SetArg, Termios, tcgetattr, tcsetattr};
use scrip_seal::Share;
use scrip_server::storage::unlock::shares::ShareText;

use crate::commands::output::print_message;

/// Reads enough shares, one per line. Asks again for a line that is not a share.
pub(super) fn read_shares(threshold: u8) -> anyhow::Result<Vec<ShareText>> {
    let read = |number| read_parsed_share(&format!("share {number} of {threshold}"));
    (1..=threshold).map(read).collect()
}

fn read_parsed_share(prompt: &str) -> anyhow::Result<ShareText> {
    loop {
        let text = read_text(prompt)?;
        match Share::parse(text.expose()) {
            Ok(_) => return Ok(text),
            Err(error) => print_message(&error.to_string()),
        }
    }
}

/// Reads one share from the terminal without echo, or a line from standard input.
pub(super) fn read_share(prompt: &str) -> anyhow::Result<ShareText> {
    let text = read_text(prompt)?;
    if text.expose().trim().is_empty() {
        bail!(NO_SHARE);
    }
    Ok(text)
}

const NO_SHARE: &str = "no share was entered";

fn read_text(prompt: &str) -> anyhow::Result<ShareText> {
    let stdin = io::stdin();
    if !stdin.is_terminal() {
        return read_line();
    }
    print_message(&format!("{prompt}, which is not shown:"));
    let hidden = HiddenInput::start()?;
    let share = read_line();
    drop(hidden);
    share
}

fn read_line() -> anyhow::Result<ShareText> {
    let mut line = String::new();
    let length = io::stdin().lock().read_line(&mut line)?;
    let text = ShareText::new(line);
    if length == 0 {
        bail!(NO_SHARE);
    }
    Ok(text)
}

/// Switches the echo of the terminal off until it is dropped.
pub(super) struct HiddenInput(Termios);

impl HiddenInput {
    pub(super) fn start() -> anyhow::Result<Self> {
        let stdin = io::stdin();
        let before = tcgetattr(&stdin)?;
        let mut hidden = before.clone();
        hidden.local_flags.remove(LocalFlags::ECHO);
        tcsetattr(&stdin, SetArg::TCSAFLUSH, &hidden)?;
        Ok(Self(before))
    }
}

impl Drop for HiddenInput {
    fn drop(&mut self) {
        // There is no other place to report a failure.
        tcsetattr(io::stdin(), SetArg::TCSAFLUSH, &self.0).unwrap_or_default();
    }
}
