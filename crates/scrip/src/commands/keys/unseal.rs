//! `scrip unseal`: enter one share.

use scrip_operator::output::CommandOutput;
use scrip_server::{
    config::Environment,
    control::protocol::{ControlRequest, send_request},
    unlock::shares::UnsealProgress,
};
use serde_json::json;

use crate::commands::{arguments::CommonArguments, keys::shares::read_share};

pub(crate) const EXAMPLES: &str = "\
Examples:
  scrip unseal
  age --decrypt share.age | scrip unseal

Each holder runs the command once, on the machine of the server, within ten minutes of the holder
before. The share is read from the terminal or from standard input, never from the command line.";

pub(crate) fn run(common: &CommonArguments, environment: &Environment) -> anyhow::Result<()> {
    let settings = common.socket_settings(environment)?;
    let share = read_share("your share")?;
    let request = ControlRequest::EnterShare { share };
    let progress: UnsealProgress = send_request(&settings.control_address(), &request)?;
    let UnsealProgress { entered, threshold, is_open } = progress;
    let text = match is_open {
        true => format!("{entered}/{threshold}: the vault is open\n"),
        false => format!("{entered}/{threshold}: more shares are needed\n"),
    };
    common.print_output(&CommandOutput::new(text, json!(progress)))
}
