//! Prints the output of a command.

use std::io::{self, ErrorKind, Write};

use anyhow::bail;
use scrip_operator::{action::UNRECORDED_OUTCOME, output::CommandOutput};

/// Prints the text, or one line of JSON.
/// Errors: the output says that the command fails.
pub(crate) fn print_command_output(output: &CommandOutput, json: bool) -> anyhow::Result<()> {
    print_output(&match json {
        true => format!("{}\n", output.json),
        false => format!("{}\n", output.text.trim_end()),
    })?;
    output.failure.as_ref().map_or(Ok(()), |it| bail!("{it}"))
}

/// Prints text on standard output. A reader that ends early, such as `head -1`, is not an error: the
/// command has done its work, and its exit status says whether it succeeded.
pub(crate) fn print_output(text: &str) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => Ok(result?),
    }
}

/// Prints a message on standard error, because standard output is for the output of the command. A
/// failure is ignored: there is no other place to report it.
pub(crate) fn print_message(text: &str) {
    drop(writeln!(io::stderr().lock(), "scrip: {text}"));
}

pub(crate) fn print_warnings(texts: &[String]) {
    texts.iter().for_each(|it| print_message(&format!("warning: {it}")));
}

/// Prints a warning; the command itself succeeded.
pub(crate) fn warn(error: &anyhow::Error) {
    print_message(&format!("warning: {error:#}"));
}

/// Warns that the change of a command was made, but its outcome is not recorded.
pub(super) fn warn_about_outcome(error: anyhow::Error) {
    warn(&error.context(UNRECORDED_OUTCOME));
}
