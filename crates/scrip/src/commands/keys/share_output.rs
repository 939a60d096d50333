//! New shares, each for one holder: one at a time on a terminal, in a file each, or encrypted.

use std::{
    fs::OpenOptions,
    io::{self, BufRead, IsTerminal, Write},
    os::unix::fs::OpenOptionsExt,
    path::PathBuf,
};

use anyhow::{Context, bail};
use scrip_operator::secret_text::SecretText;
use scrip_server::unlock::shares::IssuedShares;
use zeroize::Zeroizing;

use crate::commands::{
    keys::shares::HiddenInput,
    output::{print_message, print_output},
};

/// Clears the screen and the scrollback of a terminal, and moves the cursor to the first line.
const CLEAR: &str = "\u{1b}[2J\u{1b}[3J\u{1b}[H";

/// Where new shares go. No two clear shares are ever on one screen or in one file.
#[derive(Debug)]
pub(super) enum ShareOutput {
    /// The shares are encrypted for their holders, so they may be printed together.
    Encrypted,
    /// One at a time: the screen is cleared before the next one.
    Terminal,
    Files(Vec<PathBuf>),
    /// Without a terminal, clear shares would be in one log or file.
    None,
}

impl ShareOutput {
    pub(super) fn select(recipients: &[String], files: &[PathBuf]) -> Self {
        let is_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
        match (recipients, files) {
            ([_, ..], _) => Self::Encrypted,
            ([], [_, ..]) => Self::Files(files.to_vec()),
            ([], []) if is_terminal => Self::Terminal,
            ([], []) => Self::None,
        }
    }

    /// Checks, before shares exist, that each of them has a place.
    /// Errors: there is no terminal and no new file for each share.
    pub(super) fn check(&self, shares: usize) -> anyhow::Result<()> {
        match self {
            Self::Encrypted | Self::Terminal => Ok(()),
            Self::Files(files) if shares == files.len() => {
                match files.iter().find(|it| it.exists()) {
                    None => Ok(()),
                    Some(it) => bail!(
                        "{} exists, and may be a share that counts; nothing was changed. Name a new file \
                     for each share",
                        it.display()
                    ),
                }
            }
            Self::Files(files) => bail!(
                "each of the {shares} shares needs a file of its own, but --share-file was used {} \
                 times; nothing was changed",
                files.len()
            ),
            Self::None => bail!(
                "clear shares are shown on a terminal only, one at a time; nothing was changed. Run \
                 the command on a terminal, or use for each share --to AGE_KEY or --share-file FILE"
            ),
        }
    }

    /// What to do with the new shares of a rotation that did not happen.
    pub(super) const ABANDONED: &str = "nothing was rotated: the shares from before still count, and \
                                        the new ones open nothing. Destroy the new shares that this \
                                        command has shown or written";

    /// Hands the shares over.
    /// Errors: a file exists or cannot be written, or the terminal fails. The shares do not count
    /// then.
    pub(super) fn hand_over(&self, issued: &IssuedShares) -> anyhow::Result<()> {
        self.check(issued.texts.len())?;
        for (index, text) in issued.texts.iter().enumerate() {
            let title = format!("share {} of {}", index.saturating_add(1), issued.texts.len());
            match self {
                Self::Encrypted | Self::None => {
                    print_output(&format!("{title}:\n{}\n\n", text.expose()))?
                }
                Self::Terminal => show(&title, text)?,
                Self::Files(files) => write_file(&title, files.get(index), text)?,
            }
        }
        print_message(&format!(
            "the shares are not shown again. They count after {} of them were entered",
            issued.threshold
        ));
        Ok(())
    }
}

/// Shows one share until its holder presses Enter.
fn show(title: &str, text: &SecretText) -> anyhow::Result<()> {
    let share = format!(
        "{CLEAR}{title}, for one holder only:\n\n{}\n\nWrite it down, then press Enter: the screen \
         is cleared.\n",
        text.expose()
    );
    print_output(&Zeroizing::new(share))?;
    let hidden = HiddenInput::start()?;
    let read = io::stdin().lock().read_line(&mut Zeroizing::new(String::new()));
    drop(hidden);
    print_output(CLEAR)?;
    if read? == 0 {
        bail!("the input ended before all shares were shown");
    }
    Ok(())
}

/// Writes one share to a new file that only its owner can read.
fn write_file(title: &str, file: Option<&PathBuf>, text: &SecretText) -> anyhow::Result<()> {
    let path = file.context("a share has no file")?;
    let error_context = || format!("{title} cannot be written to {}", path.display());
    let mut options = OpenOptions::new();
    let opened = options.write(true).create_new(true).mode(0o600).open(path);
    let mut file = opened.with_context(error_context)?;
    let line = Zeroizing::new(format!("{}\n", text.expose()));
    file.write_all(line.as_bytes()).and_then(|()| file.sync_all()).with_context(error_context)?;
    print_output(&format!("{title} is in {}\n", path.display()))
}
