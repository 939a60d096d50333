//! Shares on the terminal: read without echo.

use std::io::{self, BufRead, IsTerminal};

use anyhow::bail;
use nix::sys::termios::{LocalFlags, SetArg, Termios, tcgetattr, tcsetattr};
use scrip_operator::secret_text::SecretText;
use scrip_seal::{Share, ShareCollection, ShareError};
use scrip_server::unlock::shares::IssuedShares;

use crate::commands::output::print_message;

/// Reads enough of the issued shares, one per line. Asks again for a line that is no share, that was
/// entered before, or that belongs to another set.
pub(super) fn read_shares(issued: &IssuedShares) -> anyhow::Result<Vec<SecretText>> {
    // Shares that were encrypted for their holders do not tell their set: the first one decides.
    let mut collection = issued.texts.first().and_then(|it| collect_with(it).ok());
    let mut texts = Vec::new();
    while texts.len() < usize::from(issued.threshold) {
        let number = texts.len().saturating_add(1);
        let text = read_text(&format!("share {number} of {}", issued.threshold))?;
        match add_share(&mut collection, &text) {
            Ok(()) => texts.push(text),
            Err(error) => print_message(&error.to_string()),
        }
    }
    Ok(texts)
}

/// An empty collection for the set of a share.
fn collect_with(text: &SecretText) -> Result<ShareCollection, ShareError> {
    let share = Share::parse(text.expose())?;
    Ok(ShareCollection::new(share.label(), share.threshold()))
}

fn add_share(
    collection: &mut Option<ShareCollection>,
    text: &SecretText,
) -> Result<(), ShareError> {
    let share = Share::parse(text.expose())?;
    let collection = match collection {
        Some(collection) => collection,
        None => collection.insert(ShareCollection::new(share.label(), share.threshold())),
    };
    collection.add(share).map(drop)
}

/// Reads one share from the terminal without echo, or a line from standard input.
pub(super) fn read_share(prompt: &str) -> anyhow::Result<SecretText> {
    let text = read_text(prompt)?;
    if text.expose().trim().is_empty() {
        bail!(NO_SHARE);
    }
    Ok(text)
}

const NO_SHARE: &str = "no share was entered";

fn read_text(prompt: &str) -> anyhow::Result<SecretText> {
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

fn read_line() -> anyhow::Result<SecretText> {
    let mut line = String::new();
    let length = io::stdin().lock().read_line(&mut line)?;
    let text = SecretText::new(line);
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
