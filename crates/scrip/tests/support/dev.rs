//! The command that most tests of the program start.

use std::{
    path::Path,
    process::{Command, Stdio},
};

/// The vault as it is shipped, on any free port.
pub(crate) fn scrip_dev(data: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_scrip"));
    command.args(["dev", "--json", "--listen", "127.0.0.1:0", "--data-dir"]).arg(data);
    command.args(["--rate-limits", "off"]);
    command.env_remove("SCRIP_ROOT_KEY").stderr(Stdio::null());
    command
}
